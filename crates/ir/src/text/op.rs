//! Operations as text.

use super::constant::ConstantText;
use super::{FieldName, Name, Value};
use crate::types::AddressStep;
use crate::{
    AssemblyEffect, BlockId, Callee, Constant, Function, Inst, Module, Op, OpClass, Operand,
    Ordering,
};
use std::fmt::{self, Display, Formatter};

pub(super) struct Writer<'a> {
    pub(super) module: &'a Module,
    pub(super) function: &'a Function,
    pub(super) inst: &'a Inst,
}

/// A list with commas.
struct List<T>(Vec<T>);

impl<T: Display> Display for List<T> {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        for (index, item) in self.0.iter().enumerate() {
            let before = if index == 0 { "" } else { ", " };
            write!(to, "{before}{item}")?;
        }
        Ok(())
    }
}

struct OperandText<'a>(&'a Module, &'a Function, &'a Operand);

impl Display for OperandText<'_> {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        match self.2 {
            Operand::Value(value) => write!(to, "{}", Value(self.1, *value)),
            Operand::Constant(constant) => write!(to, "{}", ConstantText(self.0, constant)),
        }
    }
}

struct BlockText(BlockId);

impl Display for BlockText {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        write!(to, "b{}", self.0.0)
    }
}

/// An ordering, with a blank before it; nothing for what is not atomic.
fn ordering(ordering: Ordering) -> &'static str {
    match ordering {
        Ordering::NotAtomic => "",
        Ordering::Unordered => " unordered",
        Ordering::Relaxed => " relaxed",
        Ordering::Acquire => " acquire",
        Ordering::Release => " release",
        Ordering::AcquireRelease => " acquire_release",
        Ordering::SequentiallyConsistent => " sequentially_consistent",
    }
}

