//! When one behaviour stands for another: definitions 3.1 to 3.5 of the paper.
//!
//! Nodes are equivalent if they come from the same place in the program (3.3), edges if they lead
//! between equivalent nodes (3.4). With `N` and `E` the nodes and edges of a behaviour's graph,
//!
//! ```text
//! U1 represents U2   iff   every node of N2 has an equivalent one in N1, and
//!                          every edge among those nodes of N1 that have an equivalent one in N2
//!                          has an equivalent one in E2                                    (3.5)
//! ```
//!
//! All of this asks for places only, never for single nodes. So a behaviour can be told by the set
//! of its places and the set of pairs of places that an edge leads between: its [`Shape`].
//! Behaviours with the same shape represent each other.
//!
//! An edge is here whatever makes a node need another, however indirectly: with direct edges alone,
//! leaving out a node between two others would leave out that they are ordered. The paper's own
//! graphs have an edge for every ordered pair.

/// Where in a program a node comes from, and what it does there: nodes that have the same are
/// equivalent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgramPlace(pub u64);

/// Stand for the rounds of a loop that are still to come, and for there being none.
const LOOP_CONTINUES: ProgramPlace = ProgramPlace(0xc2b2_ae3d_27d4_eb4f);
const LOOP_ENDS: ProgramPlace = ProgramPlace(0x1656_67b1_9e37_79f9);

/// What of a behaviour's persistence graph decides whom it represents.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// Ascending.
    places: Vec<ProgramPlace>,
    /// The second can't be durable unless the first is; ascending.
    edges: Vec<(ProgramPlace, ProgramPlace)>,
}

impl Shape {
    /// Of a graph with these nodes, and edges between nodes with these numbers.
    pub fn new(nodes: &[ProgramPlace], edges: impl IntoIterator<Item = (usize, usize)>) -> Shape {
        let edges = edges.into_iter().map(|(from, to)| (nodes[from], nodes[to]));
        Shape::of_places(nodes.to_vec(), edges.collect())
    }

    /// From places and pairs of places, in any order, as often as they come.
    pub fn of_places(
        mut places: Vec<ProgramPlace>,
        mut edges: Vec<(ProgramPlace, ProgramPlace)>,
    ) -> Shape {
        places.sort_unstable();
        places.dedup();
        edges.sort_unstable();
        edges.dedup();
        Shape { places, edges }
    }

    /// The same, where the program goes on to do it again, or does not. Each is a place of its own, so
    /// that neither stands for the other: the last round of a loop, and those before it.
    pub fn continuing(self, loop_continues: bool) -> Shape {
        let mut places = self.places;
        places.push(if loop_continues {
            LOOP_CONTINUES
        } else {
            LOOP_ENDS
        });
        Shape::of_places(places, self.edges)
    }

    pub fn places(&self) -> &[ProgramPlace] {
        &self.places
    }

    pub fn edges(&self) -> &[(ProgramPlace, ProgramPlace)] {
        &self.edges
    }

