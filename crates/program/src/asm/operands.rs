//! Tying operands of the text to arguments of the call.

use super::{AddressOperand, Argument};

/// One operand of the statement, as its constraint describes it.
#[derive(Clone, Debug, Default)]
struct Declared {
    /// The argument that holds its value, or the address if it is indirect.
    argument: Option<u32>,
    /// The operand stands for memory at the argument's address.
    indirect: bool,
    /// The register it is bound to, without width (`di` for `{rdi}`).
    register: Option<String>,
    /// An input that shares the register of this output.
    tied_to: Option<usize>,
}

pub struct Operands {
    declared: Vec<Declared>,
    arguments: Vec<Argument>,
    /// The statement may read or write memory that no operand names.
    pub clobbers_memory: bool,
}

/// What an operand in the text stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meant {
    Register {
        name: Option<String>,
        size_bytes: Option<u64>,
    },
    Immediate,
    /// Memory at an address that we know.
    Memory {
        place: AddressOperand,
        element_bytes: Option<u64>,
    },
    /// Memory on the stack.
    Stack,
    /// Memory at an address that we do not know.
    Elsewhere,
}

impl Operands {
    pub fn parse(constraints: &str, arguments: &[Argument]) -> Operands {
        let mut declared = Vec::new();
        let mut clobbers_memory = false;
        let mut next_argument = 0;
        for constraint in split(constraints) {
            if let Some(clobber) = constraint.strip_prefix('~') {
                clobbers_memory |= clobber == "{memory}";
                continue;
            }
            let mut one = Declared::default();
            let output = constraint.starts_with('=');
            let body = constraint.trim_start_matches(['=', '&', '%', '+']);
            one.indirect = body.starts_with('*');
            let body = body.trim_start_matches('*');
            // Labels of `asm goto` are successors, not arguments.
            let label = body.starts_with('!');
            if (!output || one.indirect) && !label {
                one.argument = Some(next_argument);
                next_argument += 1;
            }
            one.register = bound_register(body);
            one.tied_to = body.parse().ok();
            declared.push(one);
        }
        Operands {
            declared,
            arguments: arguments.to_vec(),
            clobbers_memory,
        }
    }

    /// The argument that an operand's register holds when the statement begins.
    fn argument_of(&self, operand: usize) -> Option<u32> {
        let declared = self.declared.get(operand)?;
        if declared.argument.is_some() && !declared.indirect {
            return declared.argument;
        }
        self.declared
            .iter()
            .find(|other| other.tied_to == Some(operand) && !other.indirect)
            .and_then(|other| other.argument)
    }

    /// The argument that a register of the machine holds when the statement begins.
    pub fn argument_in(&self, register: &str) -> Option<u32> {
        let register = widthless(register);
        (0..self.declared.len())
            .filter(|&index| self.declared[index].register.as_deref() == Some(&register))
            .find_map(|index| self.argument_of(index))
    }

    /// Whether an argument's value is a constant known to be of this many bytes.
    fn argument(&self, index: u32) -> Option<Argument> {
        self.arguments.get(index as usize).copied()
    }

    pub fn resolve(&self, text: &str, intel: bool) -> Meant {
        let text = text.trim();
        if text.contains("%fs:") || text.contains("%gs:") || text.starts_with('*') {
            return Meant::Elsewhere;
        }
        if intel {
            return self.resolve_intel(text);
        }
        if text.starts_with("$$") {
            return Meant::Immediate;
        }
        if let Some((displacement, inside)) = parenthesised(text) {
            return self.resolve_address(displacement, inside);
        }
        self.resolve_simple(text)
    }

    fn resolve_simple(&self, text: &str) -> Meant {
        if let Some(name) = text.strip_prefix('%') {
            return Meant::Register {
                size_bytes: vector_bytes(name),
                name: Some(name.to_ascii_lowercase()),
            };
        }
        let Some(operand) = operand_number(text) else {
            // A bare symbol or number is an address in AT&T.
            let jump_target =
                text.starts_with(|c: char| c.is_ascii_digit()) && text.ends_with(['b', 'f']);
            return if jump_target {
                Meant::Immediate
            } else {
                Meant::Elsewhere
            };
        };
        match self.declared.get(operand) {
            Some(declared) if declared.indirect => {
                let argument = declared
                    .argument
                    .expect("an indirect operand has an argument");
                Meant::Memory {
                    place: AddressOperand {
                        argument,
                        offset: 0,
                    },
                    element_bytes: self.argument(argument).and_then(|a| a.element_bytes),
                }
            }
            Some(_) => Meant::Register {
                name: None,
                size_bytes: self
                    .argument_of(operand)
                    .and_then(|argument| self.argument(argument))
                    .map(|argument| argument.size_bytes),
            },
            None => Meant::Elsewhere,
        }
    }