fn flag(set: bool, text: &'static str) -> &'static str {
    if set { text } else { "" }
}

impl<'a> Writer<'a> {
    fn operand(&self, operand: &'a Operand) -> OperandText<'a> {
        OperandText(self.module, self.function, operand)
    }

    fn operands(&self, operands: &'a [Operand]) -> List<OperandText<'a>> {
        List(
            operands
                .iter()
                .map(|operand| self.operand(operand))
                .collect(),
        )
    }

    fn blocks(&self, blocks: &[BlockId]) -> List<BlockText> {
        List(blocks.iter().copied().map(BlockText).collect())
    }

    fn ty(&self) -> String {
        self.module.type_name(self.inst.ty)
    }

    pub(super) fn write(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let op = &self.inst.op;
        match op.class() {
            OpClass::Write(_) | OpClass::Memory | OpClass::Persist => self.memory(to, op),
            OpClass::Value => self.value(to, op),
            OpClass::Call | OpClass::Terminator | OpClass::Opaque => self.control(to, op),
        }
    }

    fn memory(&self, to: &mut Formatter<'_>, op: &'a Op) -> fmt::Result {
        match op {
            Op::Alloca { allocated, count } => {
                write!(to, "alloca {}", self.module.type_name(*allocated))?;
                match count {
                    Operand::Constant(Constant::Integer { value: 1, .. }) => Ok(()),
                    count => write!(to, ", {}", self.operand(count)),
                }
            }
            Op::Load {
                pointer,
                size_bytes,
                ordering: order,
                volatile,
            } => {
                let volatile = flag(*volatile, " volatile");
                let (order, pointer) = (ordering(*order), self.operand(pointer));
                write!(
                    to,
                    "load{volatile}{order} {} from {pointer}, {size_bytes}",
                    self.ty()
                )
            }
            Op::Store {
                value,
                pointer,
                size_bytes,
                ordering: order,
                volatile,
                nontemporal,
            } => {
                let volatile = flag(*volatile, " volatile");
                let nontemporal = flag(*nontemporal, " nontemporal");
                let order = ordering(*order);
                let (value, pointer) = (self.operand(value), self.operand(pointer));
                write!(
                    to,
                    "store{volatile}{nontemporal}{order} {value} to {pointer}, {size_bytes}"
                )
            }
            Op::Address {
                source,
                base,
                indices,
                inbounds,
            } => {
                let source_name = self.module.type_name(*source);
                let anywhere = flag(!*inbounds, " anywhere");
                write!(
                    to,
                    "address{anywhere} {source_name} {}, ",
                    self.operand(base)
                )?;
                let (steps, _) = self.module.address_steps(*source, indices);
                self.steps(to, &steps)
            }
            Op::ReadModifyWrite {
                name,
                pointer,
                value,
                size_bytes,
                ordering: order,
            } => {
                let (pointer, value) = (self.operand(pointer), self.operand(value));
                let order = ordering(*order);
                write!(
                    to,
                    "atomic {}{order} {pointer} by {value}, {size_bytes}",
                    Name(name)
                )
            }
            Op::CompareExchange {
                pointer,
                expected,
                new,
                size_bytes,
                ordering: order,
            } => {
                let (pointer, expected) = (self.operand(pointer), self.operand(expected));
                let (order, new) = (ordering(*order), self.operand(new));
                write!(
                    to,
                    "cmpxchg{order} {pointer} from {expected} to {new}, {size_bytes}"
                )
            }
            Op::Fence {
                ordering: order,
                machine,
            } => write!(
                to,
                "fence{}{}",
                ordering(*order),
                flag(*machine, " machine")
            ),
            Op::Flush { name, pointer } => {
                write!(to, "flush {} {}", Name(name), self.operand(pointer))
            }
            Op::PersistFence { name } => write!(to, "fence {}", Name(name)),
            Op::MemoryCopy {
                name,
                to: target,
                from,
                length,
            } => {
                let (target, from) = (self.operand(target), self.operand(from));
                write!(
                    to,
                    "{} {target} from {from}, {}",
                    Name(name),
                    self.operand(length)
                )
            }
            Op::MemorySet {
                name,
                to: target,
                value,
                length,
            } => {
                let (target, value) = (self.operand(target), self.operand(value));
                write!(
                    to,
                    "{} {target} by {value}, {}",
                    Name(name),
                    self.operand(length)
                )
            }
            _ => unreachable!("`write` sends only the above"),
        }
    }

    /// `.field[index]`; a first index of zero, which steps over nothing, is left out.
    fn steps(&self, to: &mut Formatter<'_>, steps: &[AddressStep<'a>]) -> fmt::Result {
        let zero = |operand: &Operand| {
            matches!(
                operand,
                Operand::Constant(Constant::Integer { value: 0, .. })
            )
        };
        for (position, step) in steps.iter().enumerate() {
            match step {
                AddressStep::Index(index) if position == 0 && zero(index) && steps.len() > 1 => {}
                AddressStep::Index(index) => write!(to, "[{}]", self.operand(index))?,
                AddressStep::Field { index, name } => write!(to, "{}", FieldName(*index, *name))?,
                AddressStep::Unknown(index) => write!(to, "?{}", self.operand(index))?,
            }
        }
        Ok(())
    }

    fn value(&self, to: &mut Formatter<'_>, op: &'a Op) -> fmt::Result {
        let ty = self.ty();
        match op {
            Op::Arithmetic { name, operands } => {
                write!(to, "{} {ty} {}", Name(name), self.operands(operands))
            }
            Op::Cast { name, value } => {
                write!(to, "{} {} to {ty}", Name(name), self.operand(value))
            }
            Op::Compare {
                predicate,
                float,
                left,
                right,
            } => {
                let (left, right) = (self.operand(left), self.operand(right));
                let what = if *float { "fcmp" } else { "icmp" };
                write!(to, "{what} {} {left}, {right}", Name(predicate))
            }
            Op::Select {
                condition,
                then,
                otherwise,
            } => {
                let (then, otherwise) = (self.operand(then), self.operand(otherwise));
                write!(
                    to,
                    "select {} then {then} else {otherwise}",
                    self.operand(condition)
                )
            }
            Op::Phi { incoming } => {
                write!(to, "phi {ty}")?;
                for (index, (block, value)) in incoming.iter().enumerate() {
                    let before = if index == 0 { " " } else { ", " };
                    write!(to, "{before}b{}: {}", block.0, self.operand(value))?;
                }
                Ok(())
            }
            Op::ExtractValue { aggregate, indices } => {
                write!(to, "extract {}, {indices:?}", self.operand(aggregate))
            }
            Op::InsertValue {
                aggregate,
                value,
                indices,
            } => {
                let (aggregate, value) = (self.operand(aggregate), self.operand(value));
                write!(to, "insert {value} into {aggregate}, {indices:?}")
            }
            Op::ExtractElement { vector, index } => {
                write!(
                    to,
                    "extract {}[{}]",
                    self.operand(vector),
                    self.operand(index)
                )
            }
            Op::InsertElement {
                vector,
                value,
                index,
            } => {
                let (vector, index) = (self.operand(vector), self.operand(index));
                write!(to, "insert {} into {vector}[{index}]", self.operand(value))
            }
            Op::ShuffleVector { left, right, mask } => {
                let (left, right) = (self.operand(left), self.operand(right));
                write!(to, "shuffle {left}, {right}, {mask:?}")
            }
            Op::Freeze { value } => write!(to, "freeze {}", self.operand(value)),
            Op::VaArg { list } => write!(to, "va_arg {ty} {}", self.operand(list)),
            Op::Intrinsic { name, arguments } => {
                write!(to, "{}({})", Name(name), self.operands(arguments))
            }
            Op::LandingPad { cleanup } => {
                write!(to, "landingpad {ty}{}", flag(*cleanup, " cleanup"))
            }
            _ => unreachable!("`write` sends only the above"),
        }
    }

    fn control(&self, to: &mut Formatter<'_>, op: &'a Op) -> fmt::Result {
        match op {
            Op::Call {
                callee,
                arguments,
                tail,
            } => self.call(to, flag(*tail, "tail "), callee, arguments),
            Op::Invoke {
                callee,
                arguments,
                normal,
                unwind,
            } => {
                self.call(to, "", callee, arguments)?;
                write!(to, " then b{} unwind b{}", normal.0, unwind.0)
            }
            Op::CallBranch {
                callee,
                arguments,
                default,
                indirect,
            } => {
                self.call(to, "", callee, arguments)?;
                write!(to, " then b{} or {}", default.0, self.blocks(indirect))
            }
            Op::Branch { to: block } => write!(to, "goto b{}", block.0),
            Op::ConditionalBranch {
                condition,
                then,
                otherwise,
            } => {
                let condition = self.operand(condition);
                write!(to, "if {condition} then b{} else b{}", then.0, otherwise.0)
            }
            Op::Switch {
                value,
                default,
                cases,
            } => {
                write!(to, "switch {}", self.operand(value))?;
                for (constant, block) in cases {
                    write!(
                        to,
                        " {}: b{},",
                        ConstantText(self.module, constant),
                        block.0
                    )?;
                }
                write!(to, " else b{}", default.0)
            }
            Op::IndirectBranch { address, targets } => {
                write!(
                    to,
                    "goto {} in {}",
                    self.operand(address),
                    self.blocks(targets)
                )
            }
            Op::Return { value: None } => to.write_str("return"),
            Op::Return { value: Some(value) } => write!(to, "return {}", self.operand(value)),
            Op::Resume { value } => write!(to, "resume {}", self.operand(value)),
            Op::Unreachable => to.write_str("unreachable"),
            Op::Opaque {
                opcode,
                operands,
                successors,
            } => {
                write!(to, "opaque {} {}", Name(opcode), self.operands(operands))?;
                match successors.is_empty() {
                    true => Ok(()),
                    false => write!(to, " to {}", self.blocks(successors)),
                }
            }
            _ => unreachable!("`write` sends only the above"),
        }
    }

    fn call(
        &self,
        to: &mut Formatter<'_>,
        tail: &str,
        callee: &'a Callee,
        arguments: &'a [Operand],
    ) -> fmt::Result {
        write!(to, "{tail}call {} ", self.ty())?;
        match callee {
            Callee::Direct(id) => {
                write!(to, "@{}", Name(&self.module.functions[id.index()].name))?;
            }
            Callee::Indirect(target) => write!(to, "{}", self.operand(target))?,
            Callee::Assembly {
                text, constraints, ..
            } => write!(
                to,
                "asm \"{}\" \"{}\"",
                text.escape_debug(),
                constraints.escape_debug()
            )?,
        }
        write!(to, "({})", self.operands(arguments))?;
        if let Callee::Assembly { effects, .. } = callee {
            let effects = effects.iter().map(|effect| self.effect(effect, arguments));
            write!(to, " does [{}]", List(effects.collect()))?;
        }
        Ok(())
    }

    fn effect(&self, effect: &AssemblyEffect, arguments: &'a [Operand]) -> String {
        let argument = |index: u32| match arguments.get(index as usize) {
            Some(operand) => self.operand(operand).to_string(),
            None => format!("argument {index}"),
        };
        match effect {
            AssemblyEffect::Flush {
                name,
                argument: index,
            } => format!("flush {} {}", Name(name), argument(*index)),
            AssemblyEffect::Fence { name } => format!("fence {}", Name(name)),
            AssemblyEffect::Store {
                argument: index,
                size_bytes,
                locked,
                nontemporal,
            } => {
                let kind = [flag(*locked, " locked"), flag(*nontemporal, " nontemporal")].concat();
                format!("store{kind} to {}, {size_bytes}", argument(*index))
            }
            AssemblyEffect::Load {
                argument: index,
                size_bytes,
            } => format!("load from {}, {size_bytes}", argument(*index)),
            AssemblyEffect::Unknown { text } => format!("unknown \"{}\"", text.escape_debug()),
        }
    }
}
