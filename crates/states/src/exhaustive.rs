//! Every crash state, those nearest to the two extremes first. For small programs, and under a
//! budget: where `n` lines are pending there are at least `2^n`, and what a budget leaves room for
//! should be what most bugs need.

use crate::{Bounded, Strategy};
use crashpoint_persist::graph::{Cut, Frontier};

#[derive(Clone, Copy, Debug)]
pub struct Exhaustive {
    without_bound: Bounded,
}

impl Default for Exhaustive {
    fn default() -> Exhaustive {
        Exhaustive {
            without_bound: Bounded::new(usize::MAX),
        }
    }
}

impl Strategy for Exhaustive {
    fn name(&self) -> &'static str {
        "exhaustive"
    }

    fn cuts<'a>(&'a mut self, frontier: &'a Frontier) -> Box<dyn Iterator<Item = Cut> + 'a> {
        self.without_bound.cuts(frontier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{frontiers, sorted};

    #[test]
    fn every_state_is_tried_once() {
        for frontier in frontiers() {
            let cuts = sorted(Exhaustive::default().cuts(&frontier));
            let mut all = Vec::new();
            every_cut(&frontier.all().0, &mut Vec::new(), &mut all);
            all.retain(|cut| frontier.is_closed(cut));
            assert_eq!(cuts, all);
            let count = frontier.count();
            assert!(count.exact && count.value == all.len().into());
        }
    }

    fn every_cut(lengths: &[u32], kept: &mut Vec<u32>, into: &mut Vec<Cut>) {
        let Some(length) = lengths.get(kept.len()) else {
            into.push(Cut(kept.clone()));
            return;
        };
        for count in 0..=*length {
            kept.push(count);
            every_cut(lengths, kept, into);
            kept.pop();
        }
    }
}