    /// `displacement(base)`; an index makes the address unknown.
    fn resolve_address(&self, displacement: &str, inside: &str) -> Meant {
        let base = inside.trim();
        if matches!(base, "%rsp" | "%esp" | "%rbp" | "%ebp") {
            return Meant::Stack;
        }
        let offset = match displacement.trim() {
            "" => Some(0),
            text => number(text),
        };
        let argument = match base.strip_prefix('%') {
            Some(register) => self.argument_in(register),
            None => operand_number(base).and_then(|operand| self.argument_of(operand)),
        };
        match (argument, offset) {
            (Some(argument), Some(offset)) => Meant::Memory {
                place: AddressOperand { argument, offset },
                element_bytes: None,
            },
            _ => Meant::Elsewhere,
        }
    }

    fn resolve_intel(&self, text: &str) -> Meant {
        let (head, inside) = match text.split_once('[') {
            Some((head, tail)) => (head, tail.trim_end_matches(']')),
            None if text.starts_with(|c: char| c.is_ascii_digit()) => return Meant::Immediate,
            None if text.starts_with('$') => return self.resolve_simple(text),
            None => {
                return Meant::Register {
                    size_bytes: vector_bytes(text),
                    name: Some(text.to_ascii_lowercase()),
                };
            }
        };
        let element_bytes = [
            "byte", "word", "dword", "qword", "xmmword", "ymmword", "zmmword",
        ]
        .iter()
        .zip([1, 2, 4, 8, 16, 32, 64])
        .find(|(name, _)| head.trim().to_ascii_lowercase().starts_with(*name))
        .map(|(_, size)| size);
        let (base, offset) = match inside.split_once('+') {
            Some((base, offset)) => (base.trim(), number(offset.trim())),
            None => (inside.trim(), Some(0)),
        };
        if matches!(base, "rsp" | "esp" | "rbp" | "ebp") {
            return Meant::Stack;
        }
        let argument = match operand_number(base) {
            Some(operand) => self.argument_of(operand),
            None => self.argument_in(base),
        };
        match (argument, offset) {
            (Some(argument), Some(offset)) => Meant::Memory {
                place: AddressOperand { argument, offset },
                element_bytes,
            },
            _ => Meant::Elsewhere,
        }
    }
}

/// The arguments that must be constants: no register and no memory will do.
pub fn immediate_arguments(constraints: &str) -> Vec<u32> {
    let mut found = Vec::new();
    let mut next = 0;
    for constraint in split(constraints) {
        let takes_argument = !constraint.starts_with(['~', '!'])
            && (!constraint.starts_with('=') || constraint.contains('*'));
        if takes_argument {
            let immediate = |c: char| "inseEFGHIJKLMNOZ".contains(c);
            if !constraint.is_empty() && constraint.chars().all(immediate) {
                found.push(next);
            }
            next += 1;
        }
    }
    found
}

/// Splits constraints at commas outside of braces.
fn split(constraints: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (at, c) in constraints.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(&constraints[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if start < constraints.len() {
        found.push(&constraints[start..]);
    }
    found
}

fn bound_register(constraint: &str) -> Option<String> {
    if let Some(inside) = constraint.strip_prefix('{') {
        return inside.strip_suffix('}').map(widthless);
    }
    let letter = match constraint {
        "a" => "ax",
        "b" => "bx",
        "c" => "cx",
        "d" => "dx",
        "S" => "si",
        "D" => "di",
        _ => return None,
    };
    Some(letter.to_owned())
}

/// `di` for `rdi`, `edi`, `di`; `8` for `r8`, `r8d`.
pub fn widthless(register: &str) -> String {
    let name = register.trim_start_matches('%').to_ascii_lowercase();
    if let Some(rest) = name.strip_prefix('r') {
        if rest.starts_with(|c: char| c.is_ascii_digit()) {
            return rest.trim_end_matches(['d', 'w', 'b']).to_owned();
        }
        return rest.to_owned();
    }
    match name.strip_prefix('e') {
        Some(rest) if rest.len() == 2 => rest.to_owned(),
        _ => match name.as_str() {
            "al" | "ah" => "ax".to_owned(),
            "bl" | "bh" => "bx".to_owned(),
            "cl" | "ch" => "cx".to_owned(),
            "dl" | "dh" => "dx".to_owned(),
            "sil" => "si".to_owned(),
            "dil" => "di".to_owned(),
            _ => name,
        },
    }
}

/// `displacement` and `inside` of `displacement(inside)`. `${0:P}(…)` and the like have braces
/// only.
fn parenthesised(text: &str) -> Option<(&str, &str)> {
    let (displacement, rest) = text.split_once('(')?;
    Some((displacement, rest.strip_suffix(')')?))
}

/// The number in `$0`, `${0}` or `${0:b}`.
fn operand_number(text: &str) -> Option<usize> {
    let rest = text.strip_prefix('$')?;
    let rest = match rest.strip_prefix('{') {
        Some(inside) => inside.strip_suffix('}')?.split(':').next()?,
        None => rest,
    };
    rest.parse().ok()
}

fn number(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let value = match digits.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some(if negative { -value } else { value })
}

fn vector_bytes(register: &str) -> Option<u64> {
    match register.get(..3)? {
        "xmm" => Some(16),
        "ymm" => Some(32),
        "zmm" => Some(64),
        _ => None,
    }
}
