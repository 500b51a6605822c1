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

/// How a store came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
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

impl StoreKind {
    pub fn from_bits(bits: u8) -> Option<StoreKind> {
        Some(match bits {
            0 => Self::Plain,
            1 => Self::NonTemporal,
            2 => Self::Atomic,
            3 => Self::Locked,
            4 => Self::Memory,
            5 => Self::Assembly,
            6 => Self::Foreign,
            _ => return None,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FlushKind {
    Clflush = 0,
    Clflushopt = 1,
    Clwb = 2,
}

impl FlushKind {
    pub fn from_bits(bits: u8) -> Option<FlushKind> {
        Some(match bits {
            0 => Self::Clflush,
            1 => Self::Clflushopt,
            2 => Self::Clwb,
            _ => return None,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FenceKind {
    Sfence = 0,
    Mfence = 1,
    Locked = 2,
}

impl FenceKind {
    pub fn from_bits(bits: u8) -> Option<FenceKind> {
        Some(match bits {
            0 => Self::Sfence,
            1 => Self::Mfence,
            2 => Self::Locked,
            _ => return None,
        })
    }
}

/// Synchronisation between threads, and their lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SyncKind {
    Acquire = 0,
    Release = 1,
    /// The object is the number of the new thread in this process.
    Create = 2,
    Start = 3,
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

impl SyncKind {
    pub const ALL: [SyncKind; 11] = [
        Self::Acquire,
        Self::Release,
        Self::Create,
        Self::Start,
        Self::Join,
        Self::Wait,
        Self::Signal,
        Self::Barrier,
        Self::Fork,
        Self::ThreadExit,
        Self::ProcessExit,
    ];

    pub fn from_bits(bits: u8) -> Option<SyncKind> {
        Self::ALL.get(usize::from(bits)).copied()
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
        kind: SyncKind,
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

fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ (((difference as i64) >> 63) as u64)
}

fn unzigzag(code: u64) -> u64 {
    (code >> 1) ^ (code & 1).wrapping_neg()
}

/// Class 0 to 3 for a number that takes 1, 2, 4 or 8 bytes.
fn address_class(code: u64) -> u8 {
    u8::from(code >= 1 << 8) + u8::from(code >= 1 << 16) + u8::from(code >= 1 << 32)
}

/// Place of a record in the global order and in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    pub order: u64,
    /// 0: none.
    pub site: u32,
}

/// Writes records at a raw position. The runtime is its only user in earnest; tests and tools go
/// through [`encode`].
pub struct Encoder {
    next: *mut u8,
}

impl Encoder {
    /// # Safety
    /// `at` must be valid for writes of [`MAX_HEAD_BYTES`] plus the bytes of the store or of the
    /// arguments, for every record written through this encoder.
    pub unsafe fn new(at: *mut u8) -> Encoder {
        Encoder { next: at }
    }

    /// Where the next record goes.
    pub fn position(&self) -> *mut u8 {
        self.next
    }

    #[inline(always)]
    fn put(&mut self, value: u64, size: usize) {
        // SAFETY: `new` demands room for MAX_HEAD_BYTES; a head is at most 46 bytes (Map with an
        // order number), so that the full 8 bytes stay inside.
        unsafe {
            self.next.cast::<u64>().write_unaligned(value.to_le());
            self.next = self.next.add(size);
        }
    }

    #[inline(always)]
    fn head(&mut self, memory: &mut Memory, kind: u8, at: At) {
        let At { order, site } = at;
        let site_class =
            u8::from(site >= 1 << 8) + u8::from(site >= 1 << 16) + u8::from(site >= 1 << 24);
        let follows = order != memory.last_order.wrapping_add(1);
        memory.last_order = order;
        let order_bit = if follows { ORDER_FOLLOWS } else { 0 };
        self.put(u64::from(kind | order_bit | site_class << 6), 1);
        if follows {
            self.put(order, 8);
        }
        self.put(u64::from(site), usize::from(site_class) + 1);
    }

    #[inline(always)]
    fn address_code(memory: &mut Memory, address: u64) -> (u64, u8) {
        let code = zigzag(address.wrapping_sub(memory.last_address));
        memory.last_address = address;
        (code, address_class(code))
    }

    /// A store of 1, 2, 4 or 8 bytes.
    #[inline(always)]
    pub fn store(
        &mut self,
        memory: &mut Memory,
        at: At,
        kind: StoreKind,
        address: u64,
        value: u64,
        size: u32,
    ) {
        self.head(memory, kind::STORE, at);
        let (code, class) = Self::address_code(memory, address);
        self.put(
            u64::from(size.trailing_zeros() as u8 | class << 3 | (kind as u8) << 5),
            1,
        );
        self.put(code, 1 << class);
        self.put(value, size as usize);
    }

    /// # Safety
    /// `from` must be valid for reads of `length` bytes.
    pub unsafe fn store_bytes(
        &mut self,
        memory: &mut Memory,
        at: At,
        kind: StoreKind,
        address: u64,
        from: *const u8,
        length: u32,
    ) {
        self.head(memory, kind::STORE, at);
        let (code, class) = Self::address_code(memory, address);
        let plain = length.is_power_of_two() && length <= 64;
        let size_class = if plain {
            length.trailing_zeros() as u8
        } else {
            EXPLICIT_LENGTH
        };
        self.put(u64::from(size_class | class << 3 | (kind as u8) << 5), 1);
        if !plain {
            self.put(u64::from(length), 4);
        }
        self.put(code, 1 << class);
        // SAFETY: the caller vouches for `from`; `new` for room behind `at`. The stream is private
        // to the writer, so the two do not overlap.
        unsafe {
            core::ptr::copy_nonoverlapping(from, self.next, length as usize);
            self.next = self.next.add(length as usize);
        }
    }

    pub fn fill(
        &mut self,
        memory: &mut Memory,
        at: At,
        kind: StoreKind,
        address: u64,
        length: u64,
        byte: u8,
    ) {
        self.head(memory, kind::FILL, at);
        let (code, class) = Self::address_code(memory, address);
        self.put(u64::from(class << 3 | (kind as u8) << 5), 1);
        self.put(code, 1 << class);
        self.put(length, 8);
        self.put(u64::from(byte), 1);
    }

    pub fn load(&mut self, memory: &mut Memory, at: At, address: u64, size: u32) {
        self.head(memory, kind::LOAD, at);
        let (code, class) = Self::address_code(memory, address);
        self.put(u64::from(class << 3), 1);
        self.put(code, 1 << class);
        self.put(u64::from(size), 4);
    }

    #[inline(always)]
    pub fn flush(&mut self, memory: &mut Memory, at: At, kind: FlushKind, address: u64) {
        self.head(memory, kind::FLUSH, at);
        let (code, class) = Self::address_code(memory, address);
        self.put(u64::from(class << 3 | (kind as u8) << 5), 1);
        self.put(code, 1 << class);
    }

    #[inline(always)]
    pub fn fence(&mut self, memory: &mut Memory, at: At, kind: FenceKind) {
        self.head(memory, kind::FENCE, at);
        self.put(kind as u64, 1);
    }

    pub fn opaque(&mut self, memory: &mut Memory, at: At) {
        self.head(memory, kind::OPAQUE, at);
    }

    /// # Safety
    /// `arguments` must be valid for reads of `count` words.
    pub unsafe fn call(&mut self, memory: &mut Memory, at: At, arguments: *const u64, count: u32) {
        self.head(memory, kind::CALL, at);
        let count = count.min(crate::hooks::MAX_CALL_ARGUMENTS as u32);
        self.put(u64::from(count), 1);
        for index in 0..count as usize {
            // SAFETY: index < count, for which the caller vouches.
            let argument = unsafe { arguments.add(index).read_unaligned() };
            self.put(argument, 8);
        }
    }

    pub fn call_returned(&mut self, memory: &mut Memory, at: At, value: u64) {
        self.head(memory, kind::RETURN, at);
        self.put(value, 8);
    }

    pub fn sync(&mut self, memory: &mut Memory, at: At, kind: SyncKind, object: u64) {
        self.head(memory, kind::SYNC, at);
        self.put(kind as u64, 1);
        self.put(object, 8);
    }

    pub fn map(&mut self, memory: &mut Memory, at: At, map: &Mapping) {
        self.head(memory, kind::MAP, at);
        self.put(map.address, 8);
        self.put(map.length, 8);
        self.put(u64::from(map.file), 4);
        self.put(map.file_offset, 8);
        self.put(u64::from(map.shared), 1);
    }

    pub fn unmap(&mut self, memory: &mut Memory, at: At, address: u64, length: u64) {
        self.head(memory, kind::UNMAP, at);
        self.put(address, 8);
        self.put(length, 8);
    }

    pub fn msync(&mut self, memory: &mut Memory, at: At, address: u64, length: u64) {
        self.head(memory, kind::MSYNC, at);
        self.put(address, 8);
        self.put(length, 8);
    }

    #[inline(always)]
    fn unordered_head(&mut self, kind: u8, number: u32) {
        let class =
            u8::from(number >= 1 << 8) + u8::from(number >= 1 << 16) + u8::from(number >= 1 << 24);
        self.put(u64::from(kind | class << 6), 1);
        self.put(u64::from(number), usize::from(class) + 1);
    }

    pub fn context(&mut self, context: u32) {
        self.unordered_head(kind::CONTEXT, context);
    }

    pub fn define_context(&mut self, parent: u32, site: u32) {
        self.unordered_head(kind::DEFINE_CONTEXT, site);
        self.put(u64::from(parent), 4);
    }
}

/// Fields of [`Payload::Map`], for the encoder.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    pub address: u64,
    pub length: u64,
    pub file: u32,
    pub file_offset: u64,
    pub shared: bool,
}

/// Encodes one record into `out`, which must have room for [`MAX_HEAD_BYTES`] and the record's
/// bytes; returns how many bytes it takes. Panics if the room is too small.
pub fn encode(out: &mut [u8], memory: &mut Memory, record: &Record<'_>) -> usize {
    let extra = match record.payload {
        Payload::Store { bytes, .. } => bytes.len(),
        Payload::Call { arguments } => arguments.len(),
        _ => 0,
    };
    assert!(out.len() >= MAX_HEAD_BYTES + extra, "no room for a record");
    let start = out.as_mut_ptr();
    // SAFETY: the assertion above is what `new` demands.
    let mut to = unsafe { Encoder::new(start) };
    let Record {
        order,
        site,
        payload,
    } = *record;
    let at = At { order, site };
    match payload {
        Payload::Store {
            kind,
            address,
            bytes,
        } => {
            let length = u32::try_from(bytes.len()).expect("a store is shorter than 4 GiB");
            // SAFETY: `bytes` is a slice of that length.
            unsafe {
                to.store_bytes(memory, at, kind, address, bytes.as_ptr(), length);
            }
        }
        Payload::Fill {
            kind,
            address,
            length,
            byte,
        } => {
            to.fill(memory, at, kind, address, length, byte);
        }
        Payload::Load { address, size } => to.load(memory, at, address, size),
        Payload::Flush { kind, address } => to.flush(memory, at, kind, address),
        Payload::Fence { kind } => to.fence(memory, at, kind),
        Payload::Opaque => to.opaque(memory, at),
        Payload::Call { arguments } => {
            let count = (arguments.len() / 8) as u32;
            // SAFETY: reads are unaligned and within the slice.
            unsafe { to.call(memory, at, arguments.as_ptr().cast(), count) }
        }
        Payload::Return { value } => to.call_returned(memory, at, value),
        Payload::Sync { kind, object } => to.sync(memory, at, kind, object),
        Payload::Map {
            address,
            length,
            file,
            file_offset,
            shared,
        } => {
            let map = Mapping {
                address,
                length,
                file,
                file_offset,
                shared,
            };
            to.map(memory, at, &map);
        }
        Payload::Unmap { address, length } => to.unmap(memory, at, address, length),
        Payload::Msync { address, length } => to.msync(memory, at, address, length),
        Payload::Context(context) => to.context(context),
        Payload::DefineContext { parent } => to.define_context(parent, site),
    }
    to.position() as usize - start as usize
}

/// Reads fields off the front of a slice.
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    #[inline(always)]
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (head, tail) = self
            .rest
            .split_at_checked(count)
            .ok_or(DecodeError::Truncated)?;
        self.rest = tail;
        Ok(head)
    }

    #[inline(always)]
    fn number(&mut self, size: usize) -> Result<u64, DecodeError> {
        // Most records are followed by others: one wide read instead of a loop over bytes.
        if let Some(wide) = self.rest.first_chunk::<8>() {
            let value = u64::from_le_bytes(*wide);
            self.rest = &self.rest[size..];
            return Ok(if size == 8 {
                value
            } else {
                value & ((1 << (size * 8)) - 1)
            });
        }
        let mut value = [0; 8];
        value[..size].copy_from_slice(self.bytes(size)?);
        Ok(u64::from_le_bytes(value))
    }

    #[inline(always)]
    fn address(&mut self, memory: &mut Memory, shape: u8) -> Result<u64, DecodeError> {
        let code = self.number(1 << (shape >> 3 & 3))?;
        let address = memory.last_address.wrapping_add(unzigzag(code));
        memory.last_address = address;
        Ok(address)
    }
}

/// Decodes the record at the start of `input` and says how many bytes it takes. On an error
/// `memory` is unspecified.
#[inline]
pub fn decode<'a>(
    input: &'a [u8],
    memory: &mut Memory,
) -> Result<(Record<'a>, usize), DecodeError> {
    use DecodeError::BadField;
    let mut from = Fields { rest: input };
    let head = from.number(1)? as u8;
    let kind = head & 0x1f;
    let ordered = !matches!(kind, kind::CONTEXT | kind::DEFINE_CONTEXT);
    let order = match (ordered, head & ORDER_FOLLOWS != 0) {
        (true, true) => from.number(8)?,
        (true, false) => memory.last_order.wrapping_add(1),
        (false, false) => 0,
        (false, true) => return Err(BadField("order of a context")),
    };
    if ordered {
        memory.last_order = order;
    }
    let site = from.number(usize::from(head >> 6) + 1)? as u32;
    let payload = match kind {
        kind::STORE => {
            let shape = from.number(1)? as u8;
            let length = match shape & 7 {
                EXPLICIT_LENGTH => from.number(4)? as usize,
                class => 1 << class,
            };
            let address = from.address(memory, shape)?;
            let kind = StoreKind::from_bits(shape >> 5).ok_or(BadField("store kind"))?;
            Payload::Store {
                kind,
                address,
                bytes: from.bytes(length)?,
            }
        }
        kind::FILL => {
            let shape = from.number(1)? as u8;
            let address = from.address(memory, shape)?;
            let kind = StoreKind::from_bits(shape >> 5).ok_or(BadField("store kind"))?;
            Payload::Fill {
                kind,
                address,
                length: from.number(8)?,
                byte: from.number(1)? as u8,
            }
        }
        kind::LOAD => {
            let shape = from.number(1)? as u8;
            let address = from.address(memory, shape)?;
            Payload::Load {
                address,
                size: from.number(4)? as u32,
            }
        }
        kind::FLUSH => {
            let shape = from.number(1)? as u8;
            let address = from.address(memory, shape)?;
            let kind = FlushKind::from_bits(shape >> 5).ok_or(BadField("flush kind"))?;
            Payload::Flush { kind, address }
        }
        kind::FENCE => {
            let bits = from.number(1)? as u8;
            Payload::Fence {
                kind: FenceKind::from_bits(bits).ok_or(BadField("fence kind"))?,
            }
        }
        kind::OPAQUE => Payload::Opaque,
        kind::CALL => {
            let count = from.number(1)? as usize;
            if count > crate::hooks::MAX_CALL_ARGUMENTS {
                return Err(BadField("argument count"));
            }
            Payload::Call {
                arguments: from.bytes(count * 8)?,
            }
        }
        kind::RETURN => Payload::Return {
            value: from.number(8)?,
        },
        kind::SYNC => {
            let bits = from.number(1)? as u8;
            let kind = SyncKind::from_bits(bits).ok_or(BadField("synchronisation kind"))?;
            Payload::Sync {
                kind,
                object: from.number(8)?,
            }
        }
        kind::MAP => Payload::Map {
            address: from.number(8)?,
            length: from.number(8)?,
            file: from.number(4)? as u32,
            file_offset: from.number(8)?,
            shared: from.number(1)? != 0,
        },
        kind::UNMAP => Payload::Unmap {
            address: from.number(8)?,
            length: from.number(8)?,
        },
        kind::MSYNC => Payload::Msync {
            address: from.number(8)?,
            length: from.number(8)?,
        },
        kind::CONTEXT => {
            return Ok((
                Record {
                    order: 0,
                    site: 0,
                    payload: Payload::Context(site),
                },
                input.len() - from.rest.len(),
            ));
        }
        kind::DEFINE_CONTEXT => Payload::DefineContext {
            parent: from.number(4)? as u32,
        },
        other => return Err(DecodeError::UnknownKind(other)),
    };
    Ok((
        Record {
            order,
            site,
            payload,
        },
        input.len() - from.rest.len(),
    ))
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
                    kind: SyncKind::Fork,
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
