//! One step of a case: a command that must end well, and what the command wrote.

use std::path::Path;
use std::process::{Command, Output};

use serde::de::DeserializeOwned;

use crate::{Error, io_error};

/// Runs a command to its end; an exit status that is not among the good ones is an error.
pub(crate) fn run_step(
    case: &str,
    step: &'static str,
    mut command: Command,
    good: &[i32],
) -> Result<Output, Error> {
    let output = command
        .output()
        .map_err(io_error(Path::new(command.get_program())))?;
    match output.status.code() {
        Some(code) if good.contains(&code) => Ok(output),
        Some(_) | None => Err(Error::Step {
            case: case.to_owned(),
            step,
            status: output.status.to_string(),
            output: text(&output.stdout) + &text(&output.stderr),
        }),
    }
}

/// The `findings.json` in the folder that `crashpoint` wrote.
pub(crate) fn read_findings<T: DeserializeOwned>(case: &str, out: &Path) -> Result<T, Error> {
    let path = out.join("findings.json");
    let json = std::fs::read(&path).map_err(io_error(&path))?;
    serde_json::from_slice(&json).map_err(|source| Error::Json {
        case: case.to_owned(),
        source,
    })
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
