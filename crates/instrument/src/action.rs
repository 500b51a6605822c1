//! What an instruction does that a hook must report.
//!
//! Every instruction is sorted here, once, before anything is inserted: by its opcode
//! ([`OpcodeClass`]), intrinsics by their names. A machine intrinsic that is not listed and may write
//! to persistent memory is [`Action::Opaque`]; other intrinsics that are not listed are taken to
//! access nothing. An access that cannot be to persistent memory is [`Action::Nothing`]: locals,
//! thread-local variables, constants, and globals smaller than a page (a program may map a pool over
//! a page-sized one).

use crate::library::{self, SyncCall, Write};
use crate::llvm::{self, Type, Value};
use crate::opcode::OpcodeClass;
use crate::reads;
use crashpoint_abi::record::{FenceKind, FlushKind, StoreKind};
use crashpoint_program::asm::{self, Assembly, Effect};
use llvm_sys::{LLVMAtomicOrdering, LLVMOpcode};

#[derive(Clone, Debug)]
pub enum Action {
    Nothing,
    Load,
    Store(StoreKind),
    ReadModifyWrite,
    CompareExchange,
    Fence(FenceKind),
    Flush(FlushKind),
    /// A memory intrinsic: destination is argument 0, length argument 2.
    Memory,
    /// An intrinsic that writes at most so many bytes at an argument.
    Intrinsic {
        pointer: u32,
        bytes: u64,
        kind: StoreKind,
        /// The destination is rounded down to a cache line.
        line: bool,
    },
    /// An intrinsic that reads persistent memory, perhaps, and does not write it; see
    /// `crate::reads`.
    Read,
    /// An intrinsic that writes where we cannot tell.
    Opaque,
    Assembly(Vec<Effect>),
    Call(CallAction),
    LandingPad,
    /// `__builtin_setjmp`.
    ReturnsTwice,
}

/// Actions that something is reported of before they happen.
#[derive(Clone, Copy, Debug)]
pub enum HookBefore<'a> {
    Flush(FlushKind),
    Assembly(&'a [Effect]),
    Call(&'a CallAction),
}

/// A call that may run other code.
#[derive(Clone, Debug)]
pub struct CallAction {
    /// The function called by name.
    pub callee: Option<Value>,
    /// The module defined the callee, before copies were made.
    pub is_here: bool,
    pub write: Option<Write>,
    pub sync: Option<SyncCall>,
}

impl Action {
    pub fn of(module: llvm::Module, instruction: Value) -> Action {
        match OpcodeClass::of(instruction.opcode()) {
            OpcodeClass::Load => {
                if may_be_persistent(module, instruction.operand(0)) {
                    Action::Load
                } else {
                    Action::Nothing
                }
            }
            OpcodeClass::Store => store(module, instruction),
            OpcodeClass::ReadModifyWrite => Action::ReadModifyWrite,
            OpcodeClass::CompareExchange => Action::CompareExchange,
            OpcodeClass::Fence => {
                if is_machine_fence(instruction) {
                    Action::Fence(FenceKind::Mfence)
                } else {
                    Action::Nothing
                }
            }
            OpcodeClass::LandingPad => Action::LandingPad,
            OpcodeClass::Call => call(module, instruction),
            OpcodeClass::NoMemory => Action::Nothing,
        }
    }

    /// What the hook before the instruction does, where there is one.
    pub fn hook_before(&self) -> Option<HookBefore<'_>> {
        self.hooks().0
    }

    pub fn has_hook_after(&self) -> bool {
        self.hooks().1
    }

    /// The hook before the instruction, and whether there is one after it. A missing hook loses a
    /// store: so all actions are listed.
    fn hooks(&self) -> (Option<HookBefore<'_>>, bool) {
        match self {
            Action::Flush(kind) => (Some(HookBefore::Flush(*kind)), false),
            Action::Assembly(effects) => (Some(HookBefore::Assembly(effects)), true),
            Action::Call(call) => (Some(HookBefore::Call(call)), true),
            Action::Nothing | Action::Load | Action::Read => (None, false),
            Action::Store(_)
            | Action::ReadModifyWrite
            | Action::CompareExchange
            | Action::Fence(_)
            | Action::Memory
            | Action::Intrinsic { .. }
            | Action::Opaque
            | Action::LandingPad
            | Action::ReturnsTwice => (None, true),
        }
    }

    /// Whether the call ends a segment of the flow stream; see `crashpoint_abi::flow`.
    pub fn runs_other_code(&self) -> bool {
        matches!(self, Action::Call(_))
    }
}

