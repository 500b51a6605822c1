//! Events as analyses see them.

use crate::{ContextId, PmAddress, SiteId, ThreadIndex};
use crashpoint_abi::record::{FenceKind, FlushKind, StoreKind, ThreadSync};

/// One thing that a thread did.
///
/// A record of the target becomes several events with the same order where its range lies in
/// several mappings that are not neighbours in one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Place in the one order of all events of the recording; grows, not always by one.
    pub order: u64,
    pub thread: ThreadIndex,
    pub site: SiteId,
    /// The calls that led here; see [`crate::Recording::stack`].
    pub context: ContextId,
    pub kind: EventKind<'a>,
}

/// Where in persistent memory, and under which address the target saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PmPlace {
    /// In the process.
    pub address: u64,
    pub pm: PmAddress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind<'a> {
    Store {
        kind: StoreKind,
        place: PmPlace,
        bytes: &'a [u8],
    },
    /// `length` bytes got the value `byte`.
    Fill {
        kind: StoreKind,
        place: PmPlace,
        length: u64,
        byte: u8,
    },
    Load {
        place: PmPlace,
        size: u32,
    },
    /// Of the cache line that holds the place.
    Flush {
        kind: FlushKind,
        place: PmPlace,
    },
    Fence {
        kind: FenceKind,
    },
    /// Assembly that may have touched memory in ways that are not modelled.
    Opaque,
    /// A watched function is about to be called; the site tells which.
    Call {
        arguments: Arguments<'a>,
    },
    /// A watched call has returned.
    Return {
        value: u64,
    },
    /// The object is an address, a thread's number in its process, or a system process id,
    /// depending on the kind.
    Sync {
        kind: ThreadSync,
        object: u64,
    },
    /// The range is mapped from here on.
    Map {
        place: PmPlace,
        length: u64,
        shared: bool,
    },
    /// The range was mapped until here.
    Unmap {
        place: PmPlace,
        length: u64,
    },
    Msync {
        place: PmPlace,
        length: u64,
    },
}

/// What a store or a fill writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PmWrite<'a> {
    pub kind: StoreKind,
    pub place: PmPlace,
    pub length: u64,
    pub data: WrittenData<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenData<'a> {
    Bytes(&'a [u8]),
    /// All bytes get this value.
    Filled(u8),
}

/// What an event does, as far as persistence goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventClass<'a> {
    Write(PmWrite<'a>),
    Flush {
        kind: FlushKind,
        place: PmPlace,
    },
    Fence(FenceKind),
    Msync {
        place: PmPlace,
        length: u64,
    },
    /// A watched function is called.
    Call,
    /// A watched call has returned.
    Return,
    /// It neither writes nor persists, and is no part of a watched call.
    Other,
}

impl<'a> EventKind<'a> {
    /// What the event does. All kinds are sorted here, and only here.
    pub fn class(&self) -> EventClass<'a> {
        match *self {
            EventKind::Store { kind, place, bytes } => EventClass::Write(PmWrite {
                kind,
                place,
                length: bytes.len() as u64,
                data: WrittenData::Bytes(bytes),
            }),
            EventKind::Fill {
                kind,
                place,
                length,
                byte,
            } => EventClass::Write(PmWrite {
                kind,
                place,
                length,
                data: WrittenData::Filled(byte),
            }),
            EventKind::Flush { kind, place } => EventClass::Flush { kind, place },
            EventKind::Fence { kind } => EventClass::Fence(kind),
            EventKind::Msync { place, length } => EventClass::Msync { place, length },
            EventKind::Call { .. } => EventClass::Call,
            EventKind::Return { .. } => EventClass::Return,
            EventKind::Load { .. }
            | EventKind::Opaque
            | EventKind::Sync { .. }
            | EventKind::Map { .. }
            | EventKind::Unmap { .. } => EventClass::Other,
        }
    }

    /// What the event writes to persistent memory, if it writes.
    pub fn as_write(&self) -> Option<PmWrite<'a>> {
        match self.class() {
            EventClass::Write(write) => Some(write),
            EventClass::Flush { .. }
            | EventClass::Fence(_)
            | EventClass::Msync { .. }
            | EventClass::Call
            | EventClass::Return
            | EventClass::Other => None,
        }
    }
}

/// The arguments of a watched call, as 64-bit words.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Arguments<'a> {
    bytes: &'a [u8],
}

impl<'a> Arguments<'a> {
    /// From little-endian words; an incomplete last word is left out.
    pub fn from_bytes(bytes: &'a [u8]) -> Arguments<'a> {
        let (words, _) = bytes.as_chunks::<8>();
        Arguments {
            bytes: words.as_flattened(),
        }
    }

    pub fn len(&self) -> usize {
        self.bytes.len() / 8
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn get(&self, index: usize) -> Option<u64> {
        let word = self.bytes.as_chunks().0.get(index)?;
        Some(u64::from_le_bytes(*word))
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = u64> + use<'a> {
        let words = self.bytes.as_chunks().0.iter();
        words.map(|word| u64::from_le_bytes(*word))
    }
}

impl std::fmt::Debug for Arguments<'_> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_list().entries(self.iter()).finish()
    }
}
