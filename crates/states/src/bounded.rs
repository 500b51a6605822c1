//! Crash states near the two extremes: everything issued has persisted, or nothing pending has.
//!
//! # Model
//!
//! Most bugs need few things to go wrong: one line that is late, or one that is early. A state is
//! at distance `d` below the upper extreme if `d` chains have to be lowered, and no fewer, so that
//! with all that this entails the state is reached; likewise upwards from the lower extreme. States
//! at distance at most `k` from either are tried, by rising distance. Where there are no more than
//! `k` chains that is all of them.
//!
//! # How none comes twice
//!
//! The *seeds* of a state are the chains whose first lost node could be kept as well, everything
//! else as it is. A chain that is no seed has a first lost node that needs another lost one, older
//! and in another chain, and so on until a seed is reached: the seeds, lowered to what they keep,
//! entail the state. No fewer chains do, as nothing else entails the loss of a seed's first lost
//! node. Every choice of chains is gone through, and delivers its state if it is its seeds.

use crate::Strategy;
use crashpoint_persist::graph::{Cut, Frontier};

#[derive(Clone, Copy, Debug)]
pub struct Bounded {
    most: usize,
}

impl Bounded {
    /// At most this many chains differ from an extreme.
    pub fn new(most: usize) -> Bounded {
        Bounded { most }
    }
}

impl Strategy for Bounded {
    fn name(&self) -> &'static str {
        "bounded"
    }

    fn cuts<'a>(&'a mut self, frontier: &'a Frontier) -> Box<dyn Iterator<Item = Cut> + 'a> {
        Box::new(Near {
            frontier,
            dual: frontier.dual(),
            most: self.most.min(frontier.chains.len()),
            level: Level::new(frontier, 0),
            upwards: false,
        })
    }
}

struct Near<'a> {
    frontier: &'a Frontier,
    /// From nothing upwards is from everything downwards with the roles exchanged.
    dual: Frontier,
    most: usize,
    level: Level,
    upwards: bool,
}

impl Near<'_> {
    /// The cut that one of the dual stands for, or the other way round.
    fn turned(&self, cut: &Cut) -> Cut {
        let chains = (0..).zip(&cut.0);
        Cut(chains
            .map(|(chain, lost)| self.frontier.length(chain) - lost)
            .collect())
    }
}

impl Iterator for Near<'_> {
    type Item = Cut;

    fn next(&mut self) -> Option<Cut> {
        loop {
            let distance = self.level.distance;
            if !self.upwards {
                while let Some(cut) = self.level.next(self.frontier) {
                    // What is nearer to the lower extreme came from there.
                    let nearer = distance
                        .checked_sub(1)
                        .and_then(|most| distance_within(&self.dual, &self.turned(&cut), most));
                    if nearer.is_none() {
                        return Some(cut);
                    }
                }
                self.upwards = true;
                self.level = Level::new(&self.dual, distance);
            }
            while let Some(cut) = self.level.next(&self.dual) {
                let cut = self.turned(&cut);
                // What is as near to the upper extreme comes from there.
                if distance_within(self.frontier, &cut, distance).is_none() {
                    return Some(cut);
                }
            }
            if distance == self.most {
                return None;
            }
            self.upwards = false;
            self.level = Level::new(self.frontier, distance + 1);
        }
    }
}

/// One chain that is lowered.
struct Frame {
    /// The cut without it.
    before: Cut,
    chain: u32,
    kept: u32,
}

impl Frame {
    /// For the first choice behind the chains before this one.
    fn new(before: Cut, chain: u32) -> Frame {
        let kept = before.0.get(chain as usize).copied().unwrap_or(0);
        Frame {
            before,
            chain,
            kept,
        }
    }

    /// The next chain and number of nodes to lower it to.
    fn step(&mut self) -> bool {
        while self.kept == 0 {
            self.chain += 1;
            match self.before.0.get(self.chain as usize) {
                Some(kept) => self.kept = *kept,
                None => return false,
            }
        }
        self.kept -= 1;
        true
    }
}

/// All cuts at one distance below the upper extreme.
struct Level {
    distance: usize,
    /// One for each seed, ascending; none if all cuts were delivered.
    frames: Vec<Frame>,
    /// The extreme itself, at distance 0.
    extreme: Option<Cut>,
}

impl Level {
    fn new(frontier: &Frontier, distance: usize) -> Level {
        let all = frontier.all();
        match distance {
            0 => Level {
                distance,
                frames: Vec::new(),
                extreme: Some(all),
            },
            _ => Level {
                distance,
                frames: vec![Frame::new(all, 0)],
                extreme: None,
            },
        }
    }

