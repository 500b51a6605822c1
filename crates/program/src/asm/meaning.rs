//! What each mnemonic does.

use super::bytes::{self, Encoded};
use super::operands::{Meant, Operands, widthless};
use super::text::Instruction;
use super::{AddressOperand, Assembly, Effect, Length};
use crashpoint_abi::record::{FenceKind, FlushKind};

/// Mnemonics that do not access memory (or only fetch it), whatever their operands.
const HARMLESS: [&str; 33] = [
    "nop",
    "nopw",
    "nopl",
    "pause",
    "lfence",
    "cpuid",
    "rdtsc",
    "rdtscp",
    "rdpmc",
    "xgetbv",
    "xsetbv",
    "xtest",
    "xend",
    "serialize",
    "endbr64",
    "endbr32",
    "ud2",
    "int3",
    "cld",
    "std",
    "clc",
    "stc",
    "cmc",
    "cldemote",
    "emms",
    "femms",
    "vzeroupper",
    "vzeroall",
    "lahf",
    "sahf",
    "rdpkru",
    "wrpkru",
    "hlt",
];

/// Integer operations that write their destination, without the suffix of width.
const WRITES: [&str; 29] = [
    "mov", "add", "sub", "and", "or", "xor", "adc", "sbb", "inc", "dec", "not", "neg", "shl",
    "sal", "shr", "sar", "rol", "ror", "rcl", "rcr", "bts", "btr", "btc", "xadd", "cmpxchg",
    "movbe", "shld", "shrd", "movdiri",
];

/// Integer operations that only read.
const READS: [&str; 5] = ["cmp", "test", "bt", "push", "crc32"];

/// Vector and floating moves that write memory when their destination is memory: the bytes they
/// write, 0 for those that write as much as their source has.
const MOVES: [(&str, u64); 27] = [
    ("movntdq", 0),
    ("movntps", 0),
    ("movntpd", 0),
    ("movntq", 8),
    ("movntss", 4),
    ("movntsd", 8),
    ("movdqa", 0),
    ("movdqu", 0),
    ("movdqa32", 0),
    ("movdqa64", 0),
    ("movdqu8", 0),
    ("movdqu16", 0),
    ("movdqu32", 0),
    ("movdqu64", 0),
    ("movaps", 0),
    ("movups", 0),
    ("movapd", 0),
    ("movupd", 0),
    ("movd", 4),
    ("movss", 4),
    ("movlps", 8),
    ("movhps", 8),
    ("movlpd", 8),
    ("movhpd", 8),
    ("stmxcsr", 4),
    ("fnstcw", 2),
    ("fstcw", 2),
];

pub struct Reader<'a> {
    assembly: &'a Assembly<'a>,
    operands: &'a Operands,
    effects: Vec<Effect>,
    /// Bytes of `.byte` directives that wait for the rest of the instruction.
    raw: Vec<u8>,
    /// A jump stands before: what follows may not happen.
    jumped: bool,
    /// Within `.pushsection`: text that does not run here.
    elsewhere: u32,
    /// Registers that the statement has changed.
    changed: Vec<String>,
}

