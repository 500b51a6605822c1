//! What a program did to files: system calls, resolved to inodes.
//!
//! A watcher sees system calls with paths and descriptors; a file-system model wants to know which
//! inode, which directory entry, which bytes. This is what lies between: a [`Call`] is one system
//! call that mattered, and its [`Effect`]s are what it did when it had returned, in order. A call
//! that failed has none (it is not recorded), one that was short has those of what it did.
//!
//! Only what lies below the watched folder has an [`InodeId`]; the folder itself is
//! [`InodeId::ROOT`]. What comes in from outside (a rename, a link) is a new inode with its content
//! written; what leaves is an entry removed. A descriptor keeps its inode across rename and unlink.
//!
//! Bytes are borrowed from the recording, so that long ones cost nothing until they are used.

mod before;
mod format;
mod merge_stores;
mod problem;
mod reader;
mod system_call;
#[cfg(test)]
mod tests;
mod writer;

pub use before::{BeforeWriter, FOLDER as BEFORE_FOLDER};
pub use format::{FORMAT_VERSION, ProgramEnd, RawFrame, Start};
pub use merge_stores::{MERGED_FOLDER, MergeStoresError, merge_stores};
pub use problem::{OpenError, OpenErrorKind, Problem, ProblemKind, Remark};
pub use reader::FileRecording;
pub use system_call::{CallOrigin, SystemCall};
pub use writer::Writer;

use serde::{Deserialize, Serialize};

crashpoint_ir::ids! {
    derive(Serialize, Deserialize)
    /// A file, directory or link, whatever names it has. Numbered in the order of appearance; a
    /// number of the system that is used again for another file is another inode here.
    InodeId
    /// A call stack, interned over the recording.
    StackId
}

impl InodeId {
    /// The watched folder.
    pub const ROOT: InodeId = InodeId(0);
}

impl StackId {
    /// Of a call whose stack was not recorded.
    pub const NONE: StackId = StackId(u32::MAX);
}

/// One system call that mattered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call<'a> {
    /// Grows over the whole recording, in the order in which the calls returned.
    pub order: u64,
    /// Number of the process and of the thread in the recording, from 0.
    pub process: u32,
    pub thread: u32,
    pub number: SystemCall,
    pub stack: StackId,
    /// As in a report: `rename("CURRENT.tmp", "CURRENT")`; paths as seen from the watched folder.
    /// For people alone: [`Call::origin`] and [`Call::name`] say what it was.
    #[serde(borrow)]
    pub text: &'a str,
    #[serde(borrow)]
    pub effects: Vec<Effect<'a>>,
}

impl<'a> Call<'a> {
    /// A call of a thread that is alone and makes all calls from one place: the effects matter.
    pub fn of_one_thread(order: u64, text: &'a str, effects: Vec<Effect<'a>>) -> Call<'a> {
        Call {
            order,
            process: 0,
            thread: 0,
            number: SystemCall(0),
            stack: StackId(0),
            text,
            effects,
        }
    }
}

/// A name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Slot<'a> {
    pub directory: InodeId,
    #[serde(borrow, with = "serde_bytes")]
    pub name: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum InodeKind<'a> {
    File,
    Directory,
    Symlink {
        #[serde(borrow, with = "serde_bytes")]
        target: &'a [u8],
    },
    /// A pipe, socket or device: it has a name and nothing else.
    Other,
}

/// By what way bytes were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Through {
    Cache,
    /// `O_DIRECT`.
    Direct,
    /// A shared mapping: one store, or the difference that was found.
    Mapping,
    /// `copy_file_range`, `FICLONE` and the like: a file system may share the blocks.
    Copy,
}

/// What `fallocate` did, with its range in [`Effect::Allocate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Allocation {
    Reserve,
    ReserveKeepSize,
    PunchHole,
    Zero,
    ZeroKeepSize,
    Collapse,
    Insert,
}

/// What a call makes durable, as far as the call itself says; the model knows the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SyncKind {
    /// `fsync`, of a file or directory.
    Full(InodeId),
    /// `fdatasync`.
    Data(InodeId),
    /// `msync(MS_SYNC)`, or a write with `O_DSYNC` or `RWF_DSYNC`.
    DataRange {
        inode: InodeId,
        offset: u64,
        length: u64,
    },
    /// A write with `O_SYNC` or `RWF_SYNC`.
    FullRange {
        inode: InodeId,
        offset: u64,
        length: u64,
    },
    /// `sync_file_range`: promises nothing, and is often taken to.
    WriteOut {
        inode: InodeId,
        offset: u64,
        length: u64,
    },
    /// `sync`, `syncfs`.
    Everything,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Stream {
    Stdout,
    Stderr,
    Socket,
}

