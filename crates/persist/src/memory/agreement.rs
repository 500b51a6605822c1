//! The states of lines, which the rules of misuse go by, against the graph, which crash states come
//! from: a store that is *durable* for one is durable for the other.
//!
//! The line states know the latest store to a byte alone, and what flushes and fences promise of
//! it. The graph knows order as well: where a later node is durable, all that it needs is, so that
//! a store behind a `clflush`, or under a non-temporal store to its word, may be durable for the
//! graph before a fence waits for it. Without these two, both must say the same.

use super::exhaustive::{all_ops, feed, flush, place, store, stream};
use super::reference::{Op, Step};
use super::x86::{LineTracker, StoreRoute, Who};
use super::{LineId, MemoryWalker, Model, Origin, pieces};
use crate::graph::Walker as _;
use crashpoint_trace::{FlushKind, ThreadIndex};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn track(tracker: &mut LineTracker, order: usize, Step { thread, op }: Step) {
    let who = Who {
        order: order as u64 + 1,
        origin: Origin(0),
        thread: ThreadIndex(thread),
    };
    let at = |unit, word| place(Model::X86, unit, word).pm;
    let mut stored = |how, unit, word, length| {
        for piece in pieces(at(unit, word), length) {
            tracker.store(who, how, piece, |_, ()| ());
        }
    };
    match op {
        Op::Store { unit, word } => stored(StoreRoute::Cached, unit, word, 8),
        Op::Wide { unit } => stored(StoreRoute::Cached, unit, 0, 16),
        Op::Stream { unit, word } => stored(StoreRoute::NonTemporal, unit, word, 8),
        Op::Flush { unit, kind } => {
            tracker.flush(who, kind, at(unit, 1), |_, (), _| ());
        }
        Op::Fence => {
            tracker.fence(who);
        }
        Op::Msync { unit } => {
            tracker.msync(who, at(unit, 0), 1);
        }
    }
}

/// Runs a program on both. `has_order`: it has instructions that order nodes, so that the graph may
/// know more.
fn compare(program: &[Step], has_order: bool) {
    let (mut walker, mut tracker) = (MemoryWalker::new(Model::X86), LineTracker::default());
    let mut durable = BTreeSet::new();
    for (order, step) in program.iter().enumerate() {
        feed(&mut walker, order, *step);
        track(&mut tracker, order, *step);
        durable.extend(walker.take_durable());
    }
    for (unit, word) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let address = place(Model::X86, unit, word).pm;
        let latest = (walker.nodes().iter()).rposition(|node| node.address == address);
        let line = tracker.line(LineId::of(address));
        let bytes = 0xff << (word * 8);
        let for_rules = line.is_some_and(|line| line.durable & bytes == bytes);
        let for_crashes = latest.is_some_and(|node| durable.iter().any(|id| id.index() == node));
        assert!(for_crashes || !for_rules, "{unit} {word} {program:?}");
        assert!(
            has_order || for_rules == for_crashes,
            "{unit} {word} {program:?}"
        );
    }
}

fn orders(op: &Op) -> bool {
    match op {
        Op::Stream { .. } => true,
        Op::Flush { kind, .. } => *kind == FlushKind::Clflush,
        Op::Store { .. } | Op::Wide { .. } | Op::Fence | Op::Msync { .. } => false,
    }
}

fn every_program(length: u32, ops: &[Op]) {
    let choices = 2 * ops.len() as u64;
    for number in 0..choices.pow(length) {
        let digits = (0..length).map(|at| (number / choices.pow(at) % choices) as usize);
        let program: Vec<Step> = digits
            .map(|digit| Step {
                thread: (digit / ops.len()) as u32,
                op: ops[digit % ops.len()],
            })
            .collect();
        compare(&program, program.iter().any(|step| orders(&step.op)));
    }
}

#[test]
fn rules_and_crashes_agree_on_what_is_durable_after_every_program_of_three_instructions() {
    for length in 1..=3 {
        every_program(length, &all_ops());
    }
}

#[test]
fn rules_and_crashes_agree_on_what_is_durable_after_every_program_of_five_instructions() {
    let ops = [
        store(0, 0),
        store(0, 1),
        stream(0, 0),
        flush(0, FlushKind::Clwb),
        Op::Fence,
    ];
    every_program(5, &ops);
}

proptest! {
    #[test]
    fn rules_and_crashes_agree_on_what_is_durable_after_long_programs(
        steps in prop::collection::vec((0..3u32, prop::sample::select(all_ops())), 6..40),
        without_order in any::<bool>(),
    ) {
        let steps = steps.into_iter().map(|(thread, op)| Step { thread, op });
        let program: Vec<Step> = steps
            .filter(|step| !(without_order && orders(&step.op)))
            .collect();
        compare(&program, !without_order);
    }
}
