//! What all analyses ask of an operation: its operands, its successors, its callee.
//!
//! The matches are exhaustive on purpose: a new operation must say what it reads and where it
//! leads before anything else compiles.

use crate::{
    AssemblyEffect, Block, BlockId, Callee, Constant, Function, Inst, InstId, Op, Operand, ValueId,
};

/// Kinds of operations.
#[derive(Clone, Copy, Debug)]
pub enum OpClass<'a> {
    /// It writes memory at this address; it may read memory as well.
    Write(&'a Operand),
    /// It reads, reserves or addresses memory.
    Memory,
    /// It persists or orders what was written.
    Persist,
    /// It computes a value from its operands.
    Value,
    /// A call after which control goes on behind it.
    Call,
    /// It ends its block; calls that do are among these.
    Terminator,
    /// Nothing is known of it but operands and successors.
    Opaque,
}

impl Op {
    /// Calls `visit` with each operand, in the order in which LLVM lists them where there is one.
    pub fn for_each_operand<'a>(&'a self, mut visit: impl FnMut(&'a Operand)) {
        match self {
            Op::Alloca { count, .. } => visit(count),
            Op::Load { pointer, .. } | Op::Flush { pointer, .. } => visit(pointer),
            Op::Store { value, pointer, .. } | Op::ReadModifyWrite { pointer, value, .. } => {
                visit(value);
                visit(pointer);
            }
            Op::Address { base, indices, .. } => {
                visit(base);
                indices.iter().for_each(visit);
            }
            Op::Arithmetic { operands, .. } | Op::Opaque { operands, .. } => {
                operands.iter().for_each(visit);
            }
            Op::Cast { value, .. } | Op::Freeze { value } | Op::Resume { value } => visit(value),
            Op::VaArg { list } => visit(list),
            Op::Compare { left, right, .. } | Op::ShuffleVector { left, right, .. } => {
                visit(left);
                visit(right);
            }
            Op::Select {
                condition,
                then,
                otherwise,
            } => {
                visit(condition);
                visit(then);
                visit(otherwise);
            }
            Op::Phi { incoming } => incoming.iter().for_each(|(_, value)| visit(value)),
            Op::ExtractValue { aggregate, .. } => visit(aggregate),
            Op::InsertValue {
                aggregate, value, ..
            } => {
                visit(aggregate);
                visit(value);
            }
            Op::ExtractElement { vector, index } => {
                visit(vector);
                visit(index);
            }
            Op::InsertElement {
                vector,
                value,
                index,
            } => {
                visit(vector);
                visit(value);
                visit(index);
            }
            Op::CompareExchange {
                pointer,
                expected,
                new,
                ..
            } => {
                visit(pointer);
                visit(expected);
                visit(new);
            }
            Op::MemoryCopy {
                to, from, length, ..
            } => {
                visit(to);
                visit(from);
                visit(length);
            }
            Op::MemorySet {
                to, value, length, ..
            } => {
                visit(to);
                visit(value);
                visit(length);
            }
            Op::Call {
                callee, arguments, ..
            }
            | Op::Invoke {
                callee, arguments, ..
            }
            | Op::CallBranch {
                callee, arguments, ..
            } => {
                arguments.iter().for_each(&mut visit);
                if let Callee::Indirect(target) = callee {
                    visit(target);
                }
            }
            Op::Intrinsic { arguments, .. } => arguments.iter().for_each(visit),
            Op::ConditionalBranch { condition, .. } => visit(condition),
            Op::Switch { value, .. } => visit(value),
            Op::IndirectBranch { address, .. } => visit(address),
            Op::Return { value } => value.iter().for_each(visit),
            Op::Fence { .. }
            | Op::PersistFence { .. }
            | Op::LandingPad { .. }
            | Op::Branch { .. }
            | Op::Unreachable => {}
        }
    }

    /// Where control may go, by index of the successor (with repetitions); `None` for what is not
    /// a terminator. An opaque operation is a terminator if it has successors.
    pub fn successors(&self) -> Option<Vec<BlockId>> {
        match self {
            Op::Branch { to } => Some(vec![*to]),
            Op::ConditionalBranch {
                then, otherwise, ..
            } => Some(vec![*then, *otherwise]),
            Op::Switch { default, cases, .. } => {
                let cases = cases.iter().map(|(_, block)| *block);
                Some(std::iter::once(*default).chain(cases).collect())
            }
            Op::IndirectBranch { targets, .. } => Some(targets.clone()),
            Op::Invoke { normal, unwind, .. } => Some(vec![*normal, *unwind]),
            Op::CallBranch {
                default, indirect, ..
            } => Some(std::iter::once(default).chain(indirect).copied().collect()),
            Op::Return { .. } | Op::Resume { .. } | Op::Unreachable => Some(Vec::new()),
            Op::Opaque { successors, .. } if !successors.is_empty() => Some(successors.clone()),
            _ => {
                assert!(
                    !matches!(self.class(), OpClass::Terminator),
                    "a terminator says where control may go"
                );
                None
            }
        }
    }

