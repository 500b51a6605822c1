//! `crashpoint replay`: the crash of a finding, once more.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crashpoint_abi::env;
use crashpoint_cc::locate;
use crashpoint_check::engine::medium::CheckError;
use crashpoint_check::engine::outcome::Observed;
use crashpoint_check::memory::image::Patch;
use crashpoint_check::memory::worker::{Manner, Suffix, Worker};
use crashpoint_check::process::launch::Paths;
use crashpoint_check::process::output::first_difference;
use crashpoint_check::process::run::{FinishedRun, Limits};
use crashpoint_check::process::spawned::Spawned;

use crate::arguments;
use crate::exit::{Ending, Exit};
use crate::output::Output;
use crate::record;
use crashpoint_explain::files::replay as files;
use crashpoint_explain::replay::{self as replay_data, ReplayError, Stored};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Replay(#[from] ReplayError),
    #[error(transparent)]
    Locate(#[from] locate::Error),
    #[error(transparent)]
    Worker(#[from] CheckError),
    #[error("could not start `{program}`: {source}")]
    Start { program: String, source: io::Error },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
}

/// The command.
pub fn run(arguments: &arguments::Replay, output: &mut Output) -> Result<Ending, Error> {
    if let Some(stored) = files::read(&arguments.finding)? {
        return of_files(arguments, &stored, output);
    }
    let stored = replay_data::read(&arguments.finding)?;
    let kept = arguments.keep.as_deref();
    let temporary = scratch()?;
    let folder = kept.unwrap_or(temporary.path());
    let paths = lay_out(&stored, folder)?;
    if kept.is_some() {
        output.note(&format!("the crashed pool is {}", paths.pool.display()));
    }
    if arguments.gdb || arguments.shell {
        return interactive(arguments, &stored, &paths, folder, output);
    }
    let ended = once(&stored, temporary.path())?;
    tell(&stored, &ended, output)?;
    let observed = observe(&stored, &ended);
    match observed.fails(stored.description.phase) {
        true => {
            output.note("the crash leaves it inconsistent");
            Ok(Exit::Findings.into())
        }
        false => {
            output.note("this time it is consistent: was the program built again?");
            Ok(Exit::Clean.into())
        }
    }
}

/// A finding about files: the crashed folder, and the check on it.
fn of_files(
    arguments: &arguments::Replay,
    stored: &files::Stored,
    output: &mut Output,
) -> Result<Ending, Error> {
    let temporary = scratch()?;
    let folder = arguments.keep.as_deref().unwrap_or(temporary.path());
    let paths = stored.lay_out(folder).map_err(|source| Error::Io {
        path: folder.to_owned(),
        source,
    })?;
    for lost in &stored.description.lost {
        output.note(&format!("lost: {lost}"));
    }
    if arguments.keep.is_some() {
        output.note(&format!("the crashed folder is {}", paths.pool.display()));
    }
    let command = stored.command(&paths);
    let words = command.as_ref().map(|command| {
        let words = command.words.iter().map(|word| word.to_string_lossy());
        words.collect::<Vec<_>>().join(" ")
    });
    if arguments.shell || arguments.gdb {
        let mut opened = match (&command, arguments.gdb) {
            (Some(check), true) => {
                let mut gdb = Command::new("gdb");
                gdb.arg("--args")
                    .args(&check.words)
                    .current_dir(&check.directory);
                gdb
            }
            (None, _) | (Some(_), false) => {
                if let Some(words) = &words {
                    output.note(&format!("to check it: {words}"));
                }
                let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
                let mut shell = Command::new(shell);
                shell.current_dir(&paths.pool);
                shell
            }
        };
        let program = opened.get_program().to_string_lossy().into_owned();
        let status = opened.status();
        status.map_err(|source| Error::Start { program, source })?;
        return Ok(Exit::Clean.into());
    }
    let (Some(command), Some(words)) = (command, words) else {
        output.note(&stored.description.found);
        return Ok(Exit::Findings.into());
    };
    output.note(&format!("{words} on the crashed folder"));
    let limits = Limits {
        time: Duration::from_secs_f64(stored.description.seconds),
        ..Limits::default()
    };
    let ended = Spawned::new(command, Vec::new()).run(&limits);
    let ended = ended.map_err(CheckError::from)?;
    output.print(&String::from_utf8_lossy(&ended.stdout))?;
    let said = String::from_utf8_lossy(&ended.stderr);
    if !said.is_empty() {
        output.remark(said.trim_end());
    }
    output.note(&format!("it {}", ended.end));
    Ok(match stored.fails(ended.end, &ended.stdout) {
        true => {
            output.note("the crash leaves it inconsistent");
            Exit::Findings.into()
        }
        false => {
            output.note("this time it is consistent: was the program changed?");
            Exit::Clean.into()
        }
    })
}

fn scratch() -> Result<tempfile::TempDir, Error> {
    let memory = Path::new("/dev/shm");
    let mut builder = tempfile::Builder::new();
    builder.prefix("crashpoint-");
    let folder = builder.tempdir_in(memory).or_else(|_| tempfile::tempdir());
    folder.map_err(|source| Error::Io {
        path: memory.to_owned(),
        source,
    })
}

/// The crashed pool with all that the command needs.
fn lay_out(stored: &Stored, folder: &Path) -> Result<Paths, Error> {
    let io_error = |source| Error::Io {
        path: folder.to_owned(),
        source,
    };
    std::fs::create_dir_all(folder).map_err(io_error)?;
    let folder = std::path::absolute(folder).map_err(io_error)?;
    let paths = Paths {
        pool: folder.join("pool"),
        ops: folder.join("ops"),
        printed: folder.join("printed"),
    };
    stored.materialise(&paths.pool).map_err(io_error)?;
    std::fs::write(&paths.ops, &stored.operations).map_err(io_error)?;
    std::fs::write(&paths.printed, &stored.printed).map_err(io_error)?;
    let placement = stored.placement(&paths.pool);
    std::fs::write(folder.join("placement"), placement).map_err(io_error)?;
    Ok(paths)
}

fn once(stored: &Stored, scratch: &Path) -> Result<FinishedRun, Error> {
    let runtime = locate::library(locate::RUNTIME_SHARED)?;
    let setup = stored.setup(record::preload(&runtime, std::env::var_os("LD_PRELOAD")));
    let mut worker = Worker::start(&setup, scratch, (0, 1), Manner::default())?;
    let list = Suffix {
        id: None,
        text: &stored.operations,
        printed: &stored.printed,
    };
    Ok(worker.run(&Patch::new(), &list, false)?)
}

fn observe(stored: &Stored, ended: &FinishedRun) -> Observed {
    let description = &stored.description;
    let observed = description
        .oracle
        .observe(ended, description.references.as_ref());
    match description.recovery {
        Some(recovery) => recovery.observe(observed),
        None => observed,
    }
}

fn tell(stored: &Stored, ended: &FinishedRun, output: &mut Output) -> io::Result<()> {
    let command = stored.description.command.join(" ");
    output.note(&format!("{command} on the crashed pool"));
    output.print(&String::from_utf8_lossy(&ended.stdout))?;
    let said = String::from_utf8_lossy(&ended.stderr);
    if !said.is_empty() {
        output.remark(said.trim_end());
    }
    output.note(&format!("it {}", ended.end));
    let Some(references) = &stored.description.references else {
        return Ok(());
    };
    let (done, skipped) = match references.operations {
        1 => ("if the operation happened", "if it did not happen"),
        _ => ("if all of them happened", "if none of them happened"),
    };
    for (name, reference) in [
        (done, &references.committed),
        (skipped, &references.rolled_back),
    ] {
        let difference = first_difference(&reference.stdout, &ended.stdout);
        let Some((line, expected, found)) = difference else {
            continue;
        };
        let operation = stored.operations.lines().nth(line).unwrap_or("");
        let side = |side: Option<&[u8]>| match side {
            Some(text) => String::from_utf8_lossy(text).into_owned(),
            None => "nothing".to_owned(),
        };
        output.note(&format!(
            "line {} ({operation}): {} {name}, {} here",
            line + 1,
            side(expected),
            side(found)
        ));
    }
    Ok(())
}

/// A debugger or a shell, with the pool where it was when it was recorded.
fn interactive(
    arguments: &arguments::Replay,
    stored: &Stored,
    paths: &Paths,
    folder: &Path,
    output: &mut Output,
) -> Result<Ending, Error> {
    let description = &stored.description;
    let target = replay_data::command(&description.command, &description.directory, paths);
    let words: Vec<String> = target
        .words
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let mut command = match arguments.gdb {
        true => {
            let mut gdb = Command::new("gdb");
            gdb.arg("--args").args(&target.words);
            gdb.current_dir(&description.directory);
            gdb
        }
        false => {
            let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
            output.note(&format!("to recover: {}", words.join(" ")));
            let mut shell = Command::new(shell);
            shell.current_dir(folder);
            shell
        }
    };
    // Recording, to nowhere that matters, is what places the pool.
    let pool = paths.pool.to_string_lossy();
    let patterns = description
        .patterns
        .iter()
        .map(|word| word.replace("{pool}", &pool));
    command
        .env(env::OUT, folder.join("recorded"))
        .env(env::PM, patterns.collect::<Vec<_>>().join(":"))
        .env(env::PLACEMENT, folder.join("placement"));
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status();
    status.map_err(|source| Error::Start { program, source })?;
    Ok(Exit::Clean.into())
}
