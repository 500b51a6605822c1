//! Small frontiers of all shapes, for the tests of strategies.

use crashpoint_persist::graph::{Chain, Cut, Frontier, Implication, NodeId};

/// Chains of these lengths, one issued after the other.
pub fn chains(lengths: &[u32]) -> Vec<Chain> {
    let mut next = 0;
    let chains = lengths.iter().map(|length| {
        let first = next;
        next += length;
        Chain {
            nodes: (first..next).map(NodeId).collect(),
        }
    });
    chains.collect()
}

/// Chains of these lengths, issued in turns: they can be tied both ways.
fn in_turns(lengths: &[u32]) -> Vec<Chain> {
    let step = lengths.len();
    let chains = lengths.iter().enumerate().map(|(first, length)| {
        let nodes = (first as u32..).step_by(step).take(*length as usize);
        Chain {
            nodes: nodes.map(NodeId).collect(),
        }
    });
    chains.collect()
}

/// No chains, chains that nothing ties, and up to four chains with implications, one and many at
/// a time: rows, forks, and ties both ways.
pub fn frontiers() -> impl Iterator<Item = Frontier> {
    let shapes: [&[u32]; 7] = [
        &[],
        &[3],
        &[1, 2],
        &[2, 1, 1],
        &[1, 1, 1, 1],
        &[3, 2, 2],
        &[2, 2, 1, 2],
    ];
    let orders = [chains, in_turns];
    let chains = shapes
        .into_iter()
        .flat_map(move |lengths| orders.map(|order| order(lengths)));
    chains.flat_map(|chains| {
        let ties = ties(&chains);
        let none = std::iter::once(Vec::new());
        let one = ties.clone().into_iter().map(|tie| vec![tie]);
        let few = (0..ties.len() * 20).map(move |number| {
            let step = number % 7 + 1;
            let chosen = (0..2 + number % 5).map(|at| ties[(number + at * step * 5) % ties.len()]);
            chosen.collect()
        });
        let all = none.chain(one).chain(few);
        all.map(move |ties| Frontier::new(3, chains.clone(), ties))
    })
}

/// All implications that lead to older nodes.
fn ties(chains: &[Chain]) -> Vec<Implication> {
    let mut ties = Vec::new();
    for (if_chain, newer) in (0..).zip(chains) {
        for (then_chain, older) in (0..).zip(chains) {
            if if_chain == then_chain {
                continue;
            }
            for (if_more_than, node) in (0..).zip(&newer.nodes) {
                let least = (1..).zip(&older.nodes);
                let least = least.filter(|(_, older)| *older < node);
                ties.extend(least.map(|(then_least, _)| Implication {
                    if_chain,
                    if_more_than,
                    then_chain,
                    then_least,
                }));
            }
        }
    }
    ties
}

pub fn sorted(cuts: impl Iterator<Item = Cut>) -> Vec<Cut> {
    let mut cuts: Vec<Cut> = cuts.collect();
    cuts.sort();
    cuts
}