    /// What kind of operation it is. All operations are sorted here, and only here.
    pub fn class(&self) -> OpClass<'_> {
        match self {
            Op::Store { pointer, .. }
            | Op::ReadModifyWrite { pointer, .. }
            | Op::CompareExchange { pointer, .. } => OpClass::Write(pointer),
            Op::MemoryCopy { to, .. } | Op::MemorySet { to, .. } => OpClass::Write(to),
            Op::Alloca { .. } | Op::Load { .. } | Op::Address { .. } => OpClass::Memory,
            Op::Fence { .. } | Op::Flush { .. } | Op::PersistFence { .. } => OpClass::Persist,
            Op::Arithmetic { .. }
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
            | Op::Intrinsic { .. }
            | Op::LandingPad { .. } => OpClass::Value,
            Op::Call { .. } => OpClass::Call,
            Op::Branch { .. }
            | Op::ConditionalBranch { .. }
            | Op::Switch { .. }
            | Op::IndirectBranch { .. }
            | Op::Invoke { .. }
            | Op::CallBranch { .. }
            | Op::Return { .. }
            | Op::Resume { .. }
            | Op::Unreachable => OpClass::Terminator,
            Op::Opaque { .. } => OpClass::Opaque,
        }
    }

    /// The address that an operation writes to by itself, not by what it calls.
    pub fn written_pointer(&self) -> Option<&Operand> {
        match self.class() {
            OpClass::Write(pointer) => Some(pointer),
            OpClass::Memory
            | OpClass::Persist
            | OpClass::Value
            | OpClass::Call
            | OpClass::Terminator
            | OpClass::Opaque => None,
        }
    }

    /// What a call calls, however it is made.
    pub fn callee(&self) -> Option<&Callee> {
        match self {
            Op::Call { callee, .. } | Op::Invoke { callee, .. } | Op::CallBranch { callee, .. } => {
                Some(callee)
            }
            _ => None,
        }
    }

    /// The arguments of a call, however it is made.
    pub fn arguments(&self) -> Option<&[Operand]> {
        match self {
            Op::Call { arguments, .. }
            | Op::Invoke { arguments, .. }
            | Op::CallBranch { arguments, .. } => Some(arguments),
            _ => None,
        }
    }
}

impl Constant {
    /// Calls `visit` with this constant and every constant inside it.
    pub fn for_each<'a>(&'a self, visit: &mut impl FnMut(&'a Constant)) {
        visit(self);
        if let Constant::Aggregate { elements, .. } = self {
            elements.iter().for_each(|element| element.for_each(visit));
        }
    }
}

impl Block {
    pub fn terminator(&self) -> &Inst {
        self.instructions
            .last()
            .expect("a validated block is not empty")
    }
}

impl Function {
    pub fn is_declaration(&self) -> bool {
        self.blocks.is_empty()
    }

    /// All instructions in order, which is the order of [`InstId`].
    pub fn instructions(&self) -> impl Iterator<Item = (InstId, BlockId, &Inst)> {
        let blocks = (0..).map(BlockId).zip(&self.blocks);
        let all = blocks.flat_map(|(id, block)| block.instructions.iter().map(move |i| (id, i)));
        (0..)
            .map(InstId)
            .zip(all)
            .map(|(id, (block, inst))| (id, block, inst))
    }

    /// The instruction with this number and the block that holds it.
    pub fn instruction(&self, id: InstId) -> Option<(BlockId, &Inst)> {
        let mut index = id.index();
        for (number, block) in (0..).map(BlockId).zip(&self.blocks) {
            if let Some(inst) = block.instructions.get(index) {
                return Some((number, inst));
            }
            index -= block.instructions.len();
        }
        None
    }

    /// How many values it has: parameters, then instruction results.
    pub fn value_count(&self) -> usize {
        let results = self
            .instructions()
            .filter(|(_, _, inst)| inst.result.is_some());
        self.parameters.len() + results.count()
    }

    /// The parameters' values.
    pub fn parameter_values(&self) -> impl Iterator<Item = ValueId> {
        (0..self.parameters.len() as u32).map(ValueId)
    }
}

impl AssemblyEffect {
    /// The argument it works on, where it is about one.
    pub fn argument(&self) -> Option<u32> {
        match self {
            AssemblyEffect::Flush { argument, .. }
            | AssemblyEffect::Store { argument, .. }
            | AssemblyEffect::Load { argument, .. } => Some(*argument),
            AssemblyEffect::Fence { .. } | AssemblyEffect::Unknown { .. } => None,
        }
    }
}
