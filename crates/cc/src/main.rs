//! The program behind the names `crashpoint-cc` and `crashpoint-c++`.

use std::env;
use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crashpoint_cc::analysis::{Request, analyse};
use crashpoint_cc::libraries::Libraries;
use crashpoint_cc::{ACTIVE, DISABLE, command, response};
use crashpoint_install::{self as install, LocateError, Mode};

fn main() -> ExitCode {
    let mut arguments = env::args_os();
    let mode = Mode::of_program(arguments.next().as_deref());
    let user: Vec<OsString> = arguments.collect();
    match run(mode, &user) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{}: error: {error}", mode.name());
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Locate(#[from] LocateError),
    #[error("could not run {}: {source}", program.display())]
    Start {
        program: PathBuf,
        source: std::io::Error,
    },
}

fn run(mode: Mode, user: &[OsString]) -> Result<ExitCode, Error> {
    let nested = env::var_os(ACTIVE).is_some();
    let disabled = env::var_os(DISABLE).is_some_and(|value| value == "1");
    let clang = install::clang(mode, nested)?;
    let mut plain = command::driver_mode(mode, &clang);
    plain.extend_from_slice(user);
    if nested || disabled {
        return Err(become_clang(&clang, plain));
    }
    let expanded = response::expand(user, &mut |file| std::fs::read(file).ok());
    match analyse(&expanded) {
        Request::Plain => Err(become_clang(&clang, plain)),
        Request::Read => {
            let headers = install::headers();
            let line = command::reading(mode, &clang, headers.as_deref(), user);
            Err(become_clang(&clang, line))
        }
        Request::Version => version(mode, &clang, plain),
        Request::Build(build) => {
            let libraries = Libraries::find(build.runtime)?;
            let line = command::arguments(build, mode, &clang, &libraries, user);
            Err(become_clang(&clang, line))
        }
    }
}

/// Returns only if clang could not be started.
fn become_clang(clang: &Path, arguments: Vec<OsString>) -> Error {
    let source = Command::new(clang).args(arguments).env(ACTIVE, "1").exec();
    start_error(clang, source)
}

/// Scripts look for `clang version` in what this prints, people for us.
fn version(mode: Mode, clang: &Path, arguments: Vec<OsString>) -> Result<ExitCode, Error> {
    let status = Command::new(clang)
        .args(arguments)
        .env(ACTIVE, "1")
        .status()
        .map_err(|source| start_error(clang, source))?;
    let line = format!("{} {}", mode.name(), env!("CARGO_PKG_VERSION"));
    // Whoever closed the pipe has read enough.
    let _ = writeln!(std::io::stdout(), "{line}");
    Ok(match status.code() {
        Some(0) => ExitCode::SUCCESS,
        Some(_) | None => ExitCode::FAILURE,
    })
}

fn start_error(clang: &Path, source: std::io::Error) -> Error {
    Error::Start {
        program: clang.to_owned(),
        source,
    }
}
