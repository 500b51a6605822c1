//! What a check saw, and whether that is consistent.
//!
//! **Output equivalence** (Witcher, §4.4). For a crash in an operation, what the program prints
//! after recovery must equal what it prints where the operation happened, or where it did not; for
//! a crash after the operation returned, where it happened. The two references of an operation are
//! runs of the same list of operations on the pool as it was when the operation ended, and as it
//! was when it began, with nothing lost. So a reference passes through recovery like a check does,
//! whole outputs can be compared, and a program with a `main` of its own needs no way to skip an
//! operation. That recovery itself is right is a separate question, which the outputs of the run
//! without a crash answer: see [`crate::memory::references`].
//!
//! **Several operations at once.** Of those that were under way any may have happened, in any order
//! that agrees with which of them had returned before which began. Each such set of operations is a
//! outcome; its references come from running them one after the other, in every order.
//!
//! **A checker** says it by its exit status. **Visible failure** alone: a signal, a hang, an exit
//! status that the references do not have.

use crate::engine::outcome::{Observed, OutcomeSet, RecoveryOutcome};
use crate::process::run::{FinishedRun, RunEnd};
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
    pub end: RunEnd,
    pub stdout: Vec<u8>,
}

impl From<FinishedRun> for Reference {
    fn from(ended: FinishedRun) -> Reference {
        Reference {
            end: ended.end,
            stdout: ended.stdout,
        }
    }
}

/// The references of one suffix. Replay data has the fields under the names that version 2 of it
/// began with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct References {
    /// The operation before the suffix did not happen; of several at once, none.
    #[serde(rename = "skipped")]
    pub rolled_back: Reference,
    /// It did; of several at once, all, as they were recorded.
    #[serde(rename = "done")]
    pub committed: Reference,
    /// How many operations that is.
    pub operations: usize,
    /// Of several at once: some of them, or all in another order.
    #[serde(rename = "between")]
    pub serial_executions: Vec<SerialExecution>,
}

/// Some of several operations, one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SerialExecution {
    #[serde(rename = "world")]
    pub outcome: RecoveryOutcome,
    pub reference: Reference,
}

impl Oracle {
    /// What a run shows, compared with its references if there are any.
    pub fn observe(self, ended: &FinishedRun, references: Option<&References>) -> Observed {
        let outcomes = match (self, references) {
            (Oracle::Checker, _) | (_, None) => return Observed::of_checker(ended),
            (Oracle::Visible, Some(references)) => match ended.end {
                end if end == references.committed.end => OutcomeSet::ALL,
                end if end == references.rolled_back.end => {
                    OutcomeSet::ALL.without(RecoveryOutcome::COMMITTED)
                }
                _ => OutcomeSet::NONE,
            },
            (Oracle::Output, Some(references)) => {
                references.outcomes(|one| ended.end == one.end && ended.stdout == one.stdout)
            }
        };
        Observed::of_program(outcomes, ended)
    }
}

impl References {
    /// Where all happened, where nothing did, and what lies between.
    pub fn all(&self) -> impl Iterator<Item = &Reference> {
        let serial_executions = self.serial_executions.iter().map(|one| &one.reference);
        [&self.committed, &self.rolled_back]
            .into_iter()
            .chain(serial_executions)
    }