/// What a call did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect<'a> {
    /// An inode exists from here on; names come by `Link`.
    New {
        inode: InodeId,
        #[serde(borrow)]
        kind: InodeKind<'a>,
        mode: u32,
    },
    Link {
        #[serde(borrow)]
        slot: Slot<'a>,
        inode: InodeId,
    },
    /// Also `rmdir`.
    Unlink {
        #[serde(borrow)]
        slot: Slot<'a>,
        inode: InodeId,
    },
    Rename {
        #[serde(borrow)]
        from: Slot<'a>,
        #[serde(borrow)]
        to: Slot<'a>,
        inode: InodeId,
        victim: Option<InodeId>,
    },
    /// `renameat2(RENAME_EXCHANGE)`; the inodes as they were before.
    Exchange {
        #[serde(borrow)]
        first: Slot<'a>,
        first_inode: InodeId,
        #[serde(borrow)]
        second: Slot<'a>,
        second_inode: InodeId,
    },
    /// Grows the file where it reaches behind its end.
    Write {
        inode: InodeId,
        offset: u64,
        #[serde(borrow, with = "serde_bytes")]
        bytes: &'a [u8],
        through: Through,
    },
    /// `truncate`, `ftruncate`, `O_TRUNC`; either way.
    Resize {
        inode: InodeId,
        from: u64,
        to: u64,
    },
    Allocate {
        inode: InodeId,
        offset: u64,
        length: u64,
        what: Allocation,
    },
    /// `None` removes it.
    SetXattr {
        inode: InodeId,
        #[serde(borrow, with = "serde_bytes")]
        name: &'a [u8],
        #[serde(borrow, with = "serde_bytes")]
        value: Option<&'a [u8]>,
    },
    SetMode {
        inode: InodeId,
        mode: u32,
    },
    /// It returned success.
    Sync(SyncKind),
    /// The last descriptor of an inode that was open for writing was closed.
    LastClose {
        inode: InodeId,
    },
    /// Seen from outside: what may have been acknowledged.
    Output {
        stream: Stream,
        #[serde(borrow, with = "serde_bytes")]
        bytes: &'a [u8],
    },
}

/// What an effect changes, if it changes anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffectClass {
    /// A new inode, which nobody sees without a name.
    New,
    /// A name that a directory gets or loses.
    Names,
    /// Names that come to stand for other files.
    Moves,
    /// Data or size of a file.
    Data,
    Attributes,
    /// Nothing: it makes changes durable, or promises to.
    Sync,
    /// Nothing: the last descriptor of a file is closed.
    LastClose,
    /// Nothing that lies in the watched folder.
    Output,
}

impl Effect<'_> {
    pub fn class(&self) -> EffectClass {
        match self {
            Effect::New { .. } => EffectClass::New,
            Effect::Link { .. } | Effect::Unlink { .. } => EffectClass::Names,
            Effect::Rename { .. } | Effect::Exchange { .. } => EffectClass::Moves,
            Effect::Write { .. } | Effect::Resize { .. } | Effect::Allocate { .. } => {
                EffectClass::Data
            }
            Effect::SetXattr { .. } | Effect::SetMode { .. } => EffectClass::Attributes,
            Effect::Sync(_) => EffectClass::Sync,
            Effect::LastClose { .. } => EffectClass::LastClose,
            Effect::Output { .. } => EffectClass::Output,
        }
    }

    /// Whether the data or the size of a file changes.
    pub fn changes_data(&self) -> bool {
        match self.class() {
            EffectClass::Data => true,
            EffectClass::New
            | EffectClass::Names
            | EffectClass::Moves
            | EffectClass::Attributes
            | EffectClass::Sync
            | EffectClass::LastClose
            | EffectClass::Output => false,
        }
    }

    /// How many bytes come into the file.
    pub fn bytes_added(&self) -> u64 {
        match self {
            Effect::Write { bytes, .. } => bytes.len() as u64,
            Effect::Allocate { length, .. } => *length,
            Effect::Resize { .. } => 0,
            other => {
                assert!(!other.changes_data(), "what changes data is listed above");
                0
            }
        }
    }
}

/// An inode that was there before the program ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Initial<'a> {
    pub inode: InodeId,
    pub kind: InodeKind<'a>,
    pub mode: u32,
    pub xattrs: Vec<(&'a [u8], &'a [u8])>,
    /// Of a file; empty for everything else.
    pub bytes: &'a [u8],
}

impl<'a> Initial<'a> {
    /// Without extended attributes.
    pub fn new(inode: InodeId, kind: InodeKind<'a>, mode: u32, bytes: &'a [u8]) -> Initial<'a> {
        Initial {
            inode,
            kind,
            mode,
            xattrs: Vec::new(),
            bytes,
        }
    }
}

/// The watched folder before the program ran: durable, every bit of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Before<'a> {
    /// The folder itself comes first.
    pub inodes: Vec<Initial<'a>>,
    pub entries: Vec<(Slot<'a>, InodeId)>,
}

/// One function of a call stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StackFrame {
    /// The binary or library it lies in, and where, from its beginning.
    pub module: String,
    pub offset: u64,
    /// Demangled; where there is no symbol, `fn@` and where the function begins.
    pub function: String,
    /// From debug information.
    pub source: Option<SourceLine>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SourceLine {
    pub file: String,
    pub line: u32,
    pub column: u32,
}
