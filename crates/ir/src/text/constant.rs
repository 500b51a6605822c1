//! Constants as text.

use super::Name;
use crate::{Constant, Module};
use std::fmt::{self, Display, Formatter};

pub(super) struct ConstantText<'a>(pub(super) &'a Module, pub(super) &'a Constant);

impl Display for ConstantText<'_> {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let ConstantText(module, constant) = *self;
        match constant {
            Constant::Integer { bits: 1, value } => {
                to.write_str(if value & 1 == 0 { "false" } else { "true" })
            }
            Constant::Integer { bits, value } => write!(to, "{}", signed(*bits, *value)),
            Constant::WideInteger { words, .. } => {
                to.write_str("0x")?;
                words
                    .iter()
                    .rev()
                    .try_for_each(|word| write!(to, "{word:016x}"))
            }
            Constant::Float { name, bits } => match name.as_str() {
                "double" => write!(to, "{:?}", f64::from_bits(*bits)),
                "float" => write!(to, "{:?}", f32::from_bits(*bits as u32)),
                _ => write!(to, "{name} {bits:#x}"),
            },
            Constant::Null => to.write_str("null"),
            Constant::Zero(ty) => write!(to, "zero {}", module.type_name(*ty)),
            Constant::Undef => to.write_str("undef"),
            Constant::Poison => to.write_str("poison"),
            Constant::Global {
                global,
                offset_bytes,
            } => {
                write!(to, "@{}", Name(&module.globals[global.index()].name))?;
                match offset_bytes {
                    0 => Ok(()),
                    offset => write!(to, "{offset:+}"),
                }
            }
            Constant::Function(id) => {
                write!(to, "@{}", Name(&module.functions[id.index()].name))
            }
            Constant::Block { function, block } => {
                let name = &module.functions[function.index()].name;
                write!(to, "@{}:b{}", Name(name), block.0)
            }
            Constant::Aggregate { elements, .. } => {
                to.write_str("{")?;
                for (index, element) in elements.iter().enumerate() {
                    let before = if index == 0 { " " } else { ", " };
                    write!(to, "{before}{}", ConstantText(module, element))?;
                }
                to.write_str(" }")
            }
            Constant::Data(bytes) => write!(to, "\"{}\"", bytes.escape_ascii()),
            Constant::Text(text) => write!(to, "`{}`", text.escape_debug()),
        }
    }
}

/// As LLVM prints integers: signed.
fn signed(bits: u32, value: u64) -> i64 {
    match bits {
        1..64 => {
            let unused = 64 - bits;
            (value << unused) as i64 >> unused
        }
        _ => value as i64,
    }
}
