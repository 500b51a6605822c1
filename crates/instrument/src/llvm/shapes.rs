//! Blocks and types.

use super::{Module, Value, disposed, ffi, shim};
use llvm_sys::core::*;
use llvm_sys::prelude::{LLVMBasicBlockRef, LLVMTypeRef};
use llvm_sys::target::{
    LLVMABISizeOfType, LLVMOffsetOfElement, LLVMSizeOfTypeInBits, LLVMStoreSizeOfType,
};
use llvm_sys::{LLVMOpcode, LLVMTypeKind};
use std::ffi::CStr;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BasicBlock(pub LLVMBasicBlockRef);

impl BasicBlock {
    pub fn instructions(self) -> Vec<Value> {
        Value::list(ffi!(LLVMGetFirstInstruction(self.0)), |i| {
            ffi!(LLVMGetNextInstruction(i))
        })
    }

    pub fn function(self) -> Value {
        Value(ffi!(LLVMGetBasicBlockParent(self.0)))
    }

    pub fn terminator(self) -> Value {
        Value(ffi!(LLVMGetBasicBlockTerminator(self.0)))
    }

    pub fn first_behind_phis(self) -> Value {
        let mut first = Value(ffi!(LLVMGetFirstInstruction(self.0)));
        while first.is_opcode(LLVMOpcode::LLVMPHI) {
            first = first.next().expect("a terminator follows");
        }
        first
    }

    pub fn predecessor_count(self) -> u32 {
        ffi!(shim::cp_predecessor_count(self.0))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Type(pub LLVMTypeRef);

impl Type {
    pub fn kind(self) -> LLVMTypeKind {
        ffi!(LLVMGetTypeKind(self.0))
    }

    pub fn is_pointer(self) -> bool {
        self.kind() == LLVMTypeKind::LLVMPointerTypeKind
    }

    pub fn is_void(self) -> bool {
        self.kind() == LLVMTypeKind::LLVMVoidTypeKind
    }

    pub fn is_sized(self) -> bool {
        ffi!(LLVMTypeIsSized(self.0)) != 0
    }

    pub fn is_vector(self) -> bool {
        matches!(
            self.kind(),
            LLVMTypeKind::LLVMVectorTypeKind | LLVMTypeKind::LLVMScalableVectorTypeKind
        )
    }

    pub fn is_scalable(self) -> bool {
        self.kind() == LLVMTypeKind::LLVMScalableVectorTypeKind
    }

    pub fn integer_bits(self) -> Option<u32> {
        (self.kind() == LLVMTypeKind::LLVMIntegerTypeKind)
            .then(|| ffi!(LLVMGetIntTypeWidth(self.0)))
    }

    pub fn print(self) -> String {
        disposed(ffi!(LLVMPrintTypeToString(self.0)))
    }

    pub fn address_space(self) -> u32 {
        ffi!(LLVMGetPointerAddressSpace(self.0))
    }

    /// Of arrays and vectors.
    pub fn element(self) -> Type {
        Type(ffi!(LLVMGetElementType(self.0)))
    }

    pub fn array_length(self) -> u64 {
        ffi!(LLVMGetArrayLength2(self.0))
    }

    pub fn vector_length(self) -> u32 {
        ffi!(LLVMGetVectorSize(self.0))
    }

    pub fn struct_name(self) -> Option<String> {
        let name = ffi!(LLVMGetStructName(self.0));
        (!name.is_null()).then(|| ffi!(CStr::from_ptr(name)).to_string_lossy().into_owned())
    }

    pub fn struct_fields(self) -> Vec<Type> {
        (0..ffi!(LLVMCountStructElementTypes(self.0)))
            .map(|i| Type(ffi!(LLVMStructGetTypeAtIndex(self.0, i))))
            .collect()
    }

    pub fn struct_offset(self, module: Module, field: u32) -> u64 {
        ffi!(LLVMOffsetOfElement(module.layout(), self.0, field))
    }

    pub fn function_result(self) -> Type {
        Type(ffi!(LLVMGetReturnType(self.0)))
    }

    pub fn function_parameters(self) -> Vec<Type> {
        let count = ffi!(LLVMCountParamTypes(self.0)) as usize;
        let mut found = vec![std::ptr::null_mut(); count];
        ffi!(LLVMGetParamTypes(self.0, found.as_mut_ptr()));
        found.into_iter().map(Type).collect()
    }

    pub fn is_variadic(self) -> bool {
        ffi!(LLVMIsFunctionVarArg(self.0)) != 0
    }

    pub fn bits(self, module: Module) -> u64 {
        ffi!(LLVMSizeOfTypeInBits(module.layout(), self.0))
    }

    /// Bytes that a store of this type writes.
    pub fn store_bytes(self, module: Module) -> u64 {
        ffi!(LLVMStoreSizeOfType(module.layout(), self.0))
    }

    /// Bytes from one element of an array to the next.
    pub fn alloc_bytes(self, module: Module) -> u64 {
        ffi!(LLVMABISizeOfType(module.layout(), self.0))
    }
}
