//! The folder that a recording goes to.
//!
//! An old recording is moved aside while the new one starts, and removed only when the program
//! runs: a mistyped command costs nothing. A folder with anything else in it is never touched.

use std::io;
use std::path::{Path, PathBuf};

/// What Crashpoint itself puts into such a folder.
const OURS: [&str; 8] = [
    "trace",
    "files",
    crashpoint_trace::files::MERGED_FOLDER,
    "models",
    "recorded",
    FINDINGS_JSON,
    FINDINGS_SARIF,
    FINDINGS_JUNIT,
];

pub const FINDINGS_JSON: &str = "findings.json";
pub const FINDINGS_SARIF: &str = "findings.sarif";
pub const FINDINGS_JUNIT: &str = "findings.junit.xml";

#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error(
        "{} holds `{entry}`, which is not part of a recording: choose another folder with --out, \
         or move it away", path.display()
    )]
    Foreign { path: PathBuf, entry: String },
    #[error("{} is not a folder: choose another one with --out", path.display())]
    NotAFolder { path: PathBuf },
    #[error("cannot record into {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// A folder that is ready for a recording.
#[derive(Debug)]
pub struct Prepared {
    /// Absolute.
    pub path: PathBuf,
    aside: Option<PathBuf>,
}

impl Prepared {
    pub fn new(path: &Path) -> Result<Prepared, FolderError> {
        let failed = |source| FolderError::Io {
            path: path.to_owned(),
            source,
        };
        let absolute = std::path::absolute(path).map_err(failed)?;
        let aside = match absolute.symlink_metadata() {
            Ok(_) => {
                check(&absolute)?;
                let mut name = absolute.clone().into_os_string();
                name.push(format!(".old-{}", std::process::id()));
                let aside = PathBuf::from(name);
                std::fs::rename(&absolute, &aside).map_err(failed)?;
                Some(aside)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        let prepared = Prepared {
            path: absolute,
            aside,
        };
        if let Err(error) = std::fs::create_dir_all(&prepared.path) {
            prepared.restore();
            return Err(failed(error));
        }
        Ok(prepared)
    }

    /// The program runs: the old recording goes. What cannot be removed stays aside.
    pub fn commit(&mut self) {
        if let Some(aside) = self.aside.take() {
            let _ = std::fs::remove_dir_all(aside);
        }
    }

    /// Leaves everything as before, as nothing was recorded.
    pub fn restore(self) {
        let _ = std::fs::remove_dir_all(&self.path);
        if let Some(aside) = self.aside {
            let _ = std::fs::rename(aside, &self.path);
        }
    }
}

/// A recording, or an empty folder.
fn check(path: &Path) -> Result<(), FolderError> {
    if !path.is_dir() {
        return Err(FolderError::NotAFolder {
            path: path.to_owned(),
        });
    }
    let failed = |source| FolderError::Io {
        path: path.to_owned(),
        source,
    };
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let mut ours = OURS.iter().chain(&crate::output_dir::OURS);
        if !ours.any(|ours| name == *ours) {
            return Err(FolderError::Foreign {
                path: path.to_owned(),
                entry: name.to_string_lossy().into_owned(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn an_old_recording_is_replaced_only_when_the_new_one_runs() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        fs::create_dir_all(out.join("trace")).unwrap();
        fs::write(out.join("trace/order"), "old").unwrap();

        let prepared = Prepared::new(&out).unwrap();
        assert!(!out.join("trace").exists());
        prepared.restore();
        assert_eq!(fs::read_to_string(out.join("trace/order")).unwrap(), "old");

        let mut prepared = Prepared::new(&out).unwrap();
        prepared.commit();
        assert!(out.is_dir());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_new_folder_is_made_with_its_parents_and_unmade() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("a/b");
        let prepared = Prepared::new(&out).unwrap();
        assert!(out.is_dir());
        prepared.restore();
        assert!(!out.exists());
    }

    #[test]
    fn a_folder_with_anything_else_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("trace")).unwrap();
        fs::write(folder.path().join("thesis.tex"), "").unwrap();
        let error = Prepared::new(folder.path()).unwrap_err();
        assert!(error.to_string().contains("thesis.tex"), "{error}");
        assert!(folder.path().join("thesis.tex").exists());

        let file = folder.path().join("thesis.tex");
        let error = Prepared::new(&file).unwrap_err();
        assert!(error.to_string().contains("is not a folder"), "{error}");
    }
}
