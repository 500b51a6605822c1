//! What the descriptors of the program refer to.
//!
//! An open file description is shared by `dup` and `fork`: it is one [`Description`], and the
//! tables hold references to it. A table is filled as descriptors are used: a number that is not in
//! it is looked up by taking the descriptor itself (`pidfd_getfd`), so that calls that make
//! descriptors need not be watched, only those that free their numbers.
//!
//! Of files in the folder that can be written we keep our own descriptor to the same description:
//! it knows position, size and flags, without a look into `/proc`. It is given up before the
//! program closes its last one, so that locks and the end of the file are as without us.

use crate::inodes::{Inodes, Number};
use crashpoint_trace::files::{InodeId, Stream};
use rustc_hash::FxHashMap;
use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::fs::{FileType, OFlags};
use std::cell::{Cell, OnceCell};
use std::rc::Rc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FdTarget {
    /// Of the folder.
    Inode(InodeId),
    /// Seen from outside.
    Stream(Stream),
    Other,
}

#[derive(Debug)]
pub struct Description {
    pub target: FdTarget,
    pub writable: bool,
    /// As `open` and `fcntl` set them.
    pub flags: Cell<OFlags>,
    /// Whether its position is moved by more than writes, so that it says nothing about them.
    pub moves: Cell<bool>,
    /// Whether writes to it have to stop: see `syscallbuf`.
    pub far: Cell<bool>,
    /// Ours, to the same description: of files in the folder that can be written.
    pub own: Option<OwnedFd>,
    /// The same file, for us to read; see [`Description::reader`].
    reader: OnceCell<Option<OwnedFd>>,
}

impl Description {
    /// Something outside of the folder.
    pub fn stream(stream: Stream) -> Description {
        Description::outside(FdTarget::Stream(stream))
    }

    fn outside(target: FdTarget) -> Description {
        Description {
            target,
            writable: false,
            flags: Cell::new(OFlags::empty()),
            moves: Cell::default(),
            far: Cell::default(),
            own: None,
            reader: OnceCell::new(),
        }
    }

    /// Takes the description behind a descriptor of the program.
    pub fn of(own: OwnedFd, inodes: &mut Inodes, streams: &Streams) -> Description {
        let (Ok(stat), Ok(flags)) = (rustix::fs::fstat(&own), rustix::fs::fcntl_getfl(&own)) else {
            return Description::outside(FdTarget::Other);
        };
        let kind = FileType::from_raw_mode(stat.st_mode);
        let number = Number::from(&stat);
        let access = flags & OFlags::ACCMODE;
        let path_only = flags.contains(OFlags::PATH);
        let writable = kind == FileType::RegularFile && access != OFlags::RDONLY && !path_only;
        if let Some(inode) = inodes.find(number) {
            inodes.opened(inode, writable);
            return Description {
                target: FdTarget::Inode(inode),
                writable,
                flags: Cell::new(flags),
                own: writable.then_some(own),
                ..Description::outside(FdTarget::Other)
            };
        }
        let target = match kind {
            FileType::Socket => FdTarget::Stream(Stream::Socket),
            FileType::RegularFile
            | FileType::Directory
            | FileType::Symlink
            | FileType::Fifo
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => streams
                .find(number)
                .map_or(FdTarget::Other, FdTarget::Stream),
        };
        Description::outside(target)
    }
}

impl Description {
    /// The file behind it, for reading: ours may be for writing only.
    pub fn reader(&self) -> Option<&OwnedFd> {
        let open = || {
            let path = format!("/proc/self/fd/{}", self.own.as_ref()?.as_raw_fd());
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            rustix::fs::open(path, flags, rustix::fs::Mode::empty()).ok()
        };
        self.reader.get_or_init(open).as_ref()
    }
}

/// What standard output and standard error were when the program started.
#[derive(Clone, Debug, Default)]
pub struct Streams(pub Vec<(Number, Stream)>);

impl Streams {
    fn find(&self, number: Number) -> Option<Stream> {
        self.0
            .iter()
            .find(|(known, _)| *known == number)
            .map(|(_, stream)| *stream)
    }
}

/// The descriptors of a process, or of several that share them.
#[derive(Clone, Debug, Default)]
pub struct DescriptorTable {
    entries: FxHashMap<i32, Rc<Description>>,
}

impl DescriptorTable {
    pub fn get(&self, descriptor: i32) -> Option<&Rc<Description>> {
        self.entries.get(&descriptor)
    }

    /// Returns what had the number.
    pub fn insert(&mut self, number: i32, to: Rc<Description>) -> Option<Rc<Description>> {
        self.entries.insert(number, to)
    }

    pub fn remove(&mut self, descriptor: i32) -> Option<Rc<Description>> {
        self.entries.remove(&descriptor)
    }

    pub fn numbers(&self) -> Vec<i32> {
        self.entries.keys().copied().collect()
    }
}

/// Gives up a reference; returns the inode if nobody can write to it any more.
pub fn release(description: Rc<Description>, inodes: &mut Inodes) -> Option<InodeId> {
    let last = Rc::into_inner(description)?;
    match last.target {
        FdTarget::Inode(inode) => inodes.closed(inode, last.writable).then_some(inode),
        FdTarget::Stream(_) | FdTarget::Other => None,
    }
}
