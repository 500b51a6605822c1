//! What a finding is replayed from: its folder holds the crashed files, what runs on them, and how.
//! Nothing else is needed, neither the recording nor the settings.
//!
//! `replay.json` is one format for both media: a version, and the description of a crash of memory
//! or of files. The version is read before anything else; a folder of another version is refused.

mod files;
mod memory;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crashpoint_check::engine::medium::CheckError;
use crashpoint_check::process::launch::{Command, Paths};
use crashpoint_check::process::run::FinishedRun;
use serde::{Deserialize, Serialize};

pub use files::{FilesDescription, FilesReplay, StoredFiles};
pub use memory::{MemoryDescription, MemoryReplay, StoredMemory};

/// Version of `replay.json`. Raise it whenever a field changes its meaning, comes or goes.
const VERSION: u64 = 3;

const DESCRIPTION: &str = "replay.json";
/// What findings about files had before they shared a format with memory.
const FORMER_DESCRIPTION: &str = "files.json";

#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error(
        "{} is not the folder of a finding: name one such as crashpoint.out/findings/1",
        folder.display()
    )]
    NotAFinding { folder: PathBuf },
    #[error("{}: {reason}; test again", path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// The whole of `replay.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    crashpoint_replay: u64,
    crash: CrashDescription,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum CrashDescription {
    Memory(Box<MemoryDescription>),
    Files(FilesDescription),
}

/// A finding that was read back.
pub enum Stored {
    Memory(Box<StoredMemory>),
    Files(StoredFiles),
}

impl Stored {
    /// What the crashed state is called.
    pub fn noun(&self) -> &'static str {
        match self {
            Stored::Memory(_) => "pool",
            Stored::Files(_) => "folder",
        }
    }

    /// What was lost, in words, as far as that is known.
    pub fn lost(&self) -> &[String] {
        match self {
            Stored::Memory(_) => &[],
            Stored::Files(stored) => &stored.description.lost,
        }
    }

    /// What was found when the finding was made, where no command shows it.
    pub fn found(&self) -> &str {
        match self {
            Stored::Memory(_) => "",
            Stored::Files(stored) => &stored.description.found,
        }
    }

    /// Puts a copy of the crashed state, and all that the command needs, below a folder.
    pub fn lay_out(&self, folder: &Path) -> io::Result<Paths> {
        fs::create_dir_all(folder)?;
        let folder = std::path::absolute(folder)?;
        match self {
            Stored::Memory(stored) => stored.lay_out(&folder),
            Stored::Files(stored) => stored.lay_out(&folder),
        }
    }

    /// What recovers or checks the state, if there is anything to run.
    pub fn command(&self, paths: &Paths) -> Option<Command> {
        match self {
            Stored::Memory(stored) => Some(stored.description.command.fill(paths)),
            Stored::Files(stored) => stored.command(paths),
        }
    }

    /// What the command needs in its environment when a user starts it, in a folder that was laid
    /// out.
    pub fn environment(&self, folder: &Path, paths: &Paths) -> Vec<(&'static str, OsString)> {
        match self {
            Stored::Memory(stored) => stored.environment(folder, paths),
            Stored::Files(_) => Vec::new(),
        }
    }

    /// Runs the command as the test did; none where there is nothing to run. `preload` is the
    /// runtime for programs that are not linked to it.
    pub fn run(
        &self,
        scratch: &Path,
        paths: &Paths,
        preload: Option<OsString>,
    ) -> Result<Option<FinishedRun>, CheckError> {
        match self {
            Stored::Memory(stored) => stored.run(scratch, preload).map(Some),
            Stored::Files(stored) => stored.run(paths),
        }
    }

    /// Whether the state fails again.
    pub fn fails(&self, ended: &FinishedRun) -> bool {
        match self {
            Stored::Memory(stored) => stored.fails(ended),
            Stored::Files(stored) => stored.fails(ended),
        }
    }

    /// Where the output differs from that of a program that recovered.
    pub fn differences(&self, ended: &FinishedRun) -> Vec<String> {
        match self {
            Stored::Memory(stored) => stored.differences(ended),
            Stored::Files(_) => Vec::new(),
        }
    }
}

