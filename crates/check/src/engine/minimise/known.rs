//! States that a known cause explains: were they to fail, they would be counted there.

use super::{Cause, CauseKind, Causes};
use crate::engine::crash_points::{CrashPoint, Phase, SuffixId};
use crate::engine::medium::Medium;
use crashpoint_persist::graph::{Cut, NodeId};
use rustc_hash::{FxHashMap, FxHashSet};

impl Causes {
    /// Whether something that should have been durable when it was acknowledged is among these.
    pub(crate) fn need(&self, medium: &impl Medium, lost: &[NodeId]) -> bool {
        let of_kind = |cause: &&Cause| cause.kind == CauseKind::Durability;
        let mut needed = self.causes.iter().filter(of_kind).flat_map(|c| &c.needed);
        needed.any(|id| {
            let site = medium.site(*id);
            lost.iter().any(|lost| medium.site(*lost) == site)
        })
    }

    /// Whether a known cause is at work in a state; it is counted there.
    pub(crate) fn explain(
        &mut self,
        medium: &impl Medium,
        point: &CrashPoint<'_>,
        cut: &Cut,
    ) -> bool {
        if self.causes.is_empty() {
            return false;
        }
        let site = |id: &NodeId| medium.site(*id);
        let lost = point.frontier().lost(cut);
        let begin = begin_of(medium, point.phase);
        let is_earlier = |id: &&NodeId| id.index() < begin;
        let earlier: FxHashSet<u64> = lost.iter().filter(is_earlier).map(site).collect();
        let lost: FxHashSet<u64> = lost.iter().map(site).collect();
        let durable = point.durable.iter().rev();
        let of_operation = durable.take_while(|id| id.index() >= begin);
        let mut of_operation: Vec<NodeId> = of_operation.copied().collect();
        let kept_pending = point.frontier().kept(cut);
        let kept: FxHashSet<u64> = kept_pending.iter().chain(&of_operation).map(site).collect();
        of_operation.extend(kept_pending.iter().filter(|id| id.index() >= begin));
        let there = Ends::of(of_operation.iter().map(|id| (site(id), id.index())));
        self.operation.know(medium, point.phase);
        let coming = &self.operation.ends;
        let acknowledged = matches!(point.phase, Phase::Overlapping { .. } | Phase::Returned(_));
        let cause = self.causes.iter_mut().find(|cause| {
            let was_acknowledged = cause.needed.iter().any(|id| earlier.contains(&site(id)));
            let any_lost = cause.needed.iter().any(|id| lost.contains(&site(id)));
            let ahead = cause
                .ahead
                .as_ref()
                .is_none_or(|id| kept.contains(&site(id)));
            match cause.kind {
                CauseKind::Ordering => any_lost && ahead,
                CauseKind::Durability => any_lost && acknowledged || was_acknowledged,
                CauseKind::Atomicity => {
                    let first = cause.ahead.as_ref().map(|id| there.first(site(id)));
                    let after = |ends: &Ends, id: &NodeId| match first {
                        Some(first) => ends.last(site(id)) > first,
                        None => ends.last(site(id)).is_some(),
                    };
                    let whole = cause.needed.iter().any(|id| after(&there, id));
                    // An operation that does not make it whole has a cause of its own, though it
                    // stores at the same place: all that allocate do.
                    let comes = cause.needed.iter().any(|id| after(coming, id));
                    let is_there = first.is_none_or(|first| first.is_some());
                    // Where nothing is known to go ahead or to come, it is as if nothing had been
                    // stored: another operation knows nothing of that.
                    let names_nothing = cause.ahead.is_none() && cause.needed.is_empty();
                    let is_here = cause.state.phase.suffix() == point.phase.suffix();
                    let comes = comes || cause.needed.is_empty();
                    is_there && !whole && comes && (!names_nothing || is_here)
                }
            }
        });
        let Some(cause) = cause else { return false };
        cause.states += 1;
        true
    }
}

/// All places that an operation stores at, kept for the next state of it.
#[derive(Debug, Default)]
pub struct Places {
    suffix: Option<SuffixId>,
    ends: Ends,
}

impl Places {
    fn know(&mut self, medium: &impl Medium, phase: Phase) {
        let suffix = phase.suffix();
        if self.suffix != Some(suffix) {
            let nodes = begin_of(medium, phase)..end_of(medium, phase);
            let sites = nodes.map(|index| (medium.site(NodeId(index as u32)), index));
            *self = Places {
                suffix: Some(suffix),
                ends: Ends::of(sites),
            };
        }
    }
}

/// For places in the program, which of the nodes that come from there are first and last.
#[derive(Debug, Default)]
struct Ends(FxHashMap<u64, (usize, usize)>);

impl Ends {
    fn of(nodes: impl Iterator<Item = (u64, usize)>) -> Ends {
        let mut ends = Ends::default();
        for (site, node) in nodes {
            let (first, last) = ends.0.entry(site).or_insert((node, node));
            *first = node.min(*first);
            *last = node.max(*last);
        }
        ends
    }

    fn first(&self, site: u64) -> Option<usize> {
        self.0.get(&site).map(|(first, _)| *first)
    }

    fn last(&self, site: u64) -> Option<usize> {
        self.0.get(&site).map(|(_, last)| *last)
    }
}

/// Nodes issued before the operation.
pub fn begin_of(medium: &impl Medium, phase: Phase) -> usize {
    let begin = |operation| medium.span(operation).begin;
    phase.operation().map_or(0, begin)
}

/// Nodes issued before it returned; of the start, before the first operation began.
pub fn end_of(medium: &impl Medium, phase: Phase) -> usize {
    let end = |operation| medium.span(operation).end;
    phase.operation().map_or_else(|| medium.started(), end)
}
