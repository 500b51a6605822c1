//! Which struct a store changes: the types that an address lies in, by the address computations of
//! the program model.
//!
//! The type comes from the address computation that leads to the store: a field of a struct. Where
//! the address is a parameter, it is the caller's, as programs store through small functions of
//! their own. An index that is not a constant begins anew: the element is an object, what the array
//! is part of is not known.

use crashpoint_ir::{
    Callee, Constant, Function, InstId, Module, Op, Operand, Type, TypeId, ValueId,
};
use crashpoint_trace::program::Program;
use crashpoint_trace::{ContextId, Recording, SiteId};

/// How far an address is followed: through computations, and out of functions.
const MAX_STEPS: usize = 8;

/// A struct that an address lies in, and how far from its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnclosingStruct {
    pub name: String,
    pub offset: u64,
}

/// The structs that a store at a site, reached by a call stack, writes into; innermost first.
pub fn enclosing_structs(
    recording: &Recording,
    program: &Program,
    site: SiteId,
    context: ContextId,
) -> Vec<EnclosingStruct> {
    let mut found = Vec::new();
    let (mut site, mut context) = (site, context);
    // Which argument of the call that the address came in by.
    let mut argument = None;
    for _ in 0..MAX_STEPS {
        let Some(resolved) = program.resolve(site) else {
            break;
        };
        let (Some(inst), Some(module)) = (resolved.inst, program.model(resolved.model)) else {
            break;
        };
        let pointer = match argument {
            Some(number) => inst.inst.op.arguments().and_then(|all| all.get(number)),
            None => written(&inst.inst.op),
        };
        let Some(pointer) = pointer else { break };
        let way = Way::of(module, resolved.function, pointer);
        let is_typed = !way.owners.is_empty();
        found.extend(way.owners);
        let Some(parameter) = way.parameter.filter(|_| !is_typed) else {
            break;
        };
        let Some((caller, call)) = recording.caller(context) else {
            break;
        };
        argument = Some(parameter);
        (site, context) = (call, caller);
    }
    let structs = found.into_iter();
    structs
        .map(|(name, offset)| EnclosingStruct { name, offset })
        .collect()
}

/// The address that an operation writes to.
fn written(op: &Op) -> Option<&Operand> {
    if let Op::Call {
        callee: Callee::Direct(_),
        arguments,
        ..
    }
    | Op::Invoke {
        callee: Callee::Direct(_),
        arguments,
        ..
    } = op
    {
        // `memcpy` and its like, and helpers that were not built with us: what they write to comes
        // first.
        return arguments.first();
    }
    op.written_pointer()
}

/// Where an address comes from within a function.
#[derive(Default)]
struct Way {
    /// Structs that it lies in, by name, innermost first.
    owners: Vec<(String, u64)>,
    /// It is what came in by this parameter, unchanged.
    parameter: Option<usize>,
}

impl Way {
    fn of(module: &Module, function: &Function, pointer: &Operand) -> Way {
        let mut way = Way::default();
        let mut pointer = pointer;
        // From the innermost struct that was found to the address.
        let mut beyond: u64 = 0;
        for _ in 0..MAX_STEPS {
            let Operand::Value(value) = pointer else {
                return way;
            };
            if value.index() < function.parameters.len() {
                way.parameter = (beyond == 0).then_some(value.index());
                return way;
            }
            match defining(function, *value) {
                Some(Op::Address {
                    source,
                    base,
                    indices,
                    ..
                }) => {
                    let (inside, length) = inside(module, *source, indices);
                    way.owners.extend(
                        inside
                            .into_iter()
                            .map(|(name, offset)| (name, offset.wrapping_add(beyond))),
                    );
                    match length {
                        // What steps backwards is a large number, and comes out right.
                        Some(length) => beyond = beyond.wrapping_add(length),
                        None => return way,
                    }
                    pointer = base;
                }
                Some(Op::Cast { value, .. } | Op::Freeze { value }) => pointer = value,
                Some(_) | None => return way,
            }
        }
        way
    }
}

fn defining(function: &Function, value: ValueId) -> Option<&Op> {
    let all = function.instructions();
    let mut found = all.filter(|(_, _, inst): &(InstId, _, _)| inst.result == Some(value));
    found.next().map(|(_, _, inst)| &inst.op)
}

/// Structs that an address computation goes into, innermost first, each with the distance from its
/// beginning to the address; and the distance from the base, if that is a constant.
fn inside(
    module: &Module,
    source: TypeId,
    indices: &[Operand],
) -> (Vec<(String, u64)>, Option<u64>) {
    let mut found: Vec<(String, u64)> = Vec::new();
    let mut ty = source;
    let constant = |operand: &Operand| match operand {
        Operand::Constant(Constant::Integer { value, .. }) => Some(*value),
        _ => None,
    };
    let Some((first, inner)) = indices.split_first() else {
        return (found, Some(0));
    };
    let step = |index: &Operand, element: TypeId| {
        Some(constant(index)?.wrapping_mul(size(module, element)?))
    };
    let mut from_base = step(first, source);
    for index in inner {
        let moved = match module.ty(ty) {
            Type::Struct { name, fields, .. } => {
                let Some(field) = constant(index).and_then(|index| fields.get(index as usize))
                else {
                    return (found, None);
                };
                if let Some(name) = name {
                    found.push((name.clone(), 0));
                }
                ty = field.ty;
                Some(field.offset_bytes)
            }
            Type::Array { element, .. } | Type::Vector { element, .. } => {
                ty = *element;
                step(index, ty)
            }
            Type::Void
            | Type::Integer { .. }
            | Type::Float { .. }
            | Type::Pointer { .. }
            | Type::Function { .. }
            | Type::Other(_) => return (found, None),
        };
        match moved {
            Some(bytes) => {
                for (_, offset) in &mut found {
                    *offset = offset.wrapping_add(bytes);
                }
                from_base = from_base.map(|so_far| so_far.wrapping_add(bytes));
            }
            None => {
                found.clear();
                from_base = None;
            }
        }
    }
    found.reverse();
    (found, from_base)
}

fn size(module: &Module, ty: TypeId) -> Option<u64> {
    match module.ty(ty) {
        Type::Integer { bits } | Type::Float { bits, .. } => Some(u64::from(bits.div_ceil(8))),
        Type::Pointer { .. } => Some(8),
        Type::Struct { size_bytes, .. } => Some(*size_bytes),
        Type::Array { element, count } => size(module, *element)?.checked_mul(*count),
        Type::Vector { element, count, .. } => {
            size(module, *element)?.checked_mul(u64::from(*count))
        }
        Type::Void | Type::Function { .. } | Type::Other(_) => None,
    }
}