impl<'a> Reader<'a> {
    pub fn new(assembly: &'a Assembly<'a>, operands: &'a Operands) -> Reader<'a> {
        Reader {
            assembly,
            operands,
            effects: Vec::new(),
            raw: Vec::new(),
            jumped: false,
            elsewhere: 0,
            changed: Vec::new(),
        }
    }

    pub fn finish(mut self) -> Vec<Effect> {
        self.flush_raw();
        self.effects
    }

    pub fn read(&mut self, instruction: &Instruction) {
        let mnemonic = instruction.mnemonic.as_str();
        match mnemonic {
            ".pushsection" | ".section" => self.elsewhere += 1,
            ".popsection" | ".previous" | ".text" => {
                self.elsewhere = self.elsewhere.saturating_sub(1);
            }
            _ if self.elsewhere > 0 => {}
            ".byte" => match bytes::parse(&instruction.operands) {
                Some(more) => {
                    self.raw.extend(more);
                    self.complete_raw();
                }
                None => self.unknown(instruction),
            },
            // Data in the instruction stream: an encoding that we do not decode.
            ".long" | ".int" | ".quad" | ".short" | ".word" | ".2byte" | ".4byte" | ".8byte"
            | ".incbin" | ".insn" => self.unknown(instruction),
            _ if mnemonic.starts_with('.') => {}
            "" => {}
            _ => self.instruction(instruction),
        }
    }

    /// Effects happen only if no jump went past them.
    fn push(&mut self, effect: Effect) {
        let certain = !self.jumped || matches!(effect, Effect::Unknown(_) | Effect::Load { .. });
        let effect = match certain {
            true => effect,
            false => Effect::Unknown("behind a jump".to_owned()),
        };
        self.effects.push(effect);
    }

    fn unknown(&mut self, instruction: &Instruction) {
        let mut text = instruction.mnemonic.clone();
        if !instruction.operands.is_empty() {
            text = format!("{text} {}", instruction.operands.join(", "));
        }
        self.push(Effect::Unknown(text));
    }

    fn complete_raw(&mut self) {
        let Some(encoded) = bytes::decode(&self.raw) else {
            return;
        };
        self.raw.clear();
        match encoded {
            Encoded::Harmless => {}
            Encoded::Fence(kind) => self.push(Effect::Fence(kind)),
            Encoded::Flush(kind, register) => match self.register_place(register) {
                Some(place) => self.push(Effect::Flush { kind, place }),
                None => self.push(Effect::Unknown(format!("flush of ({register})"))),
            },
            Encoded::DirectStore(register) => self.store_at(
                self.register_place(register),
                Length::Bytes(64),
                (false, true),
                "movdir64b",
            ),
        }
    }

    /// Bytes that did not become an instruction.
    fn flush_raw(&mut self) {
        if !self.raw.is_empty() {
            let text = format!(".byte {:02x?}", self.raw);
            self.raw.clear();
            self.push(Effect::Unknown(text));
        }
    }

    fn register_place(&self, register: &str) -> Option<AddressOperand> {
        if self.changed.iter().any(|name| name == register) {
            return None;
        }
        let argument = self.operands.argument_in(register)?;
        Some(AddressOperand {
            argument,
            offset: 0,
        })
    }

    fn store_at(
        &mut self,
        place: Option<AddressOperand>,
        length: Length,
        (locked, nontemporal): (bool, bool),
        text: &str,
    ) {
        match place {
            Some(place) => self.push(Effect::Store {
                place,
                length,
                locked,
                nontemporal,
            }),
            None => self.push(Effect::Unknown(text.to_owned())),
        }
    }

    fn instruction(&mut self, instruction: &Instruction) {
        let data16 = std::mem::take(&mut self.raw);
        let prefixed = |byte: u8, name: &str| {
            data16.as_slice() == [byte] || instruction.prefixes.iter().any(|p| p == name)
        };
        let (operand_size, locked) = (prefixed(0x66, "data16"), prefixed(0xf0, "lock"));
        let segment = data16.as_slice() == [0x3e];
        if !data16.is_empty() && !operand_size && !locked && !segment && data16 != [0xf3] {
            self.push(Effect::Unknown(format!(".byte {data16:02x?}")));
        }
        let mnemonic = instruction.mnemonic.as_str();
        match mnemonic {
            "clflush" if operand_size => self.flush(instruction, FlushKind::Clflushopt),
            "clflush" => self.flush(instruction, FlushKind::Clflush),
            "clflushopt" => self.flush(instruction, FlushKind::Clflushopt),
            "clwb" => self.flush(instruction, FlushKind::Clwb),
            "xsaveopt" if operand_size => self.flush(instruction, FlushKind::Clwb),
            "sfence" => self.push(Effect::Fence(FenceKind::Sfence)),
            "mfence" => self.push(Effect::Fence(FenceKind::Mfence)),
            "clzero" => self.store_at(
                self.register_place("ax"),
                Length::Bytes(64),
                (false, true),
                mnemonic,
            ),
            "maskmovdqu" | "vmaskmovdqu" => self.store_at(
                self.register_place("di"),
                Length::Bytes(16),
                (false, true),
                mnemonic,
            ),
            "movdir64b" => self.direct_store(instruction),
            _ if HARMLESS.contains(&mnemonic) || mnemonic.starts_with("prefetch") => {}
            _ if mnemonic.starts_with("lea") => self.note_changed(instruction),
            _ if mnemonic.starts_with('j') || mnemonic.starts_with("loop") => self.jumped = true,
            _ if string_unit(instruction).is_some() => self.string(instruction),
            _ => self.general(instruction, locked),
        }
    }

    fn flush(&mut self, instruction: &Instruction, kind: FlushKind) {
        match self.meant(instruction, 0) {
            Some(Meant::Memory { place, .. }) => self.push(Effect::Flush { kind, place }),
            Some(Meant::Stack) => {}
            _ => self.unknown(instruction),
        }
    }

    /// The destination's address is in a register, the source is memory.
    fn direct_store(&mut self, instruction: &Instruction) {
        let register = match self.assembly.intel {
            true => instruction.operands.first(),
            false => instruction.operands.last(),
        };
        let address = register.map(|name| match self.assembly.intel {
            true => self.operands.resolve(&format!("[{name}]"), true),
            false => self.operands.resolve(&format!("({name})"), false),
        });
        let place = match address {
            Some(Meant::Memory { place, .. }) => Some(place),
            _ => None,
        };
        self.store_at(place, Length::Bytes(64), (false, true), "movdir64b");
    }

    /// `rep stos`, `rep movs` and their single forms. What they compare or load is no store.
    fn string(&mut self, instruction: &Instruction) {
        let (name, unit) = string_unit(instruction).expect("the caller checked");
        let repeated = instruction.prefixes.iter().any(|p| p.starts_with("rep"));
        if name != "stos" && name != "movs" {
            return;
        }
        let length = match (repeated, self.operands.argument_in("cx")) {
            (false, _) => Some(Length::Bytes(unit)),
            (true, Some(argument)) if !self.changed.iter().any(|r| r == "cx") => {
                Some(Length::Counted { argument, unit })
            }
            (true, _) => None,
        };
        match length {
            Some(length) => self.store_at(
                self.register_place("di"),
                length,
                (false, false),
                &instruction.mnemonic,
            ),
            None => self.unknown(instruction),
        }
        self.changed.extend(["di", "si", "cx"].map(str::to_owned));
    }

    fn meant(&self, instruction: &Instruction, index: usize) -> Option<Meant> {
        let text = instruction.operands.get(index)?;
        let meant = self.operands.resolve(text, self.assembly.intel);
        // An address in a register that was changed since is not the argument.
        let stale = matches!(meant, Meant::Memory { .. })
            && self
                .changed
                .iter()
                .any(|name| mentions_register(text, name));
        Some(if stale { Meant::Elsewhere } else { meant })
    }

    fn note_changed(&mut self, instruction: &Instruction) {
        let destination = match self.assembly.intel {
            true => instruction.operands.first(),
            false => instruction.operands.last(),
        };
        if let Some(name) = destination.filter(|text| !text.contains('(') && !text.contains('[')) {
            self.changed.push(widthless(name));
        }
    }

    fn general(&mut self, instruction: &Instruction, locked: bool) {
        let count = instruction.operands.len();
        let meant: Vec<Meant> = (0..count)
            .filter_map(|index| self.meant(instruction, index))
            .collect();
        let touches = |meant: &Meant| {
            matches!(
                meant,
                Meant::Memory { .. } | Meant::Elsewhere | Meant::Stack
            )
        };
        if !meant.iter().any(touches) {
            // Only registers. Without operands an unknown mnemonic may address memory implicitly.
            let suspicious =
                count == 0 && self.operands.clobbers_memory || calls(&instruction.mnemonic);
            if suspicious {
                self.unknown(instruction);
            }
            self.note_changed(instruction);
            return;
        }
        let Some(meaning) = Meaning::of(&instruction.mnemonic) else {
            return self.unknown(instruction);
        };
        let destination = match self.assembly.intel {
            true => 0,
            false => count - 1,
        };
        let locked = locked || meaning.exchange;
        for (index, operand) in meant.iter().enumerate() {
            let written = meaning.exchange || meaning.writes && index == destination;
            if touches(operand) {
                let size = meaning.size(instruction, operand, &meant);
                self.access(
                    instruction,
                    operand,
                    size,
                    written.then_some((locked, meaning.nontemporal)),
                );
            }
        }
        self.note_changed(instruction);
    }

    fn access(
        &mut self,
        instruction: &Instruction,
        operand: &Meant,
        size: Option<u64>,
        written: Option<(bool, bool)>,
    ) {
        match (operand, size, written) {
            (Meant::Stack, _, Some((true, _))) => self.push(Effect::Fence(FenceKind::Locked)),
            (Meant::Stack, ..) => {}
            (&Meant::Memory { place, .. }, Some(size), Some(how)) => {
                self.store_at(Some(place), Length::Bytes(size), how, "");
            }
            (&Meant::Memory { place, .. }, Some(size), None) => self.push(Effect::Load {
                place,
                length: Length::Bytes(size),
            }),
            // Reading from somewhere unknown is no event.
            (Meant::Elsewhere, _, None) => {}
            _ => self.unknown(instruction),
        }
    }
}

fn mentions_register(text: &str, name: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric())
        .any(|word| !word.is_empty() && widthless(word) == name)
}

