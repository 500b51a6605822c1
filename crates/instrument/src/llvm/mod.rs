//! Handles to LLVM's data, with the few operations that the pass uses.
//!
//! A handle is a pointer into the module being compiled. **Invariant:** handles come from LLVM, are
//! used on clang's one compiler thread only, and none is kept past the erasure of what it names:
//! the pass erases nothing but dispatchers that nobody uses, as its last step. Every `unsafe` block
//! of this crate rests on it; preconditions on the *kind* of a value (an instruction, a call) are
//! stated at each method.

mod builder;
mod debug;
mod shapes;
pub mod shim;
mod text;
mod value;

pub use builder::Builder;
pub use debug::Meta;
pub use shapes::{BasicBlock, Type};
pub use value::Value;

use llvm_sys::core::*;
use llvm_sys::prelude::{LLVMContextRef, LLVMModuleRef};
use llvm_sys::target::{LLVMGetModuleDataLayout, LLVMTargetDataRef};
use std::ffi::{CStr, CString, c_char, c_void};

/// A call of LLVM; see the invariant of the module.
macro_rules! ffi {
    ($call:expr) => {
        // SAFETY: the handles are valid by the invariant of `llvm`, and of the kind that the
        // method's documentation demands.
        unsafe { $call }
    };
}
use ffi;

/// A C string for LLVM. Names with a zero byte inside do not occur in ELF objects.
pub fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "?")).expect("zero bytes were replaced")
}

fn owned(text: shim::Text) -> String {
    String::from_utf8_lossy(bytes(text)).into_owned()
}

fn bytes<'a>(text: shim::Text) -> &'a [u8] {
    if text.length == 0 {
        return &[];
    }
    ffi!(std::slice::from_raw_parts(text.data.cast(), text.length))
}

/// Takes over a string that LLVM allocated.
fn disposed(text: *mut c_char) -> String {
    let copy = ffi!(CStr::from_ptr(text)).to_string_lossy().into_owned();
    ffi!(LLVMDisposeMessage(text));
    copy
}

/// The module being compiled.
#[derive(Clone, Copy)]
pub struct Module {
    raw: LLVMModuleRef,
    /// clang's analyses of functions, for the passes that we run ourselves.
    analyses: *mut c_void,
}

impl Module {
    /// # Safety
    /// Both must be what clang hands to a module pass, and stay valid while the handle is used.
    pub unsafe fn new(raw: LLVMModuleRef, analyses: *mut c_void) -> Module {
        Module { raw, analyses }
    }

    pub fn raw(self) -> LLVMModuleRef {
        self.raw
    }

    pub fn context(self) -> LLVMContextRef {
        ffi!(LLVMGetModuleContext(self.raw))
    }

    pub fn layout(self) -> LLVMTargetDataRef {
        ffi!(LLVMGetModuleDataLayout(self.raw))
    }

    pub fn triple(self) -> String {
        ffi!(CStr::from_ptr(LLVMGetTarget(self.raw)))
            .to_string_lossy()
            .into_owned()
    }

    pub fn pointer_bytes(self) -> u32 {
        ffi!(llvm_sys::target::LLVMPointerSize(self.layout()))
    }

    pub fn source(self) -> String {
        let mut length = 0;
        let data = ffi!(LLVMGetSourceFileName(self.raw, &mut length));
        owned(shim::Text { data, length })
    }

    pub fn producer(self) -> String {
        owned(ffi!(shim::cp_producer(self.raw)))
    }

    pub fn functions(self) -> Vec<Value> {
        Value::list(ffi!(LLVMGetFirstFunction(self.raw)), |f| {
            ffi!(LLVMGetNextFunction(f))
        })
    }

    pub fn globals(self) -> Vec<Value> {
        Value::list(ffi!(LLVMGetFirstGlobal(self.raw)), |g| {
            ffi!(LLVMGetNextGlobal(g))
        })
    }

    pub fn ifuncs(self) -> Vec<Value> {
        Value::list(ffi!(LLVMGetFirstGlobalIFunc(self.raw)), |g| {
            ffi!(LLVMGetNextGlobalIFunc(g))
        })
    }

