//! One segment of a function: what it wrote to the stream, and what its instructions do.

use super::{Lost, Thread};
use crate::Analysis;
use crate::activation::Waiting;
use crate::code::has_dynamic_length;
use crashpoint_ir::{
    AssemblyEffect, BlockId, Callee, Constant, Inst, Op, OpClass, Operand, ValueId,
};
use crashpoint_trace::flow::FlowEvent;
use std::rc::Rc;

/// More segments without a record than any code has in a row, unless it loops for ever.
const MAX_SILENT: u32 = 100_000;

impl<'p, A: Analysis, F: Iterator<Item = FlowEvent>> Thread<'_, 'p, '_, '_, A, F> {
    /// Goes on until a call or the end of the activation. `roots` were defined before: parameters,
    /// if it is an entry, or else the result of the call that returned.
    pub(super) fn run(&mut self, roots: usize, entry: bool) -> Result<(), Lost> {
        let mut more = self.segment(roots, entry)?;
        // A loop that leaves no record goes round as often as nobody knows; at the end of the
        // stream it is where the program ended.
        while more && self.flow.peek().is_some() {
            more = self.segment(0, false)?;
            if std::mem::take(&mut self.heard) {
                self.silent = 0;
            } else {
                self.silent += 1;
                if self.silent > MAX_SILENT {
                    return Err(Lost);
                }
            }
        }
        Ok(())
    }

    /// Reads what a segment wrote and follows it. Returns whether another one follows in this
    /// activation.
    fn segment(&mut self, roots: usize, entry: bool) -> Result<bool, Lost> {
        let top = self.stack.last().ok_or(Lost)?;
        let code = Rc::clone(&top.code);
        let (block, next) = (top.block, top.next);
        let end = code.segment_end(block, next);
        if roots > 0 {
            let called = next.checked_sub(1).map(|index| code.inst(block, index));
            let returned: Vec<ValueId> = called.and_then(|call| call.result).into_iter().collect();
            let defined = if entry {
                &code.root_parameters
            } else {
                &returned
            };
            for value in defined.iter().take(roots) {
                self.root(*value)?;
            }
        }
        let instructions = &code.function.blocks[block.index()].instructions;
        let inside = &instructions[next..end];
        for inst in inside.iter().filter(|inst| inst.root) {
            if let Some(value) = inst.result {
                self.root(value)?;
            }
        }
        let mut words = Vec::new();
        for _ in inside.iter().filter(|inst| has_dynamic_length(inst)) {
            match self.take() {
                Some(FlowEvent::Word(word)) => words.push(word),
                _ => return Err(Lost),
            }
        }
        self.skip_value();
        self.walker.followed.instructions += (end - next + 1) as u64;
        let mut words = words.into_iter();
        for inst in inside {
            let word = if has_dynamic_length(inst) {
                words.next()
            } else {
                None
            };
            self.step(inst, word)?;
        }
        self.top()?.next = end;
        self.end(&instructions[end])
    }

    fn root(&mut self, value: ValueId) -> Result<(), Lost> {
        let address = self.address()?;
        self.top()?.roots[value.index()] = address;
        Ok(())
    }

    /// An instruction that is not the end of a segment.
    fn step(&mut self, inst: &Inst, word: Option<u64>) -> Result<(), Lost> {
        let label = match &inst.op {
            // Done when the block was entered.
            Op::Phi { .. } => return Ok(()),
            Op::Alloca { .. } | Op::LandingPad { .. } | Op::VaArg { .. } => A::Label::default(),
            Op::Load {
                pointer,
                size_bytes,
                ..
            } => self.load(inst, pointer, *size_bytes)?,
            Op::Store {
                value,
                pointer,
                size_bytes,
                ..
            } => {
                let value = self.top()?.label(value);
                self.store(inst, pointer, *size_bytes, value)?;
                return Ok(());
            }
            Op::ReadModifyWrite {
                pointer,
                value,
                size_bytes,
                ..
            } => {
                let before = self.load(inst, pointer, *size_bytes)?;
                let value = self.top()?.label(value);
                let value = self.walker.analysis.join(before, value);
                self.store(inst, pointer, *size_bytes, value)?;
                before
            }
            Op::CompareExchange {
                pointer,
                expected,
                new,
                size_bytes,
                ..
            } => {
                let before = self.load(inst, pointer, *size_bytes)?;
                let (expected, new) = (self.top()?.label(expected), self.top()?.label(new));
                let outcome = self.walker.analysis.join(before, expected);
                self.store(inst, pointer, *size_bytes, new)?;
                outcome
            }
            Op::MemoryCopy {
                to, from, length, ..
            } => {
                let length = word.or_else(|| constant(length)).ok_or(Lost)?;
                self.copy(inst, to, from, length)?;
                return Ok(());
            }
            Op::MemorySet {
                to, value, length, ..
            } => {
                let length = word.or_else(|| constant(length)).ok_or(Lost)?;
                let value = self.top()?.label(value);
                self.store(inst, to, length, value)?;
                return Ok(());
            }
            Op::Call {
                callee: Callee::Assembly { effects, .. },
                arguments,
                ..
            } => self.assembly(inst, effects, arguments)?,
            Op::Opaque { .. } => {
                self.walker.followed.unfollowed.opaque += 1;
                self.compute(inst)?
            }
            Op::Select { condition, .. } => {
                let value = self.compute(inst)?;
                let decided = self.top()?.label(condition);
                let analysis = &mut *self.walker.analysis;
                let control = analysis.decide(A::Control::default(), decided);
                analysis.chosen(value, control)
            }
            Op::Address { .. } => self.compute(inst)?,
            Op::Fence { .. } | Op::Flush { .. } | Op::PersistFence { .. } => return Ok(()),
            op => match op.class() {
                OpClass::Value => self.compute(inst)?,
                OpClass::Write(_)
                | OpClass::Memory
                | OpClass::Persist
                | OpClass::Call
                | OpClass::Terminator
                | OpClass::Opaque => return Err(Lost),
            },
        };
        self.top()?.set(inst.result, label);
        Ok(())
    }

    fn compute(&mut self, inst: &Inst) -> Result<A::Label, Lost> {
        let top = self.stack.last().ok_or(Lost)?;
        let mut labels = [A::Label::default(); 4];
        let mut more = Vec::new();
        let mut count = 0;
        inst.op.for_each_operand(|operand| {
            let label = top.label(operand);
            match labels.get_mut(count) {
                Some(slot) => *slot = label,
                None => more.push(label),
            }
            count += 1;
        });
        if more.is_empty() {
            return Ok(self.walker.analysis.compute(inst, &labels[..count]));
        }
        more.splice(0..0, labels);
        Ok(self.walker.analysis.compute(inst, &more))
    }

    /// What the end of a segment does. Returns whether the activation goes on at once.
    fn end(&mut self, inst: &Inst) -> Result<bool, Lost> {
        let to = match &inst.op {
            Op::Call { tail: true, .. } | Op::Return { .. } => {
                let Some(FlowEvent::Return) = self.take() else {
                    return Err(Lost);
                };
                self.leave(inst)?;
                return Ok(false);
            }
            // A resumed exception lands in somebody else.
            Op::Resume { .. } => {
                self.stack.pop();
                return Ok(false);
            }
            Op::Call { .. } | Op::Invoke { .. } => {
                let read = self.library_reads(inst)?;
                self.top()?.call = Some(Waiting {
                    read,
                    returned: None,
                });
                return Ok(false);
            }
            Op::Unreachable => {
                self.top()?.call = Some(Waiting {
                    read: A::Label::default(),
                    returned: None,
                });
                return Ok(false);
            }
            Op::Branch { to } => *to,
            Op::ConditionalBranch {
                condition,
                then,
                otherwise,
            } => {
                self.decide(condition)?;
                match self.successor()? {
                    0 => *then,
                    _ => *otherwise,
                }
            }
            Op::Switch {
                value,
                default,
                cases,
            } => {
                self.decide(value)?;
                match self.successor()? {
                    0 => *default,
                    number => cases.get(number - 1).ok_or(Lost)?.1,
                }
            }
            Op::IndirectBranch { address, targets } => {
                self.decide(address)?;
                *targets.get(self.successor()?).ok_or(Lost)?
            }
            Op::CallBranch {
                default, indirect, ..
            } => {
                self.walker.followed.unfollowed.assembly += 1;
                match self.successor()? {
                    0 => *default,
                    number => *indirect.get(number - 1).ok_or(Lost)?,
                }
            }
            _ => return Err(Lost),
        };
        self.jump(to)?;
        Ok(true)
    }

    fn successor(&mut self) -> Result<usize, Lost> {
        match self.take() {
            Some(FlowEvent::Branch { successor }) => Ok(successor.into()),
            _ => Err(Lost),
        }
    }

    /// What follows a branch depends on its condition, until its ways meet.
    fn decide(&mut self, condition: &Operand) -> Result<(), Lost> {
        let top = self.stack.last_mut().ok_or(Lost)?;
        let condition = top.label(condition);
        if condition == A::Label::default() || !top.code.forks(top.block) {
            return Ok(());
        }
        let current = top.regions.current();
        let control = self.walker.analysis.decide(current, condition);
        let end: Option<BlockId> = top.code.meets(top.block);
        top.regions.branch(end, control);
        Ok(())
    }

    /// The activation ends; what it returns is for the one that called it.
    fn leave(&mut self, inst: &Inst) -> Result<(), Lost> {
        let top = self.stack.pop().ok_or(Lost)?;
        let label = match &inst.op {
            Op::Return { value: Some(value) } => top.label(value),
            _ => A::Label::default(),
        };
        if let Some(waiting) = self.stack.last_mut().and_then(|top| top.call.as_mut()) {
            let before = waiting.returned.unwrap_or_default();
            waiting.returned = Some(self.walker.analysis.join(before, label));
        }
        Ok(())
    }

    fn assembly(
        &mut self,
        inst: &Inst,
        effects: &[AssemblyEffect],
        arguments: &[Operand],
    ) -> Result<A::Label, Lost> {
        let mut label = self.compute(inst)?;
        let all = label;
        for effect in effects {
            match effect {
                AssemblyEffect::Flush { .. } | AssemblyEffect::Fence { .. } => {}
                AssemblyEffect::Unknown { .. } => {
                    self.walker.followed.unfollowed.assembly += 1;
                }
                AssemblyEffect::Load {
                    argument,
                    size_bytes,
                } => {
                    let pointer = arguments.get(*argument as usize).ok_or(Lost)?;
                    let size = u64::from(*size_bytes).max(1);
                    let read = self.load(inst, pointer, size)?;
                    label = self.walker.analysis.join(label, read);
                }
                AssemblyEffect::Store {
                    argument,
                    size_bytes,
                    ..
                } => {
                    let pointer = arguments.get(*argument as usize).ok_or(Lost)?;
                    let size = u64::from(*size_bytes).max(1);
                    self.store(inst, pointer, size, all)?;
                }
            }
        }
        Ok(label)
    }
}

pub(super) fn constant(operand: &Operand) -> Option<u64> {
    match operand {
        Operand::Constant(Constant::Integer { value, .. }) => Some(*value),
        Operand::Constant(_) | Operand::Value(_) => None,
    }
}
