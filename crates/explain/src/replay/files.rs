//! What a finding about files is replayed from: the crashed directory itself, what the program had
//! printed, and how it is checked.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crashpoint_check::engine::medium::CheckError;
use crashpoint_check::files::oracle::is_acknowledged;
use crashpoint_check::files::{FileOracle, Folder, Layout};
use crashpoint_check::process::launch::{Command, Launch, Paths};
use crashpoint_check::process::run::{FinishedRun, Limits, RunEnd};
use crashpoint_check::process::spawned::Spawned;
use serde::{Deserialize, Serialize};

use super::{
    CrashDescription, ReplayError, StoredCommand, placeholders, read_file, write_description,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilesDescription {
    /// The checker; `None` where nothing has to run.
    check: Option<StoredCommand>,
    oracle: FileOracle,
    pub model: String,
    pub seconds: f64,
    /// What was wrong, for findings that no command shows.
    pub found: String,
    /// What was lost, in words.
    pub lost: Vec<String>,
}

/// A crash that can be had again.
pub struct FilesReplay<'r, 'a> {
    pub oracle: FileOracle,
    pub model: &'r str,
    pub timeout: Duration,
    pub found: String,
    pub lost: Vec<String>,
    pub check: Option<&'r Launch>,
    /// The crashed directory.
    pub layout: &'r Layout<'a>,
    /// What the program had printed by then, and what it printed in all.
    pub printed: &'r [u8],
    pub all_printed: &'r [u8],
}

impl FilesReplay<'_, '_> {
    /// Writes the folder of a finding anew.
    pub fn write(self, folder: &Path) -> io::Result<()> {
        let check = self.check.map(|check| check.fill(&placeholders("{dir}")));
        let description = FilesDescription {
            check: check.as_ref().map(StoredCommand::of),
            oracle: self.oracle,
            model: self.model.to_owned(),
            seconds: self.timeout.as_secs_f64(),
            found: self.found,
            lost: self.lost,
        };
        write_description(folder, CrashDescription::Files(description))?;
        fs::write(folder.join("printed"), self.printed)?;
        fs::write(folder.join("all-printed"), self.all_printed)?;
        Folder::create(&folder.join("dir"))?.lay(self.layout)
    }
}

/// A finding that was read back.
pub struct StoredFiles {
    pub description: FilesDescription,
    folder: PathBuf,
    all_printed: Vec<u8>,
    printed: Vec<u8>,
}

impl StoredFiles {
    pub(super) fn read(
        folder: &Path,
        description: FilesDescription,
    ) -> Result<StoredFiles, ReplayError> {
        Ok(StoredFiles {
            description,
            folder: folder.to_owned(),
            all_printed: read_file(folder, "all-printed")?,
            printed: read_file(folder, "printed")?,
        })
    }

    pub(super) fn lay_out(&self, to: &Path) -> io::Result<Paths> {
        let paths = Paths {
            pool: to.join("dir"),
            ops: to.join("ops"),
            printed: to.join("printed"),
        };
        fs::write(&paths.printed, &self.printed)?;
        let copied = std::process::Command::new("cp")
            .args(["-a", "--"])
            .arg(self.folder.join("dir"))
            .arg(&paths.pool)
            .status()?;
        if copied.success() {
            Ok(paths)
        } else {
            Err(io::Error::other("cp could not copy the crashed folder"))
        }
    }

    pub(super) fn command(&self, paths: &Paths) -> Option<Command> {
        let check = self.description.check.as_ref()?;
        Some(check.fill(paths))
    }

    pub(super) fn run(&self, paths: &Paths) -> Result<Option<FinishedRun>, CheckError> {
        let Some(command) = self.command(paths) else {
            return Ok(None);
        };
        let limits = Limits {
            time: Duration::from_secs_f64(self.description.seconds),
            ..Limits::default()
        };
        Ok(Some(Spawned::new(command, Vec::new()).run(&limits)?))
    }

    pub(super) fn fails(&self, ended: &FinishedRun) -> bool {
        let acknowledged = match self.description.oracle {
            FileOracle::Checker | FileOracle::WholeFiles => true,
            FileOracle::Acknowledged => {
                is_acknowledged(&self.all_printed, &self.printed, &ended.stdout)
            }
        };
        ended.end != RunEnd::Exited(0) || !acknowledged
    }
}
