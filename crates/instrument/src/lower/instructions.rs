//! One instruction of LLVM as one operation of the model.

use super::Lowering;
use crate::action::{Action, intrinsic_name, is_machine_fence, is_memory_intrinsic};
use crate::llvm::{Type, Value};
use crashpoint_abi::record::{FenceKind, FlushKind};
use crashpoint_ir::{AssemblyEffect, Callee, Op, Operand, Ordering};
use crashpoint_program::asm::{Effect, Length};
use llvm_sys::{LLVMAtomicOrdering, LLVMOpcode};

impl Lowering {
    pub fn op(&mut self, inst: Value, action: &Action) -> Op {
        use LLVMOpcode::*;
        match inst.opcode() {
            LLVMAlloca => Op::Alloca {
                allocated: self.ty(inst.allocated_type()),
                count: self.operand_at(inst, 0),
            },
            LLVMLoad => Op::Load {
                pointer: self.operand_at(inst, 0),
                size_bytes: self.store_bytes(inst.ty()),
                ordering: ordering(inst.ordering()),
                volatile: inst.is_volatile(),
            },
            LLVMStore => Op::Store {
                value: self.operand_at(inst, 0),
                pointer: self.operand_at(inst, 1),
                size_bytes: self.store_bytes(inst.operand(0).ty()),
                ordering: ordering(inst.ordering()),
                volatile: inst.is_volatile(),
                nontemporal: inst.is_nontemporal(),
            },
            LLVMGetElementPtr => Op::Address {
                source: self.ty(inst.gep_source()),
                base: self.operand_at(inst, 0),
                indices: self.operands(inst.operands().skip(1)),
                inbounds: inst.is_inbounds(),
            },
            LLVMFNeg | LLVMAdd | LLVMFAdd | LLVMSub | LLVMFSub | LLVMMul | LLVMFMul | LLVMUDiv
            | LLVMSDiv | LLVMFDiv | LLVMURem | LLVMSRem | LLVMFRem | LLVMShl | LLVMLShr
            | LLVMAShr | LLVMAnd | LLVMOr | LLVMXor => Op::Arithmetic {
                name: inst.opcode_name(),
                operands: self.operands(inst.operands()),
            },
            LLVMTrunc | LLVMZExt | LLVMSExt | LLVMFPToUI | LLVMFPToSI | LLVMUIToFP | LLVMSIToFP
            | LLVMFPTrunc | LLVMFPExt | LLVMPtrToInt | LLVMIntToPtr | LLVMBitCast
            | LLVMAddrSpaceCast => Op::Cast {
                name: inst.opcode_name(),
                value: self.operand_at(inst, 0),
            },
            LLVMICmp | LLVMFCmp => Op::Compare {
                predicate: inst.predicate_name(),
                float: inst.opcode() == LLVMFCmp,
                left: self.operand_at(inst, 0),
                right: self.operand_at(inst, 1),
            },
            LLVMSelect => Op::Select {
                condition: self.operand_at(inst, 0),
                then: self.operand_at(inst, 1),
                otherwise: self.operand_at(inst, 2),
            },
            LLVMPHI => Op::Phi {
                incoming: inst
                    .incoming()
                    .into_iter()
                    .map(|(block, value)| (self.block(block), self.operand(value)))
                    .collect(),
            },
            LLVMExtractValue | LLVMInsertValue | LLVMExtractElement | LLVMInsertElement
            | LLVMShuffleVector => self.element_op(inst),
            LLVMFreeze => Op::Freeze {
                value: self.operand_at(inst, 0),
            },
            LLVMVAArg => Op::VaArg {
                list: self.operand_at(inst, 0),
            },
            LLVMFence => Op::Fence {
                ordering: ordering(inst.ordering()),
                machine: is_machine_fence(inst),
            },
            LLVMAtomicCmpXchg => Op::CompareExchange {
                pointer: self.operand_at(inst, 0),
                expected: self.operand_at(inst, 1),
                new: self.operand_at(inst, 2),
                size_bytes: self.store_bytes(inst.operand(2).ty()),
                ordering: ordering(inst.success_ordering()),
            },
            LLVMAtomicRMW => Op::ReadModifyWrite {
                name: inst.rmw_name(),
                pointer: self.operand_at(inst, 0),
                value: self.operand_at(inst, 1),
                size_bytes: self.store_bytes(inst.operand(1).ty()),
                ordering: ordering(inst.ordering()),
            },
            LLVMCall => self.call(inst, action),
            LLVMLandingPad => Op::LandingPad {
                cleanup: inst.is_cleanup(),
            },
            LLVMRet | LLVMBr | LLVMSwitch | LLVMIndirectBr | LLVMInvoke | LLVMUnreachable
            | LLVMCallBr | LLVMResume => self.terminator(inst, action),
            LLVMUserOp1 | LLVMUserOp2 | LLVMCleanupRet | LLVMCatchRet | LLVMCatchPad
            | LLVMCleanupPad | LLVMCatchSwitch => self.opaque(inst),
        }
    }

