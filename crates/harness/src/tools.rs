//! Where our programs are, and what else the corpus needs.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Error;

/// Our programs.
#[derive(Clone, Debug)]
pub struct Tools {
    folder: PathBuf,
}

impl Tools {
    /// From the folder that cargo builds into.
    pub fn in_folder(folder: &Path) -> Result<Tools, Error> {
        for name in ["crashpoint", "crashpoint-cc", "crashpoint-c++"] {
            let path = folder.join(name);
            if !path.exists() {
                return Err(Error::NotBuilt { path });
            }
        }
        Ok(Tools {
            folder: folder.to_owned(),
        })
    }

    pub fn crashpoint(&self) -> PathBuf {
        self.folder.join("crashpoint")
    }

    /// The driver for a source, by its language.
    pub fn compiler(&self, source: &Path) -> PathBuf {
        let cxx = source.extension().is_some_and(|end| end == "cpp");
        self.folder.join(if cxx {
            "crashpoint-c++"
        } else {
            "crashpoint-cc"
        })
    }
}

/// What the corpus needs besides our own programs.
#[derive(Clone, Debug)]
pub struct Interpreters {
    pub(crate) cc: PathBuf,
    pub(crate) rustc: PathBuf,
    pub(crate) python: PathBuf,
    pub(crate) node: PathBuf,
}

impl Interpreters {
    /// The programs themselves, not scripts that look for them: each check starts one.
    pub fn find() -> Result<Interpreters, Error> {
        let say = |program: &str, arguments: &[&str]| -> Option<PathBuf> {
            let output = Command::new(program).args(arguments).output().ok()?;
            let said = String::from_utf8(output.stdout).ok()?;
            output.status.success().then(|| said.trim().into())
        };
        let there = |program: &str| {
            let output = Command::new(program).arg("--version").output().ok()?;
            output.status.success().then(|| program.into())
        };
        let missing = |name, package| Error::Missing { name, package };
        let python = ["-c", "import sys; print(sys.executable)"];
        let node = ["-p", "process.execPath"];
        Ok(Interpreters {
            cc: there("cc").ok_or(missing("cc", "gcc"))?,
            rustc: there("rustc").ok_or(missing("rustc", "rustup"))?,
            python: say("python3", &python).ok_or(missing("python3", "python3"))?,
            node: say("node", &node).ok_or(missing("node", "nodejs"))?,
        })
    }

    pub fn python(&self) -> &Path {
        &self.python
    }

    pub fn node(&self) -> &Path {
        &self.node
    }
}