    pub fn named_global(self, name: &str) -> Option<Value> {
        Value::some(ffi!(LLVMGetNamedGlobal(self.raw, c_string(name).as_ptr())))
    }

    pub fn named_function(self, name: &str) -> Option<Value> {
        Value::some(ffi!(LLVMGetNamedFunction(
            self.raw,
            c_string(name).as_ptr()
        )))
    }

    pub fn add_function(self, name: &str, ty: Type) -> Value {
        Value(ffi!(LLVMAddFunction(
            self.raw,
            c_string(name).as_ptr(),
            ty.0
        )))
    }

    pub fn add_global(self, name: &str, ty: Type) -> Value {
        Value(ffi!(LLVMAddGlobal(self.raw, ty.0, c_string(name).as_ptr())))
    }

    /// Whether named metadata of this name has operands.
    pub fn has_mark(self, name: &str) -> bool {
        ffi!(LLVMGetNamedMetadataNumOperands(
            self.raw,
            c_string(name).as_ptr()
        )) != 0
    }

    pub fn set_mark(self, name: &str) {
        let context = self.context();
        let node = ffi!(LLVMMDNodeInContext2(context, std::ptr::null_mut(), 0));
        ffi!(LLVMAddNamedMetadataOperand(
            self.raw,
            c_string(name).as_ptr(),
            LLVMMetadataAsValue(context, node)
        ));
    }

    pub fn append_assembly(self, text: &str) {
        ffi!(LLVMAppendModuleInlineAsm(
            self.raw,
            text.as_ptr().cast(),
            text.len()
        ));
    }

    pub fn append_constructor(self, function: Value, priority: i32) {
        ffi!(shim::cp_append_constructor(self.raw, function.0, priority));
    }

    pub fn append_destructor(self, function: Value, priority: i32) {
        ffi!(shim::cp_append_destructor(self.raw, function.0, priority));
    }

    /// Inlines the helpers of the compiler's own headers.
    pub fn inline_helpers(self) {
        ffi!(shim::cp_inline_helpers(self.raw));
    }

    /// Inlines a direct call of a function that is defined here. False: it stays a call.
    pub fn inline(self, call: Value) -> bool {
        ffi!(shim::cp_inline_call(call.0, self.analyses))
    }

    /// Scalar replacement on one function.
    pub fn promote(self, function: Value) {
        ffi!(shim::cp_promote(function.0, self.analyses));
    }

    /// Erases a function that nobody uses.
    pub fn erase(self, function: Value) {
        ffi!(shim::cp_forget(function.0, self.analyses));
        ffi!(LLVMDeleteFunction(function.0));
    }

    /// All types of the debug information.
    pub fn debug_types(self) -> Vec<Meta> {
        extern "C" fn report(context: *mut c_void, node: llvm_sys::prelude::LLVMMetadataRef) {
            // SAFETY: `context` is the vector below, which outlives the call.
            let found = unsafe { &mut *context.cast::<Vec<Meta>>() };
            found.extend(Meta::some(node));
        }
        let mut found: Vec<Meta> = Vec::new();
        ffi!(shim::cp_debug_types(
            self.raw,
            report,
            (&raw mut found).cast()
        ));
        found
    }

    pub fn warn(self, message: &str) {
        ffi!(shim::cp_warn(self.context(), c_string(message).as_ptr()));
    }

    /// What LLVM's verifier says against the module.
    pub fn verify(self) -> Result<(), String> {
        use llvm_sys::analysis::{LLVMVerifierFailureAction, LLVMVerifyModule};
        let mut message = std::ptr::null_mut();
        let action = LLVMVerifierFailureAction::LLVMReturnStatusAction;
        let failed = ffi!(LLVMVerifyModule(self.raw, action, &mut message)) != 0;
        let text = disposed(message);
        if failed { Err(text) } else { Ok(()) }
    }
}

/// Ends the compilation with an error that reads as the compiler's own.
pub fn fatal(message: &str) -> ! {
    ffi!(shim::cp_fatal(c_string(message).as_ptr()))
}
