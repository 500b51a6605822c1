//! What inline assembly does to memory, read off its text.
//!
//! The mnemonic counts, not the constraint: real code declares the line it flushes as `"+m"`, and
//! the word it exchanges as input only. The text is AT&T assembly as LLVM keeps it: operands are
//! `$0` or `${0:b}`, numbered outputs first; `$$` is a dollar sign; `$(a$|b$)` chooses by dialect.
//!
//! Wrong verdicts: an instruction we do not know whose operands are all registers is taken for
//! harmless unless the statement clobbers memory; a store at a displacement from a register is
//! reported as unknown rather than guessed.

mod mnemonics;

use crashpoint_ir::AssemblyEffect;
use mnemonics::{Access, classify};

/// The effects of one assembly statement, in order. Arguments are those of the call instruction.
pub fn effects(text: &str, constraints: &str) -> Vec<AssemblyEffect> {
    let operands = Operands::parse(constraints);
    let text = first_dialect(text);
    if is_client_request(&text) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut prefixes = Prefixes::default();
    for statement in text.split([';', '\n']) {
        let statement = statement
            .split("//")
            .next()
            .unwrap_or("")
            .split('#')
            .next()
            .unwrap_or("");
        let mut rest = strip_labels(statement.trim());
        loop {
            let (word, tail) = split_word(rest);
            if !prefixes.take(&word, tail) {
                break;
            }
            rest = if word == ".byte" { "" } else { tail };
        }
        if let Some(effect) = prefixes.encoded() {
            found.push(effect);
            prefixes = Prefixes::default();
        }
        if rest.is_empty() {
            continue;
        }
        instruction(rest, &prefixes, &operands, &mut found);
        prefixes = Prefixes::default();
    }
    if prefixes.bytes.iter().any(|byte| *byte != 0x66) && operands.may_touch_memory() {
        found.push(unknown(&text));
    }
    found
}

/// Valgrind's client requests rotate `rdi` four times and exchange a register with itself.
fn is_client_request(text: &str) -> bool {
    let rotations = text.matches("rol").count();
    rotations >= 4 && text.contains("xchg") && text.contains("bx")
}

/// Keeps the first of each `$(att$|intel$)`.
fn first_dialect(text: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("$(") {
        let Some(length) = rest[start..].find("$)") else {
            break;
        };
        result.push_str(&rest[..start]);
        let choices = &rest[start + 2..start + length];
        result.push_str(choices.split("$|").next().unwrap_or(""));
        rest = &rest[start + length + 2..];
    }
    result.push_str(rest);
    result
}

fn strip_labels(mut statement: &str) -> &str {
    while let Some((label, rest)) = statement.split_once(':') {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$' | '{' | '}');
        if label.is_empty() || label.contains("${") || !label.chars().all(plain) {
            break;
        }
        statement = rest.trim_start();
    }
    statement
}

fn split_word(text: &str) -> (String, &str) {
    let text = text.trim_start();
    let end = text.find(|c: char| c.is_whitespace()).unwrap_or(text.len());
    (text[..end].to_ascii_lowercase(), text[end..].trim_start())
}

#[derive(Default)]
struct Prefixes {
    locked: bool,
    repeated: bool,
    /// Bytes given by `.byte` that no instruction has followed yet.
    bytes: Vec<u8>,
}

impl Prefixes {
    /// Takes a prefix word; false if the word begins an instruction.
    fn take(&mut self, word: &str, tail: &str) -> bool {
        match word {
            "lock" => self.locked = true,
            "rep" | "repz" | "repnz" | "repe" | "repne" => self.repeated = true,
            "data16" => self.bytes.push(0x66),
            "notrack" | "bnd" | "xacquire" | "xrelease" => {}
            ".byte" => match tail.split(',').map(number).collect::<Option<Vec<u8>>>() {
                Some(bytes) => self.bytes.extend(bytes),
                // Not a number: an instruction we cannot know.
                None => self.bytes.push(0xff),
            },
            _ => return false,
        }
        true
    }

