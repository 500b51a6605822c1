//! Whether a failing state belongs to a cause: the cause is contained in the state, and the failure
//! is one that the cause shows.

use super::Cause;
use crate::engine::crash_points::CrashPoint;
use crate::engine::outcome::Observed;
use crashpoint_persist::graph::{Cut, NodeId};
use rustc_hash::FxHashSet;

impl Cause {
    /// Whether a failure looks like one of those that states of this cause show.
    pub fn shows(&self, failure: &Observed) -> bool {
        self.observed.iter().any(|own| own.is_like(failure))
    }

    /// Whether what went ahead is there in a state, and nothing that was needed is.
    pub(super) fn is_contained(&self, point: &CrashPoint<'_>, cut: &Cut) -> bool {
        let frontier = point.frontier();
        let kept: FxHashSet<NodeId> = frontier.kept(cut).into_iter().collect();
        let lost: FxHashSet<NodeId> = frontier.lost(cut).into_iter().collect();
        // What was issued and is not pending is durable.
        let is_there =
            |id: &NodeId| kept.contains(id) || id.index() < point.issued && !lost.contains(id);
        self.ahead.as_ref().is_none_or(is_there) && !self.needed.iter().any(is_there)
    }

    /// Takes over the states of another cause, and with them the failures that they show.
    pub fn absorb_states(&mut self, other: &Cause) {
        self.states += other.states;
        self.fixed_by_persisting &= other.fixed_by_persisting;
        for failure in &other.observed {
            if !self.shows(failure) {
                self.observed.push(*failure);
            }
        }
    }
}
