//! Which crash states of representatives show nothing new: t-way combinatorial coverage.
//!
//! # Model
//!
//! Nodes from one place in the program are equivalent (definition 3.3). So a crash state of a
//! representative is an *assignment*: to each of its places, what became of the nodes from there.
//! These are not issued yet, kept, lost, or some of them kept and some lost, as of a loop that may
//! stop after any of its rounds. A state is tried if three places have values that no state before it
//! had together, whichever instances and whichever representatives they belong to; two places, where
//! a representative has more than a few dozen. What breaks a program is mostly that one thing is lost
//! and another is not, which is the same in thousands of states. Covering all settings of each three
//! parameters, rather than of all of them, is the usual remedy where there are too many
//! combinations (pairwise and t-way testing).
//!
//! A loop that has gone round for the last time is not like one that goes on
//! ([`super::plan::loop_continues`]): whether it does is a value too, and so is what became of all
//! that is pending elsewhere. What was acknowledged must not be lost, so a lost node of which the
//! program has acknowledged something since is told apart from one that was still under way.
//!
//! # What it misses
//!
//! What needs four places to have certain values, where each three of them were seen together
//! elsewhere: all kept but one, and all lost but one, come first, so that many such states are tried
//! before others have shown their parts. A set that is harmless in the first instance and not in a
//! later one, because of what lies there or what was done before.

use super::plan::{Behaviour, loop_continues};
use crashpoint_persist::graph::{Cut, Frontier, NodeId};
use itertools::Itertools as _;
use rustc_hash::{FxHashMap, FxHashSet};

/// What became of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Kept,
    Lost,
    /// And the program has said that something is done since.
    LostAfterwards,
}

/// What became of the nodes of one place: a bit for each [`Fate`] that one of them has. None, if
/// no node is issued yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct FateSet(u8);

impl FateSet {
    fn insert(&mut self, fate: Fate) {
        self.0 |= 1 << fate as u8;
    }
}

/// What else is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Others {
    Kept,
    Lost,
}

/// Places of a behaviour that have values of their own; of more, neighbours share one, so that what
/// a state costs is bounded.
const MAX_PLACES: usize = 128;

/// The largest assignment that is looked at by threes; larger ones are by pairs.
const MAX_BY_THREES: usize = 32;

/// A parameter of a crash state with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Value {
    /// What became of a place; of several that share a value, the first one's site.
    Place { site: u64, fates: FateSet },
    /// What is true of all of the behaviour.
    Whole {
        others: Others,
        loop_continues: bool,
    },
}

/// What became of a behaviour's places, and what is true of all of it.
#[derive(Clone, Debug)]
pub struct Assignment(Vec<Value>);

impl Assignment {
    /// The assignment of a state that loses these of a behaviour's nodes, after so many events.
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
        let shared_by = sites.len().div_ceil(MAX_PLACES).max(1);
        let issued = || {
            let nodes = behaviour.nodes.iter().zip(&behaviour.origins);
            nodes.filter(|(_, origin)| origin.order <= order)
        };
        let mut places = vec![FateSet::default(); sites.len().div_ceil(shared_by)];
        for (node, origin) in issued() {
            let fate = if !lost.contains(node) {
                Fate::Kept
            } else if origin.acknowledged_at <= order {
                Fate::LostAfterwards
            } else {
                Fate::Lost
            };
            places[numbers[&origin.site] / shared_by].insert(fate);
        }
        let loop_continues = loop_continues(issued().map(|(_, origin)| {
            let recurs = origin.recurs && origin.acknowledged_at > order;
            (origin.site, recurs)
        }));
        let firsts = sites.into_iter().step_by(shared_by);
        let places = firsts.zip(places);
        let mut values: Vec<Value> = places
            .map(|(site, fates)| Value::Place { site, fates })
            .collect();
        values.push(Value::Whole {
            others,
            loop_continues,
        });
        Assignment(values)
    }
}

/// A few values that were seen together, by their numbers, ascending; [`NO_VALUE`] fills up.
type Combination = [u32; 3];

