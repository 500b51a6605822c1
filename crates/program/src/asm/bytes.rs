//! Instructions written as `.byte`, for assemblers that do not know them.

use crashpoint_abi::record::{FenceKind, FlushKind};

/// What raw bytes mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Encoded {
    Fence(FenceKind),
    /// A flush of the line that a register points to.
    Flush(FlushKind, &'static str),
    /// A direct store of 64 bytes to where a register points.
    DirectStore(&'static str),
    /// Nothing that touches memory.
    Harmless,
}

/// The numbers of a `.byte` directive.
pub fn parse(operands: &[String]) -> Option<Vec<u8>> {
    operands
        .iter()
        .map(|text| match text.trim().strip_prefix("0x") {
            Some(digits) => u8::from_str_radix(digits, 16).ok(),
            None => text.trim().parse().ok(),
        })
        .collect()
}

/// Decodes one whole instruction.
pub fn decode(bytes: &[u8]) -> Option<Encoded> {
    Some(match bytes {
        [0x0f, 0xae, 0xf8] => Encoded::Fence(FenceKind::Sfence),
        [0x0f, 0xae, 0xf0] => Encoded::Fence(FenceKind::Mfence),
        // lfence, pause, nop, rdtsc, rdtscp, xgetbv, cpuid, xtest, xend, rdpkru
        [0x0f, 0xae, 0xe8]
        | [0xf3, 0x90]
        | [0x90]
        | [0x0f, 0x31]
        | [0x0f, 0x01, 0xf9]
        | [0x0f, 0x01, 0xd0]
        | [0x0f, 0xa2]
        | [0x0f, 0x01, 0xd6]
        | [0x0f, 0x01, 0xd5]
        | [0x0f, 0x01, 0xee] => Encoded::Harmless,
        // Many-byte forms of nop, rdrand and rdseed (with or without REX.W).
        [0x0f, 0x1f, ..] | [0x66, 0x0f, 0x1f, ..] => Encoded::Harmless,
        [0x0f, 0xc7, 0xf0..=0xff] | [0x48, 0x0f, 0xc7, 0xf0..=0xff] => Encoded::Harmless,
        [0x0f, 0xae, modrm] if modrm >> 3 == 7 => Encoded::Flush(FlushKind::Clflush, base(*modrm)?),
        [0x66, 0x0f, 0xae, modrm] if modrm >> 3 == 7 => {
            Encoded::Flush(FlushKind::Clflushopt, base(*modrm)?)
        }
        [0x66, 0x0f, 0xae, modrm] if modrm >> 3 == 6 => {
            Encoded::Flush(FlushKind::Clwb, base(*modrm)?)
        }
        // movdir64b (base), register: the register holds the destination.
        [0x66, 0x0f, 0x38, 0xf8, modrm] if modrm >> 6 == 0 => {
            Encoded::DirectStore(REGISTERS[usize::from(modrm >> 3 & 7)])
        }
        _ => return None,
    })
}

const REGISTERS: [&str; 8] = ["ax", "cx", "dx", "bx", "sp", "bp", "si", "di"];

/// The base register of a plain `(register)` address.
fn base(modrm: u8) -> Option<&'static str> {
    match modrm & 7 {
        // 4 is an index byte, 5 is relative to the instruction pointer.
        4 | 5 => None,
        number => Some(REGISTERS[usize::from(number)]),
    }
}
