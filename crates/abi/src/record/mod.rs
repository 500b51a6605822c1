//! Records of a PM stream: everything that takes part in the one global order, and call stacks.
//!
//! A record is a head byte, an optional order number, an optional site, and a payload:
//!
//! ```text
//! head    bits 0-4 kind, bit 5 order number follows, bits 6-7 bytes of the site minus one
//! order   u64, only if it is not the previous one of this stream plus one
//! site    1 to 4 bytes, little endian
//! payload by kind, below
//! ```
//!
//! Addresses are differences to the previous address of the stream, zigzag, in 1, 2, 4 or 8 bytes;
//! a class in the payload's first byte tells how many. All numbers are little endian. A typical
//! 8-byte store takes 13 bytes. Kind 0 does not exist: the zeros after the end of a stream that
//! was cut off are not records.
//!
//! Context records carry no order number: `Context` says in which call stack what follows happens,
//! `DefineContext` introduces the next number (from 1) as a parent context and a call site. Context
//! 0 is the bottom of the stack.

/// An enum that is written as its number.
macro_rules! numbered {
    (
        $(#[$meta:meta])*
        pub enum $name:ident { $($(#[$doc:meta])* $variant:ident = $number:literal,)* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$doc])* $variant = $number,)*
        }

        impl $name {
            pub fn from_bits(bits: u8) -> Option<$name> {
                Some(match bits {
                    $($number => $name::$variant,)*
                    _ => return None,
                })
            }
        }
    };
}

numbered! {
    /// How a store came about.
    pub enum StoreKind {
        Plain = 0,
        NonTemporal = 1,
        Atomic = 2,
        /// A locked read-modify-write; a [`FenceKind::Locked`] stands before it if it mattered.
        Locked = 3,
        /// A memory intrinsic or a memory function of libc.
        Memory = 4,
        Assembly = 5,
        /// Found by comparing images: uninstrumented code wrote here, some time before.
        Foreign = 6,
    }
}

numbered! {
    pub enum FlushKind {
        Clflush = 0,
        Clflushopt = 1,
        Clwb = 2,
    }
}

numbered! {
    pub enum FenceKind {
        Sfence = 0,
        Mfence = 1,
        Locked = 2,
    }
}

numbered! {
    /// Synchronisation between threads, and their lives.
    pub enum ThreadSync {
        Acquire = 0,
        Release = 1,
        /// The object is the number of the new thread in this process.
        Create = 2,
        /// The object is the number of the thread itself.
        Start = 3,
        /// The object is the number of the thread that was waited for, or what libc calls it if the
        /// runtime does not know it.
        Join = 4,
        Wait = 5,
        Signal = 6,
        Barrier = 7,
        /// A process was forked; the object is its system id.
        Fork = 8,
        ThreadExit = 9,
        /// The process leaves in an orderly way (exit, _exit, exec, return from main).
        ProcessExit = 10,
    }
}

/// What a record says, apart from order and site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    Store {
        kind: StoreKind,
        address: u64,
        bytes: &'a [u8],
    },
    /// A range filled with one byte.
    Fill {
        kind: StoreKind,
        address: u64,
        length: u64,
        byte: u8,
    },
    Load {
        address: u64,
        size: u32,
    },
    Flush {
        kind: FlushKind,
        address: u64,
    },
    Fence {
        kind: FenceKind,
    },
    /// Assembly that may have touched memory in ways we do not model.
    Opaque,
    /// Arguments as 64-bit words.
    Call {
        arguments: &'a [u8],
    },
    Return {
        value: u64,
    },
    Sync {
        kind: ThreadSync,
        object: u64,
    },
    /// A file (number in the process table) is mapped as persistent memory.
    Map {
        address: u64,
        length: u64,
        file: u32,
        file_offset: u64,
        shared: bool,
    },
    Unmap {
        address: u64,
        length: u64,
    },
    Msync {
        address: u64,
        length: u64,
    },
    /// What follows happens in this context.
    Context(u32),
    DefineContext {
        parent: u32,
    },
}

/// A decoded record. `order` is 0 for records that are not ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub order: u64,
    /// 0: none.
    pub site: u32,
    pub payload: Payload<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The input ends within a record.
    Truncated,
    UnknownKind(u8),
    /// A field has a value that no writer produces.
    BadField(&'static str),
}

mod decode;
mod encode;

pub use decode::decode;
pub use encode::{Encoder, MappingFields, RecordPosition, encode};

mod kind {
    pub const STORE: u8 = 1;
    pub const FILL: u8 = 2;
    pub const LOAD: u8 = 3;
    pub const FLUSH: u8 = 4;
    pub const FENCE: u8 = 5;
    pub const OPAQUE: u8 = 6;
    pub const CALL: u8 = 7;
    pub const RETURN: u8 = 8;
    pub const SYNC: u8 = 9;
    pub const MAP: u8 = 10;
    pub const UNMAP: u8 = 11;
    pub const MSYNC: u8 = 12;
    pub const CONTEXT: u8 = 13;
    pub const DEFINE_CONTEXT: u8 = 14;
}

const ORDER_FOLLOWS: u8 = 1 << 5;
/// Size class 7 of a store: a u32 length follows.
const EXPLICIT_LENGTH: u8 = 7;

/// Most bytes of a record without the bytes of a store or of arguments.
pub const MAX_HEAD_BYTES: usize = 64;

/// What both ends remember between records of one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Memory {
    pub last_order: u64,
    pub last_address: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn samples() -> Vec<Record<'static>> {
        let at = |order, site, payload| Record {
            order,
            site,
            payload,
        };
        std::vec![
            at(
                1,
                300,
                Payload::Map {
                    address: 0x1000_0000_0000,
                    length: 1 << 20,
                    file: 3,
                    file_offset: 4096,
                    shared: true
                }
            ),
            at(
                2,
                7,
                Payload::Store {
                    kind: StoreKind::Plain,
                    address: 0x1000_0000_0040,
                    bytes: &[1, 2, 3, 4, 5, 6, 7, 8]
                }
            ),
            at(0, 0, Payload::Context(70_000)),
            at(0, 9, Payload::DefineContext { parent: 5 }),
            at(
                3,
                70_000,
                Payload::Store {
                    kind: StoreKind::Memory,
                    address: 0x1000_0000_0001,
                    bytes: &[9; 100]
                }
            ),
            at(
                9,
                7,
                Payload::Flush {
                    kind: FlushKind::Clwb,
                    address: 0x1000_0000_0040
                }
            ),
            at(
                10,
                7,
                Payload::Fence {
                    kind: FenceKind::Sfence
                }
            ),
            at(
                11,
                1 << 25,
                Payload::Fill {
                    kind: StoreKind::Memory,
                    address: 64,
                    length: 1 << 33,
                    byte: 0xff
                }
            ),
            at(
                12,
                1,
                Payload::Load {
                    address: u64::MAX - 7,
                    size: 16
                }
            ),
            at(13, 1, Payload::Opaque),
            at(
                14,
                1,
                Payload::Call {
                    arguments: &[7; 24]
                }
            ),
            at(15, 1, Payload::Return { value: u64::MAX }),
            at(
                16,
                0,
                Payload::Sync {
                    kind: ThreadSync::Fork,
                    object: 77
                }
            ),
            at(
                17,
                0,
                Payload::Unmap {
                    address: 1,
                    length: 2
                }
            ),
            at(
                18,
                0,
                Payload::Msync {
                    address: 3,
                    length: 4
                }
            ),
        ]
    }

    #[test]
    fn every_kind_of_record_survives_encoding() {
        let mut bytes = std::vec![0; 4096];
        let (mut writer, mut reader) = (Memory::default(), Memory::default());
        let mut end = 0;
        for record in samples() {
            end += encode(&mut bytes[end..], &mut writer, &record);
        }
        let mut at = 0;
        for record in samples() {
            let (decoded, size) = decode(&bytes[at..end], &mut reader).unwrap();
            assert_eq!(decoded, record);
            at += size;
        }
        assert_eq!((at, reader), (end, writer));
    }

    #[test]
    fn a_cut_record_is_truncated_at_every_byte() {
        for record in samples() {
            let mut bytes = [0; 256];
            let size = encode(&mut bytes, &mut Memory::default(), &record);
            for cut in 0..size {
                let result = decode(&bytes[..cut], &mut Memory::default());
                assert_eq!(
                    result,
                    Err(DecodeError::Truncated),
                    "{record:?} cut at {cut}"
                );
            }
        }
    }

    #[test]
    fn a_typical_store_takes_thirteen_bytes() {
        let mut bytes = [0; 256];
        let mut memory = Memory {
            last_order: 4,
            last_address: 0x1000_0000_0040,
        };
        let payload = Payload::Store {
            kind: StoreKind::Plain,
            address: 0x1000_0000_0048,
            bytes: &[1; 8],
        };
        let size = encode(
            &mut bytes,
            &mut memory,
            &Record {
                order: 5,
                site: 2000,
                payload,
            },
        );
        assert_eq!(size, 13);
    }

    #[test]
    fn zeros_are_not_a_record() {
        let result = decode(&[0; 16], &mut Memory::default());
        assert_eq!(result, Err(DecodeError::UnknownKind(0)));
    }
}
