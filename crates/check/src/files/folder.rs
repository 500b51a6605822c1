//! A folder with the content of a crash state: real files, on a file system in memory.
//!
//! From one state to the next only what differs is made anew, down to the bytes of a file. What a
//! check did to the folder in the meantime is found by times: everything that is laid out has a time
//! of change that no clock shows, so that whatever has another one was touched. For a directory
//! that means that an entry came or went. Files that were only read are found the same way by their
//! time of access, which is older than the time of change, so that even file systems that write it
//! seldom do so at the first reading. Stores through a mapping change no time of a file in memory,
//! but to make one is to access the file: what was accessed is compared byte by byte.

use super::layout::{Item, Layout};
use crashpoint_persist::files::{Content, Object, PatchSource};
use crashpoint_trace::files::InodeKind;
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

/// Times of what was laid out and not touched since, in seconds.
const CHANGED: i64 = 1_000_000_001;
const READ: i64 = 1_000_000_000;

/// What was laid out at a path.
struct Laid<'a> {
    item: Item<'a>,
    inode: u64,
}

/// A folder that shows one state after the other.
pub struct Folder<'a> {
    root: PathBuf,
    laid: BTreeMap<PathBuf, Laid<'a>>,
    /// Reading shows in times.
    shows_reading: bool,
    /// Bytes written, for measurements.
    pub written: u64,
}

