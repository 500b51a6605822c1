//! Crash states by lot: for programs with too many pending lines to be systematic about.
//!
//! Each chain keeps a number of nodes drawn evenly, and the cut is closed, by a toss, downwards or
//! upwards. That is even over all states where no implications tie chains together, and leans
//! towards the extremes where they do. Draws depend on the seed and the point alone, so that a
//! point's states are the same whatever was tried before it: runs can be resumed and divided.

use crate::Strategy;
use crashpoint_persist::graph::{Cut, Frontier};
use crashpoint_persist::split_mix::SplitMix;
use num_bigint::BigUint;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Draws in a row that bring nothing new before a point is given up.
const MAX_REPEATS: u32 = 64;

#[derive(Clone, Copy, Debug)]
pub struct Random {
    seed: u64,
    states: usize,
}

impl Random {
    /// This many states at a point, or all of them if there are no more.
    pub fn new(seed: u64, states: usize) -> Random {
        Random { seed, states }
    }
}

impl Strategy for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn cuts<'a>(&'a mut self, frontier: &'a Frontier) -> Box<dyn Iterator<Item = Cut> + 'a> {
        let count = frontier.count();
        if count.exact && count.value <= BigUint::from(self.states) {
            return Box::new(frontier.cuts());
        }
        let draws = Draws {
            frontier,
            numbers: SplitMix(self.seed ^ SplitMix(frontier.order).draw()),
            seen: HashSet::new(),
        };
        Box::new(draws.take(self.states))
    }
}

struct Draws<'a> {
    frontier: &'a Frontier,
    numbers: SplitMix,
    /// Hashes of what was drawn: a cut of many chains is large, and to miss a state because of a
    /// collision is no worse than not to draw it.
    seen: HashSet<u64>,
}

impl Draws<'_> {
    fn draw(&mut self) -> Cut {
        let lengths = self.frontier.chains.iter().map(|chain| chain.nodes.len());
        let kept = lengths.map(|length| self.numbers.below(length as u64 + 1) as u32);
        let cut = Cut(kept.collect());
        match self.numbers.below(2) {
            0 => self.frontier.floor(cut),
            _ => self.frontier.ceiling(cut),
        }
    }
}

impl Iterator for Draws<'_> {
    type Item = Cut;

    fn next(&mut self) -> Option<Cut> {
        for _ in 0..MAX_REPEATS {
            let cut = self.draw();
            let mut hasher = DefaultHasher::new();
            cut.hash(&mut hasher);
            if self.seen.insert(hasher.finish()) {
                return Some(cut);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{chains, frontiers, sorted};

    #[test]
    fn states_are_closed_distinct_and_reproducible() {
        for frontier in frontiers() {
            for states in [0, 1, 3, 10] {
                let drawn: Vec<Cut> = Random::new(5, states).cuts(&frontier).collect();
                assert!(drawn.len() <= states);
                assert!(drawn.iter().all(|cut| frontier.is_closed(cut)));
                let mut distinct = sorted(drawn.iter().cloned());
                distinct.dedup();
                assert_eq!(distinct.len(), drawn.len());
                let again: Vec<Cut> = Random::new(5, states).cuts(&frontier).collect();
                assert_eq!(drawn, again);
            }
        }
    }

    #[test]
    fn if_there_are_no_more_states_than_asked_for_all_are_tried() {
        for frontier in frontiers() {
            let all = sorted(frontier.cuts());
            assert_eq!(sorted(Random::new(1, all.len()).cuts(&frontier)), all);
        }
    }

    #[test]
    fn what_is_drawn_depends_on_the_seed_and_on_the_point() {
        let wide = |order| Frontier::new(order, chains(&[3; 20]), Vec::new());
        let draw = |seed, order| -> Vec<Cut> { Random::new(seed, 20).cuts(&wide(order)).collect() };
        assert_eq!(draw(1, 1).len(), 20);
        assert_ne!(draw(1, 1), draw(2, 1));
        assert_ne!(draw(1, 1), draw(1, 2));
    }

    #[test]
    fn every_state_is_drawn_sooner_or_later() {
        let frontier = Frontier::new(0, chains(&[1, 2, 1]), Vec::new());
        let seeds = 0..200;
        let mut drawn: Vec<Cut> = seeds
            .flat_map(|seed| Random::new(seed, 1).cuts(&frontier).collect::<Vec<_>>())
            .collect();
        drawn.sort();
        drawn.dedup();
        assert_eq!(drawn, sorted(frontier.cuts()));
    }
}
