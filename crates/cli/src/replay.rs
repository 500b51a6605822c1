//! `crashpoint replay`: the crash of a finding, once more.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crashpoint_campaign::record;
use crashpoint_check::engine::medium::CheckError;
use crashpoint_check::process::launch::{self, Paths};
use crashpoint_explain::replay::{self, ReplayError, Stored};
use crashpoint_install as install;

use crate::arguments;
use crate::exit::{Ending, Exit};
use crate::output::Output;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Replay(#[from] ReplayError),
    #[error(transparent)]
    Locate(#[from] install::LocateError),
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
    let stored = replay::read(&arguments.finding)?;
    let temporary = scratch()?;
    let folder = arguments.keep.as_deref().unwrap_or(temporary.path());
    let paths = stored.lay_out(folder).map_err(|source| Error::Io {
        path: folder.to_owned(),
        source,
    })?;
    for lost in stored.lost() {
        output.note(&format!("lost: {lost}"));
    }
    if arguments.keep.is_some() {
        let (noun, path) = (stored.noun(), paths.pool.display());
        output.note(&format!("the crashed {noun} is {path}"));
    }
    let command = stored.command(&paths);
    if arguments.gdb || arguments.shell {
        interactive(
            arguments.gdb,
            &stored,
            command.as_ref(),
            &paths,
            folder,
            output,
        )?;
        return Ok(Exit::Clean.into());
    }
    let Some(command) = command else {
        output.note(stored.found());
        return Ok(Exit::Findings.into());
    };
    let (words, noun) = (words(&command), stored.noun());
    output.note(&format!("{words} on the crashed {noun}"));
    let runtime = install::library(install::RUNTIME_SHARED)?;
    let preload = record::preload(&runtime, std::env::var_os("LD_PRELOAD"));
    let Some(ended) = stored.run(temporary.path(), &paths, preload)? else {
        return Ok(Exit::Findings.into());
    };
    output.print(&String::from_utf8_lossy(&ended.stdout))?;
    let said = String::from_utf8_lossy(&ended.stderr);
    if !said.is_empty() {
        output.remark(said.trim_end());
    }
    output.note(&format!("it {}", ended.end));
    for difference in stored.differences(&ended) {
        output.note(&difference);
    }
    Ok(if stored.fails(&ended) {
        output.note("the crash leaves it inconsistent");
        Exit::Findings.into()
    } else {
        output.note("this time it is consistent: was the program changed or built again?");
        Exit::Clean.into()
    })
}

fn words(command: &launch::Command) -> String {
    let words = command.words.iter().map(|word| word.to_string_lossy());
    words.collect::<Vec<_>>().join(" ")
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

/// A debugger or a shell, with the pool where it was when it was recorded.
fn interactive(
    debugger: bool,
    stored: &Stored,
    target: Option<&launch::Command>,
    paths: &Paths,
    folder: &Path,
    output: &mut Output,
) -> Result<(), Error> {
    let mut command = match target.filter(|_| debugger) {
        Some(target) => {
            let mut gdb = Command::new("gdb");
            gdb.arg("--args").args(&target.words);
            if !target.directory.as_os_str().is_empty() {
                gdb.current_dir(&target.directory);
            }
            gdb
        }
        None => {
            if let Some(target) = target {
                output.note(&format!("to recover or check it: {}", words(target)));
            }
            let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
            let mut shell = Command::new(shell);
            shell.current_dir(match stored {
                Stored::Memory(_) => folder,
                Stored::Files(_) => &paths.pool,
            });
            shell
        }
    };
    command.envs(stored.environment(folder, paths));
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status();
    status.map_err(|source| Error::Start { program, source })?;
    Ok(())
}
