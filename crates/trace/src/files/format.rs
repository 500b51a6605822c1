//! The on-disk form of a recording of files: `crashpoint.out/files/`.
//!
//! | file | holds |
//! |---|---|
//! | `calls` | what happened, in order: one record each |
//! | `symbols` | the functions and lines of the code addresses in `calls`, written at the end |
//! | `before/index`, `before/N` | the folder before the program ran; N is an inode, with its bytes |
//!
//! All but `before/N` are *streams*: 8 bytes of magic, the version as a little-endian `u32`, 4 bytes
//! of zeros, then records. A record is its length and the CRC-32 of its content (each a
//! little-endian `u32`), then the content, a [`postcard`](https://postcard.jamesmunns.com/wire-format)
//! value. Streams are written through shared mappings that are made longer ahead of need: the
//! zeros behind the last record of a writer that was killed are the end of the stream.
//!
//! Bump [`FORMAT_VERSION`] whenever a type that is written changes: there is no migration, a
//! recording is read by the version that wrote it.

use super::{Call, InodeId, InodeKind, Remark, Slot, StackFrame};
use serde::{Deserialize, Serialize};

/// Of everything below `files/`.
pub const FORMAT_VERSION: u32 = 2;

pub(super) const MAGIC: [u8; 8] = *b"CPFILES\0";
pub(super) const HEADER_BYTES: usize = 16;
/// Length and checksum.
pub(super) const PREFIX_BYTES: usize = 8;

pub(super) const FOLDER: &str = "files";
pub(super) const CALLS: &str = "calls";
pub(super) const SYMBOLS: &str = "symbols";

/// What the recording is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    pub command: Vec<std::ffi::OsString>,
    /// The watched folder, absolute.
    pub folder: std::ffi::OsString,
    /// Where the program was started.
    pub directory: std::ffi::OsString,
    /// Whether call stacks were recorded.
    pub stacks: bool,
}

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProgramEnd {
    Exited(u8),
    Killed {
        signal: i32,
    },
    /// Its time was up, and it was killed.
    TimedOut {
        after_ms: u64,
    },
}

/// A code address: an instruction within a binary or library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RawFrame {
    /// Number of the module in the recording.
    pub module: u32,
    /// As the module's own tables count; for a return address, one byte before it.
    pub offset: u64,
}

/// A record of `calls`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Record<'a> {
    Start(Start),
    /// Modules are numbered in the order of these.
    Module {
        path: String,
    },
    /// Stacks are numbered in the order of these.
    Stack {
        /// Innermost first.
        frames: Vec<RawFrame>,
    },
    Call(#[serde(borrow)] Call<'a>),
    Remark(Remark),
    /// The system's number of a thread, for [`super::merge_stores()`] as all that follow.
    Thread {
        process: u32,
        thread: u32,
        system_thread: u32,
    },
    /// A file is mapped, which the system knows by these numbers.
    Shown {
        inode: InodeId,
        path: String,
        device: u64,
        number: u64,
    },
    /// Stores with smaller numbers happened before what follows.
    Stores {
        before: u64,
    },
    End(ProgramEnd),
}

/// A record of `symbols`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Symbol {
    pub(super) at: RawFrame,
    /// Innermost first: more than one where functions were inlined.
    pub(super) frames: Vec<StackFrame>,
}

/// A record of `before/index`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum BeforeRecord<'a> {
    Inode {
        inode: InodeId,
        #[serde(borrow)]
        kind: InodeKind<'a>,
        mode: u32,
        #[serde(borrow)]
        xattrs: Vec<(&'a serde_bytes::Bytes, &'a serde_bytes::Bytes)>,
        /// Whether it is a file that is not empty, and so has a file `before/N`.
        length: u64,
    },
    Entry {
        #[serde(borrow)]
        slot: Slot<'a>,
        inode: InodeId,
    },
    /// The index is complete.
    Complete,
}

/// The header of a stream.
pub(super) fn header() -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes
}

/// What is wrong with a stream as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BadHeader {
    Foreign,
    Version(u32),
}

/// Checks the header and returns where records begin; an empty stream has none.
pub(super) fn check_header(stream: &[u8]) -> Result<usize, BadHeader> {
    if stream.iter().take(HEADER_BYTES).all(|byte| *byte == 0) {
        // Killed between creating the file and its first bytes.
        return Ok(stream.len());
    }
    let Some((magic, rest)) = stream.split_first_chunk::<8>() else {
        return Err(BadHeader::Foreign);
    };
    let Some(version) = rest.first_chunk::<4>().map(|v| u32::from_le_bytes(*v)) else {
        return Err(BadHeader::Foreign);
    };
    if *magic != MAGIC || stream.len() < HEADER_BYTES {
        return Err(BadHeader::Foreign);
    }
    match version {
        FORMAT_VERSION => Ok(HEADER_BYTES),
        other => Err(BadHeader::Version(other)),
    }
}

/// What stands at a place of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next<'a> {
    Content {
        bytes: &'a [u8],
        end: usize,
    },
    End,
    /// The stream ends within a record.
    Truncated,
    BadChecksum,
}

/// The record at `offset`, as bytes.
pub(super) fn next(stream: &[u8], offset: usize) -> Next<'_> {
    let rest = stream.get(offset..).unwrap_or(&[]);
    if rest.is_empty() {
        return Next::End;
    }
    let Some((prefix, rest)) = rest.split_first_chunk::<PREFIX_BYTES>() else {
        return if rest.iter().all(|byte| *byte == 0) {
            Next::End
        } else {
            Next::Truncated
        };
    };
    let [l0, l1, l2, l3, c0, c1, c2, c3] = *prefix;
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    let checksum = u32::from_le_bytes([c0, c1, c2, c3]);
    if length == 0 && checksum == 0 {
        return Next::End;
    }
    let Some(bytes) = rest.get(..length) else {
        return Next::Truncated;
    };
    if crc32fast::hash(bytes) != checksum {
        return Next::BadChecksum;
    }
    Next::Content {
        bytes,
        end: offset + PREFIX_BYTES + length,
    }
}
