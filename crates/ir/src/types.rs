//! Types of values, and walking into them along constant indices.

use crate::text::Name;
use crate::{Constant, Function, Module, Operand, Type, TypeId, ValueId};
use std::fmt::Write;

const MAX_NAME_BYTES: usize = 4096;
const MAX_NAME_DEPTH: u32 = 64;

impl Module {
    pub fn ty(&self, id: TypeId) -> &Type {
        &self.types[id.index()]
    }

    /// The type as text, such as `[4 x %struct.slot]`. Structs that have a name are named. What is
    /// very long or deep ends in `…`.
    pub fn type_name(&self, id: TypeId) -> String {
        let mut text = String::new();
        self.write_type(&mut text, id, 0);
        text
    }

    fn write_type(&self, to: &mut String, id: TypeId, depth: u32) {
        // A few types that hold each other twice have a text of any length.
        if to.len() > MAX_NAME_BYTES || depth > MAX_NAME_DEPTH {
            if !to.ends_with('…') {
                to.push('…');
            }
            return;
        }
        // Writing to a string does not fail.
        let _ = match self.ty(id) {
            Type::Void => write!(to, "void"),
            Type::Integer { bits } => write!(to, "i{bits}"),
            Type::Float { name, .. } | Type::Other(name) => write!(to, "{}", Name(name)),
            Type::Pointer { address_space: 0 } => write!(to, "ptr"),
            Type::Pointer { address_space } => write!(to, "ptr addrspace({address_space})"),
            Type::Array { element, count } => {
                let _ = write!(to, "[{count} x ");
                self.write_type(to, *element, depth + 1);
                write!(to, "]")
            }
            Type::Vector {
                element,
                count,
                scalable,
            } => {
                let _ = write!(
                    to,
                    "<{}{count} x ",
                    if *scalable { "vscale x " } else { "" }
                );
                self.write_type(to, *element, depth + 1);
                write!(to, ">")
            }
            Type::Struct {
                name: Some(name), ..
            } => write!(to, "%{}", Name(name)),
            Type::Struct {
                name: None, fields, ..
            } => {
                to.push_str("{ ");
                self.write_types(to, fields.iter().map(|field| field.ty), depth);
                write!(to, " }}")
            }
            Type::Function {
                result,
                parameters,
                variadic,
            } => {
                self.write_type(to, *result, depth + 1);
                to.push_str(" (");
                self.write_types(to, parameters.iter().copied(), depth);
                let more = match (variadic, parameters.is_empty()) {
                    (false, _) => "",
                    (true, true) => "...",
                    (true, false) => ", ...",
                };
                write!(to, "{more})")
            }
        };
    }

    fn write_types(&self, to: &mut String, types: impl Iterator<Item = TypeId>, depth: u32) {
        for (index, ty) in types.enumerate() {
            if index > 0 {
                to.push_str(", ");
            }
            self.write_type(to, ty, depth + 1);
        }
    }
}

/// The types of a function's values, by [`ValueId`].
#[derive(Clone, Debug)]
pub struct ValueTypes {
    types: Vec<TypeId>,
}

impl ValueTypes {
    pub fn new(function: &Function) -> ValueTypes {
        let parameters = function.parameters.iter().map(|parameter| parameter.ty);
        let defining = function.instructions().map(|(_, _, inst)| inst);
        let results = defining
            .filter(|inst| inst.result.is_some())
            .map(|inst| inst.ty);
        ValueTypes {
            types: parameters.chain(results).collect(),
        }
    }

    pub fn of(&self, value: ValueId) -> TypeId {
        self.types[value.index()]
    }
}

/// One step of an address computation.
#[derive(Clone, Debug, PartialEq)]
pub enum AddressStep<'a> {
    /// Over whole elements, or into an array or vector.
    Index(&'a Operand),
    /// Into a struct: number and, where the source has one, name of the field.
    Field { index: u32, name: Option<&'a str> },
    /// An index that does not fit the type.
    Unknown(&'a Operand),
}

impl Module {
    /// The steps of [`crate::Op::Address`], and the type that it leads to, where that is known.
    pub fn address_steps<'a>(
        &'a self,
        source: TypeId,
        indices: &'a [Operand],
    ) -> (Vec<AddressStep<'a>>, Option<TypeId>) {
        let Some((first, inner)) = indices.split_first() else {
            return (Vec::new(), Some(source));
        };
        let mut steps = vec![AddressStep::Index(first)];
        let mut ty = Some(source);
        for operand in inner {
            let (step, next) = match ty.map(|ty| self.ty(ty)) {
                Some(Type::Array { element, .. } | Type::Vector { element, .. }) => {
                    (AddressStep::Index(operand), Some(*element))
                }
                Some(Type::Struct { fields, .. }) => match field(fields.len(), operand) {
                    Some(index) => {
                        let field = &fields[index as usize];
                        let name = field.name.as_deref();
                        (AddressStep::Field { index, name }, Some(field.ty))
                    }
                    None => (AddressStep::Unknown(operand), None),
                },
                Some(
                    Type::Void
                    | Type::Integer { .. }
                    | Type::Float { .. }
                    | Type::Pointer { .. }
                    | Type::Function { .. }
                    | Type::Other(_),
                )
                | None => (AddressStep::Unknown(operand), None),
            };
            steps.push(step);
            ty = next;
        }
        (steps, ty)
    }
}

fn field(count: usize, operand: &Operand) -> Option<u32> {
    let Operand::Constant(Constant::Integer { value, .. }) = operand else {
        return None;
    };
    u32::try_from(*value)
        .ok()
        .filter(|index| (*index as usize) < count)
}
