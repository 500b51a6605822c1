//! Opcodes of LLVM by what they can do to memory: every one stands here, so that an opcode that LLVM
//! adds does not compile until it is sorted.

use llvm_sys::LLVMOpcode;

/// What an instruction of an opcode can do that a hook may have to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpcodeClass {
    Load,
    Store,
    ReadModifyWrite,
    CompareExchange,
    Fence,
    /// Runs other code, or is an intrinsic or inline assembly.
    Call,
    LandingPad,
    /// Accesses no memory that could be persistent. `va_arg` is among them: it reads arguments, which
    /// lie on the stack or in registers.
    NoMemory,
}

impl OpcodeClass {
    pub fn of(opcode: LLVMOpcode) -> OpcodeClass {
        use LLVMOpcode::*;
        match opcode {
            LLVMLoad => OpcodeClass::Load,
            LLVMStore => OpcodeClass::Store,
            LLVMAtomicRMW => OpcodeClass::ReadModifyWrite,
            LLVMAtomicCmpXchg => OpcodeClass::CompareExchange,
            LLVMFence => OpcodeClass::Fence,
            LLVMCall | LLVMInvoke | LLVMCallBr => OpcodeClass::Call,
            LLVMLandingPad => OpcodeClass::LandingPad,
            LLVMRet | LLVMBr | LLVMSwitch | LLVMIndirectBr | LLVMUnreachable | LLVMResume
            | LLVMCleanupRet | LLVMCatchRet | LLVMCatchPad | LLVMCleanupPad | LLVMCatchSwitch
            | LLVMFNeg | LLVMAdd | LLVMFAdd | LLVMSub | LLVMFSub | LLVMMul | LLVMFMul
            | LLVMUDiv | LLVMSDiv | LLVMFDiv | LLVMURem | LLVMSRem | LLVMFRem | LLVMShl
            | LLVMLShr | LLVMAShr | LLVMAnd | LLVMOr | LLVMXor | LLVMAlloca | LLVMGetElementPtr
            | LLVMTrunc | LLVMZExt | LLVMSExt | LLVMFPToUI | LLVMFPToSI | LLVMUIToFP
            | LLVMSIToFP | LLVMFPTrunc | LLVMFPExt | LLVMPtrToInt | LLVMIntToPtr | LLVMBitCast
            | LLVMAddrSpaceCast | LLVMICmp | LLVMFCmp | LLVMPHI | LLVMSelect | LLVMUserOp1
            | LLVMUserOp2 | LLVMVAArg | LLVMExtractElement | LLVMInsertElement
            | LLVMShuffleVector | LLVMExtractValue | LLVMInsertValue | LLVMFreeze => {
                OpcodeClass::NoMemory
            }
        }
    }
}