fn calls(mnemonic: &str) -> bool {
    mnemonic.starts_with("call") || matches!(mnemonic, "syscall" | "sysenter" | "int" | "enqcmd")
}

/// Name and unit of a string operation, which has no operands that count.
fn string_unit(instruction: &Instruction) -> Option<(&'static str, u64)> {
    let name = ["stos", "movs", "cmps", "scas", "lods"]
        .into_iter()
        .find(|name| instruction.mnemonic.starts_with(name))?;
    let unit = match &instruction.mnemonic[name.len()..] {
        "b" => 1,
        "w" => 2,
        "l" | "d" => 4,
        "q" => 8,
        _ => return None,
    };
    let explicit = instruction
        .operands
        .iter()
        .any(|text| !text.contains("di)") && !text.contains("si)") && text != "%al");
    (!explicit).then_some((name, unit))
}

/// How a mnemonic with operands treats them.
#[derive(Clone, Copy, Debug)]
struct Meaning {
    writes: bool,
    /// Both operands are written, and the bus is locked.
    exchange: bool,
    nontemporal: bool,
    /// Bytes where the mnemonic tells.
    size: Option<u64>,
}

impl Meaning {
    fn of(mnemonic: &str) -> Option<Meaning> {
        let meaning = |writes, size| Meaning {
            writes,
            exchange: false,
            nontemporal: mnemonic.contains("movnt") || mnemonic.starts_with("movdiri"),
            size,
        };
        if let Some((_, size)) = with_suffix(mnemonic, &["xchg"]) {
            return Some(Meaning {
                exchange: true,
                ..meaning(true, size)
            });
        }
        match mnemonic {
            "cmpxchg8b" => return Some(meaning(true, Some(8))),
            "cmpxchg16b" => return Some(meaning(true, Some(16))),
            "fxsave" | "fxsave64" => return Some(meaning(true, Some(512))),
            "pop" | "popq" | "popfq" => return Some(meaning(true, Some(8))),
            _ => {}
        }
        let vector = mnemonic.strip_prefix('v').unwrap_or(mnemonic);
        if let Some((_, size)) = MOVES.iter().find(|(name, _)| *name == vector) {
            return Some(meaning(true, (*size != 0).then_some(*size)));
        }
        // `movsd` with operands is the floating move; `movq` may be either and writes 8 bytes.
        if vector == "movsd" || vector == "movq" {
            return Some(meaning(true, Some(8)));
        }
        if let Some((_, size)) = with_suffix(mnemonic, &["movnti"]) {
            return Some(meaning(true, size));
        }
        if mnemonic.starts_with("set") {
            return Some(meaning(true, Some(1)));
        }
        if mnemonic.starts_with("cmov") || mnemonic.starts_with("movz") {
            return Some(meaning(false, None));
        }
        if let Some((_, size)) = with_suffix(mnemonic, &READS) {
            return Some(meaning(false, size));
        }
        with_suffix(mnemonic, &WRITES).map(|(_, size)| meaning(true, size))
    }

