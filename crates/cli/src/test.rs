//! `crashpoint test`: one call of the library, and its report for people and machines.

mod baseline;
mod progress;
mod statistics;

use std::io;

use crashpoint_campaign as campaign;
use crashpoint_campaign::output_dir::{FolderError, OutputDir};
use crashpoint_campaign::recording_dir::{FINDINGS_JSON, FINDINGS_JUNIT, FINDINGS_SARIF};
use crashpoint_report::{Finding, Report, Verdict, json, junit, sarif};

use crate::arguments;
use crate::config::{self, ConfigError};
use crate::exit::{Ending, Exit};
use crate::lint;
use crate::output::Output;
use progress::Terminal;

#[derive(Debug, thiserror::Error)]
pub enum TestCommandError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Test(#[from] campaign::TestError),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Baseline(#[from] baseline::Error),
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
}

impl TestCommandError {
    /// Whose problem it is: a workload or checker that fails by itself has an exit code of its own.
    pub fn exit(&self) -> Exit {
        match self {
            TestCommandError::Test(error) if error.is_of_the_workload() => Exit::Workload,
            TestCommandError::Config(_)
            | TestCommandError::Test(_)
            | TestCommandError::Folder(_)
            | TestCommandError::Baseline(_)
            | TestCommandError::Print(_) => Exit::Usage,
        }
    }
}

/// The command.
pub fn run(arguments: &arguments::Test, output: &mut Output) -> Result<Ending, TestCommandError> {
    let (settings, baseline) = config::for_test(arguments, output.colours_on_stderr())?;
    let terminal = Terminal::new(output);
    let tested = campaign::test(&settings, &arguments.out, arguments.resume, &terminal);
    let campaign::Tested {
        output: folder,
        mut report,
        statistics,
    } = tested?;
    if arguments.stats {
        folder.write("states.svg", statistics::picture(&statistics))?;
    }
    let base = lint::current_folder();
    if arguments.write_baseline
        && let Some(path) = &baseline
    {
        baseline::write(path, &report, base.as_deref())?;
    }
    let known = match &baseline {
        Some(path) => baseline::take_known(path, &mut report, base.as_deref())?,
        None => Vec::new(),
    };
    write_files(&folder, &report, &known)?;
    lint::print(&report, arguments.format, base, output)?;
    baseline::list(&known, output);
    if arguments.stats {
        statistics::print(&report, output)?;
    }
    let exit = match report.verdict() {
        Verdict::Findings => Exit::Findings,
        Verdict::Incomplete if !settings.test.accept_incomplete => Exit::Incomplete,
        Verdict::Incomplete | Verdict::Clean => Exit::Clean,
    };
    Ok(exit.into())
}

fn write_files(folder: &OutputDir, report: &Report, known: &[Finding]) -> Result<(), FolderError> {
    let base = lint::current_folder();
    let base = base.as_deref();
    folder.write(FINDINGS_JSON, json::render(report))?;
    folder.write(FINDINGS_SARIF, sarif::render(report, base))?;
    folder.write(FINDINGS_JUNIT, junit::render(report, known, base))
}
