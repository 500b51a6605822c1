//! `crashpoint record --dir`: watches what a program does to the files in a folder.

use std::path::Path;
use std::time::Duration;

use crashpoint_campaign::record::{self, RecordError};
use crashpoint_campaign::supervise::End;
use crashpoint_install as install;
use crashpoint_report::terminal::count;
use crashpoint_watch::{Options, ProgramEnd, Recorded, Stdin, WatchError};

use crate::arguments;
use crate::config;
use crate::exit::{Ending, Exit};
use crate::output::Output;
use crate::record::{RecordCommandError, folders_beside};

pub fn run(
    folder: &Path,
    arguments: &arguments::Record,
    output: &mut Output,
) -> Result<Ending, RecordCommandError> {
    let settings = config::load(
        &arguments.configuration,
        &folders_beside(&arguments.command[0]),
        &arguments.options,
        output.colours_on_stderr(),
    )?;
    let environment: Vec<_> = std::env::vars_os().collect();
    let directory = std::env::current_dir().map_err(|source| {
        let path = ".".into();
        RecordError::from(WatchError::Directory { path, source })
    })?;
    let syscallbuf = install::library(install::SYSCALLBUF).ok();
    let options = Options {
        folder,
        command: &arguments.command,
        directory: &directory,
        environment: &environment,
        stdin: Stdin::Inherit,
        stacks: !arguments.no_stacks,
        pass_output: true,
        timeout: settings.record.timeout,
        syscallbuf: syscallbuf.as_deref(),
    };
    let recorded = record::record_files(&options, &arguments.out)?;
    tell(&arguments.out, folder, &recorded, output);
    Ok(if arguments.exit_status {
        Ending::Targets(end(recorded.ended).code())
    } else {
        Exit::Clean.into()
    })
}

fn end(ended: ProgramEnd) -> End {
    match ended {
        ProgramEnd::Exited(code) => End::Exited(code),
        ProgramEnd::Killed { signal } => End::Killed { signal },
        ProgramEnd::TimedOut { after_ms } => End::TimedOut(Duration::from_millis(after_ms)),
    }
}

fn tell(out: &Path, folder: &Path, recorded: &Recorded, output: &mut Output) {
    output.note(&format!("the program {}", end(recorded.ended)));
    output.note(&format!(
        "recorded {}: {} on {}",
        out.display(),
        count(recorded.calls, "call"),
        folder.display(),
    ));
    for remark in &recorded.remarks {
        output.warn(&remark.to_string());
    }
    if recorded.calls == 0 {
        output.warn(
            "nothing was recorded: the program changed nothing in this folder, and printed nothing",
        );
    }
}
