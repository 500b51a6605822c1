//! All closed cuts of a frontier, one after the other.
//!
//! Groups of tied chains are independent of each other. For every number of groups that lose
//! something, and every choice of that many groups, the cuts of the chosen groups count down like
//! the digits of a number. Within a group, cuts come in falling lexicographic order: the next one
//! lowers the last chain that can be lowered without touching those before it, and keeps as much
//! behind it as is closed. So there is no dead end, and nothing is held but the current cut.

use super::frontier::{Cut, Frontier};

pub(super) struct Cuts<'a> {
    frontier: &'a Frontier,
    groups: Vec<Vec<u32>>,
    /// Groups that lose something, ascending.
    chosen: Vec<usize>,
    /// The next cut to deliver, unless all were.
    next: Option<Cut>,
}

impl<'a> Cuts<'a> {
    pub fn new(frontier: &'a Frontier) -> Cuts<'a> {
        Cuts {
            frontier,
            groups: frontier.groups(),
            chosen: Vec::new(),
            next: Some(frontier.all()),
        }
    }

    /// Takes a group back to keeping everything.
    fn fill(&self, group: usize, cut: &mut Cut) {
        for chain in &self.groups[group] {
            cut.0[*chain as usize] = self.frontier.length(*chain);
        }
    }

    /// The next cut of a group, if there is one.
    fn lower(&self, group: usize, cut: &mut Cut) -> bool {
        let chains = &self.groups[group];
        for at in (0..chains.len()).rev() {
            let chain = chains[at] as usize;
            if cut.0[chain] == 0 {
                continue;
            }
            if let [alone] = chains[..] {
                cut.0[alone as usize] -= 1;
                return true;
            }
            let mut lowered = cut.clone();
            lowered.0[chain] -= 1;
            for behind in &chains[at + 1..] {
                lowered.0[*behind as usize] = self.frontier.length(*behind);
            }
            let lowered = self.frontier.floor_of(chains, lowered);
            let ahead = &chains[..at];
            if ahead
                .iter()
                .all(|chain| lowered.0[*chain as usize] == cut.0[*chain as usize])
            {
                *cut = lowered;
                return true;
            }
        }
        false
    }

    /// The first cut of a group that loses something. Every group has one.
    fn begin(&self, group: usize, cut: &mut Cut) {
        self.fill(group, cut);
        let lost = self.lower(group, cut);
        assert!(lost, "a chain has nodes");
    }

    /// The next choice of as many groups, or of one more.
    fn choose(&mut self) -> bool {
        let (count, all) = (self.chosen.len(), self.groups.len());
        let movable = (0..count)
            .rev()
            .find(|at| self.chosen[*at] < all - count + at);
        if let Some(at) = movable {
            let first = self.chosen[at] + 1;
            for (place, group) in self.chosen[at..].iter_mut().zip(first..) {
                *place = group;
            }
            return true;
        }
        self.chosen = (0..=count).collect();
        count < all
    }

    fn advance(&mut self, mut cut: Cut) -> Option<Cut> {
        for at in (0..self.chosen.len()).rev() {
            if self.lower(self.chosen[at], &mut cut) {
                return Some(cut);
            }
            self.begin(self.chosen[at], &mut cut);
        }
        for group in &self.chosen {
            self.fill(*group, &mut cut);
        }
        if !self.choose() {
            return None;
        }
        for group in &self.chosen {
            self.begin(*group, &mut cut);
        }
        Some(cut)
    }
}

impl Iterator for Cuts<'_> {
    type Item = Cut;

    fn next(&mut self) -> Option<Cut> {
        let cut = self.next.take()?;
        self.next = self.advance(cut.clone());
        Some(cut)
    }
}
