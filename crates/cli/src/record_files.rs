//! `crashpoint record --dir`: watches what a program does to the files in a folder.

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use crashpoint_install as install;
use crashpoint_report::terminal::count;
use crashpoint_watch::{Options, ProgramEnd, Recorded, Stdin, WatchError};

use crate::arguments;
use crate::config::Settings;
use crate::exit::{Ending, Exit};
use crate::output::Output;
use crate::record::{RecordError, folders_beside};
use crashpoint_campaign::recording_dir::Prepared;
use crashpoint_campaign::supervise::{self as target, End};

pub fn run(
    folder: &Path,
    arguments: &arguments::Record,
    output: &mut Output,
) -> Result<Ending, RecordError> {
    let settings = Settings::load(
        &arguments.configuration,
        &folders_beside(&arguments.command[0]),
        &arguments.options,
        output.colours_on_stderr(),
    )?;
    let environment: Vec<_> = std::env::vars_os().collect();
    let directory = std::env::current_dir().map_err(|source| WatchError::Directory {
        path: ".".into(),
        source,
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
    let recorded = record(&options, &arguments.out)?;
    tell(&arguments.out, folder, &recorded, output);
    Ok(match arguments.exit_status {
        true => Ending::Targets(end(recorded.ended).code()),
        false => Exit::Clean.into(),
    })
}

/// Runs the program; an older recording in `out` is gone once it does.
pub fn record(options: &Options<'_>, out: &Path) -> Result<Recorded, RecordError> {
    let mut prepared = Prepared::new(out)?;
    let (started, main) = mpsc::channel();
    target::pass_signals_to(move || main.recv().ok()).map_err(RecordError::Signals)?;
    let path = prepared.path.clone();
    let recorded = crashpoint_watch::record_with(options, &path, |pid| {
        prepared.commit();
        // Without it, signals are not passed on; nothing else is lost.
        let _ = started.send(pid);
    });
    target::stop_passing_signals();
    match recorded {
        Ok(recorded) => Ok(recorded),
        Err(error) => {
            prepared.restore();
            Err(error.into())
        }
    }
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
