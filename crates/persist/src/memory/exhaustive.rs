//! The graph against the machine, for every short program of two threads on two lines.
//!
//! After every instruction, the sets of stores that cuts lose and the images that they leave must
//! be those of the machine, each once; a store is durable if no run of the machine can lose it.

use super::reference::{Machine, Op, Step, Stores};
use super::{MemoryWalker, Model};
use crate::graph::{Cut, NodeId, Walker as _};
use crashpoint_trace::{
    ContextId, Event, EventKind, FenceKind, FileIndex, FlushKind, PmAddress, PmPlace, SiteId,
    StoreKind, ThreadIndex,
};
use num_bigint::BigUint;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Where a word of a unit of the machine is.
pub(super) fn place(model: Model, unit: usize, word: usize) -> PmPlace {
    let size = match model {
        Model::X86 | Model::Eadr => 64,
        Model::Msync => 4096,
    };
    let pm = PmAddress::new(FileIndex(0), (unit * size + word * 8) as u64);
    PmPlace { address: pm.0, pm }
}

pub(super) fn feed(walker: &mut MemoryWalker, order: usize, Step { thread, op }: Step) {
    let at = |unit, word| place(walker.model(), unit, word);
    let store = |kind, unit, word, bytes| EventKind::Store {
        kind,
        place: at(unit, word),
        bytes,
    };
    let kind = match op {
        Op::Store { unit, word } => store(StoreKind::Plain, unit, word, &[1; 8][..]),
        Op::Wide { unit } => store(StoreKind::Memory, unit, 0, &[1; 16]),
        Op::Stream { unit, word } => store(StoreKind::NonTemporal, unit, word, &[1; 8]),
        Op::Flush { unit, kind } => EventKind::Flush {
            kind,
            place: at(unit, 1),
        },
        Op::Fence => EventKind::Fence {
            kind: [FenceKind::Sfence, FenceKind::Mfence, FenceKind::Locked][order % 3],
        },
        Op::Msync { unit } => EventKind::Msync {
            place: at(unit, 0),
            length: 1,
        },
    };
    let event = Event {
        order: order as u64 + 1,
        thread: ThreadIndex(thread),
        site: SiteId::NONE,
        context: ContextId::BOTTOM,
        kind,
    };
    let completes = walker.completes(&event);
    let fed = walker.feed(&event);
    assert_eq!(completes, fed.fence);
}

fn stores(nodes: &[NodeId]) -> Stores {
    nodes.iter().fold(0, |all, node| all | 1 << node.0)
}

fn image(walker: &MemoryWalker, lost: Stores) -> [[u32; 2]; 2] {
    let mut image = [[0; 2]; 2];
    for (number, node) in (0..).zip(walker.nodes()) {
        if lost >> number & 1 == 0 {
            let words = [(0, 0), (0, 1), (1, 0), (1, 1)];
            let (unit, word) = words
                .into_iter()
                .find(|(unit, word)| place(walker.model(), *unit, *word).pm == node.address)
                .expect("the store is to one of the words");
            image[unit][word] = number + 1;
        }
    }
    image
}

fn compare(walker: &MemoryWalker, machine: &Machine, durable: Stores, history: &[Step]) {
    let frontier = walker.frontier();
    let cuts: Vec<Cut> = frontier.cuts().collect();
    assert!(
        cuts.iter().all(|cut| frontier.is_closed(cut)),
        "{history:?}"
    );
    let distinct: BTreeSet<&Cut> = cuts.iter().collect();
    assert_eq!(distinct.len(), cuts.len(), "{history:?}");
    assert_eq!(cuts[0], frontier.all());
    let count = frontier.count();
    assert!(count.exact);
    assert_eq!(count.value, BigUint::from(cuts.len()), "{history:?}");

    let lost: BTreeSet<Stores> = cuts.iter().map(|cut| stores(&frontier.lost(cut))).collect();
    assert_eq!(lost, machine.lost(), "{history:?}");
    let images: BTreeSet<_> = lost.iter().map(|lost| image(walker, *lost)).collect();
    assert_eq!(images, machine.images(), "{history:?}");

    let all = (1 << walker.nodes().len()) - 1;
    let pending = lost.iter().fold(0, |all, lost| all | lost);
    assert_eq!(durable, all & !pending, "{history:?}");
    assert_eq!(walker.is_quiet(), pending == 0, "{history:?}");
    assert_eq!(walker.pending(), pending.count_ones() as usize);
    for cut in &cuts {
        let (kept, lost) = (frontier.kept(cut), frontier.lost(cut));
        assert_eq!(stores(&kept) | stores(&lost), pending);
        assert_eq!(frontier.with(&kept), *cut, "{history:?}");
        assert_eq!(frontier.without(&lost), *cut, "{history:?}");
    }
}

struct Explorer<'a> {
    ops: &'a [Op],
    threads: u32,
    history: Vec<Step>,
    programs: u64,
}

impl Explorer<'_> {
    fn explore(&mut self, more: u32, walker: &MemoryWalker, machine: &Machine, durable: Stores) {
        if more == 0 {
            return;
        }
        for thread in 0..self.threads {
            // The threads are alike: thread 0 begins.
            if thread != 0 && self.history.is_empty() {
                break;
            }
            for op in self.ops {
                let step = Step { thread, op: *op };
                let (mut walker, mut machine) = (walker.clone(), machine.clone());
                feed(&mut walker, self.history.len(), step);
                machine.execute(step);
                self.history.push(step);
                let durable = durable | stores(&walker.take_durable());
                compare(&walker, &machine, durable, &self.history);
                self.programs += 1;
                self.explore(more - 1, &walker, &machine, durable);
                self.history.pop();
            }
        }
    }
}

