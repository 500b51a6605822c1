//! `crashpoint record`: starts the program with the runtime in it, and tells what it left.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crashpoint_abi::Level;
use crashpoint_campaign::Settings;
use crashpoint_campaign::record::{self, RecordError, Recorded};

use crate::exit::{Ending, Exit};
use crate::output::Output;
use crate::summary;
use crate::{arguments, config, record_files};

#[derive(Debug, thiserror::Error)]
pub enum RecordCommandError {
    #[error(transparent)]
    Config(#[from] config::ConfigError),
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// The command.
pub fn run(
    arguments: &arguments::Record,
    output: &mut Output,
) -> Result<Ending, RecordCommandError> {
    if let Some(folder) = &arguments.dir {
        return record_files::run(folder, arguments, output);
    }
    let beside = folders_beside(&arguments.command[0]);
    let settings = config::load(
        &arguments.configuration,
        &beside,
        &arguments.options,
        output.colours_on_stderr(),
    )?;
    let recorded = record::record(&settings, &arguments.out, &arguments.command)?;
    let complete = tell(&settings, &recorded, output);
    Ok(match (arguments.exit_status, complete) {
        (true, _) => Ending::Targets(recorded.ended.end.code()),
        (false, true) => Exit::Clean.into(),
        (false, false) => Exit::Usage.into(),
    })
}

/// Tells what was recorded; false if that is nothing, against what was asked.
pub fn tell(settings: &Settings, recorded: &Recorded, output: &mut Output) -> bool {
    let facts = summary::Facts {
        pm: &settings.record.pm,
        level: settings.record.level.unwrap_or(Level::Pm),
        ended: recorded.ended,
        out: &recorded.out,
    };
    let told = summary::tell(&facts, recorded.recording.as_ref());
    for line in &told.lines {
        output.note(line);
    }
    for warning in &told.warnings {
        output.warn(warning);
    }
    told.something_recorded || facts.level == Level::Off
}

/// Where a configuration may lie beside the program.
pub fn folders_beside(program: &OsStr) -> Vec<PathBuf> {
    let path = Path::new(program);
    let with_folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    with_folder.map(Path::to_owned).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_by_name_has_no_folder() {
        assert!(folders_beside(OsStr::new("make")).is_empty());
        assert_eq!(
            folders_beside(OsStr::new("./a/store")),
            [PathBuf::from("./a")]
        );
    }
}