/// Only sequential consistency needs an instruction on x86.
pub fn is_machine_fence(fence: Value) -> bool {
    fence.ordering() == LLVMAtomicOrdering::LLVMAtomicOrderingSequentiallyConsistent
        && !fence.is_single_thread()
}

fn store(module: llvm::Module, store: Value) -> Action {
    if !may_be_persistent(module, store.operand(1)) {
        return Action::Nothing;
    }
    use LLVMAtomicOrdering::*;
    Action::Store(match store.ordering() {
        LLVMAtomicOrderingNotAtomic if store.is_nontemporal() => StoreKind::NonTemporal,
        LLVMAtomicOrderingNotAtomic => StoreKind::Plain,
        // It becomes an exchange, which locks.
        LLVMAtomicOrderingSequentiallyConsistent => StoreKind::Locked,
        LLVMAtomicOrderingUnordered
        | LLVMAtomicOrderingMonotonic
        | LLVMAtomicOrderingAcquire
        | LLVMAtomicOrderingRelease
        | LLVMAtomicOrderingAcquireRelease => StoreKind::Atomic,
    })
}

const PAGE_BYTES: u64 = 4096;

/// Whether an address may lie in a mapping that the program made.
pub fn may_be_persistent(module: llvm::Module, pointer: Value) -> bool {
    if !pointer.ty().is_pointer() || pointer.ty().address_space() != 0 {
        return false;
    }
    if let Some((base, _)) = pointer.constant_base(module) {
        return global_may_be_persistent(module, base);
    }
    let base = base_of(pointer);
    if base.is_opcode(LLVMOpcode::LLVMAlloca) {
        return false;
    }
    if base.is_argument() {
        return !base.is_parameter_on_stack();
    }
    match base.constant_base(module) {
        Some((global, _)) => global_may_be_persistent(module, global),
        None => !is_thread_address(base),
    }
}

fn global_may_be_persistent(module: llvm::Module, base: Value) -> bool {
    let Some(object) = base.aliased().filter(|object| object.is_global_variable()) else {
        return false;
    };
    if object.is_thread_local() || object.is_global_constant() {
        return false;
    }
    let ty = object.value_type();
    let bytes = if ty.is_sized() {
        ty.alloc_bytes(module)
    } else {
        0
    };
    // An array of unknown length is declared with none.
    bytes == 0 || bytes >= PAGE_BYTES
}

fn is_thread_address(value: Value) -> bool {
    intrinsic_name(value).is_some_and(|name| name.starts_with("llvm.threadlocal.address"))
}

/// Through address computations with any indices.
fn base_of(mut pointer: Value) -> Value {
    while pointer.is_opcode(LLVMOpcode::LLVMGetElementPtr) {
        pointer = pointer.operand(0);
    }
    pointer
}

/// Through address computations with constant indices only: the *root* of an access.
pub fn root_of(mut pointer: Value) -> Value {
    while pointer.is_opcode(LLVMOpcode::LLVMGetElementPtr)
        && pointer
            .operands()
            .skip(1)
            .all(|index| index.is_constant_integer())
    {
        pointer = pointer.operand(0);
    }
    pointer
}

/// The name of the intrinsic that an instruction calls.
pub fn intrinsic_name(instruction: Value) -> Option<String> {
    if !instruction.is_instruction() || !is_call(instruction) {
        return None;
    }
    let callee = instruction.called();
    if !callee.is_function() {
        return None;
    }
    Some(callee.name()).filter(|name| name.starts_with("llvm."))
}

fn is_call(instruction: Value) -> bool {
    matches!(
        instruction.opcode(),
        LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke | LLVMOpcode::LLVMCallBr
    )
}

