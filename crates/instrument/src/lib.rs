//! How the hooks get in: a plugin for clang 19 that lowers each module to the program model, gives
//! it hooks, and embeds the model.
//!
//! clang runs [`crashpoint_instrument`] at the start of its optimisation pipeline, at every level.
//! The order of what is done to a module matters and is all in [`instrument`]: the model is taken
//! after scalar replacement and before anything of ours is inserted, and everything that is
//! inserted follows from decisions made while lowering.
//!
//! **Architecture invariant:** this is the only crate that links LLVM. Nothing of the program's
//! behaviour depends on it while the gate is closed.

mod action;
mod copies;
mod fold;
mod formats;
mod helpers;
mod hook;
mod library;
mod linkage;
#[expect(unsafe_code, reason = "every call of LLVM is one")]
mod llvm;
mod lower;
mod mode;
mod object;
mod opcode;
mod quiet;
mod reads;

use llvm::Value;
use llvm_sys::prelude::LLVMModuleRef;
use mode::{Mode, Modes};
use std::cell::RefCell;
use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What LLVM's plugin loader reads; see `llvm/Passes/PassPlugin.h`.
#[repr(C)]
pub struct PassPluginLibraryInfo {
    api_version: u32,
    name: *const c_char,
    version: *const c_char,
    register: unsafe extern "C" fn(*mut c_void),
}

#[unsafe(no_mangle)]
pub extern "C" fn llvmGetPassPluginInfo() -> PassPluginLibraryInfo {
    PassPluginLibraryInfo {
        api_version: 1,
        name: c"crashpoint".as_ptr(),
        version: c"1".as_ptr(),
        register: llvm::shim::cp_register_callbacks,
    }
}

/// Named metadata of modules that have their hooks already (bitcode that is compiled again).
const MARK: &str = "crashpoint.instrumented";

/// Set to check the module with LLVM's verifier afterwards.
const VERIFY: &str = "CRASHPOINT_VERIFY";

thread_local! {
    /// What the pass is working on, for the message if it fails.
    static WORKING_ON: RefCell<String> = const { RefCell::new(String::new()) };
}

fn working_on(what: &str) {
    WORKING_ON.with(|place| what.clone_into(&mut place.borrow_mut()));
}

/// Called by the pass. A failure of ours ends the compilation with an error.
///
/// # Safety
/// The arguments must be what clang's pass manager gave to the pass.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crashpoint_instrument(
    module: LLVMModuleRef,
    optimization: u32,
    analyses: *mut c_void,
) -> bool {
    // SAFETY: the caller's duty is the same.
    let module = unsafe { llvm::Module::new(module, analyses) };
    let result = catch_unwind(AssertUnwindSafe(|| instrument(module, optimization)));
    let problem = match result {
        Ok(Ok(changed)) => return changed,
        Ok(Err(problem)) => problem,
        Err(panic) => panic_text(panic.as_ref()),
    };
    let place = WORKING_ON.with(|place| place.borrow().clone());
    llvm::fatal(&format!(
        "crashpoint cannot instrument {}: {place}: {problem} (this is a bug in crashpoint)",
        module.source()
    ))
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "unknown failure".to_owned())
}

fn instrument(module: llvm::Module, optimization: u32) -> Result<bool, String> {
    if module.has_mark(MARK) {
        return Ok(false);
    }
    if !module.triple().starts_with("x86_64-") || module.pointer_bytes() != 8 {
        module.warn("crashpoint instruments 64-bit x86 only; this file is compiled without hooks");
        return Ok(false);
    }
    module.set_mark(MARK);
    working_on("helpers of the compiler's headers");
    module.inline_helpers();
    let modes = Modes::new(module);
    for function in module.functions() {
        if !function.is_declaration() && may_promote(function) {
            working_on(&function.name());
            module.promote(function);
        }
    }
    working_on("small functions");
    fold::fold(module);
    working_on("the program model");
    let producer = format!("{} -O{}", module.producer(), level_name(optimization));
    let lowered = lower::lower(module, &modes, producer);
    let object = object::Object::new(module, &lowered);
    let copies = copies::make(&lowered.plans);
    copies::redirect(&copies, &lowered.plans);
    for plan in &lowered.plans {
        working_on(&plan.function.name());
        if let Some(copies) = copies.get(&plan.function) {
            hook::insert(&object, plan, copies.body);
            copies.body.disarm_calls();
            copies::leave_unoptimised(&object, copies);
            if plan.quiet {
                copies::hand_over(&object, plan, copies);
            }
        } else if plan.mode == Mode::InPlace {
            hook::insert(&object, plan, plan.function);
        }
    }
    working_on("dispatchers");
    copies::dispatch(&object, &copies, &lowered.plans);
    copies::erase_unused(&object, &copies, &lowered.plans);
    if std::env::var_os(VERIFY).is_some() {
        module.verify()?;
    }
    Ok(true)
}

/// Scalar replacement keeps locals in registers across `setjmp`. That is the optimiser's right, but
/// at -O0 programs see the values that they stored.
fn may_promote(function: Value) -> bool {
    let returns_twice = || {
        function
            .blocks()
            .into_iter()
            .flat_map(llvm::BasicBlock::instructions)
            .any(|instruction| instruction.is_call() && instruction.returns_twice())
    };
    let keeps_slots = function.has_attribute("optnone") && returns_twice();
    !function.has_attribute("naked") && !keeps_slots
}

/// `2`, `s` or `z`: clang tells speed and size levels apart.
fn level_name(optimization: u32) -> String {
    match optimization % 10 {
        1 => "s".to_owned(),
        2 => "z".to_owned(),
        _ => (optimization / 10).to_string(),
    }
}