    /// Bytes that the access to `operand` has.
    fn size(&self, instruction: &Instruction, operand: &Meant, all: &[Meant]) -> Option<u64> {
        if self.size.is_some() {
            return self.size;
        }
        let of_register =
            instruction
                .operands
                .iter()
                .zip(all)
                .find_map(|(text, meant)| match meant {
                    Meant::Register { name, size_bytes } => modifier_bytes(text)
                        .or(*size_bytes)
                        .or_else(|| name.as_deref().map(register_bytes)),
                    _ => None,
                });
        let of_element = match operand {
            Meant::Memory { element_bytes, .. } => *element_bytes,
            _ => None,
        };
        of_register.or(of_element)
    }
}

/// The name and the width of an integer mnemonic such as `addq`.
fn with_suffix(mnemonic: &str, names: &[&'static str]) -> Option<(&'static str, Option<u64>)> {
    names.iter().find_map(|name| {
        let size = match mnemonic.strip_prefix(name)? {
            "" => None,
            "b" => Some(1),
            "w" => Some(2),
            "l" => Some(4),
            "q" => Some(8),
            _ => return None,
        };
        Some((*name, size))
    })
}

/// The width that `${1:b}` asks for.
fn modifier_bytes(text: &str) -> Option<u64> {
    let inside = text.strip_prefix("${")?.strip_suffix('}')?;
    match inside.split_once(':')?.1 {
        "b" | "h" => Some(1),
        "w" => Some(2),
        "k" => Some(4),
        "q" => Some(8),
        _ => None,
    }
}

fn register_bytes(name: &str) -> u64 {
    let numbered = name
        .strip_prefix('r')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    match name {
        _ if numbered && name.ends_with('d') => 4,
        _ if numbered && name.ends_with('w') => 2,
        _ if numbered && name.ends_with('b') => 1,
        _ if name.starts_with('r') => 8,
        _ if name.starts_with('e') => 4,
        _ if name.ends_with('l') || name.ends_with('h') => 1,
        _ => 2,
    }
}
