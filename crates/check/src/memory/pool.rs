//! The persistent files of one worker: real files, since programs open, measure and read them, on
//! a file system in memory where there is one.
//!
//! A check gets the content of a crash state by patching a few words before the run and taking
//! them back after it. That the run itself leaves no trace is its mapping's business (private) or
//! else ours (everything is written again). Writes past the mapping are noticed by the file's time,
//! which we set to a value that no write leaves behind.

use crate::memory::image::{FileShape, Image, Patch, WordId};
use crashpoint_persist::memory::Node;
use crashpoint_trace::{FileIndex, PmAddress};
use rustix::fs::{Timespec, Timestamps};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct PoolFile {
    pub index: FileIndex,
    pub path: PathBuf,
    pub size_bytes: u64,
    pub device: u64,
    pub inode: u64,
    file: File,
}

/// Files with the content of an [`Image`].
#[derive(Debug)]
pub struct Pool {
    files: Vec<PoolFile>,
    image: Image,
}

/// Where a file of the recorded program lies for a worker: the same below or beside the pool.
pub fn moved(recorded_pool: &Path, path: &Path, pool: &Path) -> Option<PathBuf> {
    if let Ok(below) = path.strip_prefix(recorded_pool) {
        let is_pool = below.as_os_str().is_empty();
        return Some(if is_pool {
            pool.to_owned()
        } else {
            pool.join(below)
        });
    }
    let recorded = recorded_pool.as_os_str().as_encoded_bytes();
    let rest = path.as_os_str().as_encoded_bytes().strip_prefix(recorded)?;
    let mut moved = pool.as_os_str().to_owned();
    moved.push(std::str::from_utf8(rest).ok()?);
    Some(moved.into())
}

impl Pool {
    /// Makes the files. Those that lie elsewhere than at the pool cannot be crashed: an error.
    pub fn create(
        shapes: &[FileShape],
        recorded_pool: &Path,
        pool: &Path,
        image: Image,
    ) -> io::Result<Pool> {
        let mut files = Vec::new();
        for shape in shapes {
            let path = moved(recorded_pool, &shape.path, pool).ok_or_else(|| {
                io::Error::other(format!(
                    "persistent memory at {}, which is not at {{pool}}",
                    shape.path.display()
                ))
            })?;
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .open(&path)?;
            let status = file.metadata()?;
            files.push(PoolFile {
                index: shape.index,
                path,
                size_bytes: shape.size_bytes,
                device: status.dev(),
                inode: status.ino(),
                file,
            });
        }
        let pool = Pool { files, image };
        pool.write_all()?;
        Ok(pool)
    }

    pub fn files(&self) -> &[PoolFile] {
        &self.files
    }

    pub fn image(&self) -> &Image {
        &self.image
    }

    /// Writes everything anew.
    pub fn write_all(&self) -> io::Result<()> {
        for file in &self.files {
            file.file.set_len(0)?;
            file.file.set_len(file.size_bytes)?;
        }
        for (address, page) in self.image.pages() {
            let Some(file) = self.file(address) else {
                continue;
            };
            let room = file.size_bytes.saturating_sub(address.offset());
            let length = room.min(page.len() as u64) as usize;
            file.file.write_all_at(&page[..length], address.offset())?;
        }
        Ok(())
    }

    fn file(&self, address: PmAddress) -> Option<&PoolFile> {
        self.files.iter().find(|file| file.index == address.file())
    }

