//! Which crash states of representatives show nothing new.
//!
//! # Model
//!
//! Nodes from one place in the program are equivalent (definition 3.3). So a crash state of a
//! representative is told by the *fate* of each of its places: not issued yet, kept, lost, or some of
//! it kept and some lost, as of a loop that may stop after any of its rounds. A state is tried if
//! three places have fates that no state before it had together, whichever instances and whichever
//! representatives they belong to; two places, where a representative has more than a few dozen. What
//! breaks a program is mostly that one thing is lost and another is not, which is the same in
//! thousands of states. To try each three settings together, rather than all of them, is an old
//! custom where there are too many combinations.
//!
//! A loop that has gone round for the last time is not like one that goes on
//! ([`super::plan::loop_continues`]): whether it does is a fate too, and so is what became of all that is
//! pending elsewhere. What was acknowledged must not be lost, so a lost node of which the program has
//! acknowledged something since is told apart from one that was still under way.
//!
//! # What it misses
//!
//! What needs four places to have certain fates, where each three of them were seen together
//! elsewhere: all kept but one, and all lost but one, come first, so that many such states are tried
//! before others have shown their parts. A set that is harmless in the first instance and not in a
//! later one, because of what lies there or what was done before.

use super::plan::{Behaviour, loop_continues};
use crashpoint_persist::graph::{Cut, Frontier, NodeId};
use itertools::Itertools as _;
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use smallvec::SmallVec;
use std::hash::{Hash, Hasher as _};

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

/// Places of a behaviour that have fates of their own; of more, neighbours share one, so that what a
/// state costs is bounded.
const MAX_PLACES: usize = 128;

/// So many fates are looked at by threes.
const MAX_BY_THREES: usize = 32;

/// What became of a behaviour's places, and what is true of all of it: a number for each, ascending.
#[derive(Clone, Debug)]
pub struct Assignment(Vec<u64>);

impl Assignment {
    /// Of a state that loses these of a behaviour's nodes, after so many events.
    pub fn new(
        behaviour: &Behaviour,
        lost: &FxHashSet<NodeId>,
        order: u64,
        others: Others,
    ) -> Assignment {
        let mut numbers: FxHashMap<u64, usize> = FxHashMap::default();
        let mut sites: Vec<u64> = Vec::new();
        for origin in &behaviour.origins {
            numbers.entry(origin.site).or_insert_with(|| {
                sites.push(origin.site);
                sites.len() - 1
            });
        }
        let together = sites.len().div_ceil(MAX_PLACES).max(1);
        let issued = || {
            let nodes = behaviour.nodes.iter().zip(&behaviour.origins);
            nodes.filter(|(_, origin)| origin.order <= order)
        };
        let mut places: Vec<SmallVec<[Fate; 2]>> = vec![SmallVec::new(); sites.len()];
        for (node, origin) in issued() {
            let fate = match lost.contains(node) {
                false => Fate::Kept,
                true if origin.acknowledged_at <= order => Fate::LostAfterwards,
                true => Fate::Lost,
            };
            let fates = &mut places[numbers[&origin.site] / together];
            if let Err(place) = fates.binary_search(&fate) {
                fates.insert(place, fate);
            }
        }
        let loop_continues = loop_continues(
            issued()
                .map(|(_, origin)| (origin.site, origin.recurs && origin.acknowledged_at > order)),
        );
        let firsts = sites.iter().step_by(together);
        let mut fates: Vec<u64> = firsts.zip(&places).map(hash_of).collect();
        fates.push(hash_of((others, loop_continues)));
        fates.sort_unstable();
        Assignment(fates)
    }

    /// Each few of them: all if there are no more than that.
    fn together(&self) -> impl Iterator<Item = u64> + '_ {
        let few = match self.0.len() {
            0..=MAX_BY_THREES => self.0.len().min(3),
            _ => 2,
        };
        self.0.iter().combinations(few).map(hash_of)
    }
}

fn hash_of(value: impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

/// What was chosen so far.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// Values that were seen together.
    together: FxHashSet<u64>,
    /// With when it was.
    states: FxHashSet<(u64, Cut)>,
}

impl Coverage {
    /// Whether a state shows anything new. Asked again, it says the same.
    pub fn choose(&mut self, fates: &Assignment, at: u64, cut: &Cut) -> bool {
        let state = (at, cut.clone());
        let known = self.together.len();
        self.together.extend(fates.together());
        if self.together.len() > known {
            self.states.insert(state);
            return true;
        }
        self.states.contains(&state)
    }
}

