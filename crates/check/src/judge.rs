//! What a check saw, and whether that is consistent.
//!
//! **Output equivalence** (Witcher, §4.4). For a crash in an operation, what the program prints
//! after recovery must equal what it prints where the operation happened, or where it did not; for
//! a crash after the operation returned, where it happened. The two references of an operation are
//! runs of the same list of operations on the pool as it was when the operation ended, and as it
//! was when it began, with nothing lost. So a reference passes through recovery like a check does,
//! whole outputs can be compared, and a program with a `main` of its own needs no way to skip an
//! operation. That recovery itself is right is a separate question, which the outputs of the run
//! without a crash answer: see [`crate::references`].
//!
//! **Several operations at once.** Of those that were under way any may have happened, in any order
//! that agrees with which of them had returned before which began. Each such set of operations is a
//! world; its references come from running them one after the other, in every order.
//!
//! **A checker** says it by its exit status. **Visible failure** alone: a signal, a hang, an exit
//! status that the references do not have.

use crate::server::{End, Ended};
use crate::timeline::Phase;
use serde::{Deserialize, Serialize};

/// How a check is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Oracle {
    Output,
    Checker,
    Visible,
}

/// What a consistent program does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    pub end: End,
    pub stdout: Vec<u8>,
}

impl From<Ended> for Reference {
    fn from(ended: Ended) -> Reference {
        Reference {
            end: ended.end,
            stdout: ended.stdout,
        }
    }
}

/// The references of one list of operations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct References {
    /// The operation before the list did not happen; of several at once, none.
    pub skipped: Reference,
    /// It did; of several at once, all, as they were recorded.
    pub done: Reference,
    /// How many operations that is.
    pub operations: usize,
    /// Of several at once: some of them, or all in another order.
    pub between: Vec<Between>,
}

/// Some of several operations, one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Between {
    pub world: World,
    pub reference: Reference,
}

/// Operations that may be under way at once.
pub const MOST_AT_ONCE: usize = 4;

/// Which operations of those before a list did *not* happen, a bit for each. So 0 is that all
/// happened, however many they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct World(pub u8);

impl World {
    pub const DONE: World = World(0);

    /// None of so many happened.
    pub fn nothing_of(operations: usize) -> World {
        World(((1_u32 << operations) - 1) as u8)
    }

    pub fn happened(self, operation: usize) -> bool {
        self.0 & (1 << operation) == 0
    }
}

/// A set of worlds.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Worlds(u16);

impl Worlds {
    pub const NONE: Worlds = Worlds(0);
    pub const ALL: Worlds = Worlds(u16::MAX);
    pub const DONE: Worlds = Worlds(1);

    pub fn with(self, world: World) -> Worlds {
        Worlds(self.0 | 1 << world.0)
    }

    pub fn without(self, world: World) -> Worlds {
        Worlds(self.0 & !(1 << world.0))
    }

    pub fn contains(self, world: World) -> bool {
        self.meets(Worlds::NONE.with(world))
    }

    /// Whether the two have a world in common.
    pub fn meets(self, other: Worlds) -> bool {
        self.0 & other.0 != 0
    }

    pub fn union(self, other: Worlds) -> Worlds {
        Worlds(self.0 | other.0)
    }
}

/// A check, as far as a verdict needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Observed {
    /// It is as it would be in these worlds.
    pub worlds: Worlds,
    pub end: End,
}

impl Observed {
    pub fn new(oracle: Oracle, ended: &Ended, references: Option<&References>) -> Observed {
        let worlds = match (oracle, references) {
            (Oracle::Checker, _) | (_, None) => match ended.end {
                End::Exited(0) => Worlds::ALL,
                _ => Worlds::NONE,
            },
            (Oracle::Visible, Some(references)) => match ended.end {
                end if end == references.done.end => Worlds::ALL,
                end if end == references.skipped.end => Worlds::ALL.without(World::DONE),
                _ => Worlds::NONE,
            },
            (Oracle::Output, Some(references)) => {
                references.worlds(|one| ended.end == one.end && ended.stdout == one.stdout)
            }
        };
        Observed {
            worlds,
            end: ended.end,
        }
    }

    /// Whether it is inconsistent for a crash in this phase.
    pub fn fails(&self, phase: Phase) -> bool {
        !self.worlds.meets(phase.allowed())
    }
}

impl References {
    /// Where all happened, where nothing did, and what lies between.
    pub fn all(&self) -> impl Iterator<Item = &Reference> {
        let between = self.between.iter().map(|one| &one.reference);
        [&self.done, &self.skipped].into_iter().chain(between)
    }

