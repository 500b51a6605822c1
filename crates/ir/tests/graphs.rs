//! Dominance and control dependence against their definitions, on all tiny graphs and on many
//! small ones.
//!
//! The definitions are taken literally: a node is on every path if taking it away leaves none.

use crashpoint_ir::BlockId;
use crashpoint_ir::cfg::Cfg;
use crashpoint_ir::control::{ControlDependence, Dependence};
use crashpoint_ir::dominance::{Dominators, PostDominators};
use proptest::prelude::*;

/// Whether `to` can be reached from `from` without `without`.
fn reaches(edges: &[Vec<usize>], from: usize, to: usize, without: Option<usize>) -> bool {
    let mut seen = vec![false; edges.len()];
    let mut work = vec![from];
    while let Some(node) = work.pop() {
        if Some(node) == without || std::mem::replace(&mut seen[node], true) {
            continue;
        }
        if node == to {
            return true;
        }
        work.extend(&edges[node]);
    }
    false
}

fn on_every_path(edges: &[Vec<usize>], from: usize, to: usize, node: usize) -> bool {
    reaches(edges, from, to, None) && !reaches(edges, from, to, Some(node))
}

fn check(successors: &[Vec<usize>]) {
    let count = successors.len();
    let block = |index: usize| BlockId(index as u32);
    let lists = successors
        .iter()
        .map(|to| to.iter().copied().map(block).collect());
    let cfg = Cfg::from_successors(lists.collect());
    let dominators = Dominators::new(&cfg);
    let post = PostDominators::new(&cfg);
    let control = ControlDependence::new(&cfg, &post);

    let exit = count;
    let mut extended = successors.to_vec();
    extended.push(Vec::new());
    for (index, edges) in extended[..count].iter_mut().enumerate() {
        if post.leaves(block(index)) {
            edges.push(exit);
        }
    }
    let post_dominates = |later, earlier| on_every_path(&extended, earlier, exit, later);
    for a in 0..count {
        assert!(reaches(&extended, a, exit, None), "{a} of {successors:?}");
        // An edge of our making is made only where there is no other way out.
        let leaves = post.leaves(block(a));
        assert!(!successors[a].is_empty() || leaves);
        if leaves && !successors[a].is_empty() {
            let by_nature = |index: usize| successors[index].is_empty();
            assert!(!(0..count).any(|to| by_nature(to) && reaches(successors, a, to, None)));
        }
        for b in 0..count {
            let case = || format!("{a} {b} of {successors:?}");
            let expected = on_every_path(successors, 0, b, a);
            assert_eq!(
                dominators.dominates(block(a), block(b)),
                expected,
                "{}",
                case()
            );
            let expected = post_dominates(a, b);
            assert_eq!(
                post.post_dominates(block(a), block(b)),
                expected,
                "{}",
                case()
            );
        }
        let immediate = dominators.immediate(block(a));
        check_immediate(count, a, immediate, |above, below| {
            dominators.dominates(block(above), block(below))
        });
        check_immediate(count, a, post.immediate(block(a)), post_dominates);
        check_control(&control, &extended, a, exit);
    }
}

/// The immediate one is above this block, and below everything else that is.
fn check_immediate(
    count: usize,
    block: usize,
    found: Option<BlockId>,
    above: impl Fn(usize, usize) -> bool,
) {
    let strictly_above = (0..count).filter(|node| *node != block && above(*node, block));
    let all: Vec<usize> = strictly_above.collect();
    match found {
        None => assert!(all.is_empty()),
        Some(found) => {
            assert!(all.contains(&found.index()));
            assert!(all.iter().all(|node| above(*node, found.index())));
        }
    }
}

fn check_control(control: &ControlDependence, extended: &[Vec<usize>], node: usize, exit: usize) {
    let post_dominates = |later, earlier| on_every_path(extended, earlier, exit, later);
    let mut expected = Vec::new();
    for (branch, successors) in extended[..exit].iter().enumerate() {
        let real = successors.iter().filter(|to| **to != exit);
        if real.clone().count() < 2 || (branch != node && post_dominates(node, branch)) {
            continue;
        }
        for successor in real.filter(|successor| post_dominates(node, **successor)) {
            expected.push(Dependence {
                branch: BlockId(branch as u32),
                successor: BlockId(*successor as u32),
            });
        }
    }
    let mut found = control.of(BlockId(node as u32)).to_vec();
    found.sort();
    expected.sort();
    assert_eq!(found, expected, "{node} of {extended:?}");
}

/// All subsets of the nodes below `count` with at most `most` members.
fn subsets(count: usize, most: u32) -> Vec<Vec<usize>> {
    (0..1usize << count)
        .filter(|bits| bits.count_ones() <= most)
        .map(|bits| (0..count).filter(|index| bits >> index & 1 != 0).collect())
        .collect()
}

#[test]
fn definitions_hold_on_every_graph_of_up_to_three_blocks() {
    for count in 1..=3usize {
        let choices = subsets(count, 3);
        for code in 0..choices.len().pow(count as u32) {
            let pick = |node: usize| {
                choices[code / choices.len().pow(node as u32) % choices.len()].clone()
            };
            check(&(0..count).map(pick).collect::<Vec<_>>());
        }
    }
}

#[test]
fn definitions_hold_on_every_graph_of_four_blocks_with_two_way_branches() {
    let choices = subsets(4, 2);
    for code in 0..choices.len().pow(4) {
        let pick =
            |node: usize| choices[code / choices.len().pow(node as u32) % choices.len()].clone();
        check(&(0..4).map(pick).collect::<Vec<_>>());
    }
}

proptest! {
    #[test]
    fn definitions_hold_on_small_graphs(
        graph in (1..12usize).prop_flat_map(|count| {
            let edges = prop::collection::btree_set(0..count, 0..4usize.min(count + 1));
            prop::collection::vec(edges, count)
        }),
    ) {
        let lists: Vec<Vec<usize>> =
            graph.into_iter().map(|set| set.into_iter().collect()).collect();
        check(&lists);
    }
}

#[test]
fn a_deep_chain_does_not_exhaust_the_stack() {
    let count = 200_000u32;
    let next = |index: u32| {
        if index + 1 < count {
            vec![BlockId(index + 1)]
        } else {
            Vec::new()
        }
    };
    let cfg = Cfg::from_successors((0..count).map(next).collect());
    assert!(Dominators::new(&cfg).dominates(BlockId(0), BlockId(count - 1)));
    assert!(PostDominators::new(&cfg).post_dominates(BlockId(count - 1), BlockId(0)));
}
