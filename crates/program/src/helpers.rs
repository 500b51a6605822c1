//! Which functions only help to persist, so that a finding belongs to their caller.
//!
//! Programs wrap flushes and fences in small functions (`persist(address, length)`). A finding at
//! the one flush instruction inside would say the same thing about every caller and help nobody.
//! A function is a *persist helper* if
//!
//! - it flushes or fences, itself or through a persist helper that it calls, and
//! - it stores to nothing but its own locals and its own counters (`flushes++` on a global), and
//!   calls only functions of which the same holds.
//!
//! Functions of persistence libraries are helpers by name, with everything that they call in their
//! own binary: users of `pmemobj_alloc` do not want to hear about its insides, but about what their
//! own constructor does, which it calls.
//!
//! Both ways it can be wrong: a function of the user's that does nothing but persist one object
//! counts as a helper, and one that also stores (say, into statistics behind a pointer) does not.
//! The frames that are skipped stay in the stack that is reported.

use std::collections::{HashMap, HashSet};

use crashpoint_ir::{
    AssemblyEffect, Callee, Constant, Function, FunctionId, Inst, Module, Op, OpClass, Operand,
    ValueId,
};

/// Beginnings of the names of functions of libraries that persist for their callers.
const LIBRARY: [&str; 14] = [
    "pmem_persist",
    "pmem_flush",
    "pmem_drain",
    "pmem_msync",
    "pmem_deep_",
    "pmem_memcpy",
    "pmem_memmove",
    "pmem_memset",
    "pmem2_deep_flush",
    "pmemobj_",
    "pmemops_",
    "pmemlog_",
    "pmemblk_",
    "_mm_",
];

/// Functions of libc without an effect on the program's memory, which helpers call to wait or to
/// give up.
const HARMLESS: [&str; 9] = [
    "abort",
    "__assert_fail",
    "usleep",
    "nanosleep",
    "sched_yield",
    "getpagesize",
    "sysconf",
    "exit",
    "_exit",
];

/// Whether a function persists for its callers, going by its name.
pub fn is_library(name: &str) -> bool {
    LIBRARY.iter().any(|prefix| name.starts_with(prefix))
}

/// A function of one of several models.
type Key = (usize, FunctionId);

/// The persist helpers of a program.
#[derive(Debug, Default)]
pub struct Helpers {
    helpers: HashSet<Key>,
}

impl Helpers {
    /// Classifies all functions of all models; models are named by an index.
    pub fn find<'a>(models: impl Iterator<Item = (usize, &'a Module)> + Clone) -> Helpers {
        let mut definitions: HashMap<&str, Vec<Key>> = HashMap::new();
        for (model, module) in models.clone() {
            for (id, function) in defined(module).filter(|(_, function)| !function.internal) {
                definitions
                    .entry(&function.name)
                    .or_default()
                    .push((model, id));
            }
        }
        let mut summaries: HashMap<Key, Summary> = HashMap::new();
        for (model, module) in models {
            for (id, function) in defined(module) {
                let summary = Summary::of(model, module, function, &definitions);
                summaries.insert((model, id), summary);
            }
        }
        let quiet = quiet(&summaries);
        Helpers {
            helpers: persisting(&summaries, &quiet),
        }
    }

    pub fn contains(&self, model: usize, function: FunctionId) -> bool {
        self.helpers.contains(&(model, function))
    }
}

fn defined(module: &Module) -> impl Iterator<Item = (FunctionId, &Function)> {
    let numbered = (0..).map(FunctionId).zip(&module.functions);
    numbered.filter(|(_, function)| !function.is_declaration())
}

/// What one function does by itself.
struct Summary {
    /// It stores elsewhere, or does something of which that cannot be excluded.
    loud: bool,
    persists: bool,
    calls: Vec<Key>,
}

impl Summary {
    fn of(
        model: usize,
        module: &Module,
        function: &Function,
        definitions: &HashMap<&str, Vec<Key>>,
    ) -> Summary {
        let mut summary = Summary {
            loud: false,
            persists: is_library(&function.name),
            calls: Vec::new(),
        };
        let body = Body::new(function);
        for (_, _, inst) in function.instructions() {
            match effect(inst, &body) {
                Effect::Nothing => {}
                Effect::Persists => summary.persists = true,
                Effect::Loud => summary.loud = true,
                Effect::Calls(callee) => {
                    let known = summary.call(model, module, callee, definitions);
                    summary.loud |= !known;
                }
            }
        }
        summary
    }

    /// Notes a call; false if nothing is known about what it does.
    fn call(
        &mut self,
        model: usize,
        module: &Module,
        callee: FunctionId,
        definitions: &HashMap<&str, Vec<Key>>,
    ) -> bool {
        let function = &module.functions[callee.index()];
        let name = function.name.as_str();
        if is_library(name) {
            self.persists = true;
        } else if !function.is_declaration() {
            self.calls.push((model, callee));
        } else if let Some(keys) = definitions.get(name) {
            self.calls.extend(keys);
        } else {
            return HARMLESS.contains(&name);
        }
        true
    }
}

enum Effect {
    Nothing,
    Persists,
    Loud,
    Calls(FunctionId),
}

