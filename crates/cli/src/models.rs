//! `crashpoint models`: what file systems promise, and whether the kernel agrees.

mod verify;

use crashpoint_blockdev::LabError;
use crashpoint_persist::files::Model;

use crate::arguments::{Models, ModelsCommand};
use crate::exit::{Ending, Exit};
use crate::output::Output;

#[derive(Debug, thiserror::Error)]
pub enum ModelsError {
    #[error("there is no model `{0}`; the models are {names}", names = Model::NAMES.join(", "))]
    Unknown(String),
    #[error("no litmus test has `{0}` in its name")]
    NoLitmus(String),
    #[error(transparent)]
    Lab(#[from] LabError),
    #[error("cannot print: {0}")]
    Print(#[from] std::io::Error),
}

/// The command.
pub fn run(arguments: &Models, output: &mut Output) -> Result<Ending, ModelsError> {
    match &arguments.command {
        ModelsCommand::List => list(output)?,
        ModelsCommand::Show { name } => show(name, output)?,
        ModelsCommand::Verify(arguments) => return verify::run(arguments, output),
    }
    Ok(Exit::Clean.into())
}

fn list(output: &mut Output) -> std::io::Result<()> {
    let widest = Model::NAMES.iter().map(|name| name.len()).max();
    let width = widest.unwrap_or_default();
    for name in Model::NAMES {
        let model = Model::builtin(name).expect("it is listed");
        let default = if name == Model::DEFAULT {
            " (default)"
        } else {
            ""
        };
        output.print(&format!("{name:width$}  {}{default}\n", model.summary()))?;
    }
    Ok(())
}

fn show(name: &str, output: &mut Output) -> Result<(), ModelsError> {
    let text = Model::text(name).ok_or_else(|| ModelsError::Unknown(name.to_owned()))?;
    Ok(output.print(text)?)
}
