//! Folding small functions into their callers before anything else is done.
//!
//! A small function that only computes or reads (an *accessor*: `node->count`, an offset turned
//! into a pointer) is folded into the functions that call it, as the optimiser would do anyway. Its
//! instructions keep their own lines and say into what they were inlined. At level flow this spares
//! most of what programs in the style of C++ would write: entering and leaving. Nothing that could
//! be reported at level pm is moved to another function. Functions that must not be inlined, as all
//! at -O0, stay.
//!
//! A function with inline assembly that demands a constant and is given a parameter compiles only
//! if it is inlined and the optimiser then finds the constant. Hooked bodies are not optimised, so
//! it is folded here too.

use crate::linkage::final_target;
use crate::llvm::{self, BasicBlock, Value};
use crashpoint_program::asm;
use llvm_sys::{LLVMAtomicOrdering, LLVMLinkage, LLVMOpcode};
use rustc_hash::{FxHashMap, FxHashSet};

/// Most instructions of an accessor.
const MAX_INSTRUCTIONS: usize = 16;

pub fn fold(module: llvm::Module) {
    let functions = module.functions();
    let mut folded: FxHashSet<Value> = FxHashSet::default();
    // Callees before callers: an accessor may use others, which are folded into it first.
    for function in callees_first(&functions) {
        for call in calls(function) {
            let target = call.called();
            if folded.contains(&target) {
                module.inline(call);
            }
        }
        if may_fold(function) && (is_accessor(function) || demands_constants(function)) {
            folded.insert(function);
        }
    }
    for function in functions {
        if folded.contains(&function) && function.is_discardable() && !function.has_uses() {
            module.erase(function);
        }
    }
}

fn calls(function: Value) -> Vec<Value> {
    function
        .blocks()
        .into_iter()
        .flat_map(BasicBlock::instructions)
        .filter(|instruction| {
            instruction.is_call()
                && instruction.called().is_function()
                && instruction.called_type() == instruction.called().value_type()
        })
        .collect()
}

/// The definitions of the module in post-order of the call graph.
fn callees_first(functions: &[Value]) -> Vec<Value> {
    let called: FxHashMap<Value, Vec<Value>> = functions
        .iter()
        .filter(|function| !function.is_declaration())
        .map(|&function| {
            let targets = calls(function).into_iter().map(Value::called);
            (function, targets.collect())
        })
        .collect();
    let mut order = Vec::with_capacity(called.len());
    let mut seen: FxHashSet<Value> = FxHashSet::default();
    for &function in functions {
        if !called.contains_key(&function) || !seen.insert(function) {
            continue;
        }
        let mut path = vec![(function, 0)];
        while let Some((at, next)) = path.last_mut() {
            match called[at].get(*next) {
                Some(&target) => {
                    *next += 1;
                    if called.contains_key(&target) && seen.insert(target) {
                        path.push((target, 0));
                    }
                }
                None => {
                    order.push(*at);
                    path.pop();
                }
            }
        }
    }
    order
}

fn may_fold(function: Value) -> bool {
    const KEPT: [&str; 6] = [
        "noinline",
        "optnone",
        "naked",
        "returns_twice",
        "presplitcoroutine",
        "strictfp",
    ];
    // What other objects may call is what users may want to watch.
    let own =
        function.has_local_linkage() || function.linkage() == LLVMLinkage::LLVMLinkOnceODRLinkage;
    own && final_target(function) == Some(function)
        && !function.value_type().is_variadic()
        && !KEPT.iter().any(|name| function.has_attribute(name))
}

/// Whether inline assembly is given something computed where only a constant will do.
fn demands_constants(function: Value) -> bool {
    let computed = |value: Value| value.is_instruction() || value.is_argument();
    function
        .blocks()
        .into_iter()
        .flat_map(BasicBlock::instructions)
        .filter(|instruction| instruction.is_call() && instruction.called().is_inline_assembly())
        .any(|call| {
            let (_, constraints) = call.called().assembly();
            asm::immediate_arguments(&constraints)
                .into_iter()
                .filter_map(|index| call.arguments().get(index as usize).copied())
                .any(computed)
        })
}

fn is_accessor(function: Value) -> bool {
    let mut count = 0;
    let blocks = function.blocks();
    let mut before: FxHashSet<BasicBlock> = FxHashSet::default();
    for &block in &blocks {
        before.insert(block);
        for instruction in crate::lower::body(block) {
            count += 1;
            if count > MAX_INSTRUCTIONS || !is_harmless(instruction) {
                return false;
            }
        }
        // Blocks stand in the order of the source, so that a loop leads to an earlier one.
        let back = block.terminator().successors();
        if back.iter().any(|to| before.contains(to)) {
            return false;
        }
    }
    true
}

/// Computes or reads, and nothing else.
fn is_harmless(instruction: Value) -> bool {
    use LLVMOpcode::*;
    match instruction.opcode() {
        LLVMLoad => {
            !instruction.is_volatile()
                && instruction.ordering() == LLVMAtomicOrdering::LLVMAtomicOrderingNotAtomic
        }
        LLVMRet | LLVMBr | LLVMFNeg | LLVMAdd | LLVMFAdd | LLVMSub | LLVMFSub | LLVMMul
        | LLVMFMul | LLVMUDiv | LLVMSDiv | LLVMFDiv | LLVMURem | LLVMSRem | LLVMFRem | LLVMShl
        | LLVMLShr | LLVMAShr | LLVMAnd | LLVMOr | LLVMXor | LLVMGetElementPtr | LLVMTrunc
        | LLVMZExt | LLVMSExt | LLVMFPToUI | LLVMFPToSI | LLVMUIToFP | LLVMSIToFP | LLVMFPTrunc
        | LLVMFPExt | LLVMPtrToInt | LLVMIntToPtr | LLVMBitCast | LLVMICmp | LLVMFCmp | LLVMPHI
        | LLVMSelect | LLVMExtractValue | LLVMInsertValue | LLVMFreeze => true,
        _ => false,
    }
}
