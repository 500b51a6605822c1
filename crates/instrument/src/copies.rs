//! Copies of functions, dispatchers, and who calls whom.
//!
//! After this, a plain body calls plain copies and a hooked body calls hooked copies wherever the
//! callee's definition is here and nobody can replace it; every other call goes to the symbol, where
//! the dispatcher chooses. Only the symbol's address is ever taken, so function pointers compare as
//! they did.

use crate::linkage::final_target;
use crate::llvm::{Block, Value};
use crate::lower::FunctionPlan;
use crate::mode::{Merge, Mode};
use crate::object::Object;
use crashpoint_abi::Level;
use llvm_sys::LLVMOpcode;
use rustc_hash::FxHashMap;

/// The bodies of one function.
#[derive(Clone, Copy, Debug)]
pub struct Copies {
    pub plain: Option<Value>,
    pub hooked: Value,
}

/// Makes the copies, by original function. Bodies in place have none.
pub fn make(plans: &[FunctionPlan]) -> FxHashMap<Value, Copies> {
    plans
        .iter()
        .filter_map(|plan| {
            let function = plan.function;
            let (merge, plain) = match plan.mode {
                Mode::Copies(merge) => (merge, true),
                Mode::HookedOnly(merge) => (merge, false),
                Mode::InPlace | Mode::Declaration | Mode::Unhooked(_) => return None,
            };
            let hooked = copy(function, "hooked", merge);
            function.clone_body_to(hooked);
            hooked.forget_effects();
            let plain = plain.then(|| {
                let plain = copy(function, "plain", merge);
                function.move_body_to(plain);
                plain
            });
            Some((function, Copies { plain, hooked }))
        })
        .collect()
}

fn copy(function: Value, suffix: &str, merge: Merge) -> Value {
    let copy = function.create_like(&format!("{}.crashpoint.{suffix}", function.name()));
    if merge == Merge::ByName {
        copy.merge_by_name();
    }
    copy
}

/// Gives each original the body of a dispatcher.
pub fn dispatch(object: &Object, copies: &FxHashMap<Value, Copies>, plans: &[FunctionPlan]) {
    for plan in plans {
        let function = plan.function;
        let Some(&Copies {
            plain: Some(plain),
            hooked,
        }) = copies.get(&function)
        else {
            continue;
        };
        let build = &object.build;
        let start = function.append_block(object.module);
        let to_plain = function.append_block(object.module);
        let to_hooked = function.append_block(object.module);
        build.set_location(None);
        build.at_end(start);
        let off = build.is_zero(object.level());
        build.branch_if(off, to_plain, to_hooked).set_weights(1000, 1);
        // Inlined, the body would lose its lines: a dispatcher has no debug information.
        let may_inline = function.has_attribute("alwaysinline");
        function.forward_to(plain, to_plain, may_inline);
        function.forward_to(hooked, to_hooked, may_inline);
        function.forget_effects();
        function.strip_entry_hooks();
    }
}

/// Puts a way to the plain body before the hooked one, for as long as neither branches nor loads are
/// recorded.
pub fn hand_over(object: &Object, plan: &FunctionPlan, copies: &Copies) {
    let build = &object.build;
    let body = copies.hooked.blocks()[0];
    let start = copies.hooked.prepend_block(object.module);
    let to_plain = copies.hooked.append_block(object.module);
    build.set_location(None);
    build.at_end(start);
    let flow = build.number(Level::Flow as u32);
    let low = build.is_below(object.level(), flow);
    let unasked = build.is_zero(object.load_span());
    let silent = build.and(low, unasked);
    let branch = build.branch_if(silent, to_plain, body);
    branch.set_weights(1000, 1);
    // What is allocated outside of the entry block is allocated at run time.
    for instruction in body.instructions() {
        if instruction.is_fixed_allocation() {
            instruction.move_before(branch);
        }
    }
    let plain = copies.plain.unwrap_or(plan.function);
    copies.hooked.forward_to(plain, to_plain, true);
}

/// Redirects calls between bodies of this module.
pub fn redirect(copies: &FxHashMap<Value, Copies>, plans: &[FunctionPlan]) {
    for &Copies { plain, hooked } in in_order(copies, plans) {
        for (body, choose) in [
            (plain, (|to: Copies| to.plain) as fn(Copies) -> Option<Value>),
            (Some(hooked), |to: Copies| Some(to.hooked)),
        ] {
            let calls = body
                .into_iter()
                .flat_map(Value::blocks)
                .flat_map(Block::instructions)
                .filter(|instruction| {
                    matches!(
                        instruction.opcode(),
                        LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke | LLVMOpcode::LLVMCallBr
                    )
                });
            for call in calls {
                let Some(target) = final_target(call.called()) else {
                    continue;
                };
                let Some(&to) = copies.get(&target) else {
                    continue;
                };
                // A call through another type is left to the symbol.
                let same_type = call.called_type() == target.value_type();
                if let Some(copy) = choose(to).filter(|_| same_type) {
                    call.set_called(copy);
                    if copy == to.hooked {
                        call.forget_call_effects();
                    }
                }
            }
        }
    }
}

/// Dispatchers that nobody reaches go, as their originals would have gone.
pub fn erase_unused(object: &Object, copies: &FxHashMap<Value, Copies>, plans: &[FunctionPlan]) {
    for function in plans.iter().map(|plan| plan.function) {
        let dispatcher = copies.get(&function).is_some_and(|copy| copy.plain.is_some());
        if dispatcher && function.is_discardable() && !function.has_uses() {
            object.module.erase(function);
        }
    }
}

/// In the order of the module: the output must depend on the input alone.
fn in_order<'a>(
    copies: &'a FxHashMap<Value, Copies>,
    plans: &'a [FunctionPlan],
) -> impl Iterator<Item = &'a Copies> {
    plans.iter().filter_map(|plan| copies.get(&plan.function))
}