const NO_VALUE: u32 = u32::MAX;

/// What the chosen states have covered so far.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// Values have numbers, so that a combination is small; it is the values themselves that tell
    /// states apart, and no hash of them.
    numbers: FxHashMap<Value, u32>,
    combinations: FxHashSet<Combination>,
    /// The chosen states: the order of the last event, and the cut.
    states: FxHashSet<(u64, Cut)>,
}

impl Coverage {
    /// Whether a state shows anything new. Asked again, it says the same.
    pub fn choose(&mut self, assignment: &Assignment, order: u64, cut: &Cut) -> bool {
        let state = (order, cut.clone());
        let numbers = self.numbers(assignment);
        let known = self.combinations.len();
        self.combinations.extend(combinations(&numbers));
        if self.combinations.len() > known {
            self.states.insert(state);
            return true;
        }
        self.states.contains(&state)
    }

    /// The numbers of an assignment's values, ascending.
    fn numbers(&mut self, assignment: &Assignment) -> Vec<u32> {
        let number = |value: &Value| {
            let next = self.numbers.len() as u32;
            *self.numbers.entry(*value).or_insert(next)
        };
        let mut numbers: Vec<u32> = assignment.0.iter().map(number).collect();
        numbers.sort_unstable();
        numbers
    }
}

/// Each few of these numbers: all if there are no more than that.
fn combinations(numbers: &[u32]) -> impl Iterator<Item = Combination> + '_ {
    let few = match numbers.len() {
        0..=MAX_BY_THREES => numbers.len().min(3),
        _ => 2,
    };
    numbers.iter().combinations(few).map(|few| {
        let mut combination = [NO_VALUE; 3];
        for (slot, number) in combination.iter_mut().zip(few) {
            *slot = *number;
        }
        combination
    })
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

    fn values(sites: &[u64], lost: &[u32], order: u64) -> Vec<Value> {
        let lost = lost.iter().copied().map(NodeId).collect();
        let mut values = Assignment::new(&behaviour(sites), &lost, order, Others::Kept).0;
        values.sort_unstable();
        values
    }

    /// Which of these states are chosen, one after the other.
    fn chosen<const N: usize>(sites: &[u64], lost: [&[u32]; N]) -> [bool; N] {
        let mut coverage = Coverage::default();
        let mut number = 0;
        lost.map(|lost| {
            let lost = lost.iter().copied().map(NodeId).collect();
            let assignment = Assignment::new(&behaviour(sites), &lost, 4, Others::Kept);
            number += 1;
            let cut = Cut(vec![number]);
            let is_chosen = coverage.choose(&assignment, 4, &cut);
            assert_eq!(
                coverage.choose(&assignment, 4, &cut),
                is_chosen,
                "asked again"
            );
            is_chosen
        })
    }

    #[test]
    fn which_of_several_rounds_is_lost_does_not_matter() {
        let sites = [1, 2, 2, 2];
        assert_eq!(values(&sites, &[2], 4), values(&sites, &[3], 4));
        assert_eq!(values(&sites, &[2], 4), values(&[2, 2, 1], &[0], 4));
    }

    #[test]
    fn other_places_all_rounds_and_what_is_not_issued_do_matter() {
        let sites = [1, 2, 2, 3];
        let some = values(&sites, &[2], 4);
        for other in [
            values(&sites, &[0], 4),
            values(&sites, &[1, 2], 4),
            values(&sites, &[2], 2),
            values(&sites, &[], 4),
        ] {
            assert_ne!(some, other);
        }
    }

    #[test]
    fn what_is_lost_after_it_was_acknowledged_is_something_else() {
        let sites = [1, 2];
        assert_eq!(values(&sites, &[1], 3), values(&sites, &[1], 4));
        assert_ne!(values(&sites, &[1], 4), values(&sites, &[1], 5));
        assert_eq!(values(&sites, &[0], 4), values(&sites, &[0], 5));
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
            let differ = one.0.iter().filter(|value| !none.0.contains(value));
            assert_eq!(differ.count(), 1);
        }
    }
}
