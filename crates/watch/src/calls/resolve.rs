//! From what a call names to inodes of the folder.

use crate::WatchError;
use crate::before::{self, Found};
use crate::inodes::Number;
use crate::paths::{self, Name};
use crate::ptrace::Tid;
use crate::watcher::{CallContext, Watcher};
use crashpoint_trace::files::{Effect, InodeId, InodeKind, Remark, Slot, Through};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Stat};
use rustix::io::Errno;
use std::path::PathBuf;
use std::rc::Rc;

/// A path, and where it starts.
#[derive(Debug)]
pub struct PathAt {
    base: Option<Rc<OwnedFd>>,
    pub path: Vec<u8>,
}

impl AsFd for PathAt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.base {
            Some(base) => base.as_fd(),
            None => CWD,
        }
    }
}

/// A name of which we know whether it lies in the folder.
#[derive(Debug)]
pub struct Named {
    pub at: Name,
    /// The directory, if it lies in the folder.
    pub directory: Option<InodeId>,
    /// What the name leads to now, if that is of the folder.
    pub inode: Option<InodeId>,
    /// As in a report.
    pub shown: String,
}

impl Named {
    pub fn slot(&self) -> Option<Slot<'_>> {
        let name = &self.at.name;
        self.directory.map(|directory| Slot { directory, name })
    }

    /// Whether the inode has no other name.
    pub fn is_last(&self) -> bool {
        self.at.stat.as_ref().is_some_and(|stat| {
            stat.st_nlink <= 1
                || rustix::fs::FileType::from_raw_mode(stat.st_mode)
                    == rustix::fs::FileType::Directory
        })
    }

    /// Where it is, for us to open.
    pub fn path(&self) -> PathBuf {
        use rustix::fd::AsRawFd as _;
        use std::os::unix::ffi::OsStrExt as _;
        let folder = format!("/proc/self/fd/{}", self.at.folder.as_raw_fd());
        PathBuf::from(folder).join(std::ffi::OsStr::from_bytes(&self.at.name))
    }
}

/// Something new in the folder, with everything below it.
#[derive(Debug)]
pub struct Incoming {
    inode: InodeId,
    slot: (InodeId, Vec<u8>),
    target: Vec<u8>,
    stat: Stat,
    bytes: Vec<u8>,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Whether it is new, and not just another name of one that came with it.
    new: bool,
}

