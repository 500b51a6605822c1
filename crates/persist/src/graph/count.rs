//! How many closed cuts a frontier has.
//!
//! Groups of tied chains are independent, so their counts multiply; a chain alone has one cut more
//! than nodes. In a group, a chain with the most ties is taken, and its values are gone through,
//! those together between which no implication tells a difference. Each narrows what other chains
//! may keep, which resolves ties, and what remains falls apart into smaller groups. Where one
//! thread's `clflush`es order everything, half of the chains are resolved each time. The work is
//! bounded; beyond the bound a group with `n` undecided nodes counts as `n + 1`, the length of the
//! longest way from losing all of them to keeping all of them, and the result is a lower bound.

use super::frontier::{Frontier, Implication};
use num_bigint::BigUint;
use std::collections::BTreeMap;

/// A number of crash states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    pub value: BigUint,
    /// Otherwise there are at least as many.
    pub exact: bool,
}

/// Chains looked at, all in all.
const MAX_WORK: usize = 1 << 22;

pub(super) fn count(frontier: &Frontier) -> Count {
    count_within(frontier, MAX_WORK)
}

pub(crate) fn count_within(frontier: &Frontier, work: usize) -> Count {
    let mut tied = Vec::new();
    // Most chains are alone, many of the same length: powers are cheaper than long products.
    let mut alone: BTreeMap<u32, u32> = BTreeMap::new();
    for chain in 0..frontier.chains.len() as u32 {
        let mut ties = frontier.premises(chain).chain(frontier.conclusions(chain));
        match ties.next() {
            Some(_) => tied.push(chain),
            None => *alone.entry(frontier.length(chain) + 1).or_default() += 1,
        }
    }
    let powers = alone
        .iter()
        .map(|(base, power)| BigUint::from(*base).pow(*power));
    let alone: BigUint = powers.product();
    let mut counter = Counter {
        frontier,
        low: frontier.none().0,
        high: frontier.all().0,
        trail: Vec::new(),
        seen: vec![0; frontier.chains.len()],
        searches: 0,
        work,
        exact: true,
    };
    let value = alone * counter.count(&tied);
    let exact = counter.exact;
    Count { value, exact }
}

/// By pairs, so that large numbers meet large ones: one after the other would take quadratic time.
fn product(mut factors: Vec<BigUint>) -> BigUint {
    while factors.len() > 1 {
        let pairs = factors.chunks(2).map(|pair| pair.iter().product());
        factors = pairs.collect();
    }
    factors.pop().unwrap_or(BigUint::from(1u8))
}

struct Counter<'a> {
    frontier: &'a Frontier,
    /// What each chain keeps at least and at most. Both are closed cuts.
    low: Vec<u32>,
    high: Vec<u32>,
    /// Bounds that were replaced, to be put back.
    trail: Vec<(u32, u32, u32)>,
    /// The last search that met each chain.
    seen: Vec<u32>,
    searches: u32,
    work: usize,
    exact: bool,
}

