//! Which definition a call reaches.

use crate::llvm::Value;

/// The function that a direct call reaches for certain.
pub fn final_target(callee: Value) -> Option<Value> {
    use llvm_sys::LLVMValueKind::{LLVMFunctionValueKind, LLVMGlobalAliasValueKind};
    if !matches!(
        callee.kind(),
        LLVMFunctionValueKind | LLVMGlobalAliasValueKind
    ) {
        return None;
    }
    let target = callee.aliased().filter(|target| target.is_function())?;
    (is_final(callee) && is_final(target)).then_some(target)
}

/// Whether the definition here is the one that a call reaches: nobody can put another in its place,
/// or any other would be the same.
fn is_final(function: Value) -> bool {
    use llvm_sys::LLVMLinkage::*;
    match function.linkage() {
        LLVMInternalLinkage | LLVMPrivateLinkage => true,
        LLVMLinkOnceODRLinkage | LLVMWeakODRLinkage | LLVMAvailableExternallyLinkage => true,
        _ => !function.is_interposable() && function.is_dso_local(),
    }
}
