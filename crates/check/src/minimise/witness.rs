//! Whoever says what comes of a state while it is looked for why one fails.

use crate::judge::Observed;
use crate::subject::{Checker, Subject};
use crate::table::Table;
use crate::timeline::{Moment, Phase};
use crate::worker::WorkerError;
use crashpoint_persist::graph::NodeId;

pub trait Witness {
    /// Goes on to a moment, by which these nodes more are durable.
    fn advance(&mut self, moment: &Moment<'_>, new: &[NodeId]) -> Result<(), WorkerError>;

    /// What comes of a state: what is durable and these nodes, in this of the ways in which that
    /// may show, or the last one if there are fewer.
    fn observe(
        &mut self,
        phase: Phase,
        nodes: &[NodeId],
        variant: u8,
    ) -> Result<Observed, WorkerError>;

    /// What would come of it had a node that is durable never been there; none where that cannot be
    /// told.
    fn observe_without(
        &mut self,
        phase: Phase,
        nodes: &[NodeId],
        gone: NodeId,
    ) -> Result<Option<Observed>, WorkerError>;
}

/// With a checker of one's own, and what is known already.
pub struct Own<'m, S, C> {
    pub subject: &'m S,
    pub table: Table,
    pub checker: &'m mut C,
    pub checks: u64,
}

impl<S: Subject, C: Checker<Patch = S::Patch>> Witness for Own<'_, S, C> {
    fn advance(&mut self, moment: &Moment<'_>, new: &[NodeId]) -> Result<(), WorkerError> {
        self.checker.advance(new, moment.order)
    }

    fn observe(
        &mut self,
        phase: Phase,
        nodes: &[NodeId],
        variant: u8,
    ) -> Result<Observed, WorkerError> {
        let variant = variant.min(self.checker.variants(nodes) - 1);
        let patch = self.checker.patch(nodes, variant);
        self.run(phase, &patch)
    }

    fn observe_without(
        &mut self,
        phase: Phase,
        nodes: &[NodeId],
        gone: NodeId,
    ) -> Result<Option<Observed>, WorkerError> {
        let mut patch = self.checker.patch(nodes, 0);
        match self.subject.take_back(&mut patch, gone) {
            true => self.run(phase, &patch).map(Some),
            false => Ok(None),
        }
    }
}

impl<S: Subject, C: Checker<Patch = S::Patch>> Own<'_, S, C> {
    fn run(&mut self, phase: Phase, patch: &S::Patch) -> Result<Observed, WorkerError> {
        let image = self.checker.hash_with(patch);
        let key = self.subject.key(phase, image);
        if let Some(observed) = self.table.observed(key) {
            return Ok(observed);
        }
        let ended = self.checker.run(patch, phase, false)?;
        self.checks += 1;
        let observed = self.subject.observe(phase, &ended);
        self.table.resolve(key, observed);
        Ok(observed)
    }
}