    fn next(&mut self, frontier: &Frontier) -> Option<Cut> {
        if let Some(extreme) = self.extreme.take() {
            return Some(extreme);
        }
        while let Some((frame, earlier)) = self.frames.split_last_mut() {
            if !frame.step() {
                self.frames.pop();
                continue;
            }
            let cut = frontier.lowered(&frame.before, frame.chain, frame.kept);
            let stays = |seed: &Frame| cut.0[seed.chain as usize] == seed.kept;
            if !earlier.iter().all(stays) {
                continue;
            }
            let next = frame.chain + 1;
            if self.frames.len() < self.distance {
                self.frames.push(Frame::new(cut, next));
                continue;
            }
            let mut chosen = self.frames.iter();
            if chosen.all(|seed| is_seed(frontier, &cut, seed.chain)) {
                return Some(cut);
            }
        }
        None
    }
}

/// The distance of a cut below the upper extreme, if it is at most this.
fn distance_within(frontier: &Frontier, cut: &Cut, most: usize) -> Option<usize> {
    let lowered = (0..).zip(&cut.0);
    let lowered = lowered.filter(|(chain, kept)| **kept < frontier.length(*chain));
    let seeds = lowered.filter(|(chain, _)| is_seed(frontier, cut, *chain));
    let distance = seeds.take(most + 1).count();
    (distance <= most).then_some(distance)
}

/// Whether the first lost node of a chain could be kept.
fn is_seed(frontier: &Frontier, cut: &Cut, chain: u32) -> bool {
    let kept = cut.0[chain as usize];
    frontier.premises(chain).all(|tie| {
        let needs = tie.if_more_than == kept;
        !needs || cut.0[tie.then_chain as usize] >= tie.then_least
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{frontiers, sorted};
    use std::collections::BTreeSet;

    /// All cuts that differ from one in at most this many chains.
    fn near(frontier: &Frontier, from: &Cut, most: usize) -> Vec<Cut> {
        let mut cuts = vec![(from.clone(), 0)];
        for chain in 0..from.0.len() {
            let more = cuts.iter().filter(|(_, changed)| *changed < most);
            let more = more.flat_map(|(cut, changed)| {
                let values =
                    (0..=frontier.length(chain as u32)).filter(|kept| *kept != cut.0[chain]);
                values.map(move |kept| {
                    let mut cut = cut.clone();
                    cut.0[chain] = kept;
                    (cut, changed + 1)
                })
            });
            let more: Vec<(Cut, usize)> = more.collect();
            cuts.extend(more);
        }
        cuts.into_iter().map(|(cut, _)| cut).collect()
    }

    #[test]
    fn every_state_within_the_bound_is_tried_once_and_no_other() {
        for frontier in frontiers() {
            for most in 0..4 {
                let below = near(&frontier, &frontier.all(), most);
                let below = below.into_iter().map(|cut| frontier.floor(cut));
                let above = near(&frontier, &frontier.none(), most);
                let above = above.into_iter().map(|cut| frontier.ceiling(cut));
                let expected: BTreeSet<Cut> = below.chain(above).collect();
                let tried = sorted(Bounded::new(most).cuts(&frontier));
                assert_eq!(tried, Vec::from_iter(expected), "{most} {frontier:?}");
            }
        }
    }

    #[test]
    fn as_many_chains_as_there_are_reach_every_state() {
        for frontier in frontiers() {
            let tried = sorted(Bounded::new(frontier.chains.len()).cuts(&frontier));
            assert_eq!(tried, sorted(frontier.cuts()));
            let more = sorted(Bounded::new(usize::MAX).cuts(&frontier));
            assert_eq!(tried, more);
        }
    }

    #[test]
    fn the_extremes_come_first() {
        for frontier in frontiers().filter(|frontier| frontier.chains.len() > 1) {
            for most in [1, usize::MAX] {
                let mut strategy = Bounded::new(most);
                let first: Vec<Cut> = strategy.cuts(&frontier).take(2).collect();
                assert_eq!(first, [frontier.all(), frontier.none()]);
            }
        }
    }

    #[test]
    fn states_come_by_rising_distance() {
        for frontier in frontiers() {
            let dual = frontier.dual();
            let distance = |cut: &Cut| {
                let turned = (0..).zip(&cut.0);
                let turned = turned.map(|(chain, kept)| frontier.length(chain) - kept);
                let below = distance_within(&frontier, cut, usize::MAX - 1);
                below.min(distance_within(
                    &dual,
                    &Cut(turned.collect()),
                    usize::MAX - 1,
                ))
            };
            let mut strategy = Bounded::new(usize::MAX);
            let distances: Vec<_> = strategy.cuts(&frontier).map(|cut| distance(&cut)).collect();
            assert!(distances.is_sorted(), "{distances:?} {frontier:?}");
        }
    }
}
