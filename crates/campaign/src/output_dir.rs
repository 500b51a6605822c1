//! The output folder of a test: one run at a time, and what lies in it.
//!
//! ```text
//! crashpoint.out/
//!   lock            held while a run works here
//!   ops             the operations
//!   printed         what the program printed without a crash
//!   journal         one line per result
//!   trace/ models/  the recording
//!   findings.json, findings.sarif, findings.junit.xml
//!   findings/1/     what replays the first finding
//! ```

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crashpoint_explain::picture::BEHAVIOURS;

/// Everything that a test puts there.
pub const OURS: [&str; 8] = [
    "lock",
    "ops",
    "printed",
    "journal",
    "scratch",
    "findings",
    "states.svg",
    BEHAVIOURS,
];

#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("another run works in {}: wait for it, or choose another folder with --out", path.display())]
    Busy { path: PathBuf },
    #[error("there is nothing to resume in {}: start without --resume", path.display())]
    Nothing { path: PathBuf },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// The folder, held for this run.
#[derive(Debug)]
pub struct OutputDir {
    pub path: PathBuf,
    /// No run was here before.
    is_new: bool,
    _lock: File,
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> FolderError + '_ {
    move |source| FolderError::Io {
        path: path.to_owned(),
        source,
    }
}

impl OutputDir {
    /// Takes the folder. What an earlier run left in memory is removed.
    pub fn take(path: &Path) -> Result<OutputDir, FolderError> {
        std::fs::create_dir_all(path).map_err(io_error(path))?;
        let path = path.canonicalize().map_err(io_error(path))?;
        let lock = path.join("lock");
        let is_new = !lock.exists();
        let file = File::create(&lock).map_err(io_error(&lock))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(FolderError::Busy { path }),
            Err(error) => return Err(io_error(&lock)(error.into())),
        }
        let output = OutputDir {
            path,
            is_new,
            _lock: file,
        };
        output.remove_old_scratch();
        Ok(output)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Whether there are results to go on with. Not if a run was killed before it had any.
    pub fn has_results(&self) -> Result<bool, FolderError> {
        if self.file("journal").exists() {
            return Ok(true);
        }
        if !self.is_new {
            return Ok(false);
        }
        let _ = std::fs::remove_file(self.file("lock"));
        let _ = std::fs::remove_dir(&self.path);
        Err(FolderError::Nothing {
            path: self.path.clone(),
        })
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<(), FolderError> {
        let path = self.file(name);
        std::fs::write(&path, content).map_err(io_error(&path))
    }

    /// An error about something in the folder.
    pub fn error(&self, path: &Path, source: io::Error) -> FolderError {
        io_error(path)(source)
    }

    /// Moves something to its place in the folder, in place of what is there.
    pub fn replace(&self, name: &str, from: &Path) -> Result<(), FolderError> {
        let to = self.file(name);
        match std::fs::remove_dir_all(&to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(io_error(&to)(error));
            }
            Ok(()) | Err(_) => {}
        }
        match std::fs::rename(from, &to) {
            // A part that a recording does not have.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            moved => moved.map_err(io_error(from)),
        }
    }

    pub fn read(&self, name: &str) -> Result<Vec<u8>, FolderError> {
        let path = self.file(name);
        match std::fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(FolderError::Nothing {
                path: self.path.clone(),
            }),
            other => other.map_err(io_error(&path)),
        }
    }

    /// A folder for what only lives during the run, in memory where that is possible. Its name is
    /// noted, so that the next run removes what this one could not.
    pub fn scratch(&self) -> Result<tempfile::TempDir, FolderError> {
        let memory = Path::new("/dev/shm");
        let builder = || {
            let mut builder = tempfile::Builder::new();
            builder.prefix("crashpoint-");
            builder
        };
        let folder = builder()
            .tempdir_in(memory)
            .or_else(|_| builder().tempdir());
        let folder = folder.map_err(io_error(memory))?;
        self.write("scratch", folder.path().as_os_str().as_encoded_bytes())?;
        Ok(folder)
    }

    /// The scratch folder is gone.
    pub fn forget_scratch(&self) {
        let _ = std::fs::remove_file(self.file("scratch"));
    }

    fn remove_old_scratch(&self) {
        let Ok(name) = std::fs::read_to_string(self.file("scratch")) else {
            return;
        };
        let path = Path::new(&name);
        let is_ours = path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("crashpoint-"));
        if is_ours && path.is_absolute() {
            let _ = std::fs::remove_dir_all(path);
        }
        let _ = std::fs::remove_file(self.file("scratch"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_runs_in_one_folder_refuse_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let first = OutputDir::take(folder.path()).unwrap();
        let second = OutputDir::take(folder.path()).unwrap_err();
        assert!(
            second.to_string().contains("another run works in"),
            "{second}"
        );
        drop(first);
        assert!(OutputDir::take(folder.path()).is_ok());
    }

    #[test]
    fn what_a_killed_run_left_is_removed_by_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let first = OutputDir::take(folder.path()).unwrap();
        let scratch = first.scratch().unwrap().keep();
        assert!(scratch.is_dir());
        drop(first);
        OutputDir::take(folder.path()).unwrap();
        assert!(!scratch.exists());
    }
}
