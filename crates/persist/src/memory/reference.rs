//! A machine with caches, to hold the graph against: slow, nondeterministic, and without chains.
//!
//! # Model
//!
//! Memory has two units with two words each; a unit is a cache line, or a page under the msync
//! model. The machine follows what the manual says of the parts of a processor, one instruction at
//! a time, and at any moment may do a step of its own accord:
//!
//! - **write back** a unit: all its dirty words go to memory at once. A word that waits in a
//!   write-combining buffer since before the cached value is overwritten by this, and gone;
//! - **drain** a word from a write-combining buffer, unless the cache holds an older value of the
//!   word that was not written back: values of a word reach memory in their order.
//!
//! A flush notes how much had been stored, and is complete when nothing of its line from before is
//! in the cache or in a buffer. A fence waits for the flushes of its thread to be complete and its
//! buffers to be empty: runs in which they are not cannot go on. Nothing that was stored after a
//! `clflush` of its thread may go to memory, unless that flush is complete by then.
//!
//! A state knows which stores are still inside the processor, so that all sets of lost stores are
//! found, and not only all images. Stores get older the smaller their number is.

use super::Model;
use crashpoint_trace::FlushKind;
use std::collections::BTreeSet;

/// A set of stores, by number.
pub(super) type Stores = u16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Store {
        unit: usize,
        word: usize,
    },
    /// To both words.
    Wide {
        unit: usize,
    },
    Stream {
        unit: usize,
        word: usize,
    },
    Flush {
        unit: usize,
        kind: FlushKind,
    },
    Fence,
    Msync {
        unit: usize,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub thread: u32,
    pub op: Op,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flush {
    thread: u32,
    unit: usize,
    /// Stores with smaller numbers came before it.
    before: u32,
    ordered: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    /// Number of the store that each word has its value from, plus 1.
    memory: [[u32; 2]; 2],
    /// Stores to each word that are in the cache, or overwritten there.
    cache: [[Stores; 2]; 2],
    /// The same in write-combining buffers.
    buffers: [[Stores; 2]; 2],
    flushes: Vec<Flush>,
}

fn newest(stores: Stores) -> u32 {
    stores.ilog2()
}

/// Those with smaller numbers.
fn older(stores: Stores, than: u32) -> Stores {
    stores & ((1 << than) - 1)
}

impl State {
    fn is_complete(&self, flush: &Flush) -> bool {
        let words = self.cache[flush.unit]
            .iter()
            .chain(&self.buffers[flush.unit]);
        words.fold(0, |all, stores| all | older(*stores, flush.before)) == 0
    }

    fn inside(&self) -> Stores {
        let words = self.cache.iter().chain(&self.buffers).flatten();
        words.fold(0, |all, stores| all | stores)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Machine {
    model: Model,
    /// Of each store.
    threads: Vec<u32>,
    states: BTreeSet<State>,
}

impl Machine {
    pub fn new(model: Model) -> Machine {
        Machine {
            model,
            threads: Vec::new(),
            states: BTreeSet::from([State::default()]),
        }
    }

    pub fn execute(&mut self, step: Step) {
        let thread = step.thread;
        match step.op {
            Op::Store { unit, word } => self.store(thread, unit, word, false),
            Op::Wide { unit } => {
                self.store(thread, unit, 0, false);
                self.store(thread, unit, 1, false);
            }
            Op::Stream { unit, word } => {
                self.store(thread, unit, word, self.model == Model::X86);
            }
            Op::Flush { unit, kind } => self.flush(thread, unit, kind),
            Op::Fence => self.fence(thread),
            Op::Msync { unit } => self.keep(|state| {
                let words = state.cache[unit].iter().chain(&state.buffers[unit]);
                words.fold(0, |all, stores| all | stores) == 0
            }),
        }
    }

    /// Runs that have not got so far cannot go on.
    fn keep(&mut self, got_so_far: impl Fn(&State) -> bool) {
        self.states.retain(|state| got_so_far(state));
    }

    /// Replaces each state, and lets the machine do what it likes.
    fn each(&mut self, change: impl Fn(&mut State)) {
        let before = std::mem::take(&mut self.states);
        let mut open: Vec<State> = Vec::new();
        for mut state in before {
            change(&mut state);
            open.push(state);
        }
        while let Some(state) = open.pop() {
            if self.states.contains(&state) {
                continue;
            }
            for unit in [0, 1] {
                open.extend(self.write_back(&state, unit));
                open.extend(
                    [0, 1]
                        .iter()
                        .filter_map(|word| self.drain(&state, unit, *word)),
                );
            }
            self.states.insert(state);
        }
    }

    fn store(&mut self, thread: u32, unit: usize, word: usize, past_the_cache: bool) {
        let number = self.threads.len() as u32;
        self.threads.push(thread);
        let safe = self.model == Model::Eadr;
        self.each(|state| {
            if safe {
                state.memory[unit][word] = number + 1;
            } else if past_the_cache {
                state.buffers[unit][word] |= 1 << number;
            } else {
                state.cache[unit][word] |= 1 << number;
            }
        });
    }

    fn flush(&mut self, thread: u32, unit: usize, kind: FlushKind) {
        if self.model != Model::X86 {
            return;
        }
        let flush = Flush {
            thread,
            unit,
            before: self.threads.len() as u32,
            ordered: kind == FlushKind::Clflush,
        };
        self.each(|state| {
            state.flushes.push(flush);
            let flushes = std::mem::take(&mut state.flushes);
            let still = flushes
                .into_iter()
                .filter(|flush| !state.is_complete(flush));
            state.flushes = still.collect();
            state.flushes.sort();
        });
    }

    fn fence(&mut self, thread: u32) {
        if self.model != Model::X86 {
            return;
        }
        let own = self.own(thread);
        self.keep(|state| {
            let mut flushes = state.flushes.iter();
            let buffered = state.buffers.as_flattened().iter();
            flushes.all(|flush| flush.thread != thread || state.is_complete(flush))
                && buffered.fold(0, |all, stores| all | stores) & own == 0
        });
        self.each(|state| state.flushes.retain(|flush| flush.thread != thread));
    }

    fn own(&self, thread: u32) -> Stores {
        let numbered = self.threads.iter().enumerate();
        let own = numbered.filter(|(_, of)| **of == thread);
        own.fold(0, |all, (number, _)| all | 1 << number)
    }

    /// The state after a step that took these stores out of the processor, if they may leave.
    fn left(&self, mut after: State, stores: Stores) -> Option<State> {
        let numbered = (0..).zip(&self.threads);
        let mut leaving = numbered.filter(|(number, _)| stores >> number & 1 == 1);
        let may = leaving.all(|(number, thread)| {
            let mut flushes = after.flushes.iter();
            flushes.all(|flush: &Flush| {
                let waits = flush.ordered && flush.thread == *thread && flush.before <= number;
                !waits || after.is_complete(flush)
            })
        });
        if !may {
            return None;
        }
        let flushes = std::mem::take(&mut after.flushes);
        let still = flushes
            .into_iter()
            .filter(|flush| !after.is_complete(flush));
        after.flushes = still.collect();
        Some(after)
    }

    fn write_back(&self, state: &State, unit: usize) -> Option<State> {
        let mut after = state.clone();
        let mut stores = 0;
        for word in [0, 1] {
            let written = std::mem::take(&mut after.cache[unit][word]);
            if written != 0 {
                let value = newest(written);
                let overwritten = older(after.buffers[unit][word], value);
                after.buffers[unit][word] &= !overwritten;
                after.memory[unit][word] = value + 1;
                stores |= written | overwritten;
            }
        }
        if stores == 0 {
            return None;
        }
        self.left(after, stores)
    }

    fn drain(&self, state: &State, unit: usize, word: usize) -> Option<State> {
        let mut after = state.clone();
        let stores = std::mem::take(&mut after.buffers[unit][word]);
        if stores == 0 || older(state.cache[unit][word], newest(stores)) != 0 {
            return None;
        }
        after.memory[unit][word] = newest(stores) + 1;
        self.left(after, stores)
    }

    /// Every set of stores that a crash may lose now.
    pub fn lost(&self) -> BTreeSet<Stores> {
        self.states.iter().map(State::inside).collect()
    }

    /// Every image that a crash may leave now.
    pub fn images(&self) -> BTreeSet<[[u32; 2]; 2]> {
        self.states.iter().map(|state| state.memory).collect()
    }
}
