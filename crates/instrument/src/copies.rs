//! Copies of functions, dispatchers, and who calls whom.
//!
//! After this, a plain body calls plain copies and a hooked body calls hooked copies wherever the
//! callee's definition is here and nobody can replace it; every other call goes to the symbol,
//! where the dispatcher chooses. Only the symbol's address is ever taken, so function pointers
//! compare as they did.

use crate::linkage::final_target;
use crate::llvm::{BasicBlock, Value};
use crate::lower::FunctionPlan;
use crate::mode::{Merge, Mode};
use crate::object::Object;
use llvm_sys::LLVMOpcode;
use rustc_hash::FxHashMap;

/// The bodies of one function.
#[derive(Clone, Copy, Debug)]
pub struct Copies {
    pub plain: Option<Value>,
    pub hooked: Value,
    /// Where the hooks are: `hooked` itself, or what it hands over to in a quiet function.
    pub body: Value,
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
            let body = if plan.quiet {
                copy(function, "flow", merge)
            } else {
                hooked
            };
            function.clone_body_to(body);
            hooked.forget_effects();
            body.forget_effects();
            let plain = plain.then(|| {
                let plain = copy(function, "plain", merge);
                function.move_body_to(plain);
                plain
            });
            let copies = Copies {
                plain,
                hooked,
                body,
            };
            Some((function, copies))
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

/// Begins the body of a function that only chooses: two blocks, of which the first, the likely one,
/// is entered where `gate` is zero.
fn fork_at_entry(
    object: &Object,
    function: Value,
    gate: impl FnOnce(&Object) -> Value,
) -> [BasicBlock; 2] {
    let build = &object.build;
    let start = function.append_block(object.module);
    let if_zero = function.append_block(object.module);
    let otherwise = function.append_block(object.module);
    build.set_location(None);
    build.at_end(start);
    let is_zero = build.is_zero(gate(object));
    build
        .branch_if(is_zero, if_zero, otherwise)
        .set_weights(1000, 1);
    [if_zero, otherwise]
}

/// Gives each original the body of a dispatcher.
pub fn dispatch(object: &Object, copies: &FxHashMap<Value, Copies>, plans: &[FunctionPlan]) {
    for plan in plans {
        let function = plan.function;
        let Some(&Copies {
            plain: Some(plain),
            hooked,
            ..
        }) = copies.get(&function)
        else {
            continue;
        };
        let [to_plain, to_hooked] = fork_at_entry(object, function, |object| object.level());
        // Inlined, the body would lose its lines: a dispatcher has no debug information.
        let may_inline = function.has_attribute("alwaysinline");
        function.forward_to(plain, to_plain, may_inline);
        function.forward_to(hooked, to_hooked, may_inline);
        function.forget_effects();
        function.strip_entry_hooks();
    }
}

/// The hooked copy of a quiet function: the plain body, unless something beyond level pm is
/// recorded.
pub fn hand_over(object: &Object, plan: &FunctionPlan, copies: &Copies) {
    let hooked = copies.hooked;
    let [to_plain, to_body] = fork_at_entry(object, hooked, |object| object.detail());
    // What must be inlined may have no symbol that could be called.
    let may_inline = plan.function.has_attribute("alwaysinline");
    hooked.forward_to(copies.plain.unwrap_or(plan.function), to_plain, may_inline);
    hooked.forward_to(copies.body, to_body, may_inline);
    hooked.strip_entry_hooks();
}

/// Keeps the optimiser away from a body with hooks. Optimising it would take several times as long
/// as the plain one takes, and gain little: it spends its time in hooks. What must be inlined is.
pub fn leave_unoptimised(object: &Object, copies: &Copies) {
    if !copies.body.has_attribute("alwaysinline") {
        copies.body.add_attribute(object.module, "noinline");
        copies.body.add_attribute(object.module, "optnone");
        copies.body.remove_attribute("optsize");
        copies.body.remove_attribute("minsize");
    }
}

/// Redirects calls between bodies of this module.
pub fn redirect(copies: &FxHashMap<Value, Copies>, plans: &[FunctionPlan]) {
    for &Copies {
        plain,
        hooked,
        body,
    } in in_order(copies, plans)
    {
        let quiet = body != hooked;
        let to_plain: fn(Copies) -> Option<Value> = |to| to.plain;
        // In a quiet body all that it calls is quiet, and has no choice left.
        let to_hooked: fn(Copies) -> Option<Value> = if quiet {
            |to| Some(to.body)
        } else {
            |to| Some(to.hooked)
        };
        for (body, choose) in [(plain, to_plain), (Some(body), to_hooked)] {
            let calls = body
                .into_iter()
                .flat_map(Value::blocks)
                .flat_map(BasicBlock::instructions)
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
                    if copy == to.hooked || copy == to.body {
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
        let dispatcher = copies
            .get(&function)
            .is_some_and(|copy| copy.plain.is_some());
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