impl Counter<'_> {
    /// Whether the implication still excludes something.
    fn is_open(&self, tie: &Implication) -> bool {
        self.high[tie.if_chain as usize] > tie.if_more_than
            && self.low[tie.then_chain as usize] < tie.then_least
    }

    /// Cuts of these chains within the bounds.
    fn count(&mut self, chains: &[u32]) -> BigUint {
        let mut factors = Vec::new();
        self.searches += 1;
        let search = self.searches;
        let mut groups = Vec::new();
        for first in chains {
            let at = *first as usize;
            if self.seen[at] == search || self.low[at] == self.high[at] {
                continue;
            }
            let group = self.group(*first, search);
            match group[..] {
                [alone] => {
                    let at = alone as usize;
                    factors.push(BigUint::from(self.high[at] - self.low[at] + 1));
                }
                _ => groups.push(group),
            }
        }
        for group in groups {
            factors.push(self.count_group(&group));
        }
        product(factors)
    }

    /// Chains that open ties lead to from this one, with itself.
    fn group(&mut self, first: u32, search: u32) -> Vec<u32> {
        self.seen[first as usize] = search;
        let mut members = vec![first];
        let mut next = 0;
        while let Some(chain) = members.get(next).copied() {
            next += 1;
            let frontier = self.frontier;
            for tie in frontier.premises(chain).chain(frontier.conclusions(chain)) {
                if !self.is_open(tie) {
                    continue;
                }
                for other in [tie.if_chain, tie.then_chain] {
                    if self.seen[other as usize] != search {
                        self.seen[other as usize] = search;
                        members.push(other);
                    }
                }
            }
        }
        members.sort_unstable();
        members
    }

    fn count_group(&mut self, chains: &[u32]) -> BigUint {
        if self.work < chains.len() {
            return self.at_least(chains);
        }
        self.work -= chains.len();
        let pivot = self.pivot(chains);
        let (mut first, most) = (self.low[pivot as usize], self.high[pivot as usize]);
        let mut ends = self.differences(pivot);
        ends.push(most + 1);
        // Each value of the pivot goes over all of them.
        let cost = chains.len() * ends.len();
        if self.work < cost {
            return self.at_least(chains);
        }
        self.work -= cost;
        let mut sum = BigUint::ZERO;
        for end in ends {
            let before = self.trail.len();
            self.narrow(pivot, first, end - 1);
            sum += self.count(chains);
            self.undo(before);
            first = end;
        }
        sum
    }

    /// What a group has that there is no more work for.
    fn at_least(&mut self, chains: &[u32]) -> BigUint {
        self.exact = false;
        let undecided = chains.iter().map(|chain| {
            let at = *chain as usize;
            u64::from(self.high[at] - self.low[at])
        });
        BigUint::from(undecided.sum::<u64>() + 1)
    }

    /// The chain with the most open ties; the middle one of several, which splits a long row of
    /// chains that depend on each other into halves.
    fn pivot(&self, chains: &[u32]) -> u32 {
        let ties = |chain: u32| {
            let ties = self.frontier.premises(chain);
            let ties = ties.chain(self.frontier.conclusions(chain));
            ties.filter(|tie| self.is_open(tie)).count()
        };
        let counts: Vec<usize> = chains.iter().map(|chain| ties(*chain)).collect();
        let most = counts.iter().copied().max().unwrap_or(0);
        let best = chains.iter().zip(&counts);
        let best: Vec<u32> = best
            .filter(|(_, count)| **count == most)
            .map(|(chain, _)| *chain)
            .collect();
        best[best.len() / 2]
    }

    /// Numbers of kept nodes from which an open tie says something else than below.
    fn differences(&self, chain: u32) -> Vec<u32> {
        let (low, high) = (self.low[chain as usize], self.high[chain as usize]);
        let premises = self.frontier.premises(chain);
        let premises = premises.filter(|tie| self.is_open(tie));
        let conclusions = self.frontier.conclusions(chain);
        let conclusions = conclusions.filter(|tie| self.is_open(tie));
        let all = premises
            .map(|tie| tie.if_more_than + 1)
            .chain(conclusions.map(|tie| tie.then_least));
        let mut all: Vec<u32> = all.filter(|at| low < *at && *at <= high).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Sets the bounds of a chain, and those of others that follow from it.
    fn narrow(&mut self, chain: u32, low: u32, high: u32) {
        self.set(chain, low, high);
        let mut open = vec![chain];
        let frontier = self.frontier;
        while let Some(chain) = open.pop() {
            let at = chain as usize;
            for tie in frontier.premises(chain) {
                let then = tie.then_chain as usize;
                if self.low[at] > tie.if_more_than && self.low[then] < tie.then_least {
                    self.set(tie.then_chain, tie.then_least, self.high[then]);
                    open.push(tie.then_chain);
                }
            }
            for tie in frontier.conclusions(chain) {
                let premise = tie.if_chain as usize;
                if self.high[at] < tie.then_least && self.high[premise] > tie.if_more_than {
                    self.set(tie.if_chain, self.low[premise], tie.if_more_than);
                    open.push(tie.if_chain);
                }
            }
        }
    }

    fn set(&mut self, chain: u32, low: u32, high: u32) {
        let at = chain as usize;
        self.trail.push((chain, self.low[at], self.high[at]));
        assert!(low <= high, "closed bounds have a closed cut between them");
        (self.low[at], self.high[at]) = (low, high);
    }

    fn undo(&mut self, to: usize) {
        while self.trail.len() > to
            && let Some((chain, low, high)) = self.trail.pop()
        {
            (self.low[chain as usize], self.high[chain as usize]) = (low, high);
        }
    }
}
