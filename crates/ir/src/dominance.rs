//! Dominators and post-dominators.
//!
//! A block dominates another if every path from the entry to the other goes through it; it
//! post-dominates another if every path from the other to the exit does. Both are reflexive. The
//! algorithm is Cooper, Harvey and Kennedy's, by petgraph.
//!
//! The *exit* is virtual and follows every block without successors. Blocks that reach none of
//! those (an endless loop) get an edge to it too, from as few of them as it takes: from the last
//! one in reverse postorder, and again until all reach the exit. That is a choice, not a fact; it
//! makes post-dominance, and what depends on it, defined everywhere.

use crate::BlockId;
use crate::cfg::Cfg;
use petgraph::algo::dominators::simple_fast;
use petgraph::graph::{DiGraph, NodeIndex};

/// A forest over blocks; `parent` is the immediate (post-)dominator.
#[derive(Clone, Debug)]
struct Tree {
    parent: Vec<Option<BlockId>>,
    /// Depth-first interval of each block that is in the tree.
    interval: Vec<Option<(u32, u32)>>,
}

impl Tree {
    /// From the edges over block numbers, plus the root.
    fn new(count: usize, root: usize, edges: impl Iterator<Item = (usize, usize)>) -> Tree {
        let mut graph = DiGraph::<(), ()>::with_capacity(count, 0);
        for _ in 0..count.max(root + 1) {
            graph.add_node(());
        }
        for (from, to) in edges {
            graph.add_edge(NodeIndex::new(from), NodeIndex::new(to), ());
        }
        let root = NodeIndex::new(root);
        let dominators = simple_fast(&graph, root);
        let immediate = |block| dominators.immediate_dominator(NodeIndex::new(block));
        let mut children = vec![Vec::new(); graph.node_count()];
        let mut parent = vec![None; count];
        for (block, parent) in parent.iter_mut().enumerate() {
            if let Some(above) = immediate(block) {
                children[above.index()].push(block);
                *parent = (above.index() < count).then(|| BlockId(above.index() as u32));
            }
        }
        let interval = intervals(root.index(), &children, count);
        Tree { parent, interval }
    }

    fn above(&self, above: BlockId, below: BlockId) -> bool {
        let interval = |block: BlockId| self.interval[block.index()];
        match (interval(above), interval(below)) {
            (Some(above), Some(below)) => above.0 <= below.0 && below.1 <= above.1,
            _ => false,
        }
    }
}

/// Numbers the tree depth-first, so that ancestry is containment.
fn intervals(root: usize, children: &[Vec<usize>], count: usize) -> Vec<Option<(u32, u32)>> {
    let mut intervals = vec![None; children.len()];
    let mut clock = 0;
    let mut path = vec![(root, clock, children[root].iter())];
    while let Some((node, entered, rest)) = path.last_mut() {
        clock += 1;
        match rest.next() {
            Some(child) => path.push((*child, clock, children[*child].iter())),
            None => {
                intervals[*node] = Some((*entered, clock));
                path.pop();
            }
        }
    }
    intervals.truncate(count);
    intervals
}

/// Who dominates whom. Blocks that the entry does not reach dominate nothing and are dominated by
/// nothing.
#[derive(Clone, Debug)]
pub struct Dominators {
    tree: Tree,
}

impl Dominators {
    pub fn new(cfg: &Cfg) -> Dominators {
        let edges = cfg.blocks().flat_map(|from| {
            cfg.successors(from)
                .iter()
                .map(move |to| (from.index(), to.index()))
        });
        Dominators {
            tree: Tree::new(cfg.block_count(), 0, edges),
        }
    }

    /// The closest block that dominates this one and is not it; none for the entry.
    pub fn immediate(&self, block: BlockId) -> Option<BlockId> {
        self.tree.parent[block.index()]
    }

    pub fn dominates(&self, above: BlockId, below: BlockId) -> bool {
        self.tree.above(above, below)
    }
}

/// Who post-dominates whom.
#[derive(Clone, Debug)]
pub struct PostDominators {
    tree: Tree,
    leaving: Vec<bool>,
}

impl PostDominators {
    pub fn new(cfg: &Cfg) -> PostDominators {
        let leaving = leaving(cfg);
        let exit = cfg.block_count();
        let reversed = cfg.blocks().flat_map(|from| {
            cfg.successors(from)
                .iter()
                .map(move |to| (to.index(), from.index()))
        });
        let from_exit = cfg.blocks().filter(|block| leaving[block.index()]);
        let edges = from_exit.map(|block| (exit, block.index())).chain(reversed);
        PostDominators {
            tree: Tree::new(exit, exit, edges),
            leaving,
        }
    }

    /// The closest block that post-dominates this one and is not it; none if that is the exit.
    pub fn immediate(&self, block: BlockId) -> Option<BlockId> {
        self.tree.parent[block.index()]
    }

    pub fn post_dominates(&self, later: BlockId, earlier: BlockId) -> bool {
        self.tree.above(later, earlier)
    }

    /// Whether the block has an edge to the exit, by nature or by our choice.
    pub fn leaves(&self, block: BlockId) -> bool {
        self.leaving[block.index()]
    }
}

/// The blocks that get an edge to the exit.
fn leaving(cfg: &Cfg) -> Vec<bool> {
    let mut leaving = vec![false; cfg.block_count()];
    let mut reaches = vec![false; cfg.block_count()];
    let mut reach = |block: BlockId, reaches: &mut Vec<bool>| {
        leaving[block.index()] = true;
        let mut work = vec![block];
        while let Some(block) = work.pop() {
            if !std::mem::replace(&mut reaches[block.index()], true) {
                work.extend(cfg.predecessors(block));
            }
        }
    };
    cfg.exits().for_each(|block| reach(block, &mut reaches));
    // Blocks that the entry does not reach come first, in this direction last.
    let order = cfg
        .reverse_postorder()
        .iter()
        .rev()
        .copied()
        .chain(cfg.blocks().rev());
    for block in order {
        if !reaches[block.index()] {
            reach(block, &mut reaches);
        }
    }
    leaving
}
