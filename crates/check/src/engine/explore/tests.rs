//! Small explorations, of a fake medium.

use super::*;
use crate::engine::fake_medium::{FakeCrashPoint, FakeMedium, NEW, OLD, prints, span};
use crashpoint_persist::graph::{Cut, Frontier};

struct Silent;

impl Watcher for Silent {
    fn progress(&self, _: usize, _: usize, _: u64, _: u64) {}
}

/// Everything lost, at one point.
struct NothingAt(u64);

impl Strategy for NothingAt {
    fn name(&self) -> &'static str {
        "test"
    }

    fn wants(&self, order: u64) -> bool {
        order == self.0
    }

    fn cuts<'a>(&'a mut self, frontier: &'a Frontier) -> Box<dyn Iterator<Item = Cut> + 'a> {
        Box::new(std::iter::once(frontier.none()))
    }
}

#[test]
fn what_was_harmful_to_lose_once_is_kept_wherever_the_same_place_stores_it() {
    // Each operation leaves something behind; the second from the same place as the first.
    let after = |operation: u32| FakeCrashPoint::new(Phase::Returned(operation), &[&[operation]]);
    let medium = FakeMedium {
        sites: vec![10, 10, 12],
        spans: vec![span(0, 1), span(1, 2), span(2, 3)],
        crash_points: vec![after(0), after(1), after(2)],
        prints: prints(|there| if there.is_empty() { OLD } else { NEW }),
    };
    let exploration = Exploration {
        medium: &medium,
        limits: Budget::default(),
        prune: false,
        count_lost: false,
        journal: None,
        known: &[],
        watcher: &Silent,
    };
    let mut strategies: Vec<Box<dyn Strategy>> = vec![Box::new(NothingAt(0))];
    let explored = explore(&exploration, &mut strategies, &mut [medium.checker()]).unwrap();
    assert_eq!(explored.failing.len(), 1);
    let assumed: Vec<(usize, u32)> = explored
        .assumptions
        .iter()
        .map(|assumption| (assumption.point, assumption.node.0))
        .collect();
    assert_eq!(assumed, [(0, 0), (1, 1)]);
}