fn effect(inst: &Inst, body: &Body<'_>) -> Effect {
    if let (Some(callee), Some(arguments)) = (inst.op.callee(), inst.op.arguments()) {
        return match callee {
            Callee::Direct(function) => Effect::Calls(*function),
            Callee::Indirect(_) => Effect::Loud,
            Callee::Assembly { effects, .. } => assembly(effects, arguments, body),
        };
    }
    match &inst.op {
        Op::Fence { machine: false, .. } => Effect::Nothing,
        Op::Store { pointer, value, .. } if body.counts(pointer, value) => Effect::Nothing,
        Op::ReadModifyWrite { pointer, name, .. }
            if global(pointer).is_some() && matches!(name.as_str(), "add" | "sub") =>
        {
            Effect::Nothing
        }
        op => match op.class() {
            OpClass::Write(pointer) if body.is_local(pointer) => Effect::Nothing,
            OpClass::Persist => Effect::Persists,
            OpClass::Write(_) | OpClass::Call | OpClass::Opaque => Effect::Loud,
            OpClass::Memory | OpClass::Value | OpClass::Terminator => Effect::Nothing,
        },
    }
}

fn assembly(effects: &[AssemblyEffect], arguments: &[Operand], body: &Body<'_>) -> Effect {
    let mut persists = false;
    for effect in effects {
        match effect {
            AssemblyEffect::Flush { .. } | AssemblyEffect::Fence { .. } => persists = true,
            AssemblyEffect::Store { argument, .. } => {
                let local = arguments
                    .get(*argument as usize)
                    .is_some_and(|to| body.is_local(to));
                if !local {
                    return Effect::Loud;
                }
            }
            AssemblyEffect::Load { .. } => {}
            AssemblyEffect::Unknown { text } if text.trim().is_empty() => {}
            AssemblyEffect::Unknown { .. } => return Effect::Loud,
        }
    }
    if persists {
        Effect::Persists
    } else {
        Effect::Nothing
    }
}

fn global(pointer: &Operand) -> Option<crashpoint_ir::GlobalId> {
    match pointer {
        Operand::Constant(Constant::Global { global, .. }) => Some(*global),
        Operand::Constant(_) | Operand::Value(_) => None,
    }
}

/// The instructions of a function by the values they define.
struct Body<'a> {
    definitions: HashMap<ValueId, &'a Op>,
}

/// How far a pointer is followed to where it comes from.
const MAX_DEPTH: u32 = 32;

impl<'a> Body<'a> {
    fn new(function: &'a Function) -> Body<'a> {
        let defined = |inst: &'a Inst| Some((inst.result?, &inst.op));
        let definitions = function
            .instructions()
            .filter_map(|(_, _, inst)| defined(inst));
        Body {
            definitions: definitions.collect(),
        }
    }

    fn op(&self, operand: &Operand) -> Option<&'a Op> {
        match operand {
            Operand::Value(value) => self.definitions.get(value).copied(),
            Operand::Constant(_) => None,
        }
    }

    /// Whether a pointer points into the function's own frame.
    fn is_local(&self, pointer: &Operand) -> bool {
        self.is_local_within(pointer, MAX_DEPTH)
    }

    fn is_local_within(&self, pointer: &Operand, depth: u32) -> bool {
        let Some(depth) = depth.checked_sub(1) else {
            return false;
        };
        match self.op(pointer) {
            Some(Op::Alloca { .. }) => true,
            Some(Op::Address { base, .. }) => self.is_local_within(base, depth),
            Some(Op::Cast { value, .. } | Op::Freeze { value }) => {
                self.is_local_within(value, depth)
            }
            Some(Op::Select {
                then, otherwise, ..
            }) => self.is_local_within(then, depth) && self.is_local_within(otherwise, depth),
            Some(_) | None => false,
        }
    }

    /// Whether a store counts something: a global plus or minus something to the same global.
    fn counts(&self, pointer: &Operand, value: &Operand) -> bool {
        let Some(counter) = global(pointer) else {
            return false;
        };
        let Some(Op::Arithmetic { name, operands }) = self.op(value) else {
            return false;
        };
        let reads_it = |operand: &Operand| match self.op(operand) {
            Some(Op::Load { pointer, .. }) => global(pointer) == Some(counter),
            Some(_) | None => false,
        };
        matches!(name.as_str(), "add" | "sub") && operands.iter().any(reads_it)
    }
}

/// Functions that are not loud and call nothing loud: what is left when all others are removed.
fn quiet(summaries: &HashMap<Key, Summary>) -> HashSet<Key> {
    let mut callers: HashMap<Key, Vec<Key>> = HashMap::new();
    for (key, summary) in summaries {
        for callee in &summary.calls {
            callers.entry(*callee).or_default().push(*key);
        }
    }
    let mut quiet: HashSet<Key> = summaries.keys().copied().collect();
    let loud = summaries.iter().filter(|(_, summary)| summary.loud);
    let mut work: Vec<Key> = loud.map(|(key, _)| *key).collect();
    while let Some(key) = work.pop() {
        if quiet.remove(&key) {
            work.extend(callers.get(&key).into_iter().flatten());
        }
    }
    quiet
}

/// Quiet functions that flush or fence, themselves or through others.
fn persisting(summaries: &HashMap<Key, Summary>, quiet: &HashSet<Key>) -> HashSet<Key> {
    let mut callers: HashMap<Key, Vec<Key>> = HashMap::new();
    for key in quiet {
        for callee in &summaries[key].calls {
            callers.entry(*callee).or_default().push(*key);
        }
    }
    let mut found: HashSet<Key> = HashSet::new();
    let mut work: Vec<Key> = quiet
        .iter()
        .copied()
        .filter(|key| summaries[key].persists)
        .collect();
    while let Some(key) = work.pop() {
        if found.insert(key) {
            work.extend(callers.get(&key).into_iter().flatten());
        }
    }
    found
}

#[cfg(test)]
#[path = "helpers_tests.rs"]
mod tests;
