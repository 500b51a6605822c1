//! Causes that are found while states are still being tried.
//!
//! A state in which a known cause is at work would, if it failed, be counted there and show nothing
//! new ([`Causes::explain`](crate::minimise::Causes)): a strategy that is content with causes does
//! without it. So after every few states those that failed are explained, by the same steps as in
//! the end, which then finds their results in the table.

use super::Job;
use super::producer::Producer;
use crate::judge::Observed;
use crate::minimise::{Minimiser, Point, Witness};
use crate::subject::{Content as _, Subject};
use crate::table::{Failing, Key, Sighting};
use crate::timeline::{Moment, Phase};
use crate::worker::WorkerError;
use crashpoint_persist::graph::{Cut, Frontier, NodeId};
use std::sync::atomic::Ordering;

/// States after which it is looked for causes: each time everybody waits until they are done, so
/// that what is known does not depend on who was faster.
const FEW: usize = 4;

/// States of the moment of which nobody has looked whether they fail and why.
pub type Unexplained = Vec<(Key, Sighting)>;

impl<S: Subject> Producer<'_, '_, S> {
    /// Whether a known cause is at work in a state.
    pub(super) fn is_explained(
        &mut self,
        moment: &Moment<'_>,
        frontier: &Frontier,
        cut: &Cut,
    ) -> bool {
        if self.unexplained.len() >= FEW {
            self.learn(moment, frontier);
        }
        let point = Point::new(moment, frontier);
        let causes = &mut self.progress.causes;
        causes.explain(self.shared.subject, &point, cut)
    }

    /// Explains what has failed.
    pub(super) fn learn(&mut self, moment: &Moment<'_>, frontier: &Frontier) {
        if self.unexplained.is_empty() {
            return;
        }
        self.wait();
        let states = std::mem::take(&mut self.unexplained);
        let table = self.shared.table.lock().expect("no panic");
        let failing = states.into_iter().filter_map(|(key, sighting)| {
            let observed = table.observed(key)?;
            observed.fails(sighting.phase).then_some(Failing {
                sighting,
                key,
                observed,
            })
        });
        let failing: Vec<Failing> = failing.collect();
        drop(table);
        if failing.is_empty() || self.shared.stop.load(Ordering::Relaxed) {
            return;
        }
        let shared = self.shared;
        let mut causes = std::mem::take(&mut self.progress.causes);
        let mut asked = Asked {
            producer: self,
            moment,
        };
        let mut minimiser = Minimiser::new(shared.subject, &mut asked, &mut causes);
        let result = minimiser.states(&Point::new(moment, frontier), &failing);
        self.progress.causes = causes;
        if let Err(error) = result {
            shared.fail(error.into());
        }
    }
}

/// The workers, asked one state at a time.
struct Asked<'p, 's, 'a, S: Subject> {
    producer: &'p mut Producer<'s, 'a, S>,
    moment: &'p Moment<'p>,
}

impl<S: Subject> Witness for Asked<'_, '_, '_, S> {
    /// A producer is where it is.
    fn advance(&mut self, _: &Moment<'_>, _: &[NodeId]) -> Result<(), WorkerError> {
        Ok(())
    }

    fn observe(
        &mut self,
        phase: Phase,
        nodes: &[NodeId],
        variant: u8,
    ) -> Result<Observed, WorkerError> {
        let content = &mut self.producer.content;
        let variant = variant.min(content.variants(nodes) - 1);
        let patch = content.patch(nodes, variant);
        self.ask(phase, patch)
    }

    fn observe_without(
        &mut self,
        phase: Phase,
        nodes: &[NodeId],
        gone: NodeId,
    ) -> Result<Option<Observed>, WorkerError> {
        let mut patch = self.producer.content.patch(nodes, 0);
        let subject = self.producer.shared.subject;
        match subject.take_back(&mut patch, gone) {
            true => self.ask(phase, patch).map(Some),
            false => Ok(None),
        }
    }
}

impl<S: Subject> Asked<'_, '_, '_, S> {
    fn ask(&mut self, phase: Phase, patch: S::Patch) -> Result<Observed, WorkerError> {
        let producer = &mut *self.producer;
        let shared = producer.shared;
        let image = producer.content.hash_with(&patch);
        let key = shared.subject.key(phase, image);
        let known = || shared.table.lock().expect("no panic").observed(key);
        if let Some(observed) = known() {
            return Ok(observed);
        }
        let list = shared.subject.list(phase);
        let varying = producer.varying(list);
        producer.send(Job {
            durable: self.moment.durable.len(),
            order: self.moment.order,
            patch,
            key,
            phase,
            strategy: producer.number,
            varying,
            is_asked: true,
        });
        producer.progress.asked.insert(key);
        producer.wait();
        known().ok_or(WorkerError::Stopped)
    }
}
