//! Records of the flow stream: what a replay over the program model cannot compute by itself.
//!
//! Instrumented code writes this stream inline. A function body is cut into *segments*: a segment
//! ends at each call that may run other code, and at the terminator of the block. Just before the
//! end of a segment the code writes, in one go:
//!
//! 1. an [`ADDRESS`] for each *root* defined in the segment, in order of definition (parameters by
//!    index, then instructions). A root is a pointer value that some memory access of the function
//!    is a constant offset away from; it is marked in the model. Addresses of globals are not
//!    recorded: they stand in the module table.
//! 2. a [`WORD`] for each memory intrinsic of the segment whose length is not constant;
//! 3. at level value, a [`VALUE`] for each load (and each result of an external call) of the
//!    segment, in order;
//! 4. where the segment ends with a terminator: the branch taken (nothing for an unconditional
//!    one), or [`RETURN`].
//!
//! A call that may run other code is followed by [`AFTER_CALL`]; what instrumented code does
//! inside it stands in between and begins with [`ENTER`]. Control that comes back by exception or
//! longjmp begins with [`LANDED`].

/// A conditional branch: [`BRANCH`] + index of the successor (0 true, 1 false).
pub const BRANCH: u8 = 0x10;
/// A switch or indirect branch: index of the successor, u16.
pub const SWITCH: u8 = 0x12;
/// A root: 48 bits of address, little endian.
pub const ADDRESS: u8 = 0x13;
/// A length: u64.
pub const WORD: u8 = 0x14;
/// A function begins: site of the function, u32.
pub const ENTER: u8 = 0x15;
/// A function returns.
pub const RETURN: u8 = 0x16;
/// A call has returned.
pub const AFTER_CALL: u8 = 0x17;
/// Control came back: depth of the shadow stack, u32, and site of the landing place, u32.
pub const LANDED: u8 = 0x18;
/// A value of 1 << n bytes, n = 0..=6: [`VALUE`] + n, then the bytes (zero padded).
pub const VALUE: u8 = 0x20;

pub const ADDRESS_BYTES: usize = 7;
pub const WORD_BYTES: usize = 9;
pub const ENTER_BYTES: usize = 5;
pub const LANDED_BYTES: usize = 9;
pub const SWITCH_BYTES: usize = 3;

/// What may be written after one check of the limit; a larger group checks again.
pub const ROOM_BYTES: usize = 4096;

/// One decoded record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Branch { successor: u8 },
    Switch { successor: u16 },
    Address(u64),
    Word(u64),
    Enter { site: u32 },
    Return,
    AfterCall,
    Landed { depth: u32, site: u32 },
    Value { bytes: [u8; 64], size: u8 },
}

/// Decodes the record at the start of `input`; also returns how many bytes it takes.
pub fn decode(input: &[u8]) -> Result<(Flow, usize), crate::record::DecodeError> {
    use crate::record::DecodeError::{Truncated, UnknownKind};
    let (&tag, rest) = input.split_first().ok_or(Truncated)?;
    let word = |n: usize| -> Result<u64, crate::record::DecodeError> {
        let mut bytes = [0; 8];
        bytes[..n].copy_from_slice(rest.get(..n).ok_or(Truncated)?);
        Ok(u64::from_le_bytes(bytes))
    };
    Ok(match tag {
        BRANCH | 0x11 => (Flow::Branch { successor: tag & 1 }, 1),
        SWITCH => (
            Flow::Switch {
                successor: word(2)? as u16,
            },
            SWITCH_BYTES,
        ),
        ADDRESS => (Flow::Address(word(6)?), ADDRESS_BYTES),
        WORD => (Flow::Word(word(8)?), WORD_BYTES),
        ENTER => (
            Flow::Enter {
                site: word(4)? as u32,
            },
            ENTER_BYTES,
        ),
        RETURN => (Flow::Return, 1),
        AFTER_CALL => (Flow::AfterCall, 1),
        LANDED => {
            let both = word(8)?;
            (
                Flow::Landed {
                    depth: both as u32,
                    site: (both >> 32) as u32,
                },
                LANDED_BYTES,
            )
        }
        0x20..=0x26 => {
            let size = 1usize << (tag - VALUE);
            let mut bytes = [0; 64];
            bytes[..size].copy_from_slice(rest.get(..size).ok_or(Truncated)?);
            (
                Flow::Value {
                    bytes,
                    size: size as u8,
                },
                1 + size,
            )
        }
        _ => return Err(UnknownKind(tag)),
    })
}
