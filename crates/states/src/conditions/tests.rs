//! Which states violate a condition, and how many of a kind are taken.

use super::*;
use crashpoint_infer::Range;
use crashpoint_persist::graph::Chain;
use crashpoint_trace::{PmAddress, ThreadIndex};

/// Stores of a word each, one after the other.
fn nodes(addresses: &[u64]) -> Vec<Node> {
    let nodes = addresses.iter().enumerate().map(|(number, address)| Node {
        order: number as u64,
        thread: ThreadIndex(0),
        site: SiteId(number as u32 + 1),
        context: ContextId::BOTTOM,
        address: PmAddress(*address),
        length: 8,
        bytes: [1; 8],
        kind: StoreKind::Plain,
    });
    nodes.collect()
}

fn at(order: u64, issued: usize) -> ConditionPoint<'static> {
    ConditionPoint {
        order,
        operation: 0,
        begin: 0,
        returned: false,
        issued,
        durable: &[],
    }
}

/// One chain for each node.
fn frontier(order: u64, count: u32) -> Frontier {
    let chains = (0..count).map(|node| Chain {
        nodes: vec![NodeId(node)],
    });
    Frontier::new(order, chains.collect(), Vec::new())
}

fn before(first: u64, later: u64) -> Conditions {
    let mut conditions = Conditions::default();
    let range = |start: u64| Range {
        start: PmAddress(start),
        length: 8,
    };
    let (first, later) = (
        conditions.range(range(first)),
        conditions.range(range(later)),
    );
    conditions.add(Rule::Po3, (first, SiteId(1)), (later, SiteId(2)));
    conditions
}

fn kept(strategy: &mut ByConditions, frontier: &Frontier) -> Vec<Vec<u32>> {
    strategy.cuts(frontier).map(|cut| cut.0).collect()
}

#[test]
fn a_violation_is_the_smallest_state_with_the_later_and_the_largest_without_the_first() {
    let nodes = nodes(&[0, 64, 128]);
    for (first, later) in [(0, 64), (64, 0)] {
        let conditions = before(first, later);
        let mut planner = Planner::new(&conditions, &nodes, 64, 8);
        assert!(planner.crash_point(&at(7, 3)));
        let mut strategy = planner.end();
        let states = kept(&mut strategy, &frontier(7, 3));
        let (x, y) = (first as usize / 64, later as usize / 64);
        let mut with = vec![0; 3];
        with[y] = 1;
        let mut without = vec![1; 3];
        without[x] = 0;
        assert!(states.contains(&with) && states.contains(&without));
        assert!(states.contains(&vec![1; 3]), "everything in order");
        assert_eq!(states.len(), 3);
        assert!(kept(&mut strategy, &frontier(8, 3)).is_empty());
    }
}

/// How often a store at 0 and one behind it, of which the first must be there before the second, give
/// a reason to try something.
fn reasons_met(later: u64, points: &[ConditionPoint<'_>]) -> BTreeMap<ChoiceReason, u64> {
    let nodes = nodes(&[0, later]);
    let conditions = before(0, later);
    let mut planner = Planner::new(&conditions, &nodes, 64, 8);
    for point in points {
        planner.crash_point(point);
    }
    planner.end().figures.met
}

#[test]
fn what_persists_in_order_anyway_is_no_violation() {
    let met = reasons_met(8, &[at(7, 2)]);
    assert_eq!(met, BTreeMap::from([(ChoiceReason::InOrder, 1)]));
}

#[test]
fn what_is_durable_cannot_be_lost() {
    let first_is_durable = ConditionPoint {
        durable: &[NodeId(0)],
        ..at(2, 2)
    };
    assert_eq!(reasons_met(64, &[at(1, 1), first_is_durable]).len(), 1);
}

#[test]
fn of_two_guardians_either_may_be_alone() {
    let mut conditions = Conditions::default();
    for start in [0, 64] {
        let start = PmAddress(start);
        let range = conditions.range(Range { start, length: 8 });
        conditions.guards(range, SiteId(1));
    }
    let nodes = nodes(&[0, 64]);
    let mut planner = Planner::new(&conditions, &nodes, 64, 8);
    planner.crash_point(&at(7, 2));
    let mut states = kept(&mut planner.end(), &frontier(7, 2));
    states.sort();
    assert_eq!(states, [vec![0, 1], vec![1, 0], vec![1, 1]]);
}

#[test]
fn what_a_returned_operation_left_pending_may_be_lost() {
    let nodes = nodes(&[0, 64]);
    let conditions = Conditions::default();
    let mut planner = Planner::new(&conditions, &nodes, 64, 8);
    planner.crash_point(&ConditionPoint {
        returned: true,
        ..at(7, 2)
    });
    let mut states = kept(&mut planner.end(), &frontier(7, 2));
    states.sort();
    assert_eq!(states, [vec![0, 0], vec![0, 1], vec![1, 0], vec![1, 1]]);
}

#[test]
fn conditions_that_are_given_name_places() {
    let nodes = nodes(&[0, 64]);
    let conditions = Conditions::default();
    let mut planner = Planner::new(&conditions, &nodes, 64, 8);
    planner.give(Given {
        first: FxHashSet::from_iter([SiteId(2)]),
        later: FxHashSet::from_iter([SiteId(1)]),
    });
    planner.crash_point(&at(7, 2));
    let states = kept(&mut planner.end(), &frontier(7, 2));
    assert!(states.contains(&vec![1, 0]));
}

#[test]
fn of_a_kind_the_first_are_taken_and_then_ever_fewer() {
    let mut met = Rarely::default();
    let taken: Vec<u64> = (0..10_000).filter(|_| met.takes(8)).collect();
    assert_eq!(taken[..8], [0, 1, 2, 3, 4, 5, 6, 7]);
    assert!((20..60).contains(&taken.len()), "{}", taken.len());
    let mut all = Rarely::default();
    assert_eq!((0..100).filter(|_| all.takes(0)).count(), 100);
}
