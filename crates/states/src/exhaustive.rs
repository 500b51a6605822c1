//! Every crash state, few losses first. For small programs, and under a budget: where `n` lines are
//! pending there are at least `2^n`.

use crate::Strategy;
use crashpoint_persist::graph::{Cut, Frontier};

#[derive(Clone, Copy, Debug, Default)]
pub struct Exhaustive;

impl Strategy for Exhaustive {
    fn name(&self) -> &'static str {
        "exhaustive"
    }

    fn cuts<'a>(&'a mut self, frontier: &'a Frontier) -> Box<dyn Iterator<Item = Cut> + 'a> {
        Box::new(frontier.cuts())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{frontiers, sorted};

    #[test]
    fn every_state_is_tried_once() {
        for frontier in frontiers() {
            let cuts = sorted(Exhaustive.cuts(&frontier));
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
