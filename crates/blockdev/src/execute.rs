//! Litmus tests by real system calls.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crashpoint_persist::files::litmus::{self, LitmusOp, WriteFlags};
use crashpoint_trace::files::Allocation;
use rustix::fs::{AtFlags, CWD, FallocateFlags, RenameFlags, XattrFlags};
use rustix::io::ReadWriteFlags;

use crate::kernel;

/// What `O_DIRECT` wants of a buffer.
const ALIGNMENT: usize = 4096;

/// A program under way.
#[derive(Debug)]
pub(crate) struct Executor {
    folder: PathBuf,
    open: HashMap<String, File>,
}

impl Executor {
    pub fn new(folder: &Path) -> Executor {
        Executor {
            folder: folder.to_owned(),
            open: HashMap::new(),
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        match path {
            "." => self.folder.clone(),
            path => self.folder.join(path),
        }
    }

    fn open(&self, path: &str, flags: i32) -> io::Result<File> {
        let path = self.path(path);
        let writable = !path.is_dir();
        let mut options = OpenOptions::new();
        options.read(true).write(writable).custom_flags(flags);
        options.open(path)
    }

    /// Does something with a file, which is opened for it if it was not.
    fn with<T>(
        &self,
        file: &litmus::LitmusFile,
        work: impl FnOnce(&File) -> io::Result<T>,
    ) -> io::Result<T> {
        match file {
            litmus::LitmusFile::Path(path) => work(&self.open(path, 0)?),
            litmus::LitmusFile::Handle(handle) => work(self.handle(handle)?),
        }
    }

    fn handle(&self, handle: &str) -> io::Result<&File> {
        let open = self.open.get(handle);
        open.ok_or_else(|| io::Error::other(format!("nothing is open as `{handle}`")))
    }

    /// One step.
    pub fn execute(&mut self, op: &LitmusOp) -> io::Result<()> {
        match op {
            LitmusOp::Create { path } => {
                let mut options = OpenOptions::new();
                options.write(true).create_new(true).mode(0o644);
                options.open(self.path(path)).map(drop)
            }
            LitmusOp::Mkdir { path } => fs::create_dir(self.path(path)),
            LitmusOp::Symlink { target, path } => {
                std::os::unix::fs::symlink(target, self.path(path))
            }
            LitmusOp::Link { file, path } => self.link(file, path),
            LitmusOp::Unlink { path } => fs::remove_file(self.path(path)),
            LitmusOp::Rmdir { path } => fs::remove_dir(self.path(path)),
            LitmusOp::Rename { from, to } => fs::rename(self.path(from), self.path(to)),
            LitmusOp::Exchange { first, second } => {
                let (first, second) = (self.path(first), self.path(second));
                let exchange = RenameFlags::EXCHANGE;
                Ok(rustix::fs::renameat_with(
                    CWD, first, CWD, second, exchange,
                )?)
            }
            LitmusOp::Open { handle, path } => {
                let file = self.open(path, 0)?;
                self.open.insert(handle.clone(), file);
                Ok(())
            }
            LitmusOp::Tmpfile { handle, directory } => {
                let mut options = OpenOptions::new();
                options.read(true).write(true).mode(0o644);
                options.custom_flags(libc::O_TMPFILE);
                let file = options.open(self.path(directory))?;
                self.open.insert(handle.clone(), file);
                Ok(())
            }
            LitmusOp::Close { handle } => {
                self.handle(handle)?;
                self.open.remove(handle);
                Ok(())
            }
            LitmusOp::Write {
                file,
                offset,
                bytes,
                how,
            } => self.write(file, Some(*offset), bytes, *how),
            LitmusOp::Append { file, bytes, how } => self.write(file, None, bytes, *how),
            LitmusOp::Store {
                file,
                offset,
                bytes,
            } => self.with(file, |file| store(file, *offset, bytes)),
            LitmusOp::Copy { from, to } => {
                let from = self.open(from, 0)?;
                self.with(to, |to| copy(&from, to))
            }
            LitmusOp::Truncate { file, size } => self.with(file, |file| file.set_len(*size)),
            LitmusOp::Allocate {
                file,
                offset,
                length,
                what,
            } => self.with(file, |file| {
                Ok(rustix::fs::fallocate(file, mode(*what), *offset, *length)?)
            }),
            LitmusOp::SetXattr { file, name, value } => self.with(file, |file| {
                let set = rustix::fs::fsetxattr(file, &**name, value, XattrFlags::empty());
                Ok(set?)
            }),
            LitmusOp::Chmod { file, mode } => self.with(file, |file| {
                file.set_permissions(fs::Permissions::from_mode(*mode))
            }),
            LitmusOp::Msync { file, range, waits } => {
                let length = range.end - range.start;
                self.with(file, |file| msync(file, range.start, length, *waits))
            }
            LitmusOp::Fsync { file } => self.with(file, File::sync_all),
            LitmusOp::Fdatasync { file } => self.with(file, File::sync_data),
            // A disk that fails is not what is looked at here.
            LitmusOp::FailedFsync { .. } => Ok(()),
            LitmusOp::SyncFileRange {
                file,
                offset,
                length,
            } => self.with(file, |file| kernel::sync_file_range(file, *offset, *length)),
            // All file systems of this machine are none of our business, and would wait for ours.
            LitmusOp::Sync | LitmusOp::Syncfs => Ok(rustix::fs::syncfs(File::open(&self.folder)?)?),
        }
    }

    fn link(&self, file: &litmus::LitmusFile, path: &str) -> io::Result<()> {
        let to = self.path(path);
        match file {
            litmus::LitmusFile::Path(from) => fs::hard_link(self.path(from), to),
            litmus::LitmusFile::Handle(handle) => {
                let descriptor = self.handle(handle)?.as_raw_fd();
                let from = format!("/proc/self/fd/{descriptor}");
                Ok(rustix::fs::linkat(
                    CWD,
                    from,
                    CWD,
                    to,
                    AtFlags::SYMLINK_FOLLOW,
                )?)
            }
        }
    }

    fn write(
        &self,
        file: &litmus::LitmusFile,
        offset: Option<u64>,
        bytes: &[u8],
        how: WriteFlags,
    ) -> io::Result<()> {
        let write = |file: &File, flags: ReadWriteFlags, bytes: &[u8]| {
            let offset = match offset {
                Some(offset) => offset,
                None => file.metadata()?.len(),
            };
            let written = rustix::io::pwritev2(file, &[IoSlice::new(bytes)], offset, flags)?;
            if written == bytes.len() {
                Ok(())
            } else {
                Err(io::Error::other(format!("only {written} bytes written")))
            }
        };
        match how {
            WriteFlags::Plain => {
                self.with(file, |file| write(file, ReadWriteFlags::empty(), bytes))
            }
            WriteFlags::Dsync => self.with(file, |file| write(file, ReadWriteFlags::DSYNC, bytes)),
            WriteFlags::Sync => self.with(file, |file| write(file, ReadWriteFlags::SYNC, bytes)),
            WriteFlags::Direct => {
                let mut buffer = vec![0; bytes.len() + ALIGNMENT];
                let start = buffer.as_ptr().align_offset(ALIGNMENT);
                let aligned = &mut buffer[start..start + bytes.len()];
                aligned.copy_from_slice(bytes);
                let direct = self.direct(file)?;
                write(&direct, ReadWriteFlags::empty(), aligned)
            }
        }
    }

    /// Another descriptor of the file, past the cache.
    fn direct(&self, file: &litmus::LitmusFile) -> io::Result<File> {
        match file {
            litmus::LitmusFile::Path(path) => self.open(path, libc::O_DIRECT),
            litmus::LitmusFile::Handle(handle) => {
                let descriptor = self.handle(handle)?.as_raw_fd();
                let mut options = OpenOptions::new();
                options.read(true).write(true).custom_flags(libc::O_DIRECT);
                options.open(format!("/proc/self/fd/{descriptor}"))
            }
        }
    }
}

fn store(file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let mut mapping = kernel::map(file)?;
    let start = offset as usize;
    let range = mapping.get_mut(start..start + bytes.len());
    let range = range.ok_or_else(|| io::Error::other("a store behind the end of the file"))?;
    range.copy_from_slice(bytes);
    Ok(())
}

fn msync(file: &File, offset: u64, length: u64, waits: bool) -> io::Result<()> {
    let mapping = kernel::map(file)?;
    let (offset, length) = (offset as usize, length as usize);
    if waits {
        mapping.flush_range(offset, length)
    } else {
        mapping.flush_async_range(offset, length)
    }
}

fn copy(from: &File, to: &File) -> io::Result<()> {
    let length = from.metadata()?.len();
    let (mut read, mut written) = (0, 0);
    while read < length {
        let left = (length - read) as usize;
        let count =
            rustix::fs::copy_file_range(from, Some(&mut read), to, Some(&mut written), left)?;
        if count == 0 {
            return Err(io::Error::other(format!("only {read} bytes copied")));
        }
    }
    Ok(())
}

fn mode(what: Allocation) -> FallocateFlags {
    match what {
        Allocation::Reserve => FallocateFlags::empty(),
        Allocation::ReserveKeepSize => FallocateFlags::KEEP_SIZE,
        Allocation::PunchHole => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        Allocation::Zero => FallocateFlags::ZERO_RANGE,
        Allocation::ZeroKeepSize => FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
        Allocation::Collapse => FallocateFlags::COLLAPSE_RANGE,
        Allocation::Insert => FallocateFlags::INSERT_RANGE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allowed::{allowed, describe};
    use crate::tree::FolderTree;
    use crashpoint_persist::files::Model;
    use crashpoint_persist::files::litmus::Litmus;

    /// One program with a call of almost every kind, each kind on a file of its own.
    const CALLS: &str = "\
litmus calls
setup
  create f O*8192
  create g P*10
  create c Q*20
program
  create n
  append n A*100 dsync
  write f 0 B*4096 direct
  store f 4096 C*4096
  msync f 4096 4096
  exchange f g
  link g h
  symlink h s
  mkdir d
  rename h d/h
  xattr f user.k v
  chmod f 600
  tmpfile @t .
  append @t T*10
  link @t t
  close @t
  fallocate t reserve 0 8192
  truncate t 5
  copy c n
  sync-file-range n 0 5
  fdatasync n
  unlink s
  fsync .
  syncfs
";

    #[test]
    fn real_calls_leave_what_the_models_say_they_do() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        rustix::process::umask(rustix::fs::Mode::WGRP | rustix::fs::Mode::WOTH);
        let litmus = Litmus::parse(CALLS).unwrap().remove(0);
        let mut executor = Executor::new(folder.path());
        for op in litmus.setup.iter().chain(&litmus.program) {
            match executor.execute(op) {
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                    eprintln!("not run here: {op:?}: {error}");
                    return;
                }
                done => done.unwrap_or_else(|error| panic!("{op:?}: {error}")),
            }
        }
        let model = Model::builtin("ext4-ordered").unwrap();
        let (before, calls) = litmus.calls();
        let last = allowed(&model, &before, &calls).states.pop().unwrap();
        let tree = FolderTree::read(folder.path()).unwrap();
        assert_eq!(last, [describe(&model, &tree.before())].into());
    }
}