    /// Whether trying this behaviour tries all orders in which the other one can persist
    /// (definition 3.5).
    pub fn represents(&self, other: &Shape) -> bool {
        let is_in = |place: &ProgramPlace| other.places.binary_search(place).is_ok();
        let has_all = self.places.len() >= other.places.len()
            && other
                .places
                .iter()
                .all(|place| self.places.binary_search(place).is_ok());
        has_all
            && self
                .edges
                .iter()
                .filter(|(from, to)| is_in(from) && is_in(to))
                .all(|edge| other.edges.binary_search(edge).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Named by what they do.
    fn shape(nodes: &[&str], edges: &[(usize, usize)]) -> Shape {
        let place = |name: &&str| {
            let bytes = name.bytes();
            ProgramPlace(bytes.fold(7, |hash, byte| hash * 131 + u64::from(byte)))
        };
        let nodes: Vec<ProgramPlace> = nodes.iter().map(place).collect();
        Shape::new(&nodes, edges.iter().copied())
    }

    #[test]
    fn figure_6_with_the_rename_stands_for_without_and_another_function_for_neither() {
        // Of figure 4: `Fn3` with its flag writes f1 and f2, syncs f2 and renames it.
        let with = shape(&["write f1", "write f2", "rename f2"], &[(1, 2)]);
        let without = shape(&["write f1", "write f2"], &[]);
        let other = shape(&["first write f1", "second write f1"], &[(0, 1)]);
        assert!(with.represents(&without));
        assert!(!without.represents(&with));
        for three in [&with, &without] {
            assert!(!three.represents(&other) && !other.represents(three));
        }
    }

    #[test]
    fn the_last_round_of_a_loop_and_the_others_do_not_stand_for_each_other() {
        let round = || shape(&["message", "tail"], &[(0, 1)]);
        let (last, other) = (round().continuing(false), round().continuing(true));
        assert!(!last.represents(&other) && !other.represents(&last));
        assert!(last.represents(&round().continuing(false)));
    }

    #[test]
    fn figure_1_without_the_sync_stands_for_with_it() {
        let nodes = ["write tmp", "rename tmp"];
        let buggy = shape(&nodes, &[]);
        let synced = shape(&nodes, &[(0, 1)]);
        assert!(buggy.represents(&synced));
        assert!(!synced.represents(&buggy));
    }

    #[test]
    fn figure_2_unordered_fields_stand_for_ordered_ones() {
        let nodes = ["key", "value", "valid"];
        let insert = shape(&nodes, &[]);
        let ordered = shape(&nodes, &[(0, 1), (0, 2)]);
        assert!(insert.represents(&ordered));
        assert!(!ordered.represents(&insert));
    }

    #[test]
    fn an_edge_to_what_the_other_does_not_have_does_not_count() {
        let large = shape(&["a", "b", "c"], &[(2, 0), (2, 1)]);
        let small = shape(&["a", "b"], &[]);
        assert!(large.represents(&small));
    }

    #[test]
    fn a_loop_that_orders_its_rounds_does_not_stand_for_one_round() {
        let rounds = shape(&["write", "write"], &[(0, 1)]);
        let one = shape(&["write"], &[]);
        assert!(one.represents(&rounds));
        assert!(!rounds.represents(&one));
    }

    fn graphs() -> impl Strategy<Value = Shape> {
        let nodes = proptest::collection::vec(0..5_u64, 0..6);
        let edges = proptest::collection::vec((0..6_usize, 0..6_usize), 0..8);
        (nodes, edges).prop_map(|(nodes, edges)| {
            let nodes: Vec<ProgramPlace> = nodes.into_iter().map(ProgramPlace).collect();
            let inside = |(from, to): &(usize, usize)| from < to && *to < nodes.len();
            Shape::new(&nodes, edges.into_iter().filter(inside))
        })
    }

    /// Definition 3.5, word for word, over nodes.
    fn by_definition(one: &Shape, other: &Shape) -> bool {
        let subset = other.places.iter().all(|a| one.places.contains(a));
        let image: Vec<&ProgramPlace> = one
            .places
            .iter()
            .filter(|n| other.places.contains(n))
            .collect();
        let among = |(from, to): &&(ProgramPlace, ProgramPlace)| {
            image.contains(&from) && image.contains(&to)
        };
        subset
            && one
                .edges
                .iter()
                .filter(among)
                .all(|e| other.edges.contains(e))
    }

    proptest! {
        #[test]
        fn it_is_the_definition(one in graphs(), other in graphs()) {
            prop_assert_eq!(one.represents(&other), by_definition(&one, &other));
        }

        #[test]
        fn every_behaviour_represents_itself(one in graphs()) {
            prop_assert!(one.represents(&one));
        }

        #[test]
        fn what_represents_a_representative_represents_the_represented(
            a in graphs(), b in graphs(), c in graphs(),
        ) {
            prop_assert!(!(a.represents(&b) && b.represents(&c)) || a.represents(&c));
        }

        #[test]
        fn whoever_represents_each_other_is_the_same(a in graphs(), b in graphs()) {
            prop_assert_eq!(a.represents(&b) && b.represents(&a), a == b);
        }

        #[test]
        fn fewer_edges_represent_more_and_more_edges_are_represented_by_more(
            one in graphs(), other in graphs(), drop in 0..8_usize,
        ) {
            let mut freer = one.clone();
            if drop < freer.edges.len() {
                freer.edges.remove(drop);
            }
            prop_assert!(!one.represents(&other) || freer.represents(&other));
            prop_assert!(!other.represents(&freer) || other.represents(&one)
                || !freer.represents(&one));
            prop_assert!(freer.represents(&one));
        }

        #[test]
        fn what_a_behaviour_does_besides_takes_nothing_away(
            one in graphs(), other in graphs(), edge in any::<bool>(),
        ) {
            let mut places = one.places.clone();
            places.push(ProgramPlace(99));
            let mut edges = one.edges.clone();
            if edge && let Some(first) = one.places.first() {
                edges.push((*first, ProgramPlace(99)));
            }
            let larger = Shape::of_places(places, edges);
            prop_assert!(!one.represents(&other) || larger.represents(&other));
            prop_assert!(larger.represents(&one));
        }
    }
}
