//! A command that is started again and again, each time with paths of its own.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What differs from worker to worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    /// The pool, or the directory that is crashed.
    pub pool: PathBuf,
    /// The operations that run after recovery.
    pub ops: PathBuf,
    /// What the program had printed before the crash.
    pub printed: PathBuf,
}

impl Paths {
    /// Makes a worker's folder, with empty files where something is to be read. The pool, or the
    /// directory that is crashed, is called `pool` in there; it is not made.
    pub fn create(folder: &Path, pool: &str) -> io::Result<Paths> {
        std::fs::create_dir_all(folder)?;
        let paths = Paths {
            pool: folder.join(pool),
            ops: folder.join("ops"),
            printed: folder.join("printed"),
        };
        std::fs::write(&paths.ops, "")?;
        std::fs::write(&paths.printed, "")?;
        Ok(paths)
    }
}

/// A command that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The program first.
    pub words: Vec<OsString>,
    /// Where it runs; empty for the current folder. A program with a relative path is found from
    /// here.
    pub directory: PathBuf,
}

impl Command {
    pub fn program(&self) -> String {
        let first = self.words.first();
        first.map_or_else(String::new, |word| word.to_string_lossy().into_owned())
    }

    pub fn to_std(&self) -> std::process::Command {
        let mut command = std::process::Command::new(self.absolute_program());
        command.args(self.words.iter().skip(1));
        if !self.directory.as_os_str().is_empty() {
            command.current_dir(&self.directory);
        }
        command
    }

    fn absolute_program(&self) -> OsString {
        let first = self.words.first().cloned().unwrap_or_default();
        let path = Path::new(&first);
        if path.is_relative() && path.components().count() > 1 {
            let joined = self.directory.join(path);
            std::path::absolute(&joined)
                .unwrap_or(joined)
                .into_os_string()
        } else {
            first
        }
    }
}

/// Makes the command for some paths.
#[derive(Clone)]
pub struct Launch(Arc<dyn Fn(&Paths) -> Command + Send + Sync>);

impl Launch {
    pub fn new(fill: impl Fn(&Paths) -> Command + Send + Sync + 'static) -> Launch {
        Launch(Arc::new(fill))
    }

    pub fn fill(&self, paths: &Paths) -> Command {
        (self.0)(paths)
    }
}

impl fmt::Debug for Launch {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:?}", self.fill(&Paths::default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_program_is_found_from_its_folder() {
        let command = |word: &str| Command {
            words: vec![word.into()],
            directory: "/d".into(),
        };
        assert_eq!(command("./s").absolute_program(), "/d/s");
        assert_eq!(command("s").absolute_program(), "s");
        assert_eq!(command("/b/s").absolute_program(), "/b/s");
    }
}
