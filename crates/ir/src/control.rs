//! Control dependence: which branches decide whether a block runs.
//!
//! After Ferrante, Ottenstein and Warren: a block depends on a branch if one of the branch's
//! successors leads to the block for certain (the block post-dominates that successor) and the
//! branch does not (the block does not strictly post-dominate it). A block may depend on several
//! branches, and on itself where it decides about its own repetition.
//!
//! What an endless loop, a call that never returns or an exception out of a plain call decides is
//! not a dependence.

use crate::BlockId;
use crate::cfg::Cfg;
use crate::dominance::PostDominators;

/// A branch, by its block, and the successor (a block) with which it decides for another block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dependence {
    pub branch: BlockId,
    pub successor: BlockId,
}

#[derive(Clone, Debug)]
pub struct ControlDependence {
    on: Vec<Vec<Dependence>>,
}

impl ControlDependence {
    pub fn new(cfg: &Cfg, post_dominators: &PostDominators) -> ControlDependence {
        let mut on = vec![Vec::new(); cfg.block_count()];
        for branch in cfg
            .blocks()
            .filter(|block| cfg.successors(*block).len() > 1)
        {
            // For a block with an edge of our making to the exit, that is the exit.
            let stop = post_dominators.immediate(branch);
            for successor in cfg.successors(branch) {
                let mut next = Some(*successor);
                while let Some(block) = next.filter(|block| Some(*block) != stop) {
                    on[block.index()].push(Dependence {
                        branch,
                        successor: *successor,
                    });
                    next = post_dominators.immediate(block);
                }
            }
        }
        ControlDependence { on }
    }

    /// The branches that a block depends on directly, by block; each with the successors that lead
    /// here.
    pub fn of(&self, block: BlockId) -> &[Dependence] {
        &self.on[block.index()]
    }
}
