//! The control-flow graph of a function.
//!
//! Calls that never return, and exceptions out of plain calls, are not edges: as in LLVM, a block
//! runs to its terminator.

use crate::{BlockId, Function};

/// Edges between blocks, without repetitions. Which successor an index of a branch means is told
/// by [`crate::Op::successors`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cfg {
    successors: Vec<Vec<BlockId>>,
    predecessors: Vec<Vec<BlockId>>,
    reverse_postorder: Vec<BlockId>,
}

impl Cfg {
    pub fn new(function: &Function) -> Cfg {
        let successors = function.blocks.iter().map(|block| {
            let mut all = block.terminator().op.successors().unwrap_or_default();
            let mut seen = Vec::new();
            all.retain(|block| {
                let new = !seen.contains(block);
                seen.push(*block);
                new
            });
            all
        });
        Cfg::from_successors(successors.collect())
    }

    /// From the successors of each block, each at most once. Block 0, where there is one, is the
    /// entry.
    pub fn from_successors(successors: Vec<Vec<BlockId>>) -> Cfg {
        let mut predecessors = vec![Vec::new(); successors.len()];
        for (from, to) in (0..).map(BlockId).zip(&successors) {
            for to in to {
                predecessors[to.index()].push(from);
            }
        }
        let reverse_postorder = reverse_postorder(&successors);
        Cfg {
            successors,
            predecessors,
            reverse_postorder,
        }
    }

    pub fn block_count(&self) -> usize {
        self.successors.len()
    }

    pub fn blocks(&self) -> impl DoubleEndedIterator<Item = BlockId> + use<> {
        (0..self.successors.len() as u32).map(BlockId)
    }

    pub fn successors(&self, block: BlockId) -> &[BlockId] {
        &self.successors[block.index()]
    }

    pub fn predecessors(&self, block: BlockId) -> &[BlockId] {
        &self.predecessors[block.index()]
    }

    /// The blocks that the entry reaches, each before its successors except along back edges.
    pub fn reverse_postorder(&self) -> &[BlockId] {
        &self.reverse_postorder
    }

    /// The blocks that control leaves the function from.
    pub fn exits(&self) -> impl Iterator<Item = BlockId> {
        self.blocks()
            .filter(|block| self.successors(*block).is_empty())
    }
}

/// Depth-first without recursion: functions of tens of thousands of blocks exist.
fn reverse_postorder(successors: &[Vec<BlockId>]) -> Vec<BlockId> {
    let mut order = Vec::new();
    if successors.is_empty() {
        return order;
    }
    let mut seen = vec![false; successors.len()];
    seen[0] = true;
    let mut path = vec![(BlockId(0), successors[0].iter())];
    while let Some((block, rest)) = path.last_mut() {
        match rest.next() {
            None => {
                order.push(*block);
                path.pop();
            }
            Some(next) if seen[next.index()] => {}
            Some(next) => {
                seen[next.index()] = true;
                path.push((*next, successors[next.index()].iter()));
            }
        }
    }
    order.reverse();
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[&[u32]]) -> Cfg {
        let lists = edges
            .iter()
            .map(|to| to.iter().copied().map(BlockId).collect());
        Cfg::from_successors(lists.collect())
    }

    #[test]
    fn reverse_postorder_puts_a_loop_before_what_follows_it() {
        let cfg = graph(&[&[1], &[2, 3], &[1], &[], &[3]]);
        let order: Vec<u32> = cfg
            .reverse_postorder()
            .iter()
            .map(|block| block.0)
            .collect();
        assert_eq!(order, [0, 1, 3, 2]);
        assert_eq!(cfg.predecessors(BlockId(1)), [BlockId(0), BlockId(2)]);
        assert!(cfg.exits().eq([BlockId(3)]));
    }

    #[test]
    fn a_declaration_has_no_blocks() {
        let cfg = graph(&[]);
        assert_eq!((cfg.block_count(), cfg.reverse_postorder().len()), (0, 0));
    }
}
