//! Which crash states of representatives are alike.
//!
//! # Model
//!
//! Nodes from one place in the program are equivalent (definition 3.3). So are then two closed sets
//! that keep nodes of the same places and lose nodes of the same places, whichever instances and
//! whichever representatives they belong to: a loop that may stop after any of its rounds, a helper
//! that many functions call. Of states that are alike in this sense a few are tried, the first ones.
//!
//! A loop that has gone round for the last time is not like one that goes on
//! ([`super::plan::goes_on`]).
//!
//! What was acknowledged must not be lost, so a lost node of which the program has acknowledged
//! something since is told apart from one that was still under way.
//!
//! # What it misses
//!
//! A set that is harmless in the first few instances and not in a later one, because of what lies
//! there or what was done before.

use super::plan::{Behaviour, goes_on};
use crashpoint_persist::graph::{Cut, Frontier, NodeId};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::hash::{Hash as _, Hasher as _};

/// What became of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Fate {
    Kept,
    Lost,
    /// And the program has said that something is done since.
    LostAfterwards,
}

/// What is else pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Others {
    Kept,
    Lost,
}

/// States that are alike have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Likeness(u64);

impl Likeness {
    /// Of a state that loses these of a behaviour's nodes, after so many events.
    pub fn new(
        behaviour: &Behaviour,
        lost: &FxHashSet<NodeId>,
        order: u64,
        others: Others,
    ) -> Likeness {
        let nodes = behaviour.nodes.iter().zip(&behaviour.origins);
        let issued = nodes.filter(|(_, origin)| origin.order <= order);
        let goes_on = goes_on(
            issued
                .clone()
                .map(|(_, origin)| (origin.site, origin.again && origin.told > order)),
        );
        let mut fates: Vec<(u64, Fate)> = issued
            .map(|(node, origin)| {
                let fate = match lost.contains(node) {
                    false => Fate::Kept,
                    true if origin.told <= order => Fate::LostAfterwards,
                    true => Fate::Lost,
                };
                (origin.site, fate)
            })
            .collect();
        fates.sort_unstable();
        fates.dedup();
        let mut hasher = FxHasher::default();
        (fates, others, goes_on).hash(&mut hasher);
        Likeness(hasher.finish())
    }
}

/// What was chosen so far, by what it is like.
#[derive(Clone, Debug, Default)]
pub struct Chosen {
    /// With when it was.
    states: FxHashMap<Likeness, Vec<(u64, Cut)>>,
}

impl Chosen {
    /// Whether a state is among the first few of its like. Asked again, it says the same.
    pub fn choose(&mut self, likeness: Likeness, at: u64, cut: &Cut, most: usize) -> bool {
        let chosen = self.states.entry(likeness).or_default();
        let is_in = chosen.iter().any(|(order, one)| *order == at && one == cut);
        if !is_in && chosen.len() < most {
            chosen.push((at, cut.clone()));
            return true;
        }
        is_in
    }
}

/// What a cut loses.
pub fn lost(frontier: &Frontier, cut: &Cut) -> FxHashSet<NodeId> {
    frontier.lost(cut).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::super::facts::NEVER;
    use super::super::plan::Origin;
    use super::*;

    /// Nodes from these sites, issued one after the other; the second is acknowledged at 5.
    fn behaviour(sites: &[u64]) -> Behaviour {
        let origin = |(order, site): (u64, &u64)| Origin {
            site: *site,
            order,
            told: if order == 1 { 5 } else { NEVER },
            again: false,
        };
        Behaviour {
            of: 0,
            nodes: (0..sites.len() as u32).map(NodeId).collect(),
            origins: (0..).zip(sites).map(origin).collect(),
            begin: 0,
            end: 10,
            stands_for: 1,
            places: sites.len(),
        }
    }

    fn likeness(sites: &[u64], lost: &[u32], order: u64) -> Likeness {
        let lost = lost.iter().copied().map(NodeId).collect();
        Likeness::new(&behaviour(sites), &lost, order, Others::Kept)
    }

    #[test]
    fn which_of_several_rounds_is_lost_does_not_matter() {
        let sites = [1, 2, 2, 2];
        assert_eq!(likeness(&sites, &[2], 4), likeness(&sites, &[3], 4));
        assert_eq!(likeness(&sites, &[2], 4), likeness(&[2, 2, 1], &[0], 4));
    }

    #[test]
    fn other_places_all_rounds_and_what_is_not_issued_do_matter() {
        let sites = [1, 2, 2, 3];
        let some = likeness(&sites, &[2], 4);
        for other in [
            likeness(&sites, &[0], 4),
            likeness(&sites, &[1, 2], 4),
            likeness(&sites, &[2], 2),
            Likeness::new(&behaviour(&sites), &FxHashSet::default(), 4, Others::Kept),
        ] {
            assert_ne!(some, other);
        }
    }

    #[test]
    fn what_is_lost_after_it_was_acknowledged_is_something_else() {
        let sites = [1, 2];
        assert_eq!(likeness(&sites, &[1], 3), likeness(&sites, &[1], 4));
        assert_ne!(likeness(&sites, &[1], 4), likeness(&sites, &[1], 5));
        assert_eq!(likeness(&sites, &[0], 4), likeness(&sites, &[0], 5));
    }
}