fn call(module: llvm::Module, call: Value) -> Action {
    let callee = call.called();
    if callee.is_inline_assembly() {
        return Action::Assembly(assembly(module, call));
    }
    if let Some(name) = intrinsic_name(call) {
        return intrinsic(module, call, &name);
    }
    let callee = direct_callee(callee);
    let name = callee.map(Value::name).unwrap_or_default();
    let defined = callee.is_some_and(|f| f.is_function() && !f.is_declaration());
    let arguments = call.arguments();
    let pointer = |index: u32| {
        arguments
            .get(index as usize)
            .is_some_and(|argument| argument.ty().is_pointer())
    };
    Action::Call(CallAction {
        callee,
        is_here: defined,
        write: library::write(&name)
            .filter(|_| !defined)
            .filter(|write| arguments.len() as u32 >= library::parameters_needed(write))
            .filter(|write| pointer(write.to) && write.from.is_none_or(pointer))
            .filter(|write| may_be_persistent(module, arguments[write.to as usize])),
        sync: library::sync(&name)
            .filter(|_| !defined)
            .filter(|sync| arguments.len() as u32 > sync.object),
    })
}

/// The function (or alias, or indirect function) that a call names.
fn direct_callee(callee: Value) -> Option<Value> {
    use llvm_sys::LLVMValueKind::*;
    matches!(
        callee.kind(),
        LLVMFunctionValueKind | LLVMGlobalAliasValueKind | LLVMGlobalIFuncValueKind
    )
    .then_some(callee)
}

/// The effects of inline assembly.
pub fn assembly(module: llvm::Module, call: Value) -> Vec<Effect> {
    let (text, constraints) = call.called().assembly();
    let bytes = |ty: Type| {
        if ty.is_sized() && !ty.is_scalable() {
            ty.store_bytes(module)
        } else {
            0
        }
    };
    let arguments: Vec<asm::Argument> = call
        .arguments()
        .into_iter()
        .enumerate()
        .map(|(index, argument)| asm::Argument {
            size_bytes: bytes(argument.ty()),
            element_bytes: call.element_type(index as u32).map(bytes),
        })
        .collect();
    Assembly {
        text: &text,
        constraints: &constraints,
        intel: call.called().is_intel_assembly(),
        arguments: &arguments,
    }
    .effects()
}

fn intrinsic(module: llvm::Module, call: Value, name: &str) -> Action {
    let persistent = |index: u32| may_be_persistent(module, call.operand(index));
    let write = |pointer: u32, bytes: u64, kind: StoreKind| {
        if persistent(pointer) {
            Action::Intrinsic {
                pointer,
                bytes,
                kind,
                line: false,
            }
        } else {
            Action::Nothing
        }
    };
    let value_bytes = |index: u32| call.operand(index).ty().store_bytes(module);
    let flush = |kind| {
        if persistent(0) {
            Action::Flush(kind)
        } else {
            Action::Nothing
        }
    };
    match name {
        "llvm.x86.sse2.clflush" => flush(FlushKind::Clflush),
        "llvm.x86.clflushopt" => flush(FlushKind::Clflushopt),
        "llvm.x86.clwb" => flush(FlushKind::Clwb),
        "llvm.x86.sse.sfence" => Action::Fence(FenceKind::Sfence),
        "llvm.x86.sse2.mfence" => Action::Fence(FenceKind::Mfence),
        "llvm.x86.clzero" => Action::Intrinsic {
            pointer: 0,
            bytes: crashpoint_abi::CACHE_LINE_BYTES,
            kind: StoreKind::NonTemporal,
            line: true,
        },
        "llvm.x86.movdir64b" => write(0, 64, StoreKind::NonTemporal),
        "llvm.x86.directstore32" => write(0, 4, StoreKind::NonTemporal),
        "llvm.x86.directstore64" | "llvm.x86.mmx.movnt.dq" => write(0, 8, StoreKind::NonTemporal),
        "llvm.x86.sse2.maskmov.dqu" => write(2, 16, StoreKind::NonTemporal),
        "llvm.x86.mmx.maskmovq" => write(2, 8, StoreKind::NonTemporal),
        "llvm.x86.sse.stmxcsr" => write(0, 4, StoreKind::Plain),
        "llvm.eh.sjlj.setjmp" => Action::ReturnsTwice,
        _ if is_memory_intrinsic(name) && persistent(0) => Action::Memory,
        _ if reads::intrinsic(module, call).is_some_and(|read| persistent(read.from)) => {
            Action::Read
        }
        _ if is_memory_intrinsic(name) => Action::Nothing,
        _ if name.starts_with("llvm.masked.store.")
            || name.starts_with("llvm.masked.compressstore.") =>
        {
            write(1, value_bytes(0), StoreKind::Plain)
        }
        _ if name.starts_with("llvm.x86.avx.maskstore.")
            || name.starts_with("llvm.x86.avx2.maskstore.") =>
        {
            write(0, value_bytes(2), StoreKind::Plain)
        }
        _ if name.starts_with("llvm.masked.scatter.") => Action::Opaque,
        _ if name.starts_with("llvm.x86.") && writes_somewhere(module, call) => Action::Opaque,
        _ => Action::Nothing,
    }
}