    /// A whole instruction given as bytes that needs no operand of the statement.
    fn encoded(&self) -> Option<AssemblyEffect> {
        match self.bytes.as_slice() {
            [0x0f, 0xae, 0xf8..=0xff] => Some(AssemblyEffect::Fence {
                name: "sfence".into(),
            }),
            [0x0f, 0xae, 0xf0..=0xf7] => Some(AssemblyEffect::Fence {
                name: "mfence".into(),
            }),
            _ => None,
        }
    }

    fn operand_size(&self) -> bool {
        self.bytes.as_slice() == [0x66]
    }
}

fn number(text: &str) -> Option<u8> {
    let text = text.trim();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u8::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn unknown(text: &str) -> AssemblyEffect {
    AssemblyEffect::Unknown {
        text: text.trim().to_owned(),
    }
}

/// One operand of the statement.
struct Constraint {
    /// The argument of the call that carries it, if any.
    argument: Option<u32>,
    memory: bool,
}

struct Operands {
    list: Vec<Constraint>,
    clobbers_memory: bool,
}

impl Operands {
    fn parse(constraints: &str) -> Operands {
        let mut operands = Operands {
            list: Vec::new(),
            clobbers_memory: false,
        };
        let mut next_argument = 0;
        for one in split_constraints(constraints) {
            if let Some(clobber) = one.strip_prefix('~') {
                operands.clobbers_memory |= clobber == "{memory}";
                continue;
            }
            // Label operands of `asm goto` take no argument.
            if one.starts_with('!') {
                operands.list.push(Constraint {
                    argument: None,
                    memory: false,
                });
                continue;
            }
            let output = one.starts_with('=');
            let indirect = one.contains('*');
            let argument = (!output || indirect).then(|| {
                next_argument += 1;
                next_argument - 1
            });
            // An input that is tied to an output gives that output its first value.
            if let Ok(tied) = one.parse::<usize>()
                && let Some(output) = operands.list.get_mut(tied)
                && output.argument.is_none()
            {
                output.argument = argument;
            }
            operands.list.push(Constraint {
                argument,
                memory: indirect,
            });
        }
        operands
    }

    fn may_touch_memory(&self) -> bool {
        self.clobbers_memory || self.list.iter().any(|operand| operand.memory)
    }
}

/// Splits at commas outside of braces.
fn split_constraints(constraints: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (index, c) in constraints.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(constraints[start..index].trim());
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(constraints[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

/// An operand as written in an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    /// Memory at the address that this argument of the call holds.
    Memory(u32),
    /// Memory somewhere that the text does not let us name.
    OtherMemory,
    NotMemory,
}

fn written(text: &str, operands: &Operands) -> Written {
    let text = text.trim().trim_start_matches('*');
    if let Some(number) = placeholder(text) {
        return match operands.list.get(number) {
            Some(Constraint {
                argument: Some(argument),
                memory: true,
            }) => Written::Memory(*argument),
            Some(Constraint { memory: true, .. }) => Written::OtherMemory,
            _ => Written::NotMemory,
        };
    }
    if let Some(inside) = text
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'))
    {
        let argument = placeholder(inside.trim())
            .and_then(|number| operands.list.get(number))
            .filter(|operand| !operand.memory)
            .and_then(|operand| operand.argument);
        return argument.map_or(Written::OtherMemory, Written::Memory);
    }
    if text.contains('(') || (!text.starts_with(['%', '$']) && !text.is_empty()) {
        return Written::OtherMemory;
    }
    Written::NotMemory
}

/// The number of `$3` or `${3:b}`.
fn placeholder(text: &str) -> Option<usize> {
    let rest = text.strip_prefix('$')?;
    let digits = match rest.strip_prefix('{') {
        Some(inside) => inside.strip_suffix('}')?.split(':').next()?,
        None => rest,
    };
    digits.parse().ok()
}

/// Splits operands at commas outside of parentheses and braces.
fn split_operands(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (index, c) in text.char_indices() {
        match c {
            '(' | '{' => depth += 1,
            ')' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..index].trim());
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

fn instruction(
    text: &str,
    prefixes: &Prefixes,
    operands: &Operands,
    found: &mut Vec<AssemblyEffect>,
) {
    let (mnemonic, rest) = split_word(text);
    if mnemonic.starts_with('.') && !rest.is_empty() && mnemonic != ".byte" {
        directive(&mnemonic, text, operands, found);
        return;
    }
    let written: Vec<Written> = split_operands(rest)
        .into_iter()
        .map(|operand| written(operand, operands))
        .collect();
    if let Some(effect) = persistence(&mnemonic, prefixes, &written, text) {
        found.extend(effect);
        return;
    }
    // String instructions name no operands and reach memory through rsi and rdi.
    let string = ["movs", "stos", "lods", "scas", "cmps", "ins", "outs"];
    if written.is_empty() && string.iter().any(|name| mnemonic.starts_with(name)) {
        found.push(unknown(text));
        return;
    }
    let class = classify(&mnemonic);
    let (name, size_bytes) = (class.name, class.size_bytes);
    let locked = prefixes.locked || name == "xchg";
    let nontemporal = name.starts_with("movnt") || name.starts_with("vmovnt");
    match class.access {
        Access::Harmless => {}
        Access::ReadsOnly => loads(&written, size_bytes, text, found),
        Access::Unknown => {
            if operands.may_touch_memory() || written.iter().any(|w| *w != Written::NotMemory) {
                found.push(unknown(text));
            }
        }
        Access::WritesLast | Access::WritesEither => {
            let either = class.access == Access::WritesEither;
            let target = if either {
                written.iter().find(|w| **w != Written::NotMemory)
            } else {
                written.last()
            };
            if prefixes.repeated {
                found.push(unknown(text));
                return;
            }
            match target {
                Some(Written::Memory(argument)) => found.push(AssemblyEffect::Store {
                    argument: *argument,
                    size_bytes,
                    locked,
                    nontemporal,
                }),
                Some(Written::OtherMemory) => found.push(unknown(text)),
                Some(Written::NotMemory) | None => loads(&written, size_bytes, text, found),
            }
        }
    }
}

/// Directives that place data or switch sections have no effect at run time.
fn directive(name: &str, text: &str, operands: &Operands, found: &mut Vec<AssemblyEffect>) {
    let emits_code = matches!(
        name,
        ".long" | ".word" | ".short" | ".quad" | ".insn" | ".value"
    );
    if emits_code && operands.may_touch_memory() {
        found.push(unknown(text));
    }
}

fn loads(written: &[Written], size_bytes: u32, text: &str, found: &mut Vec<AssemblyEffect>) {
    for operand in written {
        match operand {
            Written::Memory(argument) => {
                found.push(AssemblyEffect::Load {
                    argument: *argument,
                    size_bytes,
                });
            }
            Written::OtherMemory if !text.contains("(%rip)") => found.push(unknown(text)),
            Written::OtherMemory | Written::NotMemory => {}
        }
    }
}

/// Flushes and fences; `None` if the instruction is neither.
fn persistence(
    mnemonic: &str,
    prefixes: &Prefixes,
    written: &[Written],
    text: &str,
) -> Option<Vec<AssemblyEffect>> {
    let name = match mnemonic {
        "sfence" | "mfence" => {
            return Some(vec![AssemblyEffect::Fence {
                name: mnemonic.to_owned(),
            }]);
        }
        "clflush" if prefixes.operand_size() => "clflushopt",
        "xsaveopt" if prefixes.operand_size() => "clwb",
        "clflush" | "clflushopt" | "clwb" => mnemonic,
        _ => return None,
    };
    Some(vec![match written.first() {
        Some(Written::Memory(argument)) => AssemblyEffect::Flush {
            name: name.to_owned(),
            argument: *argument,
        },
        _ => unknown(text),
    }])
}

#[cfg(test)]
mod tests;
