//! The tracker against the definition, for every short program of two threads on two lines.
//!
//! The definition needs no state: it looks at the whole history for the last store to a byte, a
//! flush after it, and a fence of the flushing thread after that. The tracker must agree on every
//! byte, on what the last instruction found, and on who is to blame for what is dirty.

use super::*;
use crate::memory::{LineId, Origin, Piece};
use crashpoint_trace::{FlushKind, PmAddress, ThreadIndex};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Store { line: u64, mask: u64 },
    Stream { line: u64, mask: u64 },
    Flush { line: u64, kind: FlushKind },
    Fence,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    thread: u32,
    op: Op,
}

/// Two bytes of line 0 and one of line 1 are watched; masks overlap in byte 0.
const OPS: [Op; 9] = [
    Op::Store {
        line: 0,
        mask: 0b01,
    },
    Op::Store {
        line: 0,
        mask: 0b11,
    },
    Op::Store {
        line: 1,
        mask: 0b01,
    },
    Op::Stream {
        line: 0,
        mask: 0b01,
    },
    Op::Flush {
        line: 0,
        kind: FlushKind::Clwb,
    },
    Op::Flush {
        line: 1,
        kind: FlushKind::Clwb,
    },
    Op::Flush {
        line: 0,
        kind: FlushKind::Clflushopt,
    },
    Op::Flush {
        line: 0,
        kind: FlushKind::Clflush,
    },
    Op::Fence,
];

/// The state of one byte, by definition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Byte {
    stored_by: Option<usize>,
    /// Threads that put the latest value on its way.
    sent: [bool; 2],
    durable: bool,
    ordered: bool,
}

impl Byte {
    fn after(history: &[Step], line: u64, bit: u64) -> Byte {
        let store = history.iter().rposition(|step| match step.op {
            Op::Store { line: at, mask } | Op::Stream { line: at, mask } => {
                at == line && mask >> bit & 1 == 1
            }
            Op::Flush { .. } | Op::Fence => false,
        });
        let Some(store) = store else {
            return Byte::default();
        };
        let mut byte = Byte {
            stored_by: Some(store),
            ..Byte::default()
        };
        for (at, step) in history.iter().enumerate().skip(store) {
            match step.op {
                Op::Stream { .. } if at == store => byte.sent[step.thread as usize] = true,
                Op::Flush { line: at, kind } if at == line => {
                    byte.sent[step.thread as usize] = true;
                    byte.ordered |= kind == FlushKind::Clflush;
                }
                Op::Fence => byte.durable |= byte.sent[step.thread as usize],
                Op::Store { .. } | Op::Stream { .. } | Op::Flush { .. } => {}
            }
        }
        byte
    }

    fn dirty(&self) -> bool {
        self.stored_by.is_some() && self.sent == [false; 2]
    }

    fn pending(&self) -> bool {
        self.sent != [false; 2] && !self.durable
    }
}

fn bytes(history: &[Step], line: u64) -> [Byte; 2] {
    [0, 1].map(|bit| Byte::after(history, line, bit))
}

fn expected_flush(history: &[Step], thread: u32, line: u64) -> Flushed {
    let bytes = bytes(history, line);
    let mask = |is: fn(&Byte) -> bool| u64::from(is(&bytes[0])) | u64::from(is(&bytes[1])) << 1;
    let dirty = mask(Byte::dirty);
    let elsewhere = bytes
        .iter()
        .any(|byte| byte.pending() && !byte.sent[thread as usize]);
    if dirty != 0 {
        Flushed::Dirty(dirty)
    } else if elsewhere {
        Flushed::PendingElsewhere
    } else if mask(Byte::pending) != 0 {
        Flushed::AlreadyPending
    } else if mask(|byte| byte.durable) != 0 {
        Flushed::Clean
    } else {
        Flushed::Untouched
    }
}

fn expected_fence(history: &[Step], thread: u32) -> Fenced {
    let since = history.iter().rev().filter(|step| step.thread == thread);
    let mut since = since.take_while(|step| step.op != Op::Fence);
    if !since.any(|step| matches!(step.op, Op::Flush { .. } | Op::Stream { .. })) {
        return Fenced::Nothing;
    }
    let completes = |line: &u64| {
        let bytes = bytes(history, *line);
        bytes
            .iter()
            .any(|byte| byte.pending() && byte.sent[thread as usize])
    };
    Fenced::Completed {
        lines: [0, 1].iter().filter(|line| completes(line)).count(),
    }
}