    fn element_op(&mut self, inst: Value) -> Op {
        use LLVMOpcode::*;
        match inst.opcode() {
            LLVMExtractValue => Op::ExtractValue {
                aggregate: self.operand_at(inst, 0),
                indices: inst.indices(),
            },
            LLVMInsertValue => Op::InsertValue {
                aggregate: self.operand_at(inst, 0),
                value: self.operand_at(inst, 1),
                indices: inst.indices(),
            },
            LLVMExtractElement => Op::ExtractElement {
                vector: self.operand_at(inst, 0),
                index: self.operand_at(inst, 1),
            },
            LLVMInsertElement => Op::InsertElement {
                vector: self.operand_at(inst, 0),
                value: self.operand_at(inst, 1),
                index: self.operand_at(inst, 2),
            },
            LLVMShuffleVector => Op::ShuffleVector {
                left: self.operand_at(inst, 0),
                right: self.operand_at(inst, 1),
                mask: inst.shuffle_mask(),
            },
            _ => self.opaque(inst),
        }
    }

    fn terminator(&mut self, inst: Value, action: &Action) -> Op {
        use LLVMOpcode::*;
        let to = inst.successors();
        match inst.opcode() {
            LLVMRet => Op::Return {
                value: (inst.operand_count() == 1).then(|| self.operand_at(inst, 0)),
            },
            LLVMBr if to.len() == 1 => Op::Branch {
                to: self.block(to[0]),
            },
            LLVMBr => Op::ConditionalBranch {
                condition: self.operand_at(inst, 0),
                then: self.block(to[0]),
                otherwise: self.block(to[1]),
            },
            LLVMSwitch => Op::Switch {
                value: self.operand_at(inst, 0),
                default: self.block(to[0]),
                cases: inst
                    .switch_cases()
                    .into_iter()
                    .map(|(value, block)| (self.constant(value), self.block(block)))
                    .collect(),
            },
            LLVMIndirectBr => Op::IndirectBranch {
                address: self.operand_at(inst, 0),
                targets: to.iter().map(|block| self.block(*block)).collect(),
            },
            LLVMInvoke if intrinsic_name(inst).is_none() => Op::Invoke {
                callee: self.callee(inst, action),
                arguments: self.operands(inst.arguments()),
                normal: self.block(inst.invoke_normal()),
                unwind: self.block(inst.invoke_unwind()),
            },
            LLVMCallBr if intrinsic_name(inst).is_none() => Op::CallBranch {
                callee: self.callee(inst, action),
                arguments: self.operands(inst.arguments()),
                default: self.block(to[0]),
                indirect: to[1..].iter().map(|block| self.block(*block)).collect(),
            },
            LLVMResume => Op::Resume {
                value: self.operand_at(inst, 0),
            },
            LLVMUnreachable => Op::Unreachable,
            _ => self.opaque(inst),
        }
    }

    fn opaque(&mut self, inst: Value) -> Op {
        let successors = if inst.is_terminator() {
            inst.successors()
        } else {
            Vec::new()
        };
        let operands: Vec<Value> = inst
            .operands()
            .filter(|operand| !operand.is_block())
            .collect();
        Op::Opaque {
            opcode: intrinsic_name(inst).unwrap_or_else(|| inst.opcode_name()),
            operands: self.operands(operands),
            successors: successors.iter().map(|block| self.block(*block)).collect(),
        }
    }

    fn call(&mut self, inst: Value, action: &Action) -> Op {
        match intrinsic_name(inst) {
            Some(name) => self.intrinsic(inst, &name),
            None => Op::Call {
                callee: self.callee(inst, action),
                arguments: self.operands(inst.arguments()),
                tail: inst.must_tail(),
            },
        }
    }

    fn callee(&mut self, inst: Value, action: &Action) -> Callee {
        let called = inst.called();
        if let Action::Assembly(effects) = action {
            let (text, constraints) = called.assembly();
            return Callee::Assembly {
                text,
                constraints,
                effects: effects.iter().map(assembly_effect).collect(),
            };
        }
        if let Action::Call(call) = action
            && let Some(callee) = call.callee
        {
            let object = callee.aliased();
            let known = self.functions.get(&callee).copied();
            if let Some(id) = known.or_else(|| self.functions.get(&object?).copied()) {
                return Callee::Direct(id);
            }
        }
        Callee::Indirect(self.operand(called))
    }