    /// These nodes are in the image from now on.
    pub fn advance<'a>(&mut self, nodes: impl Iterator<Item = &'a Node>) -> io::Result<()> {
        let patch = self.image.patch(nodes);
        self.write(patch.iter().map(|(word, value)| (*word, *value)))?;
        for (word, value) in patch {
            self.image.set_word(word, value);
        }
        Ok(())
    }

    /// Puts a patch into the files, not into the image.
    pub fn put(&self, patch: &Patch) -> io::Result<()> {
        self.write(patch.iter().map(|(word, value)| (*word, *value)))
    }

    /// Takes a patch out again.
    pub fn take_back(&self, patch: &Patch) -> io::Result<()> {
        self.write(patch.keys().map(|word| (*word, self.image.word(*word))))
    }

    /// Writes words, neighbours in one go.
    fn write(&self, words: impl Iterator<Item = (WordId, u64)>) -> io::Result<()> {
        let mut run: Vec<u8> = Vec::new();
        let mut start = WordId(0);
        for (word, value) in words {
            let next = WordId(start.0 + run.len() as u64 / 8);
            if !run.is_empty() && word != next {
                self.write_run(start, &run)?;
                run.clear();
            }
            if run.is_empty() {
                start = word;
            }
            run.extend(value.to_le_bytes());
        }
        if run.is_empty() {
            Ok(())
        } else {
            self.write_run(start, &run)
        }
    }

    fn write_run(&self, start: WordId, bytes: &[u8]) -> io::Result<()> {
        let address = start.address();
        let Some(file) = self.file(address) else {
            return Ok(());
        };
        let room = file.size_bytes.saturating_sub(address.offset());
        let length = room.min(bytes.len() as u64) as usize;
        file.file.write_all_at(&bytes[..length], address.offset())
    }

    /// From here on, writes to the files by others show.
    pub fn arm(&self) -> io::Result<()> {
        let never = Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        };
        let times = Timestamps {
            last_access: never,
            last_modification: never,
        };
        for file in &self.files {
            rustix::fs::futimens(&file.file, &times)?;
        }
        Ok(())
    }

    /// Whether somebody wrote to a file, or changed its length, since [`Pool::arm`].
    pub fn was_written(&self) -> io::Result<bool> {
        for file in &self.files {
            let status = file.file.metadata()?;
            let same = status.len() == file.size_bytes
                && status.mtime() == 1
                && file
                    .path
                    .metadata()
                    .is_ok_and(|named| named.ino() == file.inode);
            if !same {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Everything as the image has it, whatever happened: files that were removed or replaced too.
    pub fn restore(&mut self) -> io::Result<()> {
        for file in &mut self.files {
            let named = file.path.metadata();
            if named.is_ok_and(|named| named.ino() == file.inode) {
                continue;
            }
            let _ = std::fs::remove_file(&file.path);
            file.file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .open(&file.path)?;
            file.inode = file.file.metadata()?.ino();
        }
        self.write_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(folder: &Path) -> Pool {
        let mut image = Image::default();
        image.set_word(WordId(2), 7);
        let shape = FileShape {
            index: FileIndex(0),
            path: "/r/pool".into(),
            size_bytes: 8192,
        };
        let recorded = Path::new("/r/pool");
        Pool::create(&[shape], recorded, &folder.join("pool"), image).unwrap()
    }

    #[test]
    fn a_patch_comes_and_goes() {
        let folder = tempfile::tempdir().unwrap();
        let pool = pool(folder.path());
        let path = folder.path().join("pool");
        let before = std::fs::read(&path).unwrap();
        assert_eq!(before.len(), 8192);
        assert_eq!(before[16], 7);
        let patch: Patch = [(WordId(2), 8), (WordId(3), 9), (WordId(600), 1)].into();
        pool.put(&patch).unwrap();
        let patched = std::fs::read(&path).unwrap();
        assert_eq!([patched[16], patched[24], patched[4800]], [8, 9, 1]);
        pool.take_back(&patch).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }

    #[test]
    fn writes_by_others_are_noticed_and_undone() {
        let folder = tempfile::tempdir().unwrap();
        let mut pool = pool(folder.path());
        let path = folder.path().join("pool");
        let before = std::fs::read(&path).unwrap();
        pool.arm().unwrap();
        assert!(!pool.was_written().unwrap());
        std::fs::write(&path, "x").unwrap();
        assert!(pool.was_written().unwrap());
        pool.restore().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), before);
        std::fs::remove_file(&path).unwrap();
        assert!(pool.was_written().unwrap());
        pool.restore().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }

    #[test]
    fn files_stay_where_they_are_relative_to_the_pool() {
        let at = |path: &str| moved(Path::new("/r/p"), Path::new(path), Path::new("/w/q"));
        assert_eq!(at("/r/p"), Some("/w/q".into()));
        assert_eq!(at("/r/p/a"), Some("/w/q/a".into()));
        assert_eq!(at("/r/p.2"), Some("/w/q.2".into()));
        assert_eq!(at("/r/x"), None);
    }
}
