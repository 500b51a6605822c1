//! What recovery may make of the operations that a crash interrupted, and what a check saw of it.

use super::crash_points::Phase;
use crate::process::message::MessageKind;
use crate::process::run::{FinishedRun, RunEnd};
use serde::{Deserialize, Serialize};

/// Operations that may be under way at once.
pub const MAX_OVERLAPPING: usize = 4;

/// Which operations of those before a suffix recovery rolled back, a bit for each. So 0 is that all
/// are committed, however many they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RecoveryOutcome(pub u8);

impl RecoveryOutcome {
    pub const COMMITTED: RecoveryOutcome = RecoveryOutcome(0);

    /// None of so many happened.
    pub fn all_rolled_back(operations: usize) -> RecoveryOutcome {
        RecoveryOutcome(((1_u32 << operations) - 1) as u8)
    }

    pub fn happened(self, operation: usize) -> bool {
        self.0 & (1 << operation) == 0
    }
}

/// A set of outcomes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct OutcomeSet(u16);

impl OutcomeSet {
    pub const NONE: OutcomeSet = OutcomeSet(0);
    pub const ALL: OutcomeSet = OutcomeSet(u16::MAX);
    pub const COMMITTED: OutcomeSet = OutcomeSet(1);

    pub fn with(self, outcome: RecoveryOutcome) -> OutcomeSet {
        OutcomeSet(self.0 | 1 << outcome.0)
    }

    pub fn without(self, outcome: RecoveryOutcome) -> OutcomeSet {
        OutcomeSet(self.0 & !(1 << outcome.0))
    }

    pub fn contains(self, outcome: RecoveryOutcome) -> bool {
        self.meets(OutcomeSet::NONE.with(outcome))
    }

    /// Whether the two sets have an outcome in common.
    pub fn meets(self, other: OutcomeSet) -> bool {
        self.0 & other.0 != 0
    }

    pub fn union(self, other: OutcomeSet) -> OutcomeSet {
        OutcomeSet(self.0 | other.0)
    }
}

/// A check, as far as a verdict needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Observed {
    /// It is as it would be with these outcomes.
    #[serde(rename = "worlds")]
    pub outcomes: OutcomeSet,
    pub end: RunEnd,
    /// What it says of its failure, if it failed.
    #[serde(default, skip_serializing_if = "MessageKind::is_silent")]
    pub message: MessageKind,
}

impl Observed {
    /// What a run of a program shows.
    pub fn of_program(outcomes: OutcomeSet, ended: &FinishedRun) -> Observed {
        let message = match ended.end {
            RunEnd::Exited(0) => MessageKind::default(),
            _ => MessageKind::of_program(ended),
        };
        Observed {
            outcomes,
            end: ended.end,
            message,
        }
    }

    /// What a run of a checker shows: with exit status 0 all is well.
    pub fn of_checker(ended: &FinishedRun) -> Observed {
        let (outcomes, message) = match ended.end {
            RunEnd::Exited(0) => (OutcomeSet::ALL, MessageKind::default()),
            _ => (OutcomeSet::NONE, MessageKind::of_checker(ended)),
        };
        Observed {
            outcomes,
            end: ended.end,
            message,
        }
    }

    /// Whether it is inconsistent for a crash in this phase.
    pub fn fails(&self, phase: Phase) -> bool {
        !self.outcomes.meets(phase.allowed())
    }

    /// Whether two failures look alike from outside: they ended in the same way, with the same
    /// message, and both or neither of them left what some other outcome would have left. Failures
    /// that look different may still have one cause, but none may hide the other.
    pub fn is_like(&self, other: &Observed) -> bool {
        let is_some_outcome = |one: &Observed| one.outcomes != OutcomeSet::NONE;
        self.end == other.end
            && self.message == other.message
            && is_some_outcome(self) == is_some_outcome(other)
    }
}
