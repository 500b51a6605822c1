//! Whoever says what comes of a state while it is looked for why one fails.

use crate::engine::crash_points::{CrashPoint, Phase};
use crate::engine::medium::{CheckError, Checker, DurableState, Medium};
use crate::engine::outcome::Observed;
use crate::engine::result_table::{Key, ResultTable};
use crashpoint_persist::graph::NodeId;

/// The patch that a probe's medium lays on top of what is durable.
type PatchOf<P> = <<P as StateProbe>::Medium as Medium>::Patch;

/// Runs states and knows what came of them.
pub trait StateProbe {
    type Medium: Medium;
    type State: DurableState<Patch = PatchOf<Self>>;

    fn medium(&self) -> &Self::Medium;

    /// What is durable at the crash point where the probe is.
    fn durable_state(&mut self) -> &mut Self::State;

    /// Goes on to a crash point, by which these nodes more are durable.
    fn advance(&mut self, point: &CrashPoint<'_>, new: &[NodeId]) -> Result<(), CheckError>;

    /// What came of a state that was run before.
    fn known(&self, key: Key) -> Option<Observed>;

    /// Runs a state of which nothing is known.
    fn run(&mut self, phase: Phase, patch: PatchOf<Self>, key: Key)
    -> Result<Observed, CheckError>;

    /// What comes of a state: what is durable and these nodes, in this of the ways in which that
    /// may show, or the last one if there are fewer.
    fn observe(
        &mut self,
        phase: Phase,
        nodes: &[NodeId],
        variant: u8,
    ) -> Result<Observed, CheckError> {
        let state = self.durable_state();
        let variant = variant.min(state.variants(nodes) - 1);
        let patch = state.patch(nodes, variant);
        self.observe_patch(phase, patch)
    }

    /// What would come of it had a node that is durable never been there; none where the medium
    /// cannot tell.
    fn observe_without(
        &mut self,
        phase: Phase,
        nodes: &[NodeId],
        gone: NodeId,
    ) -> Result<Option<Observed>, CheckError> {
        let mut patch = self.durable_state().patch(nodes, 0);
        if !self.medium().take_back(&mut patch, gone) {
            return Ok(None);
        }
        self.observe_patch(phase, patch).map(Some)
    }

    /// What is known of a state, or what a run of it shows.
    fn observe_patch(
        &mut self,
        phase: Phase,
        patch: PatchOf<Self>,
    ) -> Result<Observed, CheckError> {
        let image = self.durable_state().hash_with(&patch);
        let key = self.medium().key(phase, image);
        match self.known(key) {
            Some(observed) => Ok(observed),
            None => self.run(phase, patch, key),
        }
    }
}

/// A probe with a checker of its own, and what is known already.
pub struct CheckerProbe<'m, S, C> {
    pub medium: &'m S,
    pub table: ResultTable,
    pub checker: &'m mut C,
    pub checks: u64,
}

impl<S: Medium, C: Checker<Patch = S::Patch>> StateProbe for CheckerProbe<'_, S, C> {
    type Medium = S;
    type State = C;

    fn medium(&self) -> &S {
        self.medium
    }

    fn durable_state(&mut self) -> &mut C {
        self.checker
    }

    fn advance(&mut self, point: &CrashPoint<'_>, new: &[NodeId]) -> Result<(), CheckError> {
        self.checker.advance(new, point.order)
    }

    fn known(&self, key: Key) -> Option<Observed> {
        self.table.observed(key)
    }

    fn run(&mut self, phase: Phase, patch: S::Patch, key: Key) -> Result<Observed, CheckError> {
        let ended = self.checker.run(&patch, phase, false)?;
        self.checks += 1;
        let observed = self.medium.observe(phase, &ended);
        self.table.resolve(key, observed);
        Ok(observed)
    }
}