/// Makes the folder anew, with the description in it.
fn write_description(folder: &Path, crash: CrashDescription) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => fs::create_dir_all(folder)?,
    }
    let document = Document {
        crashpoint_replay: VERSION,
        crash,
    };
    let json = serde_json::to_string_pretty(&document)?;
    fs::write(folder.join(DESCRIPTION), json + "\n")
}

/// Reads what replays the finding in a folder.
pub fn read(folder: &Path) -> Result<Stored, ReplayError> {
    let path = folder.join(DESCRIPTION);
    let damaged = |reason: String| ReplayError::Damaged {
        path: path.clone(),
        reason,
    };
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if folder.join(FORMER_DESCRIPTION).exists() {
                return Err(damaged(other_version(1)));
            }
            return Err(ReplayError::NotAFinding {
                folder: folder.to_owned(),
            });
        }
        Err(source) => return Err(ReplayError::Io { path, source }),
    };
    let value: serde_json::Value =
        serde_json::from_str(&text).map_err(|cause| damaged(cause.to_string()))?;
    let version = value["crashpoint_replay"].as_u64().unwrap_or(0);
    if version != VERSION {
        return Err(damaged(other_version(version)));
    }
    let document: Document =
        serde_json::from_value(value).map_err(|cause| damaged(cause.to_string()))?;
    match document.crash {
        CrashDescription::Memory(description) => {
            let stored = StoredMemory::read(folder, *description)?;
            Ok(Stored::Memory(Box::new(stored)))
        }
        CrashDescription::Files(description) => {
            StoredFiles::read(folder, description).map(Stored::Files)
        }
    }
}

fn other_version(found: u64) -> String {
    format!("written as version {found}, this is {VERSION}")
}

fn read_file(folder: &Path, name: &str) -> Result<Vec<u8>, ReplayError> {
    let path = folder.join(name);
    fs::read(&path).map_err(|source| ReplayError::Io { path, source })
}

/// A command as it is stored: with placeholders for paths, and where it is started.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredCommand {
    /// With `{pool}`, `{dir}`, `{ops}` and `{printed}` where the paths go.
    pub words: Vec<String>,
    pub directory: PathBuf,
}

impl StoredCommand {
    fn of(command: &Command) -> StoredCommand {
        let words = command.words.iter();
        let directory = std::path::absolute(&command.directory);
        let here = || std::env::current_dir().unwrap_or_default();
        StoredCommand {
            words: words
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
            directory: directory.unwrap_or_else(|_| here()),
        }
    }

    pub fn fill(&self, paths: &Paths) -> Command {
        let fill = |word: &String| {
            let holes = [
                ("{pool}", &paths.pool),
                ("{dir}", &paths.pool),
                ("{ops}", &paths.ops),
                ("{printed}", &paths.printed),
            ];
            let mut filled = word.clone();
            for (hole, path) in holes {
                filled = filled.replace(hole, &path.to_string_lossy());
            }
            filled.into()
        };
        Command {
            words: self.words.iter().map(fill).collect(),
            directory: self.directory.clone(),
        }
    }
}

/// Paths that stand for those of a replay. `pool` is what the command calls the crashed files.
fn placeholders(pool: &str) -> Paths {
    Paths {
        pool: pool.into(),
        ops: "{ops}".into(),
        printed: "{printed}".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_other_versions_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = || match read(folder.path()) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("it was read"),
        };
        assert!(refused().contains("is not the folder of a finding"));
        fs::write(folder.path().join(FORMER_DESCRIPTION), "{}").unwrap();
        assert!(refused().contains("written as version 1, this is 3; test again"));
        let description = folder.path().join(DESCRIPTION);
        fs::write(&description, "{\"crashpoint_replay\": 2}").unwrap();
        assert!(refused().contains("written as version 2, this is 3; test again"));
        fs::write(&description, "{\"crashpoint_replay\": 3}").unwrap();
        assert!(refused().contains("missing field `crash`"));
        fs::write(&description, "{").unwrap();
        assert!(refused().contains("EOF"));
    }
}
