//! What inline assembly does to memory, read from its text.
//!
//! Programs flush, fence and lock in assembly, and they declare it carelessly: a flush with a
//! read-write operand, an exchange whose memory operand is an input only. So the instruction
//! counts, not the constraint. A statement is cut into instructions ([`text`]), operands are tied
//! to the arguments of the call ([`operands`]), and each mnemonic has a meaning ([`meaning`]).
//!
//! What is not understood and could touch memory is [`Effect::Unknown`]; so is every store behind a
//! jump, since it may not have happened. What this misses: an instruction that is known here but
//! writes through a register that the same statement computed before is `Unknown` only if the
//! address is not an argument; self-modifying or `.incbin` code is not seen at all.

mod bytes;
mod meaning;
mod operands;
mod text;

#[cfg(test)]
mod tests;

use crashpoint_abi::record::{FenceKind, FlushKind};
use operands::Operands;
pub use operands::immediate_arguments;

/// One statement, as LLVM has it.
pub struct Assembly<'a> {
    pub text: &'a str,
    pub constraints: &'a str,
    /// Destination first, as Intel writes it.
    pub intel: bool,
    /// The arguments of the call.
    pub arguments: &'a [Argument],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Bytes of the argument itself.
    pub size_bytes: u64,
    /// Bytes of what an indirect operand points to.
    pub element_bytes: Option<u64>,
}

/// An address: an argument plus a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressOperand {
    pub argument: u32,
    pub offset: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    Bytes(u64),
    /// An argument counts units of so many bytes (`rep stos`).
    Counted {
        argument: u32,
        unit: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    Flush {
        kind: FlushKind,
        place: AddressOperand,
    },
    Fence(FenceKind),
    Store {
        place: AddressOperand,
        length: Length,
        locked: bool,
        nontemporal: bool,
    },
    Load {
        place: AddressOperand,
        length: Length,
    },
    Unknown(String),
}

impl Assembly<'_> {
    /// The effects in the order of the text.
    pub fn effects(&self) -> Vec<Effect> {
        let operands = Operands::parse(self.constraints, self.arguments);
        let mut reader = meaning::Reader::new(self, &operands);
        for instruction in text::instructions(self.text) {
            reader.read(&instruction);
        }
        reader.finish()
    }
}
