//! Making states smaller: what need not be lost, what need not be there, and of what is lost the
//! stores that matter.

use super::{MAX_LINEAR_STEPS, Minimiser, StateProbe, begin_of, without};
use crate::engine::crash_points::{CrashPoint, Phase};
use crate::engine::medium::{CheckError, Medium};
use crashpoint_persist::graph::{Cut, NodeId};
use std::ops::Range;

impl<S: Medium, P: StateProbe> Minimiser<'_, S, P> {
    /// Keeps whatever can be kept.
    pub(super) fn fewest_lost(
        &mut self,
        point: &CrashPoint<'_>,
        cut: Cut,
    ) -> Result<Cut, CheckError> {
        self.fewer_lost(point, cut, 0..point.frontier().chains.len())
    }

    /// Of some chains: all of them at once if that can be, else each half. Most have nothing to do
    /// with it where much is lost.
    fn fewer_lost(
        &mut self,
        point: &CrashPoint<'_>,
        cut: Cut,
        chains: Range<usize>,
    ) -> Result<Cut, CheckError> {
        let frontier = point.frontier();
        let length = |chain: usize| frontier.chains[chain].nodes.len();
        let open: Vec<usize> = chains
            .filter(|chain| (cut.0[*chain] as usize) < length(*chain))
            .collect();
        let (Some(first), Some(last)) = (open.first(), open.last()) else {
            return Ok(cut);
        };
        if let [chain] = open[..] {
            for more in steps(cut.0[chain] as usize, length(chain)) {
                let mut wanted = cut.clone();
                wanted.0[chain] = more as u32;
                let wanted = frontier.ceiling(wanted);
                if self.fails_alike(point.phase, &frontier.kept(&wanted))? {
                    return Ok(wanted);
                }
            }
            return Ok(cut);
        }
        let mut wanted = cut.clone();
        for chain in &open {
            wanted.0[*chain] = length(*chain) as u32;
        }
        let wanted = frontier.ceiling(wanted);
        // That all of it fails may have a reason of its own, which is not to hide what each loss
        // does alone.
        let is_all = wanted == frontier.all();
        if !is_all && self.fails_alike(point.phase, &frontier.kept(&wanted))? {
            return Ok(wanted);
        }
        let middle = open[open.len() / 2];
        let cut = self.fewer_lost(point, cut, *first..middle)?;
        self.fewer_lost(point, cut, middle..last + 1)
    }

    /// How many of the kept nodes it takes, from the first on: the last ones are taken away one by
    /// one while it fails. Where it fails with fewer still after it was fine in between, that is
    /// another failure. Where there are many, the rest goes by halves; what operations before this
    /// one kept was acknowledged, and stays if it does no harm.
    pub(super) fn earliest(&mut self, phase: Phase, kept: &[NodeId]) -> Result<usize, CheckError> {
        let mut fails = kept.len();
        for _ in 0..MAX_LINEAR_STEPS {
            if fails == 0 || !self.fails_alike(phase, &kept[..fails - 1])? {
                return Ok(fails);
            }
            fails -= 1;
        }
        let begin = begin_of(self.medium, phase);
        let before = kept.partition_point(|id| id.index() < begin).min(fails);
        let mut passes = 0;
        if self.fails_alike(phase, &kept[..before])? {
            fails = before;
        } else {
            passes = before;
        }
        if self.fails_alike(phase, &kept[..passes])? {
            return Ok(passes);
        }
        while passes + 1 < fails {
            let middle = passes + (fails - passes) / 2;
            if self.fails_alike(phase, &kept[..middle])? {
                fails = middle;
            } else {
                passes = middle;
            }
        }
        Ok(fails)
    }

    /// Of lost nodes whose presence makes the state whole, those without which it is not: each
    /// chain's are given back from its first on, while the state still fails.
    pub(super) fn least_needed(
        &mut self,
        point: &CrashPoint<'_>,
        phase: Phase,
        kept: &[NodeId],
        mut lost: Vec<NodeId>,
    ) -> Result<Vec<NodeId>, CheckError> {
        let frontier = point.frontier();
        let mut kept = kept.to_vec();
        for chain in &frontier.chains {
            let of_chain: Vec<NodeId> = chain
                .nodes
                .iter()
                .filter(|id| lost.contains(id))
                .copied()
                .collect();
            for count in steps(0, of_chain.len()) {
                let fewer = without(&lost, &of_chain[..count]);
                if fewer.is_empty() {
                    continue;
                }
                let mut more = kept.clone();
                more.extend(lost.iter().filter(|id| !fewer.contains(id)));
                more.sort_unstable();
                // What is given back may need what stays lost.
                let is_state = frontier.kept(&frontier.with(&more)) == more;
                if is_state && self.fails_alike(phase, &more)? {
                    lost = fewer;
                    kept = more;
                    break;
                }
            }
        }
        Ok(lost)
    }

    /// Of lost nodes whose presence makes the state whole, the first of each chain. What comes
    /// behind it may be lost only because it is: a store to the same cache line that has nothing to
    /// do with the failure, and would make this cause look like others. Whether the first ones do
    /// is tried; if not, all are needed.
    pub(super) fn first_of_chains(
        &mut self,
        point: &CrashPoint<'_>,
        phase: Phase,
        kept: &[NodeId],
        lost: &[NodeId],
    ) -> Result<Vec<NodeId>, CheckError> {
        let first_lost = |nodes: &Vec<NodeId>| nodes.iter().find(|id| lost.contains(id)).copied();
        let chains = point.frontier().chains.iter();
        let first: Vec<NodeId> = chains
            .filter_map(|chain| first_lost(&chain.nodes))
            .collect();
        // With what they cannot be without.
        let closed = point.frontier().kept(&point.frontier().with(&first));
        let needed: Vec<NodeId> = lost
            .iter()
            .filter(|id| closed.contains(id))
            .copied()
            .collect();
        if needed.is_empty() || needed.len() == lost.len() {
            return Ok(lost.to_vec());
        }
        let mut whole: Vec<NodeId> = kept.iter().chain(&needed).copied().collect();
        whole.sort_unstable();
        if self.is_cured(phase, &whole)? {
            Ok(needed)
        } else {
            Ok(lost.to_vec())
        }
    }
}

/// From the most down to one more than the least; a few spread over the range where it is long.
fn steps(least: usize, most: usize) -> impl Iterator<Item = usize> {
    let stride = (most - least).div_ceil(MAX_LINEAR_STEPS).max(1);
    (least + 1..most + 1).rev().step_by(stride)
}
