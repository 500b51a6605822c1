//! Keeps what the folder holds: before the program starts, and when something comes in from
//! outside.

use crate::inodes::{Inodes, Number};
use crate::{Options, WatchError};
use crashpoint_trace::files::{BeforeWriter, InodeId, InodeKind, Slot};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// How much is copied at a time.
const STEP_BYTES: usize = 1 << 20;

/// Something found in the file system.
pub struct Found {
    pub path: PathBuf,
    pub stat: Stat,
    /// Of a symbolic link.
    pub target: Vec<u8>,
}

impl Found {
    pub fn at(path: PathBuf) -> io::Result<Found> {
        let stat = rustix::fs::statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW)?;
        let target = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => std::fs::read_link(&path)?.into_os_string().into_vec(),
            _ => Vec::new(),
        };
        Ok(Found { path, stat, target })
    }

    pub fn kind(&self) -> InodeKind<'_> {
        kind(&self.stat, &self.target)
    }

    pub fn is_file(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::RegularFile
    }

    pub fn is_directory(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::Directory
    }

    /// The names in a directory, sorted, so that equal folders give equal numbers.
    pub fn names(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            names.push(entry?.file_name().into_vec());
        }
        names.sort();
        Ok(names)
    }

    pub fn child(&self, name: &[u8]) -> io::Result<Found> {
        Found::at(self.path.join(std::ffi::OsStr::from_bytes(name)))
    }

    pub fn xattrs(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut buffer = vec![0_u8; 64 << 10];
        let Ok(length) = rustix::fs::llistxattr(&self.path, &mut buffer[..]) else {
            // Not every file system has them.
            return Vec::new();
        };
        let names: Vec<Vec<u8>> = buffer[..length]
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty())
            .map(<[u8]>::to_owned)
            .collect();
        let mut all = Vec::new();
        for name in names {
            if let Ok(length) = rustix::fs::lgetxattr(&self.path, &name[..], &mut buffer[..]) {
                all.push((name, buffer[..length].to_owned()));
            }
        }
        all.sort();
        all
    }
}

pub fn kind<'a>(stat: &Stat, target: &'a [u8]) -> InodeKind<'a> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => InodeKind::File,
        FileType::Directory => InodeKind::Directory,
        FileType::Symlink => InodeKind::Symlink { target },
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => InodeKind::Other,
    }
}

/// Permissions, without the type.
pub fn mode(stat: &Stat) -> u32 {
    stat.st_mode & 0o7777
}

/// Copies the folder, and knows its inodes from here on.
pub fn keep(options: &Options<'_>, out: &Path) -> Result<Inodes, WatchError> {
    let mut keeper = Keeper {
        to: BeforeWriter::create(out).map_err(|source| WatchError::Write { source })?,
        inodes: Inodes::default(),
    };
    let failed = |path: &Path, source| WatchError::Copy {
        path: path.to_owned(),
        source,
    };
    let root = Found::at(options.folder.to_owned()).map_err(|e| failed(options.folder, e))?;
    let id = keeper
        .inodes
        .add(Number::from(&root.stat), InodeId::ROOT, b"");
    assert_eq!(id, InodeId::ROOT, "the folder is the first inode");
    keeper.write(id, &root).map_err(|e| failed(&root.path, e))?;
    let mut folders = vec![(id, root)];
    while let Some((parent, folder)) = folders.pop() {
        for name in folder.names().map_err(|e| failed(&folder.path, e))? {
            let found = folder.child(&name).map_err(|e| failed(&folder.path, e))?;
            let number = Number::from(&found.stat);
            let known = keeper.inodes.find(number);
            let id = known.unwrap_or_else(|| keeper.inodes.add(number, parent, &name));
            if known.is_none() {
                keeper
                    .write(id, &found)
                    .map_err(|e| failed(&found.path, e))?;
            }
            let slot = Slot {
                directory: parent,
                name: &name,
            };
            keeper
                .to
                .entry(slot, id)
                .map_err(|source| WatchError::Write { source })?;
            if known.is_none() && found.is_directory() {
                folders.push((id, found));
            }
        }
    }
    keeper
        .to
        .finish()
        .map_err(|source| WatchError::Write { source })?;
    Ok(keeper.inodes)
}

struct Keeper {
    to: BeforeWriter,
    inodes: Inodes,
}

impl Keeper {
    fn write(&mut self, id: InodeId, found: &Found) -> io::Result<()> {
        let mut length = 0;
        if found.is_file() && found.stat.st_size > 0 {
            length = copy(&found.path, &self.to.content(id))?;
        }
        let xattrs = found.xattrs();
        self.to
            .inode(id, found.kind(), mode(&found.stat), &xattrs, length)
    }
}

/// Copies a file, sharing its blocks if the file system can, leaving its holes if not; returns its
/// length.
fn copy(from: &Path, to: &Path) -> io::Result<u64> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let from = rustix::fs::openat(CWD, from, flags, Mode::empty())?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
    let to = rustix::fs::openat(CWD, to, flags, Mode::from_raw_mode(0o600))?;
    let length = rustix::fs::fstat(&from)?.st_size as u64;
    if rustix::fs::ioctl_ficlone(&to, &from).is_ok() {
        return Ok(length);
    }
    rustix::fs::ftruncate(&to, length)?;
    let mut buffer = vec![0; STEP_BYTES.min(length as usize)];
    let mut at = 0;
    while at < length {
        let data = match rustix::fs::seek(&from, SeekFrom::Data(at)) {
            Ok(data) => data,
            // Only a hole is left.
            Err(Errno::NXIO) => break,
            Err(_) => at,
        };
        let hole = rustix::fs::seek(&from, SeekFrom::Hole(data))
            .unwrap_or(length)
            .min(length);
        at = data;
        while at < hole {
            let wanted = buffer.len().min((hole - at) as usize);
            let read = rustix::io::pread(&from, &mut buffer[..wanted], at)?;
            if read == 0 {
                return Ok(length);
            }
            let mut done = 0;
            while done < read {
                done += rustix::io::pwrite(&to, &buffer[done..read], at + done as u64)?;
            }
            at += read as u64;
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt as _, MetadataExt as _};

    #[test]
    fn a_copy_has_the_same_bytes_and_no_more_blocks() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("a"), folder.path().join("b"));
        let file = std::fs::File::create(&from).unwrap();
        file.write_all_at(b"end", 8 << 20).unwrap();
        file.write_all_at(b"start", 0).unwrap();
        drop(file);
        assert_eq!(copy(&from, &to).unwrap(), (8 << 20) + 3);
        assert_eq!(std::fs::read(&from).unwrap(), std::fs::read(&to).unwrap());
        assert!(
            to.metadata().unwrap().blocks() < 2048,
            "the hole is still one"
        );
    }
}
