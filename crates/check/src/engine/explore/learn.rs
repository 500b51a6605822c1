//! Causes that are found while states are still being tried.
//!
//! A state in which a known cause is at work would, if it failed, be counted there and show nothing
//! new ([`Causes::explain`](crate::engine::minimise::Causes)): a strategy that skips explained states does
//! without it. So after every few states those that failed are explained, by the same steps as in
//! the end, which then finds their results in the table.

use super::Job;
use super::producer::Producer;
use crate::engine::crash_points::{CrashPoint, Phase};
use crate::engine::medium::{CheckError, Medium};
use crate::engine::minimise::{Minimiser, StateProbe};
use crate::engine::outcome::Observed;
use crate::engine::result_table::{Failing, Key, Sighting};
use crashpoint_persist::graph::{Cut, NodeId};
use std::sync::atomic::Ordering;

/// States after which causes are looked for. Each time everybody waits until all states are done, so
/// that what is known does not depend on who was faster.
const STATES_BETWEEN_EXPLANATIONS: usize = 4;

/// States of the crash point of which nobody has looked whether they fail and why.
pub type Unexplained = Vec<(Key, Sighting)>;

impl<S: Medium> Producer<'_, '_, S> {
    /// Whether a known cause is at work in a state.
    pub(super) fn is_explained(&mut self, point: &CrashPoint<'_>, cut: &Cut) -> bool {
        if self.unexplained.len() >= STATES_BETWEEN_EXPLANATIONS {
            self.learn(point);
        }
        let causes = &mut self.progress.causes;
        causes.explain(self.shared.medium, point, cut, None)
    }

    /// Explains what has failed.
    pub(super) fn learn(&mut self, point: &CrashPoint<'_>) {
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
        let mut probe = WorkersProbe {
            producer: self,
            point,
        };
        let mut minimiser = Minimiser::new(shared.medium, &mut probe, &mut causes);
        let result = minimiser.states(point, &failing);
        self.progress.causes = causes;
        if let Err(error) = result {
            shared.fail(error.into());
        }
    }
}

/// The workers, asked one state at a time.
struct WorkersProbe<'p, 'w, 's, 'a, S: Medium> {
    producer: &'p mut Producer<'s, 'a, S>,
    point: &'p CrashPoint<'w>,
}

impl<S: Medium> StateProbe for WorkersProbe<'_, '_, '_, '_, S> {
    type Medium = S;
    type State = S::DurableState;

    fn medium(&self) -> &S {
        self.producer.shared.medium
    }

    fn durable_state(&mut self) -> &mut S::DurableState {
        &mut self.producer.durable_state
    }

    /// A producer is where it is.
    fn advance(&mut self, _: &CrashPoint<'_>, _: &[NodeId]) -> Result<(), CheckError> {
        Ok(())
    }

    fn known(&self, key: Key) -> Option<Observed> {
        let table = self.producer.shared.table.lock().expect("no panic");
        table.observed(key)
    }

    fn run(&mut self, phase: Phase, patch: S::Patch, key: Key) -> Result<Observed, CheckError> {
        let producer = &mut *self.producer;
        let varying = producer.varying(producer.shared.medium.suffix(phase));
        producer.send(Job {
            durable: self.point.durable.len(),
            order: self.point.order,
            patch,
            key,
            phase,
            strategy: producer.number,
            varying,
            is_asked: true,
        });
        producer.progress.asked.insert(key);
        producer.wait();
        self.known(key).ok_or(CheckError::Stopped)
    }
}
