//! States that a known cause explains: were they to fail, they would be counted there.

use super::{Cause, CauseKind, Causes};
use crate::engine::crash_points::{CrashPoint, Phase, SuffixId};
use crate::engine::medium::Medium;
use crate::engine::outcome::Observed;
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

    /// Whether a known cause is at work in a state; it is counted there. If the state was tried,
    /// its failure must be one that the cause shows.
    pub(crate) fn explain(
        &mut self,
        medium: &impl Medium,
        point: &CrashPoint<'_>,
        cut: &Cut,
        failure: Option<&Observed>,
    ) -> bool {
        if self.causes.is_empty() {
            return false;
        }
        self.operation.know(medium, point.phase);
        let state = StateSites::of(medium, point, cut);
        let coming = &self.operation.ends;
        let cause = self.causes.iter_mut().find(|cause| {
            let is_like = failure.is_none_or(|failure| cause.shows(failure));
            is_like && state.has(cause, coming)
        });
        let Some(cause) = cause else { return false };
        cause.states += 1;
        true
    }
}

/// Where the program made what a crash state has and what it lacks.
struct StateSites<'m, M> {
    medium: &'m M,
    phase: Phase,
    /// Nodes that are lost, in all and of operations before this one.
    lost_nodes: Vec<NodeId>,
    lost: Ends,
    lost_earlier: FxHashSet<u64>,
    /// Nodes that are kept or, if they are of the operation, durable.
    there_nodes: Vec<NodeId>,
    there: Ends,
    /// Of these, what the operation made.
    there_of_operation: Ends,
}

impl<'m, M: Medium> StateSites<'m, M> {
    fn of(medium: &'m M, point: &CrashPoint<'_>, cut: &Cut) -> Self {
        let ends = |nodes: &mut dyn Iterator<Item = &NodeId>| {
            Ends::of(nodes.map(|id| (medium.site(*id), id.index())))
        };
        let begin = begin_of(medium, point.phase);
        let lost_nodes = point.frontier().lost(cut);
        let earlier = lost_nodes.iter().filter(|id| id.index() < begin);
        let durable = point.durable.iter().rev();
        let of_operation = durable.take_while(|id| id.index() >= begin);
        let mut there_nodes: Vec<NodeId> = of_operation.copied().collect();
        there_nodes.extend(point.frontier().kept(cut));
        let mut own = there_nodes.iter().filter(|id| id.index() >= begin);
        StateSites {
            medium,
            phase: point.phase,
            lost_earlier: earlier.map(|id| medium.site(*id)).collect(),
            lost: ends(&mut lost_nodes.iter()),
            there_of_operation: ends(&mut own),
            there: ends(&mut there_nodes.iter()),
            lost_nodes,
            there_nodes,
        }
    }

    /// Whether a cause is at work. `coming`: all that the operation makes.
    fn has(&self, cause: &Cause, coming: &Ends) -> bool {
        let site = |id: &NodeId| self.medium.site(*id);
        let any_lost = || cause.needed.iter().any(|id| self.lost.has(site(id)));
        match cause.kind {
            CauseKind::Ordering => self.has_order(cause),
            CauseKind::Durability => {
                let (Phase::Overlapping { .. } | Phase::Returned(_)) = self.phase else {
                    let mut needed = cause.needed.iter();
                    return needed.any(|id| self.lost_earlier.contains(&site(id)));
                };
                any_lost()
            }
            CauseKind::Atomicity if cause.torn => self.has_torn(cause),
            CauseKind::Atomicity => {
                let there = &self.there_of_operation;
                let first = cause.ahead.as_ref().map(|id| there.first(site(id)));
                let after = |ends: &Ends, id: &NodeId| match first {
                    Some(first) => ends.last(site(id)) > first,
                    None => ends.has(site(id)),
                };
                let whole = cause.needed.iter().any(|id| after(there, id));
                // An operation that does not make it whole has a cause of its own, though it
                // stores at the same place: all that allocate do.
                let comes = cause.needed.iter().any(|id| after(coming, id));
                let is_there = first.is_none_or(|first| first.is_some());
                // Where nothing is known to go ahead or to come, it is as if nothing had been
                // stored: another operation knows nothing of that.
                let names_nothing = cause.ahead.is_none() && cause.needed.is_empty();
                let is_here = cause.state.phase.suffix() == self.phase.suffix();
                let comes = comes || cause.needed.is_empty();
                is_there && !whole && comes && (!names_nothing || is_here)
            }
        }
    }

    /// Whether something from a place that was needed is lost, and something from the place that
    /// went ahead is there, made in the same order as in the cause.
    fn has_order(&self, cause: &Cause) -> bool {
        let site = |id: &NodeId| self.medium.site(*id);
        let Some(ahead) = &cause.ahead else {
            return cause.needed.iter().any(|id| self.lost.has(site(id)));
        };
        let (first, last) = (self.there.first(site(ahead)), self.there.last(site(ahead)));
        let (Some(first), Some(last)) = (first, last) else {
            return false;
        };
        cause.needed.iter().any(|id| {
            if id < ahead {
                self.lost.first(site(id)).is_some_and(|lost| lost < last)
            } else {
                self.lost.last(site(id)).is_some_and(|lost| lost > first)
            }
        })
    }

    /// Whether a store or a call of the place that tears is there in part.
    fn has_torn(&self, cause: &Cause) -> bool {
        let site = |id: &NodeId| self.medium.site(*id);
        let of_cause = |id: &&NodeId| cause.needed.iter().any(|one| site(one) == site(id));
        let mut lost = self.lost_nodes.iter().filter(of_cause);
        lost.any(|lost| {
            let mut there = self.there_nodes.iter();
            there.any(|there| self.medium.is_one_write(*lost, *there))
        })
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

    fn has(&self, site: u64) -> bool {
        self.0.contains_key(&site)
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
