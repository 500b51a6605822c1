//! What persists whole: the micro-operations that system calls are made of.

use crashpoint_trace::files::{Allocation, InodeId, InodeKind, Slot, StackId, Through};
use std::sync::Arc;

/// Unit in which a file system writes data.
pub const BLOCK_BYTES: u64 = 4096;
/// Unit that a device writes whole.
pub const SECTOR_BYTES: u64 = 512;

/// A micro-operation, and where it comes from. Its number is a [`super::NodeId`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MicroOp<'a> {
    /// Of its call; the micro-operations of one call share it.
    pub order: u64,
    /// The call's place among those that were fed, from 0.
    pub call: u32,
    pub process: u32,
    pub thread: u32,
    pub stack: StackId,
    /// How the file, or the entry, was called when it happened, as seen from the watched folder.
    pub path: Arc<str>,
    pub kind: MicroOpKind<'a>,
}

/// What a write finds on the disk, which decides what a crash may show in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// The block is on the disk, and so is the size that makes these bytes visible.
    Over,
    /// The last block on the disk, behind the end of the file.
    Tail,
    /// The block is not on the disk for certain, or not yet part of the file.
    Fresh,
    /// Appended to a block that was fresh and may have been written in the meantime.
    Both,
}

/// Bytes to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Data<'a> {
    Bytes(&'a [u8]),
    /// So many.
    Zeros(u64),
}

impl Data<'_> {
    pub fn len(&self) -> u64 {
        match self {
            Data::Bytes(bytes) => bytes.len() as u64,
            Data::Zeros(length) => *length,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A size that grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Growth {
    pub from: u64,
    pub to: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MicroOpKind<'a> {
    /// `I`. Nobody sees an inode without a name, and a name is never durable without its inode
    /// (rule K1): so this is no node of its own, but part of all that follows. It is never pending
    /// and never told to be durable.
    Create {
        inode: InodeId,
        kind: InodeKind<'a>,
        mode: u32,
    },
    /// Kept free for the second half of the rename before it, which may come apart later. It is
    /// never pending and never told to be durable.
    Reserved { inode: InodeId },
    /// `L`
    Link { slot: Slot<'a>, inode: InodeId },
    /// `U`
    Unlink { slot: Slot<'a>, inode: InodeId },
    /// `R`, where it is atomic.
    Rename {
        from: Slot<'a>,
        to: Slot<'a>,
        inode: InodeId,
        victim: Option<InodeId>,
    },
    /// The half of a rename that changes the new name.
    RenameTarget {
        from: Slot<'a>,
        to: Slot<'a>,
        inode: InodeId,
        victim: Option<InodeId>,
    },
    /// The half of a rename that removes the old name.
    RenameSource {
        from: Slot<'a>,
        to: Slot<'a>,
        inode: InodeId,
    },
    /// `E`; the inodes as they were before.
    Exchange {
        first: Slot<'a>,
        first_inode: InodeId,
        second: Slot<'a>,
        second_inode: InodeId,
    },
    /// One name of an exchange, where it is not atomic: from now on it is this inode's.
    ExchangeHalf { slot: Slot<'a>, inode: InodeId },
    /// `W` or `P`. With `grow`, the size grows with it, in one piece.
    Write {
        inode: InodeId,
        offset: u64,
        data: Data<'a>,
        class: Class,
        through: Through,
        grow: Option<Growth>,
    },
    /// `G`
    Grow { inode: InodeId, from: u64, to: u64 },
    /// `T`
    Shrink { inode: InodeId, from: u64, to: u64 },
    /// `Z`; `to` is the file's size behind it.
    Allocate {
        inode: InodeId,
        offset: u64,
        length: u64,
        what: Allocation,
        to: u64,
    },
    /// `X`
    SetXattr {
        inode: InodeId,
        name: &'a [u8],
        value: Option<&'a [u8]>,
    },
    /// `M`
    SetMode { inode: InodeId, mode: u32 },
}

/// The object that a micro-operation changes: names are independent of each other and of contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touched<'a> {
    /// Nothing that a crash could lose: it is never pending.
    Nothing,
    Names(NameChange<'a>, Option<NameChange<'a>>),
    /// A file itself; `None`: its attributes, neither its data nor its size.
    Content(InodeId, Option<ChangedRange>),
}

/// What becomes of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NameChange<'a> {
    pub slot: Slot<'a>,
    pub to: NewHolder,
}

/// Whose a name is from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NewHolder {
    Inode(InodeId),
    /// Nobody's, unless somebody else than this inode has taken it.
    NoLonger(InodeId),
}

impl NewHolder {
    fn of<'a>(self, slot: Slot<'a>) -> NameChange<'a> {
        NameChange { slot, to: self }
    }
}

/// What a micro-operation changes of a file's data or size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChangedRange {
    pub first_byte: u64,
    /// The file's size behind it, where that is not smaller than before.
    pub size_behind: Option<u64>,
}

