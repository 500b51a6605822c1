//! States that a known cause explains: were they to fail, they would be counted there.

use super::{Cause, Causes, Kind, Point};
use crate::subject::Subject;
use crate::timeline::Phase;
use crashpoint_persist::graph::{Cut, NodeId};
use rustc_hash::FxHashSet;

impl Causes {
    /// Whether something that should have been durable when it was acknowledged is among these.
    pub(crate) fn need(&self, subject: &impl Subject, lost: &[NodeId]) -> bool {
        let of_kind = |cause: &&Cause| cause.kind == Kind::Durability;
        let mut needed = self.causes.iter().filter(of_kind).flat_map(|c| &c.needed);
        needed.any(|id| {
            let site = subject.site(*id);
            lost.iter().any(|lost| subject.site(*lost) == site)
        })
    }

    /// Whether a known cause is at work in a state; it is counted there.
    pub(crate) fn explain(&mut self, subject: &impl Subject, point: &Point<'_>, cut: &Cut) -> bool {
        if self.causes.is_empty() {
            return false;
        }
        let site = |id: &NodeId| subject.site(*id);
        let lost = point.frontier.lost(cut);
        let begin = begin_of(subject, point.phase);
        let is_earlier = |id: &&NodeId| id.index() < begin;
        let earlier: FxHashSet<u64> = lost.iter().filter(is_earlier).map(site).collect();
        let lost: FxHashSet<u64> = lost.iter().map(site).collect();
        let durable = point.durable.iter().rev();
        let of_operation = durable.take_while(|id| id.index() >= begin);
        let kept = point.frontier.kept(cut);
        let kept: FxHashSet<u64> = kept.iter().chain(of_operation).map(site).collect();
        let acknowledged = matches!(point.phase, Phase::After(_));
        let cause = self.causes.iter_mut().find(|cause| {
            let was_acknowledged = cause.needed.iter().any(|id| earlier.contains(&site(id)));
            let any_lost = cause.needed.iter().any(|id| lost.contains(&site(id)));
            let ahead = cause
                .ahead
                .as_ref()
                .is_none_or(|id| kept.contains(&site(id)));
            match cause.kind {
                Kind::Ordering => any_lost && ahead,
                Kind::Durability => any_lost && acknowledged || was_acknowledged,
                Kind::Atomicity => {
                    let whole = cause.needed.iter().any(|id| kept.contains(&site(id)));
                    ahead && !whole
                }
            }
        });
        let Some(cause) = cause else { return false };
        cause.states += 1;
        true
    }
}

/// Nodes issued before the operation.
pub fn begin_of(subject: &impl Subject, phase: Phase) -> usize {
    match phase {
        Phase::Opening => 0,
        Phase::In(operation) | Phase::After(operation) => subject.span(operation).begin,
    }
}