impl<'a> Folder<'a> {
    /// Takes a folder, which is emptied.
    pub fn create(root: &Path) -> io::Result<Folder<'a>> {
        match std::fs::remove_dir_all(root) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => std::fs::create_dir_all(root)?,
        }
        Ok(Folder {
            root: root.to_owned(),
            shows_reading: shows_reading(root)?,
            laid: BTreeMap::new(),
            written: 0,
        })
    }

    /// Whether what is read is known afterwards.
    pub fn shows_reading(&self) -> bool {
        self.shows_reading
    }

    pub fn path(&self) -> &Path {
        &self.root
    }

    fn at(&self, path: &Path) -> PathBuf {
        if path.as_os_str().is_empty() {
            self.root.clone()
        } else {
            self.root.join(path)
        }
    }

    /// Makes the folder look like this.
    pub fn lay(&mut self, layout: &Layout<'a>) -> io::Result<()> {
        self.forget_touched()?;
        self.remove_unwanted(layout)?;
        let mut touched: Vec<PathBuf> = Vec::new();
        for item in &layout.items {
            let known = self.laid.get(&item.path);
            if known.is_some_and(|known| known.item.is_same(item) && self.is_linked(known)) {
                continue;
            }
            if known.is_some_and(|known| !self.is_linked(known)) {
                remove(&self.at(&item.path))?;
                self.laid.remove(&item.path);
            }
            self.make(item)?;
            touched.push(item.path.clone());
            if let Some(parent) = item.path.parent() {
                touched.push(parent.to_owned());
            }
        }
        touched.sort_unstable();
        touched.dedup();
        // Children before their directories, whose times they change.
        for path in touched.iter().rev() {
            self.mark(path)?;
        }
        Ok(())
    }

    /// Whether a further name of a file is still one.
    fn is_linked(&self, laid: &Laid<'a>) -> bool {
        laid.item.link_to.as_ref().is_none_or(|to| {
            let first = self.laid.get(to);
            first.is_some_and(|first| first.inode == laid.inode)
        })
    }

    /// Sets the times of something, and its mode where it is a directory: one that forbids writing
    /// has its entries by now.
    fn mark(&self, path: &Path) -> io::Result<()> {
        let full = self.at(path);
        if let Some(laid) = self.laid.get(path)
            && laid.item.is_directory()
        {
            let mode = laid.item.object.mode & 0o7777;
            std::fs::set_permissions(&full, Permissions::from_mode(mode))?;
        }
        set_times(&full)
    }

    /// Compares the folder with what was laid out, and takes away whatever was touched.
    fn forget_touched(&mut self) -> io::Result<()> {
        let mut gone = Vec::new();
        for (path, laid) in &self.laid {
            let full = self.at(path);
            let status = match std::fs::symlink_metadata(&full) {
                Ok(status) => status,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    gone.push(path.clone());
                    continue;
                }
                Err(error) => return Err(error),
            };
            let is_same = status.ino() == laid.inode
                && has_mode(&status, &laid.item.object)
                && (status.mtime() == CHANGED && status.mtime_nsec() == 0)
                && laid.item.size() == file_size(&status);
            let was_accessed = status.atime() != READ || !self.shows_reading;
            if !is_same || (was_accessed && !holds(&full, &laid.item)?) {
                gone.push(path.clone());
            } else if was_accessed {
                self.mark(path)?;
            }
        }
        for path in gone.iter().rev() {
            self.take_away(path)?;
        }
        Ok(())
    }

    /// Something at this path was touched. Of a directory only what does not belong there goes.
    fn take_away(&mut self, path: &Path) -> io::Result<()> {
        let full = self.at(path);
        let status = std::fs::symlink_metadata(&full);
        let is_directory = status.as_ref().is_ok_and(std::fs::Metadata::is_dir);
        let was_directory = self
            .laid
            .get(path)
            .is_some_and(|laid| laid.item.is_directory());
        if is_directory && was_directory {
            std::fs::set_permissions(&full, Permissions::from_mode(0o700))?;
            for entry in std::fs::read_dir(&full)? {
                let name = entry?.file_name();
                if !self.laid.contains_key(&path.join(&name)) {
                    remove(&full.join(&name))?;
                }
            }
            if status.is_ok_and(|status| status.ino() == self.laid[path].inode) {
                return self.mark(path);
            }
        } else {
            remove(&full)?;
        }
        self.laid.remove(path);
        // Whatever lay below lies there no more.
        let below: Vec<PathBuf> = self
            .laid
            .range(path.to_owned()..)
            .take_while(|(other, _)| other.starts_with(path))
            .map(|(other, _)| other.clone())
            .collect();
        for other in below {
            remove(&self.at(&other))?;
            self.laid.remove(&other);
        }
        Ok(())
    }

    /// Takes away what the layout does not have, or has as something else. A file with several
    /// names that change goes with all of them.
    fn remove_unwanted(&mut self, layout: &Layout<'a>) -> io::Result<()> {
        let unwanted = |path: &PathBuf, laid: &Laid<'a>| match layout.get(path) {
            Some(item) => !laid.item.can_become(item),
            None => true,
        };
        let gone: Vec<PathBuf> = self
            .laid
            .iter()
            .filter(|(path, laid)| unwanted(path, laid))
            .map(|(path, _)| path.clone())
            .collect();
        let mut parents = Vec::new();
        for path in gone.iter().rev() {
            if self.laid.remove(path).is_some() {
                remove(&self.at(path))?;
                parents.extend(path.parent().map(Path::to_owned));
            }
        }
        parents.sort_unstable();
        parents.dedup();
        for parent in parents.iter().rev() {
            if self.laid.contains_key(parent) {
                self.mark(parent)?;
            }
        }
        Ok(())
    }

    fn make(&mut self, item: &Item<'a>) -> io::Result<()> {
        let full = self.at(&item.path);
        let known = self.laid.get(&item.path);
        if let Some(parent) = item.path.parent().filter(|_| known.is_none())
            && self
                .laid
                .get(parent)
                .is_some_and(|laid| laid.item.object.mode & 0o300 != 0o300)
        {
            // Its own mode comes back when it is marked.
            std::fs::set_permissions(self.at(parent), Permissions::from_mode(0o700))?;
        }
        let object = &item.object;
        match (object.kind, &item.link_to) {
            (_, Some(to)) => {
                if known.is_none() {
                    std::fs::hard_link(self.at(to), &full)?;
                }
            }
            (InodeKind::Directory, None) => {
                if known.is_none() && !item.path.as_os_str().is_empty() {
                    std::fs::create_dir(&full)?;
                }
                set_xattrs(&full, known.map(|known| &*known.item.object), object)?;
            }
            (InodeKind::Symlink { target }, None) => {
                if known.is_none() {
                    symlink(OsStr::from_bytes(target), &full)?;
                }
            }
            (InodeKind::Other, None) => {
                if known.is_none() {
                    let mode = Mode::from_raw_mode(object.mode & 0o7777);
                    rustix::fs::mknodat(CWD, &full, FileType::Fifo, mode, 0)?;
                }
            }
            (InodeKind::File, None) => {
                let old = known.map(|known| &*known.item.object);
                self.written += write_file(&full, old, object)?;
                set_xattrs(&full, old, object)?;
                let mode = Permissions::from_mode(object.mode & 0o7777);
                std::fs::set_permissions(&full, mode)?;
            }
        }
        let inode = std::fs::symlink_metadata(&full)?.ino();
        let laid = Laid {
            item: item.clone(),
            inode,
        };
        self.laid.insert(item.path.clone(), laid);
        Ok(())
    }

    /// Paths of files that were read since they were laid out.
    pub fn read_since(&self) -> io::Result<Vec<&Path>> {
        let mut read = Vec::new();
        for (path, laid) in &self.laid {
            if !laid.item.is_file() {
                continue;
            }
            match std::fs::symlink_metadata(self.at(path)) {
                Ok(status) if status.atime() == READ && status.mtime() == CHANGED => {}
                Ok(_) => read.push(path.as_path()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => read.push(path.as_path()),
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }
}

/// Whether reading a file shows in a folder: some file systems are told not to write times of
/// access.
fn shows_reading(folder: &Path) -> io::Result<bool> {
    let path = folder.join("probe");
    std::fs::write(&path, "x")?;
    set_times(&path)?;
    std::fs::read(&path)?;
    let shows = std::fs::symlink_metadata(&path)?.atime() != READ;
    std::fs::remove_file(&path)?;
    Ok(shows)
}

fn set_times(path: &Path) -> io::Result<()> {
    let time = |seconds| Timespec {
        tv_sec: seconds,
        tv_nsec: 0,
    };
    let times = Timestamps {
        last_access: time(READ),
        last_modification: time(CHANGED),
    };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(())
}

/// Whether a file has the content that was laid out.
fn holds(path: &Path, item: &Item<'_>) -> io::Result<bool> {
    if !item.is_file() {
        return Ok(true);
    }
    let file = File::open(path)?;
    let mut chunk = vec![0; CHUNK.min(item.size().unwrap_or(0) as usize)];
    let mut offset = 0;
    while offset < item.size().unwrap_or(0) {
        let length = (item.size().unwrap_or(0) - offset).min(chunk.len() as u64) as usize;
        match file.read_exact_at(&mut chunk[..length], offset) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            result => result?,
        }
        if !item.object.content.holds(offset, &chunk[..length]) {
            return Ok(false);
        }
        offset += length as u64;
    }
    Ok(true)
}

/// Links have none of their own.
fn has_mode(status: &std::fs::Metadata, object: &Object<'_>) -> bool {
    match object.kind {
        InodeKind::Symlink { .. } => true,
        InodeKind::Directory | InodeKind::File | InodeKind::Other => {
            status.mode() & 0o7777 == object.mode & 0o7777
        }
    }
}

/// Only files have one that says something.
fn file_size(status: &std::fs::Metadata) -> Option<u64> {
    status.is_file().then_some(status.len())
}

fn remove(path: &Path) -> io::Result<()> {
    let status = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        status => status?,
    };
    if status.is_dir() {
        unlock(path)?;
        std::fs::remove_dir_all(path)
    } else {
        std::fs::remove_file(path)
    }
}

