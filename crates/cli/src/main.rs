//! `crashpoint`: commands, configuration, exit codes.
//!
//! **Architecture invariant:** the only crate that prints or decides an exit code, and within it,
//! only [`output`], this file, and the progress bars of long commands. Commands return how they ended
//! or a typed error.
#![forbid(unsafe_code)]

mod arguments;
mod config;
mod demo;
mod doctor;
mod exit;
mod explain;
mod infer;
mod keys;
mod lint;
mod models;
mod options;
mod output;
mod printable;
mod record;
mod record_files;
mod replay;
mod show;
mod summary;
mod test;

use std::panic::AssertUnwindSafe;
use std::process::ExitCode;

use clap::Parser as _;

use arguments::{Cli, Command};
use config::ConfigError;
use crashpoint_report::scripts::LoadError;
use exit::{Ending, Exit};
use infer::InferError;
use lint::LintError;
use output::Output;
use record::RecordCommandError;

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Record(#[from] RecordCommandError),
    #[error(transparent)]
    Lint(#[from] LintError),
    #[error(transparent)]
    Explain(#[from] explain::ExplainError),
    #[error(transparent)]
    Show(#[from] show::ShowError),
    #[error(transparent)]
    Demo(#[from] demo::DemoError),
    #[error(transparent)]
    Test(#[from] test::TestCommandError),
    #[error(transparent)]
    Models(#[from] models::ModelsError),
    #[error(transparent)]
    Replay(#[from] replay::Error),
    #[error(transparent)]
    Infer(#[from] InferError),
    #[error("cannot print: {0}")]
    Print(#[from] std::io::Error),
}

fn main() -> ExitCode {
    let ended = std::panic::catch_unwind(AssertUnwindSafe(start));
    let ending = ended.unwrap_or_else(|_| {
        eprintln!(
            "crashpoint: internal error: this is a bug in Crashpoint {}. Please report it with the \
             lines above and the command that led here: {}/issues",
            env!("CARGO_PKG_VERSION"),
            env!("CARGO_PKG_REPOSITORY"),
        );
        Exit::Internal.into()
    });
    ending.into()
}

fn start() -> Ending {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help goes to standard output and is no error; a closed pipe is nobody's fault.
            let _ = error.print();
            return if error.use_stderr() {
                Exit::Usage.into()
            } else {
                Exit::Clean.into()
            };
        }
    };
    let mut output = Output::new(cli.color);
    let ended = run(&cli.command, &mut output);
    let finished = output.finish().map_err(Error::from);
    match ended.and_then(|ending| finished.map(|()| ending)) {
        Ok(ending) => ending,
        Err(error) => {
            match error.excerpt() {
                Some(excerpt) => output.remark(excerpt),
                None => output.error(&error.to_string()),
            }
            error.exit().into()
        }
    }
}

impl Error {
    fn exit(&self) -> Exit {
        match self {
            Error::Test(error) => error.exit(),
            Error::Record(_)
            | Error::Lint(_)
            | Error::Explain(_)
            | Error::Show(_)
            | Error::Demo(_)
            | Error::Models(_)
            | Error::Replay(_)
            | Error::Infer(_)
            | Error::Print(_) => Exit::Usage,
        }
    }

    /// The text of an error that is rendered already.
    fn excerpt(&self) -> Option<&str> {
        match self {
            Error::Record(RecordCommandError::Config(ConfigError::Content(text)))
            | Error::Infer(InferError::Record(RecordCommandError::Config(ConfigError::Content(
                text,
            ))))
            | Error::Lint(LintError::Config(ConfigError::Content(text)))
            | Error::Test(test::TestCommandError::Config(ConfigError::Content(text)))
            | Error::Lint(LintError::Script(LoadError::Content(text))) => Some(text),
            Error::Record(_)
            | Error::Lint(_)
            | Error::Explain(_)
            | Error::Show(_)
            | Error::Demo(_)
            | Error::Test(_)
            | Error::Models(_)
            | Error::Replay(_)
            | Error::Infer(_)
            | Error::Print(_) => None,
        }
    }
}

fn run(command: &Command, output: &mut Output) -> Result<Ending, Error> {
    Ok(match command {
        Command::Record(arguments) => record::run(arguments, output)?,
        Command::Lint(arguments) => lint::run(arguments, output)?,
        Command::Explain(arguments) => explain::run(arguments, output)?,
        Command::Infer(arguments) => infer::run(arguments, output)?,
        Command::Show(arguments) => show::run(arguments, output)?,
        Command::Doctor(_) => doctor::run(output)?,
        Command::Demo(arguments) => demo::run(arguments, output)?,
        Command::Models(arguments) => models::run(arguments, output)?,
        Command::Test(arguments) => test::run(arguments, output)?,
        Command::Replay(arguments) => replay::run(arguments, output)?,
    })
}