impl Watcher<'_> {
    /// Where a path starts, for the kernel to resolve.
    pub fn at(&mut self, tid: Tid, directory: i32, path: Vec<u8>) -> Result<PathAt, Errno> {
        let task = self.tasks.get(tid).ok_or(Errno::SRCH)?;
        if path.first() == Some(&b'/') {
            let path = paths::translate(&path, task.process.leader, tid);
            if !task.process.place.borrow().other_root {
                return Ok(PathAt { base: None, path });
            }
            let base = Some(Rc::new(paths::root_folder(tid)?));
            let path = [b".", &path[..]].concat();
            return Ok(PathAt { base, path });
        }
        if directory != libc::AT_FDCWD {
            let base = self.take(tid, directory).ok_or(Errno::BADF)?;
            return Ok(PathAt {
                base: Some(Rc::new(base)),
                path,
            });
        }
        let mut place = task.process.place.borrow_mut();
        let base = match &place.directory {
            Some(base) => Rc::clone(base),
            None => {
                let base = Rc::new(paths::current_folder(tid)?);
                place.directory = Some(Rc::clone(&base));
                base
            }
        };
        Ok(PathAt {
            base: Some(base),
            path,
        })
    }

    /// The name that a path in the program's memory ends in. `None`: the call will fail.
    pub fn named(
        &mut self,
        by: CallContext<'_>,
        directory: i32,
        path: u64,
        follow: bool,
    ) -> Result<Option<Named>, WatchError> {
        let Some(path) = self.text(by.tid, path) else {
            return Ok(None);
        };
        let Ok(at) = self.at(by.tid, directory, path) else {
            return Ok(None);
        };
        let name = if follow {
            paths::followed(&at, &at.path)
        } else {
            paths::name(&at, &at.path)
        };
        match name {
            Ok(name) => self.know(by, name, &at.path).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// What a path leads to, if that is of the folder.
    pub fn inode_at(&self, at: &PathAt, follow: bool) -> Option<(InodeId, Stat)> {
        let stat = paths::stat(at, &at.path, follow).ok()?;
        Some((self.inodes.find(Number::from(&stat))?, stat))
    }

    fn know(&mut self, by: CallContext<'_>, at: Name, given: &[u8]) -> Result<Named, WatchError> {
        let directory = match self.inodes.find(at.folder_number) {
            Some(directory) => Some(directory),
            None => self.strange_folder(by, &at)?,
        };
        let number = at.stat.as_ref().map(Number::from);
        let inode = number.and_then(|number| self.inodes.find(number));
        let shown = match directory {
            Some(directory) => self.inodes.path_of(directory, &at.name),
            None => String::from_utf8_lossy(given).into_owned(),
        };
        let mut named = Named {
            at,
            directory,
            inode,
            shown,
        };
        if named.directory.is_some() && named.at.stat.is_some() && named.inode.is_none() {
            named.inode = self.adopt(by, &named)?;
        }
        Ok(named)
    }

    /// A folder that is not known: it lies outside, or somebody else made it.
    fn strange_folder(
        &mut self,
        by: CallContext<'_>,
        at: &Name,
    ) -> Result<Option<InodeId>, WatchError> {
        use rustix::fd::AsRawFd as _;
        let link = format!("/proc/self/fd/{}", at.folder.as_raw_fd());
        let Ok(path) = std::fs::read_link(link) else {
            return Ok(None);
        };
        let Ok(inside) = path.strip_prefix(self.options.folder) else {
            return Ok(None);
        };
        // From the folder down, whatever is not known came from somebody else.
        let mut reached = self.options.folder.to_owned();
        for part in inside.components() {
            use std::os::unix::ffi::OsStrExt as _;
            let parent = reached.clone();
            reached.push(part);
            let (Ok(found), Ok(folder)) = (Found::at(reached.clone()), Found::at(parent)) else {
                return Ok(None);
            };
            if self.inodes.find(Number::from(&found.stat)).is_none() {
                let Some(directory) = self.inodes.find(Number::from(&folder.stat)) else {
                    return Ok(None);
                };
                self.adopt_at(by, directory, part.as_os_str().as_bytes(), found)?;
            }
        }
        Ok(self.inodes.find(at.folder_number))
    }

    /// Somebody else put this into the folder.
    fn adopt(&mut self, by: CallContext<'_>, named: &Named) -> Result<Option<InodeId>, WatchError> {
        let (Some(directory), Ok(found)) = (named.directory, Found::at(named.path())) else {
            return Ok(None);
        };
        self.adopt_at(by, directory, &named.at.name, found)
    }

    fn adopt_at(
        &mut self,
        by: CallContext<'_>,
        directory: InodeId,
        name: &[u8],
        found: Found,
    ) -> Result<Option<InodeId>, WatchError> {
        let path = self.inodes.path_of(directory, name);
        let all = self.incoming(directory, name, found);
        let inode = all.first().map(|first| first.inode);
        let text = format!("\"{path}\", found");
        let effects = all.iter().flat_map(Incoming::effects).collect();
        self.emit(by, &text, effects)?;
        self.remark(Remark::ChangedByOthers { path })?;
        Ok(inode)
    }

    /// Takes in what is at a path, with everything below it, under a name of the folder.
    pub fn incoming(&mut self, directory: InodeId, name: &[u8], found: Found) -> Vec<Incoming> {
        let mut all = Vec::new();
        let mut left = vec![(directory, name.to_owned(), found)];
        while let Some((directory, name, found)) = left.pop() {
            let number = Number::from(&found.stat);
            let known = self.inodes.find(number);
            let inode = known.unwrap_or_else(|| self.inodes.add(number, directory, &name));
            let mut bytes = Vec::new();
            if known.is_none() && found.is_file() {
                bytes = std::fs::read(&found.path).unwrap_or_default();
            }
            if known.is_none() && found.is_directory() {
                for name in found.names().unwrap_or_default() {
                    if let Ok(child) = found.child(&name) {
                        left.push((inode, name, child));
                    }
                }
            }
            all.push(Incoming {
                inode,
                slot: (directory, name),
                xattrs: match known {
                    Some(_) => Vec::new(),
                    None => found.xattrs(),
                },
                target: found.target,
                stat: found.stat,
                bytes,
                new: known.is_none(),
            });
        }
        all
    }
}

impl Incoming {
    /// The content comes before the name: nobody has seen the one without the other.
    pub fn effects(&self) -> Vec<Effect<'_>> {
        let inode = self.inode;
        let mut effects = Vec::new();
        if self.new {
            let kind: InodeKind<'_> = before::kind(&self.stat, &self.target);
            let mode = before::mode(&self.stat);
            effects.push(Effect::New { inode, kind, mode });
            if !self.bytes.is_empty() {
                effects.push(Effect::Write {
                    inode,
                    offset: 0,
                    bytes: &self.bytes,
                    through: Through::Copy,
                });
            }
            for (name, value) in &self.xattrs {
                effects.push(Effect::SetXattr {
                    inode,
                    name,
                    value: Some(value),
                });
            }
        }
        let (directory, name) = &self.slot;
        let slot = Slot {
            directory: *directory,
            name,
        };
        effects.push(Effect::Link { slot, inode });
        effects
    }
}