/// Intrinsics whose arguments are destination, source or value, length.
pub fn is_memory_intrinsic(name: &str) -> bool {
    ["llvm.memcpy.", "llvm.memmove.", "llvm.memset."]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

/// A machine intrinsic that we have no entry for and that is handed an address that may be
/// persistent memory.
fn writes_somewhere(module: llvm::Module, call: Value) -> bool {
    let harmless = [
        "llvm.x86.monitor",
        "llvm.x86.umonitor",
        "llvm.x86.cldemote",
        "llvm.x86.sse.ldmxcsr",
        "llvm.x86.fxrstor",
        "llvm.x86.xrstor",
    ];
    let name = call.called().name();
    let may_write = call.may_write_memory() && !harmless.iter().any(|h| name.starts_with(h));
    may_write
        && call
            .arguments()
            .into_iter()
            .any(|argument| may_be_persistent(module, argument))
}

/// The pointers through which an instruction accesses memory, for the roots of the flow stream.
pub fn accessed(module: llvm::Module, action: &Action, instruction: Value) -> Vec<Value> {
    let argument = |index: u32| instruction.operand(index);
    match OpcodeClass::of(instruction.opcode()) {
        OpcodeClass::Store => vec![argument(1)],
        OpcodeClass::Load | OpcodeClass::ReadModifyWrite | OpcodeClass::CompareExchange => {
            vec![argument(0)]
        }
        OpcodeClass::Call => accessed_by_call(module, action, instruction),
        OpcodeClass::Fence | OpcodeClass::LandingPad | OpcodeClass::NoMemory => Vec::new(),
    }
}

fn accessed_by_call(module: llvm::Module, action: &Action, instruction: Value) -> Vec<Value> {
    let argument = |index: u32| instruction.operand(index);
    if let Action::Intrinsic { pointer, .. } = action {
        return vec![argument(*pointer)];
    }
    match action.hook_before() {
        Some(HookBefore::Flush(_)) => vec![argument(0)],
        Some(HookBefore::Assembly(effects)) => effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Flush { place, .. }
                | Effect::Store { place, .. }
                | Effect::Load { place, .. } => Some(argument(place.argument)),
                Effect::Fence(_) | Effect::Unknown(_) => None,
            })
            .collect(),
        Some(HookBefore::Call(call)) => {
            let written = call.write.map(|write| write.to);
            let copied = call.write.and_then(|write| write.from);
            let reads = reads::of(module, action, instruction).known;
            let read = reads.into_iter().map(|read| read.from);
            let all = written.into_iter().chain(copied).chain(read);
            all.map(argument).collect()
        }
        None => match intrinsic_name(instruction) {
            Some(name) if is_memory_intrinsic(&name) => {
                let from = (!name.starts_with("llvm.memset.")).then(|| argument(1));
                std::iter::once(argument(0)).chain(from).collect()
            }
            Some(name)
                if [
                    "llvm.x86.sse2.clflush",
                    "llvm.x86.clflushopt",
                    "llvm.x86.clwb",
                ]
                .contains(&name.as_str()) =>
            {
                vec![argument(0)]
            }
            Some(_) | None => Vec::new(),
        },
    }
}