    /// The worlds whose reference is like what was seen.
    fn worlds(&self, like: impl Fn(&Reference) -> bool) -> Worlds {
        let nothing = World::nothing_of(self.operations);
        let ends = [(nothing, &self.skipped), (World::DONE, &self.done)];
        let between = self.between.iter().map(|one| (one.world, &one.reference));
        let fitting = ends.into_iter().chain(between).filter(|(_, one)| like(one));
        fitting.fold(Worlds::NONE, |worlds, (world, _)| worlds.with(world))
    }
}

/// A line in which two outputs differ: its number from 0, and both sides.
pub type Difference<'a> = (usize, Option<&'a [u8]>, Option<&'a [u8]>);

/// The first line in which two outputs differ.
pub fn first_difference<'a>(expected: &'a [u8], found: &'a [u8]) -> Option<Difference<'a>> {
    let mut expected = lines(expected);
    let mut found = lines(found);
    for number in 0.. {
        match (expected.next(), found.next()) {
            (None, None) => return None,
            (a, b) if a == b => {}
            (a, b) => return Some((number, a, b)),
        }
    }
    None
}

pub fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\n").unwrap_or(line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn ended(end: End, stdout: &str) -> Ended {
        Ended {
            end,
            stdout: stdout.into(),
            stderr: Vec::new(),
            notes: 0,
            left_processes: false,
            wall: Duration::ZERO,
            processor: Duration::ZERO,
        }
    }

    fn references() -> References {
        References {
            skipped: ended(End::Exited(0), "a\n").into(),
            done: ended(End::Exited(0), "b\n").into(),
            operations: 1,
            between: Vec::new(),
        }
    }

    #[test]
    fn in_an_operation_either_world_is_fine_and_after_it_only_one() {
        let observe = |text: &str| {
            let ended = ended(End::Exited(0), text);
            Observed::new(Oracle::Output, &ended, Some(&references()))
        };
        let fails = |text: &str| {
            let observed = observe(text);
            (
                observed.fails(Phase::In(3)),
                observed.fails(Phase::After(3)),
            )
        };
        assert_eq!(fails("a\n"), (false, true));
        assert_eq!(fails("b\n"), (false, false));
        assert_eq!(fails("c\n"), (true, true));
    }

    #[test]
    fn of_two_at_once_what_has_returned_must_be_there_and_what_has_not_may() {
        let world = |world: u8, text: &str| Between {
            world: World(world),
            reference: ended(End::Exited(0), text).into(),
        };
        let references = References {
            operations: 2,
            between: vec![
                world(0b10, "first alone\n"),
                world(0b01, "second alone\n"),
                world(0b00, "second, then first\n"),
            ],
            ..references()
        };
        let fails = |text: &str, phase: Phase| {
            let ended = ended(End::Exited(0), text);
            Observed::new(Oracle::Output, &ended, Some(&references)).fails(phase)
        };
        let first_returned = Phase::Amid {
            operation: 3,
            allowed: Worlds::DONE.with(World(0b10)),
        };
        let texts = ["a\n", "b\n", "first alone\n", "second alone\n", "c\n"];
        for (phase, expected) in [
            (Phase::In(3), [false, false, false, false, true]),
            (first_returned, [true, false, false, true, true]),
            (Phase::After(3), [true, false, true, true, true]),
        ] {
            assert_eq!(texts.map(|text| fails(text, phase)), expected, "{phase:?}");
            assert!(!fails("second, then first\n", phase), "{phase:?}");
        }
    }

    #[test]
    fn a_signal_fails_under_every_oracle() {
        for oracle in [Oracle::Output, Oracle::Checker, Oracle::Visible] {
            let ended = ended(End::Killed { signal: 11 }, "b\n");
            let observed = Observed::new(oracle, &ended, Some(&references()));
            assert!(observed.fails(Phase::In(0)), "{oracle:?}");
        }
    }

    #[test]
    fn differences_are_found_by_line() {
        let line = |text: &'static str| Some(text.as_bytes());
        assert_eq!(first_difference(b"a\nb\n", b"a\nb\n"), None);
        assert_eq!(
            first_difference(b"a\nb\n", b"a\nc\n"),
            Some((1, line("b"), line("c")))
        );
        assert_eq!(
            first_difference(b"a\nb\n", b"a\n"),
            Some((1, line("b"), None))
        );
        assert_eq!(first_difference(b"", b"x"), Some((0, None, line("x"))));
    }
}
