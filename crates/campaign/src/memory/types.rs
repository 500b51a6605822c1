//! What the program model knows of stores, as representative testing wants it: which object of
//! which type a store changes, and which calls led to it.
//!
//! The type comes from the address computation that leads to the store: a field of a struct. Where
//! the address is a parameter, it is the caller's, as programs store through small functions of
//! their own. An index that is not a constant begins anew: the element is an object, what the array
//! is part of is not known.

use crashpoint_check::memory::behaviours::ProgramModel;
use crashpoint_ir::{
    Callee, Constant, Function, InstId, Module, Op, Operand, Type, TypeId, ValueId,
};
use crashpoint_persist::graph::Node;
use crashpoint_rules::{self as rules, Allocations};
use crashpoint_states::representative::calls::{FunctionId, StackFrame};
use crashpoint_states::representative::objects::{Member, ObjectId};
use crashpoint_trace::program::{Program, function_name};
use crashpoint_trace::{ContextId, Event, Recording, SiteId};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// How far an address is followed: through computations, and out of functions.
const MOST_STEPS: usize = 8;

/// A struct that an address lies in, and how far from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner {
    of: u32,
    offset: u64,
}

type Owners = SmallVec<[Owner; 2]>;

/// Types and functions of a recording, each with a number.
pub struct Types<'r> {
    recording: &'r Recording,
    program: &'r Program,
    names: Vec<String>,
    numbers: FxHashMap<String, u32>,
    /// By the place of a store: the first node of a store may lie anywhere in a word.
    owners: FxHashMap<(SiteId, ContextId), Owners>,
    /// Where the store that a node belongs to begins.
    store: Option<(u64, u64)>,
    allocations: Allocations,
}

impl<'r> Types<'r> {
    pub fn new(
        recording: &'r Recording,
        program: &'r Program,
        transactions: &rules::Transactions,
    ) -> Types<'r> {
        Types {
            allocations: Allocations::new(transactions),
            recording,
            program,
            names: Vec::new(),
            numbers: FxHashMap::default(),
            owners: FxHashMap::default(),
            store: None,
        }
    }

    /// What a type or function is called.
    pub fn name(&self, number: u32) -> Option<&str> {
        self.names.get(number as usize).map(String::as_str)
    }

    fn number(&mut self, name: String) -> u32 {
        if let Some(number) = self.numbers.get(&name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.clone());
        self.numbers.insert(name, number);
        number
    }

    fn find(&mut self, site: SiteId, context: ContextId) -> Owners {
        let mut found = Vec::new();
        let (mut site, mut context) = (site, context);
        // Which argument of the call that the address came in by.
        let mut argument = None;
        for _ in 0..MOST_STEPS {
            let Some(resolved) = self.program.resolve(site) else {
                break;
            };
            let (Some(inst), Some(module)) = (resolved.inst, self.program.model(resolved.model))
            else {
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
            let Some((caller, call)) = self.recording.caller(context) else {
                break;
            };
            argument = Some(parameter);
            (site, context) = (call, caller);
        }
        let owners = found.into_iter().map(|(name, offset)| Owner {
            of: self.number(name),
            offset,
        });
        owners.collect()
    }
}

impl ProgramModel for Types<'_> {
    fn frames(&mut self, site: SiteId, context: ContextId) -> Vec<StackFrame> {
        let mut sites = self.recording.stack(context);
        sites.push(site);
        let frame = |site: SiteId| {
            let name = match self.program.resolve(site) {
                Some(resolved) => function_name(resolved.function),
                None => format!("site {}", site.0),
            };
            StackFrame {
                function: FunctionId(self.number(name)),
                at: u64::from(site.0),
            }
        };
        sites.into_iter().map(frame).collect()
    }

    fn members(&mut self, node: &Node) -> SmallVec<[Member; 2]> {
        // The nodes of one store follow each other: the first one tells where it begins.
        let begin = match self.store {
            Some((order, begin)) if order == node.order => begin,
            Some(_) | None => node.address.0,
        };
        self.store = Some((node.order, begin));
        let key = (node.site, node.context);
        let owners = match self.owners.get(&key) {
            Some(owners) => owners.clone(),
            None => {
                let owners = self.find(node.site, node.context);
                self.owners.insert(key, owners.clone());
                owners
            }
        };
        let member = |owner: &Owner| {
            let address = begin.checked_sub(owner.offset)?;
            let object = ObjectId {
                of: owner.of,
                address,
            };
            let field = node.address.0 - address;
            Some(Member { object, field })
        };
        owners.iter().filter_map(member).collect()
    }

    fn see(&mut self, event: &Event<'_>) {
        let (recording, program) = (self.recording, self.program);
        self.allocations
            .see(&rules::RecordedProgram { recording, program }, event);
    }

    fn allocation(&mut self, node: &Node) -> Option<Member> {
        let allocation = self.allocations.at(node.address)?;
        let allocator = self
            .program
            .callee_name(allocation.site)
            .unwrap_or("a call");
        let place = match self.program.resolve(allocation.site) {
            Some(resolved) => function_name(resolved.function),
            None => format!("site {}", allocation.site.0),
        };
        let of = self.number(format!("{allocator} in {place}"));
        let address = allocation.start.0;
        Some(Member {
            object: ObjectId { of, address },
            field: node.address.0 - address,
        })
    }
}

/// The address that an operation writes to.
fn written(op: &Op) -> Option<&Operand> {
    match op {
        Op::Store { pointer, .. }
        | Op::ReadModifyWrite { pointer, .. }
        | Op::CompareExchange { pointer, .. } => Some(pointer),
        Op::MemoryCopy { to, .. } | Op::MemorySet { to, .. } => Some(to),
        // `memcpy` and its like, and helpers that were not built with us: what they write to comes
        // first.
        Op::Call {
            callee: Callee::Direct(_),
            arguments,
            ..
        }
        | Op::Invoke {
            callee: Callee::Direct(_),
            arguments,
            ..
        } => arguments.first(),
        Op::Alloca { .. }
        | Op::Load { .. }
        | Op::Address { .. }
        | Op::Arithmetic { .. }
        | Op::Cast { .. }
        | Op::Compare { .. }
        | Op::Select { .. }
        | Op::Phi { .. }
        | Op::ExtractValue { .. }
        | Op::InsertValue { .. }
        | Op::ExtractElement { .. }
        | Op::InsertElement { .. }
        | Op::ShuffleVector { .. }
        | Op::Freeze { .. }
        | Op::VaArg { .. }
        | Op::Fence { .. }
        | Op::Flush { .. }
        | Op::PersistFence { .. }
        | Op::Call { .. }
        | Op::Invoke { .. }
        | Op::CallBranch { .. }
        | Op::Intrinsic { .. }
        | Op::LandingPad { .. }
        | Op::Branch { .. }
        | Op::ConditionalBranch { .. }
        | Op::Switch { .. }
        | Op::IndirectBranch { .. }
        | Op::Return { .. }
        | Op::Resume { .. }
        | Op::Unreachable
        | Op::Opaque { .. } => None,
    }
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
        for _ in 0..MOST_STEPS {
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
