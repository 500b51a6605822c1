//! What is known of every node of a recording: enough for the persistence graph of any few of them.
//!
//! A node needs others by name, by its place in the journal (all that is in the journal before it),
//! and by time: what was durable when it was issued is there whenever it is.

use super::relation::{ProgramPlace, Shape};
use crashpoint_persist::graph::NodeId;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::ops::Range;

/// The order from which a node is durable that never is.
pub const NEVER: u64 = u64::MAX;

/// One node.
#[derive(Clone, Debug)]
pub struct Fact {
    /// Where in the program it comes from, and what it does there. Of what one event issues, the
    /// first and the last are told apart from the rest ([`EventPart`]).
    pub site: u64,
    /// Of the event that issued it.
    pub order: u64,
    /// Of the event that made it durable.
    pub durable: u64,
    /// Older nodes that were pending when it was issued.
    pub needs: SmallVec<[NodeId; 2]>,
    /// All nodes before it that are in the journal are needed, too.
    pub is_behind_journal: bool,
    pub is_in_journal: bool,
}

/// Which part of an event a node is. A header, or a tail, is not what lies between; of the parts
/// between each is like the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventPart {
    First,
    Inner,
    Last,
}

impl EventPart {
    /// Of a node among those of its event.
    pub fn of(node: usize, all: &Range<usize>) -> EventPart {
        match node {
            _ if node == all.start => EventPart::First,
            _ if node + 1 == all.end => EventPart::Last,
            _ => EventPart::Inner,
        }
    }
}

/// All nodes of a recording; a [`NodeId`] is an index.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub nodes: Vec<Fact>,
}

impl std::ops::Index<NodeId> for Facts {
    type Output = Fact;

    fn index(&self, node: NodeId) -> &Fact {
        &self.nodes[node.index()]
    }
}

/// A set of places, by their numbers in one behaviour.
type Bits = SmallVec<[u64; 1]>;

fn insert(bits: &mut Bits, number: usize) {
    let word = number / 64;
    if bits.len() <= word {
        bits.resize(word + 1, 0);
    }
    bits[word] |= 1 << (number % 64);
}

fn unite(bits: &mut Bits, other: &Bits) {
    if bits.len() < other.len() {
        bits.resize(other.len(), 0);
    }
    for (word, more) in bits.iter_mut().zip(other) {
        *word |= more;
    }
}

fn members(bits: &Bits) -> impl Iterator<Item = usize> + '_ {
    let words = bits.iter().enumerate();
    words.flat_map(|(index, word)| {
        let range: Range<usize> = 0..64;
        range.filter_map(move |bit| (word >> bit & 1 == 1).then_some(index * 64 + bit))
    })
}

impl Facts {
    /// The shape of the behaviour that consists of these nodes, ascending, each with its place.
    pub fn shape(&self, nodes: &[(NodeId, ProgramPlace)]) -> Shape {
        let mut places: Vec<ProgramPlace> = nodes.iter().map(|(_, place)| *place).collect();
        places.sort_unstable();
        places.dedup();
        let number = |place: &ProgramPlace| places.binary_search(place).expect("it is one of them");
        let own: FxHashMap<NodeId, usize> = nodes
            .iter()
            .map(|(node, place)| (*node, number(place)))
            .collect();
        let mut by_time: Vec<(u64, usize)> = nodes
            .iter()
            .map(|(node, place)| (self[*node].durable, number(place)))
            .collect();
        by_time.sort_unstable();
        let mut by_time = by_time.into_iter().peekable();
        let mut needed_by = vec![Bits::new(); places.len()];
        // Of each node, the places of what it needs.
        let mut reach: FxHashMap<NodeId, Bits> = FxHashMap::default();
        let (mut durable, mut journal) = (Bits::new(), Bits::new());
        for node in self.reachable(nodes) {
            let fact = &self[node];
            while let Some((_, place)) = by_time.next_if(|(since, _)| *since < fact.order) {
                insert(&mut durable, place);
            }
            let mut bits = durable.clone();
            if fact.is_behind_journal || fact.is_in_journal {
                unite(&mut bits, &journal);
            }
            for need in &fact.needs {
                if let Some(more) = reach.get(need) {
                    unite(&mut bits, more);
                }
                if let Some(place) = own.get(need) {
                    insert(&mut bits, *place);
                }
            }
            if let Some(place) = own.get(&node) {
                unite(&mut needed_by[*place], &bits);
            }
            if fact.is_in_journal {
                unite(&mut journal, &bits);
                if let Some(place) = own.get(&node) {
                    insert(&mut journal, *place);
                }
            }
            reach.insert(node, bits);
        }
        let edges = needed_by.iter().enumerate().flat_map(|(to, bits)| {
            let from = members(bits);
            let places = &places;
            from.map(move |from| (places[from], places[to]))
        });
        let edges = edges.collect();
        Shape::of_places(places, edges)
    }