impl Touched<'_> {
    fn range(inode: InodeId, first_byte: u64, size_behind: Option<u64>) -> Self {
        let range = ChangedRange {
            first_byte,
            size_behind,
        };
        Touched::Content(inode, Some(range))
    }
}

impl<'a> MicroOpKind<'a> {
    /// What it changes.
    pub(super) fn touched(&self) -> Touched<'a> {
        match *self {
            MicroOpKind::Create { .. } | MicroOpKind::Reserved { .. } => Touched::Nothing,
            MicroOpKind::Link { slot, inode } | MicroOpKind::ExchangeHalf { slot, inode } => {
                Touched::Names(NewHolder::Inode(inode).of(slot), None)
            }
            MicroOpKind::Unlink { slot, inode } => {
                Touched::Names(NewHolder::NoLonger(inode).of(slot), None)
            }
            MicroOpKind::Rename {
                from, to, inode, ..
            } => Touched::Names(
                NewHolder::NoLonger(inode).of(from),
                Some(NewHolder::Inode(inode).of(to)),
            ),
            MicroOpKind::RenameTarget { to, inode, .. } => {
                Touched::Names(NewHolder::Inode(inode).of(to), None)
            }
            MicroOpKind::RenameSource { from, inode, .. } => {
                Touched::Names(NewHolder::NoLonger(inode).of(from), None)
            }
            MicroOpKind::Exchange {
                first,
                first_inode,
                second,
                second_inode,
            } => Touched::Names(
                NewHolder::Inode(second_inode).of(first),
                Some(NewHolder::Inode(first_inode).of(second)),
            ),
            MicroOpKind::Write {
                inode,
                offset,
                grow,
                ..
            } => Touched::range(inode, offset, grow.map(|grow| grow.to)),
            MicroOpKind::Grow { inode, from, to } => Touched::range(inode, from, Some(to)),
            MicroOpKind::Shrink { inode, to, .. } => Touched::range(inode, to, None),
            MicroOpKind::Allocate {
                inode, offset, to, ..
            } => Touched::range(inode, offset, Some(to)),
            MicroOpKind::SetXattr { inode, .. } | MicroOpKind::SetMode { inode, .. } => {
                Touched::Content(inode, None)
            }
        }
    }

    /// Whether it changes names in directories.
    pub fn is_namespace(&self) -> bool {
        matches!(self.touched(), Touched::Names(..))
    }

    /// Whether it changes a file itself: its data, its size, its attributes.
    pub fn is_content(&self) -> bool {
        matches!(self.touched(), Touched::Content(..))
    }

    /// Whether nobody can lose it: it is never pending and never told to be durable.
    pub fn is_never_pending(&self) -> bool {
        self.touched() == Touched::Nothing
    }

    /// Whether it changes an attribute of a file: neither its data nor its size.
    pub(super) fn is_attribute(&self) -> bool {
        matches!(self.touched(), Touched::Content(_, None))
    }

    /// The names that the call changes of which this is a part: both, of half a rename.
    pub(super) fn names_of_call(&self) -> [Option<Slot<'a>>; 2] {
        if let MicroOpKind::RenameTarget { from, to, .. }
        | MicroOpKind::RenameSource { from, to, .. } = *self
        {
            return [Some(from), Some(to)];
        }
        match self.touched() {
            Touched::Names(first, second) => [Some(first.slot), second.map(|second| second.slot)],
            Touched::Nothing | Touched::Content(..) => [None, None],
        }
    }

    /// What it changes of a file's data or size.
    pub(super) fn range(&self) -> Option<ChangedRange> {
        match self.touched() {
            Touched::Content(_, range) => range,
            Touched::Nothing | Touched::Names(..) => None,
        }
    }

    /// The file or directory that it is about; of an exchange, the first.
    pub fn inode(&self) -> InodeId {
        match *self {
            MicroOpKind::Create { inode, .. }
            | MicroOpKind::Reserved { inode }
            | MicroOpKind::Link { inode, .. }
            | MicroOpKind::Unlink { inode, .. }
            | MicroOpKind::Rename { inode, .. }
            | MicroOpKind::RenameTarget { inode, .. }
            | MicroOpKind::RenameSource { inode, .. }
            | MicroOpKind::ExchangeHalf { inode, .. }
            | MicroOpKind::Write { inode, .. }
            | MicroOpKind::Grow { inode, .. }
            | MicroOpKind::Shrink { inode, .. }
            | MicroOpKind::Allocate { inode, .. }
            | MicroOpKind::SetXattr { inode, .. }
            | MicroOpKind::SetMode { inode, .. } => inode,
            MicroOpKind::Exchange { first_inode, .. } => first_inode,
        }
    }

    /// What has to be synced to keep it: a name is kept by its directory, of a rename by that of
    /// the new name.
    pub fn kept_by(&self) -> InodeId {
        if let MicroOpKind::Rename { to, .. } = self {
            return to.directory;
        }
        match self.touched() {
            Touched::Names(first, _) => first.slot.directory,
            Touched::Nothing | Touched::Content(..) => self.inode(),
        }
    }
}
