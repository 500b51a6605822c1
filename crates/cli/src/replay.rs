//! `crashpoint replay`: the crash of a finding, once more.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crashpoint_abi::env;
use crashpoint_cc::locate;
use crashpoint_check::image::Patch;
use crashpoint_check::judge::{Observed, first_difference};
use crashpoint_check::launch::Paths;
use crashpoint_check::server::Ended;
use crashpoint_check::timeline::ListId;
use crashpoint_check::worker::{List, Worker, WorkerError};

use crate::arguments;
use crate::exit::{Ending, Exit};
use crate::output::Output;
use crate::record;
use crate::test::replay_data::{self, ReplayError, Stored};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Replay(#[from] ReplayError),
    #[error(transparent)]
    Locate(#[from] locate::Error),
    #[error(transparent)]
    Worker(#[from] WorkerError),
    #[error("could not start `{program}`: {source}")]
    Start { program: String, source: io::Error },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
}

/// The command.
pub fn run(arguments: &arguments::Replay, output: &mut Output) -> Result<Ending, Error> {
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

fn once(stored: &Stored, scratch: &Path) -> Result<Ended, Error> {
    let runtime = locate::library(locate::RUNTIME_SHARED)?;
    let setup = stored.setup(record::preload(&runtime, std::env::var_os("LD_PRELOAD")));
    let mut worker = Worker::start(&setup, scratch, 0, 1)?;
    let list = List {
        id: ListId(0),
        text: &stored.operations,
        printed: &stored.printed,
    };
    Ok(worker.run(&Patch::new(), &list, false)?)
}

fn observe(stored: &Stored, ended: &Ended) -> Observed {
    let description = &stored.description;
    let observed = Observed::new(description.oracle, ended, description.references.as_ref());
    Observed {
        done: observed.done || (description.either && observed.skipped),
        ..observed
    }
}

fn tell(stored: &Stored, ended: &Ended, output: &mut Output) -> io::Result<()> {
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
    for (name, reference) in [
        ("if the operation happened", &references.done),
        ("if it did not happen", &references.skipped),
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
