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
    /// The operation before the list did not happen.
    pub skipped: Reference,
    /// It did.
    pub done: Reference,
}

/// A check, as far as a verdict needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Observed {
    /// As where the operation did not happen.
    pub skipped: bool,
    /// As where it did.
    pub done: bool,
    pub end: End,
}

impl Observed {
    pub fn new(oracle: Oracle, ended: &Ended, references: Option<&References>) -> Observed {
        let like = |reference: &Reference| match oracle {
            Oracle::Output => ended.end == reference.end && ended.stdout == reference.stdout,
            Oracle::Visible => ended.end == reference.end,
            Oracle::Checker => false,
        };
        let (skipped, done) = match (oracle, references) {
            (Oracle::Checker, _) | (_, None) => {
                let fine = ended.end == End::Exited(0);
                (fine, fine)
            }
            (_, Some(references)) => (like(&references.skipped), like(&references.done)),
        };
        Observed {
            skipped,
            done,
            end: ended.end,
        }
    }

    /// Whether it is inconsistent for a crash in this phase.
    pub fn fails(&self, phase: Phase) -> bool {
        match phase {
            Phase::Opening | Phase::After(_) => !self.done,
            Phase::In(_) => !self.done && !self.skipped,
        }
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