/// What a cut loses.
pub fn lost(frontier: &Frontier, cut: &Cut) -> FxHashSet<NodeId> {
    frontier.lost(cut).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::super::facts::NEVER;
    use super::super::plan::NodeOrigin;
    use super::*;

    /// Nodes from these sites, issued one after the other; the second is acknowledged at 5.
    fn behaviour(sites: &[u64]) -> Behaviour {
        let origin = |(order, site): (u64, &u64)| NodeOrigin {
            site: *site,
            order,
            acknowledged_at: if order == 1 { 5 } else { NEVER },
            recurs: false,
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

    fn fates(sites: &[u64], lost: &[u32], order: u64) -> FxHashSet<u64> {
        let lost = lost.iter().copied().map(NodeId).collect();
        let fates = Assignment::new(&behaviour(sites), &lost, order, Others::Kept);
        fates.together().collect()
    }

    /// Which of these states are chosen, one after the other.
    fn chosen<const N: usize>(sites: &[u64], lost: [&[u32]; N]) -> [bool; N] {
        let mut chosen = Coverage::default();
        let mut number = 0;
        lost.map(|lost| {
            let lost = lost.iter().copied().map(NodeId).collect();
            let fates = Assignment::new(&behaviour(sites), &lost, 4, Others::Kept);
            number += 1;
            let cut = Cut(vec![number]);
            let is_chosen = chosen.choose(&fates, 4, &cut);
            assert_eq!(chosen.choose(&fates, 4, &cut), is_chosen, "asked again");
            is_chosen
        })
    }

    #[test]
    fn which_of_several_rounds_is_lost_does_not_matter() {
        let sites = [1, 2, 2, 2];
        assert_eq!(fates(&sites, &[2], 4), fates(&sites, &[3], 4));
        assert_eq!(fates(&sites, &[2], 4), fates(&[2, 2, 1], &[0], 4));
    }

    #[test]
    fn other_places_all_rounds_and_what_is_not_issued_do_matter() {
        let sites = [1, 2, 2, 3];
        let some = fates(&sites, &[2], 4);
        for other in [
            fates(&sites, &[0], 4),
            fates(&sites, &[1, 2], 4),
            fates(&sites, &[2], 2),
            fates(&sites, &[], 4),
        ] {
            assert_ne!(some, other);
        }
    }

    #[test]
    fn what_is_lost_after_it_was_acknowledged_is_something_else() {
        let sites = [1, 2];
        assert_eq!(fates(&sites, &[1], 3), fates(&sites, &[1], 4));
        assert_ne!(fates(&sites, &[1], 4), fates(&sites, &[1], 5));
        assert_eq!(fates(&sites, &[0], 4), fates(&sites, &[0], 5));
    }

    #[test]
    fn a_state_is_new_if_three_places_never_had_their_fates_together() {
        let lost: [&[u32]; 7] = [&[], &[0, 1, 2], &[0], &[1], &[2], &[0, 1], &[1, 2]];
        assert_eq!(chosen(&[1, 2, 3], lost), [true; 7]);
        // All of them of one place: that some are lost is one state.
        let expected = [true, true, true, false, false, false, false];
        assert_eq!(chosen(&[1, 1, 1], lost), expected);
        // Of four places, each three have been lost together, and kept, and anything between.
        let lost: [&[u32]; 16] = [
            &[],
            &[0, 1, 2, 3],
            &[0],
            &[1],
            &[2],
            &[3],
            &[1, 2, 3],
            &[0, 2, 3],
            &[0, 1, 3],
            &[0, 1, 2],
            &[0, 1],
            &[2, 3],
            &[0, 2],
            &[1, 3],
            &[0, 3],
            &[1, 2],
        ];
        let expected = std::array::from_fn(|number| number < 10);
        assert_eq!(chosen(&[1, 2, 3, 4], lost), expected);
    }

    #[test]
    fn of_many_places_neighbours_share_a_fate_and_losing_any_of_them_is_seen() {
        let sites: Vec<u64> = (0..10 * MAX_PLACES as u64).collect();
        let none = Assignment::new(
            &behaviour(&sites),
            &FxHashSet::default(),
            1 << 20,
            Others::Kept,
        );
        assert_eq!(none.0.len(), MAX_PLACES + 1);
        for lost in [0, 7, 1000, sites.len() as u32 - 1] {
            let lost = FxHashSet::from_iter([NodeId(lost)]);
            let one = Assignment::new(&behaviour(&sites), &lost, 1 << 20, Others::Kept);
            let differ = one.0.iter().filter(|fate| !none.0.contains(fate));
            assert_eq!(differ.count(), 1);
        }
    }
}
