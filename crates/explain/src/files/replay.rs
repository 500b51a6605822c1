//! What a finding about files is replayed from: its folder holds the crashed directory itself, what
//! the program had printed, and how it is checked.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crashpoint_check::files::oracle::is_acknowledged;
use crashpoint_check::files::{FileOracle, Folder, Layout};
use crashpoint_check::process::launch::{Command, Paths};
use crashpoint_check::process::run::RunEnd;
use serde::{Deserialize, Serialize};

use crate::replay::{self as replay_data, ReplayError};

/// Version of `files.json`.
const VERSION: u32 = 1;

const DESCRIPTION: &str = "files.json";

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    crashpoint_replay: u32,
    /// With `{dir}` and `{printed}` where the paths go; none where nothing has to run.
    pub check: Option<Vec<String>>,
    pub directory: PathBuf,
    pub oracle: FileOracle,
    pub model: String,
    pub seconds: f64,
    /// What was wrong, for findings that no command shows.
    pub found: String,
    /// What was lost, in words.
    pub lost: Vec<String>,
}

impl Description {
    pub fn new(oracle: FileOracle, model: &str) -> Description {
        Description {
            crashpoint_replay: VERSION,
            check: None,
            directory: PathBuf::new(),
            oracle,
            model: model.to_owned(),
            seconds: 0.0,
            found: String::new(),
            lost: Vec::new(),
        }
    }
}

/// Writes the folder of a finding anew.
pub fn write(
    folder: &Path,
    description: &Description,
    layout: &Layout<'_>,
    printed: &[u8],
    all_printed: &[u8],
) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => fs::create_dir_all(folder)?,
    }
    let json = serde_json::to_string_pretty(description)?;
    fs::write(folder.join(DESCRIPTION), json + "\n")?;
    fs::write(folder.join("printed"), printed)?;
    fs::write(folder.join("all-printed"), all_printed)?;
    Folder::create(&folder.join("dir"))?.lay(layout)
}

/// A finding that was read back.
pub struct Stored {
    pub description: Description,
    folder: PathBuf,
    all_printed: Vec<u8>,
    printed: Vec<u8>,
}

/// None: it is a finding about memory.
pub fn read(folder: &Path) -> Result<Option<Stored>, ReplayError> {
    let path = folder.join(DESCRIPTION);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(ReplayError::Io { path, source }),
    };
    let damaged = |reason: String| ReplayError::Damaged {
        path: path.clone(),
        reason,
    };
    let description: Description =
        serde_json::from_str(&text).map_err(|cause| damaged(cause.to_string()))?;
    if description.crashpoint_replay != VERSION {
        let found = description.crashpoint_replay;
        return Err(damaged(format!(
            "written as version {found}, this is {VERSION}"
        )));
    }
    let bytes = |name: &str| {
        let path = folder.join(name);
        fs::read(&path).map_err(|source| ReplayError::Io { path, source })
    };
    Ok(Some(Stored {
        description,
        folder: folder.to_owned(),
        all_printed: bytes("all-printed")?,
        printed: bytes("printed")?,
    }))
}

impl Stored {
    /// Puts a copy of the crashed folder below `to`.
    pub fn lay_out(&self, to: &Path) -> io::Result<Paths> {
        fs::create_dir_all(to)?;
        let to = std::path::absolute(to)?;
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
        match copied.success() {
            true => Ok(paths),
            false => Err(io::Error::other("cp could not copy the crashed folder")),
        }
    }

    pub fn command(&self, paths: &Paths) -> Option<Command> {
        let words = self.description.check.as_ref()?;
        let directory = &self.description.directory;
        Some(replay_data::command(words, directory, paths))
    }

    pub fn fails(&self, end: RunEnd, stdout: &[u8]) -> bool {
        let acknowledged = match self.description.oracle {
            FileOracle::Checker | FileOracle::WholeFiles => true,
            FileOracle::Acknowledged => is_acknowledged(&self.all_printed, &self.printed, stdout),
        };
        end != RunEnd::Exited(0) || !acknowledged
    }
}
