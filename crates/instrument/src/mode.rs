//! How each function is instrumented.
//!
//! Most functions become three: a dispatcher that keeps the symbol, a plain copy and a hooked copy.
//! Where copies would change what the program means, the function keeps its one body and tests the
//! gate at entry (*in place*). What cannot carry hooks at all stays as it is, with a reason that
//! the model keeps.

use crate::action::intrinsic_name;
use crate::llvm::{self, Value};
use llvm_sys::{LLVMLinkage, LLVMOpcode, LLVMTypeKind};
use rustc_hash::FxHashSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Declaration,
    Copies(Merge),
    /// The body is only here for inlining: a hooked copy, and nothing else changes.
    HookedOnly(Merge),
    InPlace,
    Unhooked(&'static str),
}

/// How copies of the same function in other objects are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// The copies are this object's own.
    Internal,
    /// All objects have the same, and the linker keeps one.
    ByName,
}

impl Mode {
    pub fn is_hooked(self) -> bool {
        match self {
            Mode::Copies(_) | Mode::HookedOnly(_) | Mode::InPlace => true,
            Mode::Declaration | Mode::Unhooked(_) => false,
        }
    }
}

/// Functions of the module that may not be hooked whatever they contain.
pub struct Modes {
    resolvers: FxHashSet<Value>,
}

impl Modes {
    pub fn new(module: llvm::Module) -> Modes {
        Modes {
            resolvers: module
                .ifuncs()
                .into_iter()
                .filter_map(Value::ifunc_resolver)
                .collect(),
        }
    }

    pub fn of(&self, function: Value) -> Mode {
        if function.is_declaration() {
            return Mode::Declaration;
        }
        if let Some(reason) = self.refusal(function) {
            return Mode::Unhooked(reason);
        }
        let linkage = function.linkage();
        let merge = match linkage {
            LLVMLinkage::LLVMLinkOnceODRLinkage | LLVMLinkage::LLVMWeakODRLinkage => Merge::ByName,
            // Of C's inline functions only those of C++ are the same everywhere.
            LLVMLinkage::LLVMAvailableExternallyLinkage if function.name().starts_with("_Z") => {
                Merge::ByName
            }
            _ => Merge::Internal,
        };
        if linkage == LLVMLinkage::LLVMAvailableExternallyLinkage {
            return Mode::HookedOnly(merge);
        }
        // A table of labels outside of the body can name one body only. A function whose group the
        // linker may drop must not leave copies behind that refer into the group.
        let grouped = function.has_comdat() && merge == Merge::Internal;
        // Variable arguments can only be handed on by a guaranteed tail call, and arguments on the
        // stack must not be handed on by one: LLVM 19 overwrites the caller's frame.
        let stuck = function.value_type().is_variadic()
            && function
                .parameters()
                .into_iter()
                .any(Value::is_parameter_on_stack);
        if grouped || stuck || function.block_address_escapes() {
            return Mode::InPlace;
        }
        Mode::Copies(merge)
    }

    fn refusal(&self, function: Value) -> Option<&'static str> {
        if self.resolvers.contains(&function) {
            return Some("it resolves an indirect function while the program is being loaded");
        }
        if function.has_attribute("naked") {
            return Some("it is naked");
        }
        if function.has_attribute("presplitcoroutine") {
            return Some("it is a coroutine");
        }
        if function.has_attribute("returns_twice") {
            return Some("it returns twice");
        }
        if function.name() == "__clang_call_terminate" {
            return Some("it is the compiler's own");
        }
        // C, fast, cold, preserve_most, preserve_all, x86 stdcall and 64-bit conventions.
        if !matches!(
            function.calling_convention(),
            0 | 8 | 9 | 14 | 15 | 64 | 78 | 79
        ) {
            return Some("its calling convention is not that of an ordinary function");
        }
        function
            .blocks()
            .into_iter()
            .flat_map(llvm::BasicBlock::instructions)
            .find_map(refused_instruction)
    }
}

fn refused_instruction(instruction: Value) -> Option<&'static str> {
    use LLVMOpcode::*;
    if matches!(
        instruction.opcode(),
        LLVMCatchSwitch | LLVMCatchPad | LLVMCleanupPad | LLVMCatchRet | LLVMCleanupRet
    ) {
        return Some("it handles exceptions by funclets");
    }
    if instruction.opcode() == LLVMCall
        && instruction.ty().kind() == LLVMTypeKind::LLVMTokenTypeKind
    {
        return Some("it uses tokens");
    }
    match intrinsic_name(instruction)?.as_str() {
        "llvm.localescape" => Some("its frame is shared with a filter"),
        name if name.starts_with("llvm.coro.") => Some("it is part of a coroutine"),
        _ => None,
    }
}