/// A directory that forbids it is emptied all the same.
fn unlock(path: &Path) -> io::Result<()> {
    std::fs::set_permissions(path, Permissions::from_mode(0o700))?;
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            unlock(&entry.path())?;
        }
    }
    Ok(())
}

/// Bytes that are written at once where they are all the same.
const CHUNK: usize = 1 << 16;

/// Writes what differs; how many bytes that were.
fn write_file(path: &Path, old: Option<&Object<'_>>, new: &Object<'_>) -> io::Result<u64> {
    if old.is_some() {
        // One that forbids writing was made by whoever may do so.
        std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
    }
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    let nothing = Content::default();
    let before = old.map_or(&nothing, |old| &old.content);
    let size = new.content.size();
    if before.size() != size {
        file.set_len(size)?;
    }
    let mut written = 0;
    for patch in new.content.patches_from(before) {
        match patch.source {
            PatchSource::Bytes(bytes) => file.write_all_at(bytes, patch.offset)?,
            PatchSource::Filler(byte) => fill(&file, patch.offset, patch.length, byte)?,
            PatchSource::Hole => fill(&file, patch.offset, patch.length, 0)?,
        }
        written += patch.length;
    }
    Ok(written)
}

fn fill(file: &File, offset: u64, length: u64, byte: u8) -> io::Result<()> {
    let chunk = vec![byte; CHUNK.min(length as usize)];
    let mut done = 0;
    while done < length {
        let part = (length - done).min(CHUNK as u64);
        file.write_all_at(&chunk[..part as usize], offset + done)?;
        done += part;
    }
    Ok(())
}

fn set_xattrs(path: &Path, old: Option<&Object<'_>>, new: &Object<'_>) -> io::Result<()> {
    if old.map_or(new.xattrs.is_empty(), |old| old.xattrs == new.xattrs) {
        return Ok(());
    }
    for name in old.into_iter().flat_map(|old| old.xattrs.keys()) {
        match rustix::fs::removexattr(path, OsStr::from_bytes(name)) {
            Ok(()) | Err(Errno::NODATA) => {}
            Err(error) => return Err(error.into()),
        }
    }
    for (name, value) in &new.xattrs {
        rustix::fs::setxattr(path, OsStr::from_bytes(name), value, XattrFlags::empty())?;
    }
    Ok(())
}