    fn intrinsic(&mut self, inst: Value, name: &str) -> Op {
        let flush = |name: &str, pointer: Operand| Op::Flush {
            name: name.to_owned(),
            pointer,
        };
        let short = |name: &str| name.split('.').nth(1).unwrap_or_default().to_owned();
        match name {
            "llvm.x86.sse2.clflush" => flush("clflush", self.operand_at(inst, 0)),
            "llvm.x86.clflushopt" => flush("clflushopt", self.operand_at(inst, 0)),
            "llvm.x86.clwb" => flush("clwb", self.operand_at(inst, 0)),
            "llvm.x86.sse.sfence" => Op::PersistFence {
                name: "sfence".to_owned(),
            },
            "llvm.x86.sse2.mfence" => Op::PersistFence {
                name: "mfence".to_owned(),
            },
            _ if is_memory_intrinsic(name) && name.starts_with("llvm.memset.") => Op::MemorySet {
                name: short(name),
                to: self.operand_at(inst, 0),
                value: self.operand_at(inst, 1),
                length: self.operand_at(inst, 2),
            },
            _ if is_memory_intrinsic(name) => Op::MemoryCopy {
                name: short(name),
                to: self.operand_at(inst, 0),
                from: self.operand_at(inst, 1),
                length: self.operand_at(inst, 2),
            },
            _ if matters(inst, name) => Op::Opaque {
                opcode: name.to_owned(),
                operands: self.operands(inst.arguments()),
                successors: Vec::new(),
            },
            _ => Op::Intrinsic {
                name: name.to_owned(),
                arguments: self.operands(inst.arguments()),
            },
        }
    }

    pub fn store_bytes(&self, ty: Type) -> u64 {
        if ty.is_sized() && !ty.is_scalable() {
            ty.store_bytes(self.module)
        } else {
            0
        }
    }
}

/// Whether an intrinsic accesses memory in a way that a replay would have to know.
fn matters(inst: Value, name: &str) -> bool {
    const HARMLESS: [&str; 12] = [
        "llvm.lifetime.",
        "llvm.invariant.",
        "llvm.va_",
        "llvm.prefetch",
        "llvm.assume",
        "llvm.stack",
        "llvm.eh.",
        "llvm.launder.",
        "llvm.strip.",
        "llvm.threadlocal.",
        "llvm.x86.cldemote",
        "llvm.instrprof.",
    ];
    let addresses = |value: Value| {
        let ty = value.ty();
        ty.is_pointer() || ty.is_vector() && ty.element().is_pointer()
    };
    inst.accesses_memory()
        && !HARMLESS.iter().any(|prefix| name.starts_with(prefix))
        && inst.arguments().into_iter().any(addresses)
}

fn ordering(ordering: LLVMAtomicOrdering) -> Ordering {
    use LLVMAtomicOrdering::*;
    match ordering {
        LLVMAtomicOrderingNotAtomic => Ordering::NotAtomic,
        LLVMAtomicOrderingUnordered => Ordering::Unordered,
        LLVMAtomicOrderingMonotonic => Ordering::Relaxed,
        LLVMAtomicOrderingAcquire => Ordering::Acquire,
        LLVMAtomicOrderingRelease => Ordering::Release,
        LLVMAtomicOrderingAcquireRelease => Ordering::AcquireRelease,
        LLVMAtomicOrderingSequentiallyConsistent => Ordering::SequentiallyConsistent,
    }
}

/// A length that is only known at run time is 0 in the model.
fn assembly_effect(effect: &Effect) -> AssemblyEffect {
    let bytes = |length: &Length| match length {
        Length::Bytes(bytes) => u32::try_from(*bytes).unwrap_or(0),
        Length::Counted { .. } => 0,
    };
    match effect {
        Effect::Flush { kind, place } => AssemblyEffect::Flush {
            name: match kind {
                FlushKind::Clflush => "clflush",
                FlushKind::Clflushopt => "clflushopt",
                FlushKind::Clwb => "clwb",
            }
            .to_owned(),
            argument: place.argument,
        },
        Effect::Fence(kind) => AssemblyEffect::Fence {
            name: match kind {
                FenceKind::Sfence => "sfence",
                FenceKind::Mfence => "mfence",
                FenceKind::Locked => "lock",
            }
            .to_owned(),
        },
        Effect::Store {
            place,
            length,
            locked,
            nontemporal,
        } => AssemblyEffect::Store {
            argument: place.argument,
            size_bytes: bytes(length),
            locked: *locked,
            nontemporal: *nontemporal,
        },
        Effect::Load { place, length } => AssemblyEffect::Load {
            argument: place.argument,
            size_bytes: bytes(length),
        },
        Effect::Unknown(text) => AssemblyEffect::Unknown { text: text.clone() },
    }
}