struct Checker {
    tracker: LineTracker,
    /// Each program runs on lines of its own.
    programs: u64,
    order: u64,
}

impl Checker {
    fn line(&self, line: u64) -> PmAddress {
        PmAddress((self.programs * 2 + line) * 64)
    }

    fn who(&mut self, thread: u32, at: usize) -> Who {
        self.order += 1;
        Who {
            order: self.order,
            origin: Origin(at as u32),
            thread: ThreadIndex(thread),
        }
    }

    fn execute(&mut self, history: &[Step], at: usize) {
        let Step { thread, op } = history[at];
        let who = self.who(thread, at);
        match op {
            Op::Store { line, mask } | Op::Stream { line, mask } => {
                let streams = matches!(op, Op::Stream { .. });
                let how = if streams {
                    StoreRoute::NonTemporal
                } else {
                    StoreRoute::Cached
                };
                let line = LineId::of(self.line(line));
                self.tracker
                    .store(who, how, Piece { line, mask }, |_, ()| ());
            }
            Op::Flush { line, kind } => {
                let expected = expected_flush(&history[..at], thread, line);
                let found = self
                    .tracker
                    .flush(who, kind, self.line(line), |_, (), _| ());
                assert_eq!(found, expected, "{:?}", &history[..=at]);
            }
            Op::Fence => {
                let expected = expected_fence(&history[..at], thread);
                let found = self.tracker.fence(who);
                assert_eq!(found, expected, "{:?}", &history[..=at]);
            }
        }
    }

    fn compare(&self, history: &[Step]) {
        for number in [0, 1] {
            let id = LineId::of(self.line(number));
            let line = self.tracker.line(id).cloned().unwrap_or_default();
            for (bit, byte) in bytes(history, number).iter().enumerate() {
                let is = |mask: u64| mask >> bit & 1 == 1;
                assert_eq!(is(line.dirty), byte.dirty(), "{history:?}");
                assert_eq!(is(line.pending), byte.pending(), "{history:?}");
                assert_eq!(is(line.durable), byte.durable, "{history:?}");
                assert_eq!(
                    is(line.ordered),
                    byte.pending() && byte.ordered,
                    "{history:?}"
                );
                assert_eq!(is(line.stored()), byte.stored_by.is_some(), "{history:?}");
                let blamed = line.latest().find(|(_, own)| is(*own));
                let blamed = blamed.map(|(writer, _)| writer.origin.index());
                assert_eq!(
                    blamed,
                    byte.stored_by.filter(|_| byte.dirty()),
                    "{history:?}"
                );
            }
        }
    }

    fn program(&mut self, history: &[Step]) {
        self.programs += 1;
        for at in 0..history.len() {
            self.execute(history, at);
        }
        self.compare(history);
        for thread in [0, 1] {
            let who = self.who(thread, 0);
            self.tracker.fence(who);
        }
    }
}

/// Runs every program of this length. The first instruction is thread 0's: the threads are alike.
fn every_program(length: u32, ops: &[Op]) {
    let mut checker = Checker {
        tracker: LineTracker::default(),
        programs: 0,
        order: 0,
    };
    let choices = 2 * ops.len() as u64;
    let mut history = Vec::new();
    for number in 0..choices.pow(length) / 2 {
        history.clear();
        let mut rest = number;
        for at in 0..length {
            let of = if at + 1 == length {
                choices / 2
            } else {
                choices
            };
            let choice = rest % of;
            rest /= of;
            history.push(Step {
                thread: (choice / ops.len() as u64) as u32,
                op: ops[(choice % ops.len() as u64) as usize],
            });
        }
        history.reverse();
        checker.program(&history);
    }
    assert_eq!(checker.programs, choices.pow(length) / 2);
}

#[test]
fn the_tracker_agrees_with_the_definition_on_every_program_of_four_instructions() {
    for length in 1..=4 {
        every_program(length, &OPS);
    }
}

#[test]
fn the_tracker_agrees_with_the_definition_on_every_program_of_six_instructions_on_one_line() {
    let ops = [OPS[0], OPS[1], OPS[4], OPS[8]];
    every_program(6, &ops);
}

#[test]
fn the_tracker_agrees_with_the_definition_on_every_program_of_five_instructions_with_streams() {
    let ops = [OPS[0], OPS[2], OPS[3], OPS[4], OPS[7], OPS[8]];
    every_program(5, &ops);
}
