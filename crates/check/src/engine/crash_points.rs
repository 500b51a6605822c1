//! Points of a recording at which a crash is tried, and the walk from one to the next that all media
//! share.

use super::outcome::{OutcomeSet, RecoveryOutcome};
use crashpoint_persist::graph::{Frontier, NodeId, Walker};
use std::cell::LazyCell;
use std::ops::ControlFlow;

/// Where in the workload a crash point lies. Operations count from 0. Replay data has the variants
/// under the names that version 2 of it began with.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub enum Phase {
    /// Before the first operation.
    Opening,
    /// The operation has begun and not returned: it may be rolled back or committed.
    #[serde(rename = "In")]
    InFlight(u32),
    /// Of several operations that run at once, some have returned or not begun: these outcomes are
    /// possible.
    #[serde(rename = "Amid")]
    Overlapping { operation: u32, allowed: OutcomeSet },
    /// The operation has returned: it must be committed. Of several, all.
    #[serde(rename = "After")]
    Returned(u32),
}

impl Phase {
    /// Outcomes in which the program may be after a crash.
    pub fn allowed(self) -> OutcomeSet {
        match self {
            Phase::Opening | Phase::Returned(_) => OutcomeSet::COMMITTED,
            Phase::InFlight(_) => OutcomeSet::ALL,
            Phase::Overlapping { allowed, .. } => allowed,
        }
    }

    pub fn operation(self) -> Option<u32> {
        match self {
            Phase::Opening => None,
            Phase::InFlight(operation)
            | Phase::Overlapping { operation, .. }
            | Phase::Returned(operation) => Some(operation),
        }
    }

    /// Now, or when all have returned.
    pub fn or_committed(self) -> Phase {
        match self {
            Phase::Overlapping { operation, allowed } => Phase::Overlapping {
                operation,
                allowed: allowed.with(RecoveryOutcome::COMMITTED),
            },
            Phase::Opening | Phase::InFlight(_) | Phase::Returned(_) => self,
        }
    }

    /// As if nothing had returned yet: what fails even so does not fail for what was acknowledged.
    pub fn in_flight(self) -> Phase {
        match self {
            Phase::Opening => Phase::Opening,
            Phase::InFlight(operation)
            | Phase::Overlapping { operation, .. }
            | Phase::Returned(operation) => Phase::InFlight(operation),
        }
    }

    /// The list of operations to run after recovery: what the operation is followed by.
    pub fn suffix(self) -> SuffixId {
        SuffixId(self.operation().map_or(0, |operation| operation + 1))
    }
}

/// What runs after recovery: 0 for everything, `i + 1` for what follows operation `i`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct SuffixId(pub u32);

/// A position in the recording at which a crash is tried.
pub struct CrashPoint<'w> {
    /// How many crash points came before.
    pub index: usize,
    /// The last event before it, in the order of all events.
    pub order: u64,
    pub phase: Phase,
    /// The operation has just returned.
    pub returned: bool,
    /// How many nodes have been issued.
    pub issued: usize,
    /// Nodes that are durable, in the order in which they became so.
    pub durable: &'w [NodeId],
    /// What may be lost: computed when it is first asked for, as it costs as much as is pending.
    pub(crate) frontier: LazyCell<Frontier, &'w dyn Fn() -> Frontier>,
}

impl CrashPoint<'_> {
    /// What a crash here may lose.
    pub fn frontier(&self) -> &Frontier {
        &self.frontier
    }
}

/// A node that is taken to be durable after a point: its loss is known to do harm, and would hide
/// what else does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assumption {
    pub point: usize,
    pub node: NodeId,
}

impl Assumption {
    /// Those of a point, of assumptions in the order in which they were made.
    pub fn made_at(all: &[Assumption], point: usize) -> &[Assumption] {
        let begin = all.partition_point(|one| one.point < point);
        let end = all.partition_point(|one| one.point <= point);
        &all[begin..end]
    }
}

/// Where the operations lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Nodes issued before the operation began, and before it returned.
    pub begin: usize,
    pub end: usize,
}

/// Sees crash points, and may add nodes that are taken to be durable from there on.
pub type CrashPointVisitor<'s> =
    dyn FnMut(&CrashPoint<'_>, &mut Vec<NodeId>) -> ControlFlow<()> + 's;

/// The way through a recording: a medium feeds the walker, and says where the crash points are.
pub struct CrashPoints<W> {
    pub walker: W,
    pub phase: Phase,
    /// Order of the last event that was fed.
    pub order: u64,
    /// How many crash points there were.
    count: usize,
    /// Nodes that are durable, in the order in which they became so.
    durable: Vec<NodeId>,
}

impl<W: Walker> CrashPoints<W> {
    pub fn new(walker: W, phase: Phase) -> CrashPoints<W> {
        CrashPoints {
            walker,
            phase,
            order: 0,
            count: 0,
            durable: Vec::new(),
        }
    }

    pub fn count(&self) -> usize {
        self.count
    }

    pub fn durable(&self) -> &[NodeId] {
        &self.durable
    }

    /// Takes note of what the last event made durable.
    pub fn note_durable(&mut self) {
        self.durable.extend(self.walker.take_durable());
    }

    /// Shows a crash point. `returned`: an operation has just returned.
    pub fn visit(
        &mut self,
        visitor: &mut CrashPointVisitor<'_>,
        returned: bool,
    ) -> ControlFlow<()> {
        let walker = &self.walker;
        let frontier = || walker.crash_frontier();
        let point = CrashPoint {
            index: self.count,
            order: self.order,
            phase: self.phase,
            returned,
            issued: walker.nodes().len(),
            durable: &self.durable,
            frontier: LazyCell::new(&frontier),
        };
        self.count += 1;
        let mut assumed = Vec::new();
        let next = visitor(&point, &mut assumed);
        for node in assumed {
            self.walker.assume_durable(node);
        }
        self.note_durable();
        next
    }
}