/// Runs every program up to this length.
fn every_program(model: Model, threads: u32, length: u32, ops: &[Op]) {
    let mut explorer = Explorer {
        ops,
        threads,
        history: Vec::new(),
        programs: 0,
    };
    explorer.explore(length, &MemoryWalker::new(model), &Machine::new(model), 0);
    let choices = u64::from(threads) * ops.len() as u64;
    let expected = (0..length).map(|more| ops.len() as u64 * choices.pow(more));
    assert_eq!(explorer.programs, expected.sum::<u64>());
}

pub(super) const fn store(unit: usize, word: usize) -> Op {
    Op::Store { unit, word }
}

pub(super) const fn stream(unit: usize, word: usize) -> Op {
    Op::Stream { unit, word }
}

pub(super) const fn flush(unit: usize, kind: FlushKind) -> Op {
    Op::Flush { unit, kind }
}

use FlushKind::{Clflush, Clflushopt, Clwb};

pub(super) fn all_ops() -> Vec<Op> {
    let mut ops = vec![Op::Fence];
    for unit in [0, 1] {
        ops.extend([0, 1].map(|word| store(unit, word)));
        ops.extend([0, 1].map(|word| stream(unit, word)));
        ops.extend([Clwb, Clflushopt, Clflush].map(|kind| flush(unit, kind)));
        ops.extend([Op::Wide { unit }, Op::Msync { unit }]);
    }
    ops
}

#[test]
fn cuts_are_the_losses_of_the_machine_for_every_program_of_three_instructions() {
    every_program(Model::X86, 2, 3, &all_ops());
}

proptest! {
    /// Longer than all programs can be gone through; wide stores would fill the sets of stores.
    #[test]
    fn cuts_are_the_losses_of_the_machine_for_long_programs(
        steps in prop::collection::vec((0..3u32, prop::sample::select(all_ops())), 6..12)
    ) {
        let (mut walker, mut machine) = (MemoryWalker::new(Model::X86), Machine::new(Model::X86));
        let mut durable = 0;
        let mut history = Vec::new();
        for (thread, op) in steps {
            if matches!(op, Op::Wide { .. }) {
                continue;
            }
            let step = Step { thread, op };
            feed(&mut walker, history.len(), step);
            machine.execute(step);
            history.push(step);
            durable |= stores(&walker.take_durable());
            compare(&walker, &machine, durable, &history);
        }
    }
}

#[test]
fn cuts_are_the_losses_of_the_machine_for_every_program_of_four_instructions() {
    let ops = [
        store(0, 0),
        store(0, 1),
        store(1, 0),
        Op::Wide { unit: 0 },
        stream(0, 0),
        stream(0, 1),
        stream(1, 0),
        flush(0, Clwb),
        flush(0, Clflush),
        flush(1, Clflush),
        flush(1, Clflushopt),
        Op::Fence,
    ];
    every_program(Model::X86, 2, 4, &ops);
}

#[test]
fn clflush_orders_as_in_the_machine_in_every_program_of_five_instructions() {
    let ops = [
        store(0, 0),
        store(1, 0),
        flush(0, Clflush),
        flush(1, Clflush),
        flush(1, Clwb),
        Op::Fence,
    ];
    every_program(Model::X86, 2, 5, &ops);
}

#[test]
fn clflushes_of_two_threads_tie_two_lines_both_ways_as_in_the_machine() {
    let ops = [
        store(0, 0),
        store(1, 0),
        flush(0, Clflush),
        flush(1, Clflush),
    ];
    every_program(Model::X86, 2, 6, &ops);
}

#[test]
fn streams_mix_as_in_the_machine_in_every_program_of_five_instructions() {
    let ops = [
        store(0, 0),
        store(0, 1),
        stream(0, 0),
        flush(0, Clwb),
        Op::Fence,
    ];
    every_program(Model::X86, 2, 5, &ops);
}

#[test]
fn one_thread_is_as_in_the_machine_in_every_program_of_six_instructions() {
    let ops = [
        store(0, 0),
        store(1, 0),
        stream(0, 0),
        flush(0, Clflush),
        flush(1, Clflush),
        flush(1, Clwb),
        Op::Fence,
    ];
    every_program(Model::X86, 1, 6, &ops);
}

#[test]
fn mapped_files_are_as_in_the_machine_in_every_program_of_five_instructions() {
    let ops = [
        store(0, 0),
        Op::Wide { unit: 1 },
        stream(0, 1),
        flush(0, Clflush),
        Op::Fence,
        Op::Msync { unit: 0 },
        Op::Msync { unit: 1 },
    ];
    every_program(Model::Msync, 1, 5, &ops);
}

#[test]
fn nothing_is_lost_under_eadr_in_any_program_of_three_instructions() {
    let ops = [
        store(0, 0),
        Op::Wide { unit: 1 },
        stream(0, 0),
        flush(0, Clflush),
        Op::Fence,
        Op::Msync { unit: 0 },
    ];
    every_program(Model::Eadr, 2, 3, &ops);
}
