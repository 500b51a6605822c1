//! Functions that have nothing to report at level pm.
//!
//! A function is *quiet* if nothing in it could write persistent memory, flush or fence, and all it
//! calls is quiet too. Lookups are. Unless branches or loads are recorded, a quiet function's
//! hooked copy hands over to the plain one at once, which runs as if there were no hooks.
//!
//! The price: a watched call within a quiet function to another quiet one is not seen then. Calls
//! that leave the module are never quiet, apart from a few functions of the library that cannot
//! call back.

use crate::action::Action;
use crate::linkage::final_target;
use crate::llvm::Value;
use crate::lower::FunctionPlan;
use crate::mode::Mode;
use rustc_hash::{FxHashMap, FxHashSet};

/// Functions of the library that only read and call nothing of the program's.
const READERS: [&str; 12] = [
    "memcmp",
    "bcmp",
    "strcmp",
    "strncmp",
    "strlen",
    "strnlen",
    "strchr",
    "strrchr",
    "memchr",
    "strcasecmp",
    "strncasecmp",
    "strstr",
];

/// The quiet functions of a module: what is left when those are taken away that are loud, or call a
/// loud one.
pub fn find(plans: &[FunctionPlan]) -> FxHashSet<Value> {
    let mut quiet: FxHashSet<Value> = plans
        .iter()
        .filter(|plan| matches!(plan.mode, Mode::Copies(_) | Mode::HookedOnly(_)))
        .filter(|plan| plan.instructions.iter().all(|i| may_be_quiet(&i.action)))
        .map(|plan| plan.function)
        .collect();
    let mut callers: FxHashMap<Value, Vec<Value>> = FxHashMap::default();
    let mut loud: Vec<Value> = Vec::new();
    for plan in plans.iter().filter(|plan| quiet.contains(&plan.function)) {
        for callee in called(plan) {
            match callee {
                Called::Here(target) if quiet.contains(&target) => {
                    callers.entry(target).or_default().push(plan.function);
                }
                Called::Reader => {}
                Called::Here(_) | Called::Elsewhere => loud.push(plan.function),
            }
        }
    }
    while let Some(function) = loud.pop() {
        if quiet.remove(&function) {
            loud.extend(callers.remove(&function).unwrap_or_default());
        }
    }
    quiet
}

fn may_be_quiet(action: &Action) -> bool {
    match action {
        Action::Nothing | Action::Load | Action::Read => true,
        Action::Call(call) => call.write.is_none() && call.sync.is_none(),
        Action::Assembly(effects) => effects.is_empty(),
        Action::Store(_)
        | Action::ReadModifyWrite
        | Action::CompareExchange
        | Action::Fence(_)
        | Action::Flush(_)
        | Action::Memory
        | Action::Intrinsic { .. }
        | Action::Opaque
        | Action::LandingPad
        | Action::ReturnsTwice => false,
    }
}

enum Called {
    Here(Value),
    Reader,
    Elsewhere,
}

fn called(plan: &FunctionPlan) -> impl Iterator<Item = Called> {
    plan.instructions.iter().filter_map(|instruction| {
        let Action::Call(call) = &instruction.action else {
            return None;
        };
        let Some(callee) = call.callee else {
            return Some(Called::Elsewhere);
        };
        let reader = || callee.is_declaration() && READERS.contains(&callee.name().as_str());
        Some(match final_target(callee) {
            Some(target) if !target.is_declaration() => Called::Here(target),
            _ if callee.is_function() && reader() => Called::Reader,
            _ => Called::Elsewhere,
        })
    })
}