    /// These nodes and what they need, as far back as the first of them; ascending.
    fn reachable(&self, nodes: &[(NodeId, ProgramPlace)]) -> Vec<NodeId> {
        let Some((first, _)) = nodes.first() else {
            return Vec::new();
        };
        let mut open: Vec<NodeId> = nodes.iter().map(|(node, _)| *node).collect();
        let mut seen: rustc_hash::FxHashSet<NodeId> = open.iter().copied().collect();
        while let Some(node) = open.pop() {
            for need in &self[node].needs {
                if need >= first && seen.insert(*need) {
                    open.push(*need);
                }
            }
        }
        let mut all: Vec<NodeId> = seen.into_iter().collect();
        all.sort_unstable();
        all
    }

    /// The order from which all of these nodes are durable.
    pub fn durable(&self, nodes: &[NodeId]) -> u64 {
        let durable = nodes.iter().map(|node| self[*node].durable);
        durable.max().unwrap_or(0)
    }
}

#[cfg(test)]
pub mod samples {
    use super::*;

    /// A node issued at its number, with what it needs.
    pub fn fact(order: u64, needs: &[u32], durable: u64) -> Fact {
        Fact {
            site: order,
            order,
            durable,
            needs: needs.iter().copied().map(NodeId).collect(),
            is_behind_journal: false,
            is_in_journal: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::samples::fact;
    use super::*;

    fn shape(nodes: Vec<Fact>, chosen: &[u32]) -> Vec<(u64, u64)> {
        let facts = Facts { nodes };
        let chosen: Vec<(NodeId, ProgramPlace)> = chosen
            .iter()
            .map(|id| (NodeId(*id), ProgramPlace(u64::from(*id))))
            .collect();
        let shape = facts.shape(&chosen);
        shape.edges().iter().map(|(a, b)| (a.0, b.0)).collect()
    }

    #[test]
    fn figure_4_writes_to_one_block_are_ordered_and_a_sync_orders_what_follows() {
        // 1, 2, 3: writes to a block of f1; 4: write to f2; 5: its sync; 6: rename.
        let nodes = vec![
            fact(1, &[], 7),
            fact(2, &[0], 7),
            fact(3, &[1], 7),
            fact(4, &[], 5),
            fact(6, &[], 7),
        ];
        let all = [(0, 1), (0, 2), (1, 2), (3, 4)];
        assert_eq!(shape(nodes.clone(), &[0, 1, 2, 3, 4]), all);
        // `Fn3`: what lies outside does not count.
        assert_eq!(shape(nodes, &[2, 3, 4]), [(3, 4)]);
    }

    #[test]
    fn an_order_through_somebody_else_is_an_order() {
        let nodes = vec![
            fact(1, &[], NEVER),
            fact(2, &[0], NEVER),
            fact(3, &[1], NEVER),
        ];
        assert_eq!(shape(nodes, &[0, 2]), [(0, 2)]);
    }

    #[test]
    fn what_is_in_the_journal_is_ordered_and_what_is_behind_it_needs_it() {
        let mut nodes: Vec<Fact> = (1..5).map(|order| fact(order, &[], NEVER)).collect();
        nodes[0].is_in_journal = true;
        nodes[2].is_in_journal = true;
        nodes[3].is_behind_journal = true;
        assert_eq!(shape(nodes, &[0, 1, 2, 3]), [(0, 2), (0, 3), (2, 3)]);
    }
}