    /// The outcomes whose reference is like what was seen.
    fn outcomes(&self, like: impl Fn(&Reference) -> bool) -> OutcomeSet {
        let nothing = RecoveryOutcome::all_rolled_back(self.operations);
        let ends = [
            (nothing, &self.rolled_back),
            (RecoveryOutcome::COMMITTED, &self.committed),
        ];
        let serial_executions = self
            .serial_executions
            .iter()
            .map(|one| (one.outcome, &one.reference));
        let fitting = ends
            .into_iter()
            .chain(serial_executions)
            .filter(|(_, one)| like(one));
        fitting.fold(OutcomeSet::NONE, |outcomes, (outcome, _)| {
            outcomes.with(outcome)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::crash_points::Phase;
    use crate::process::message::MessageKind;

    fn ended(end: RunEnd, stdout: &str) -> FinishedRun {
        FinishedRun::new(end, stdout.into(), Vec::new())
    }

    fn references() -> References {
        References {
            rolled_back: ended(RunEnd::Exited(0), "a\n").into(),
            committed: ended(RunEnd::Exited(0), "b\n").into(),
            operations: 1,
            serial_executions: Vec::new(),
        }
    }

    #[test]
    fn in_an_operation_either_outcome_is_fine_and_after_it_only_one() {
        let observe = |text: &str| {
            let ended = ended(RunEnd::Exited(0), text);
            Oracle::Output.observe(&ended, Some(&references()))
        };
        let fails = |text: &str| {
            let observed = observe(text);
            (
                observed.fails(Phase::InFlight(3)),
                observed.fails(Phase::Returned(3)),
            )
        };
        assert_eq!(fails("a\n"), (false, true));
        assert_eq!(fails("b\n"), (false, false));
        assert_eq!(fails("c\n"), (true, true));
    }

    #[test]
    fn of_two_at_once_what_has_returned_must_be_there_and_what_has_not_may() {
        let outcome = |outcome: u8, text: &str| SerialExecution {
            outcome: RecoveryOutcome(outcome),
            reference: ended(RunEnd::Exited(0), text).into(),
        };
        let references = References {
            operations: 2,
            serial_executions: vec![
                outcome(0b10, "first alone\n"),
                outcome(0b01, "second alone\n"),
                outcome(0b00, "second, then first\n"),
            ],
            ..references()
        };
        let fails = |text: &str, phase: Phase| {
            let ended = ended(RunEnd::Exited(0), text);
            Oracle::Output
                .observe(&ended, Some(&references))
                .fails(phase)
        };
        let first_returned = Phase::Overlapping {
            operation: 3,
            allowed: OutcomeSet::COMMITTED.with(RecoveryOutcome(0b10)),
        };
        let texts = ["a\n", "b\n", "first alone\n", "second alone\n", "c\n"];
        for (phase, expected) in [
            (Phase::InFlight(3), [false, false, false, false, true]),
            (first_returned, [true, false, false, true, true]),
            (Phase::Returned(3), [true, false, true, true, true]),
        ] {
            assert_eq!(texts.map(|text| fails(text, phase)), expected, "{phase:?}");
            assert!(!fails("second, then first\n", phase), "{phase:?}");
        }
    }

    #[test]
    fn a_signal_fails_under_every_oracle() {
        for oracle in [Oracle::Output, Oracle::Checker, Oracle::Visible] {
            let ended = ended(RunEnd::Killed { signal: 11 }, "b\n");
            let observed = oracle.observe(&ended, Some(&references()));
            assert!(observed.fails(Phase::InFlight(0)), "{oracle:?}");
        }
    }

    #[test]
    fn stored_names_are_those_of_earlier_versions() {
        let phases = [
            (Phase::Opening, r#""Opening""#),
            (Phase::InFlight(3), r#"{"In":3}"#),
            (Phase::Returned(3), r#"{"After":3}"#),
            (
                Phase::Overlapping {
                    operation: 3,
                    allowed: OutcomeSet::COMMITTED,
                },
                r#"{"Amid":{"operation":3,"allowed":1}}"#,
            ),
        ];
        for (phase, stored) in phases {
            assert_eq!(serde_json::to_string(&phase).unwrap(), stored);
        }
        let references = References {
            serial_executions: vec![SerialExecution {
                outcome: RecoveryOutcome::COMMITTED,
                reference: ended(RunEnd::Exited(0), "").into(),
            }],
            ..references()
        };
        assert_eq!(
            serde_json::to_string(&references).unwrap(),
            r#"{"skipped":{"end":{"Exited":0},"stdout":[97,10]},"#.to_owned()
                + r#""done":{"end":{"Exited":0},"stdout":[98,10]},"operations":1,"#
                + r#""between":[{"world":0,"reference":{"end":{"Exited":0},"stdout":[]}}]}"#
        );
        let observed = Observed {
            outcomes: OutcomeSet::COMMITTED,
            end: RunEnd::TimedOut,
            message: MessageKind::default(),
        };
        assert_eq!(
            serde_json::to_string(&observed).unwrap(),
            r#"{"worlds":1,"end":"TimedOut"}"#
        );
    }
}
