//! The drivers and the header that come with them.

mod driver;
mod header;

use std::path::{Path, PathBuf};

use tempfile::TempDir;

const DRIVER: &str = env!("CARGO_BIN_EXE_crashpoint-cc");

/// A temporary folder with files in it.
struct Folder(TempDir);

impl Folder {
    fn with(files: &[(&str, &str)]) -> Folder {
        let folder = Folder(TempDir::new().unwrap());
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }
}
