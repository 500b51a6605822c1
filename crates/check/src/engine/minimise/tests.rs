//! What small failures come from, of a fake medium.

use super::*;
use crate::engine::fake_medium::{BAD, FakeCrashPoint, FakeMedium, NEW, OLD, span};
use crate::engine::medium::StateHash;
use crate::engine::result_table::Sighting;
use crate::process::run::RunEnd;

/// Explains cuts, each of a crash point.
fn causes(medium: &FakeMedium, cuts: &[(usize, &[u32])]) -> Vec<Cause> {
    let failing = cuts.iter().map(|(point, cut)| Failing {
        sighting: Sighting {
            point: *point,
            phase: medium.crash_points[*point].phase,
            cut: Cut(cut.to_vec()),
            variant: 0,
            found_by: "test",
        },
        key: medium.key(medium.crash_points[*point].phase, StateHash(u128::MAX)),
        observed: Observed {
            outcomes: crate::engine::outcome::OutcomeSet::NONE,
            end: RunEnd::Exited(0),
        },
    });
    let explored = Explored {
        failing: failing.collect(),
        ..Explored::default()
    };
    minimise(medium, explored, &mut medium.checker())
        .unwrap()
        .causes
}

/// Kind, places that were needed, and the one that went ahead.
fn summary(medium: &FakeMedium, cause: &Cause) -> (CauseKind, Vec<u64>, Option<u64>) {
    let needed = cause.needed.iter().map(|id| medium.site(*id));
    (
        cause.kind,
        needed.collect(),
        cause.ahead.map(|id| medium.site(id)),
    )
}

#[test]
fn what_is_lost_only_because_it_lies_behind_is_not_needed() {
    // Store 1 lies in the line of store 0, and nobody misses it.
    let medium = FakeMedium {
        sites: vec![10, 11, 12],
        spans: vec![span(0, 3)],
        crash_points: vec![
            FakeCrashPoint::new(Phase::InFlight(0), &[&[0, 1], &[2]]),
            FakeCrashPoint::new(Phase::Returned(0), &[&[0, 1], &[2]]),
        ],
        prints: |there| match (there.contains(&0), there.contains(&2)) {
            (true, true) => NEW,
            (false, true) => BAD,
            (_, false) => OLD,
        },
    };
    let ordering = causes(&medium, &[(0, &[0, 1])]);
    let causes_found: Vec<_> = ordering
        .iter()
        .map(|cause| summary(&medium, cause))
        .collect();
    assert_eq!(causes_found, [(CauseKind::Ordering, vec![10], Some(12))]);
    let medium = FakeMedium {
        prints: |there| if there.contains(&0) { NEW } else { OLD },
        ..medium
    };
    let durability = causes(&medium, &[(1, &[0, 1])]);
    let causes_found: Vec<_> = durability
        .iter()
        .map(|cause| summary(&medium, cause))
        .collect();
    assert_eq!(causes_found, [(CauseKind::Durability, vec![10], None)]);
}

#[test]
fn what_an_earlier_operation_left_behind_is_late_whatever_shows_it() {
    // Store 0 is of an operation that returned. Where it is lost, store 1 shows that. Store 2 does
    // harm of its own, so that giving back store 0 does not help where that is kept.
    let medium = FakeMedium {
        sites: vec![10, 11, 12],
        spans: vec![span(0, 1), span(1, 3)],
        crash_points: vec![FakeCrashPoint::new(Phase::InFlight(1), &[&[0], &[1], &[2]])],
        prints: |there| match there {
            [] | [0] => OLD,
            [0, 1] => NEW,
            _ => BAD,
        },
    };
    let found = causes(&medium, &[(0, &[0, 1, 0])]);
    let causes_found: Vec<_> = found.iter().map(|cause| summary(&medium, cause)).collect();
    assert_eq!(causes_found, [(CauseKind::Durability, vec![10], None)]);
}

#[test]
fn an_operation_that_never_makes_it_whole_has_a_cause_of_its_own() {
    // Both operations store at place 10 first; the second goes on at another place.
    let medium = FakeMedium {
        sites: vec![10, 11, 10, 12],
        spans: vec![span(0, 2), span(2, 4)],
        crash_points: vec![
            FakeCrashPoint::new(Phase::InFlight(0), &[&[0], &[1]]),
            FakeCrashPoint::new(Phase::InFlight(1), &[&[2], &[3]]),
        ],
        prints: |there| match there {
            [0] | [2] | [1] | [3] => BAD,
            [] => OLD,
            _ => NEW,
        },
    };
    let found = causes(&medium, &[(0, &[1, 0]), (1, &[1, 0])]);
    let causes_found: Vec<_> = found.iter().map(|cause| summary(&medium, cause)).collect();
    assert_eq!(
        causes_found,
        [
            (CauseKind::Atomicity, vec![11], Some(10)),
            (CauseKind::Atomicity, vec![12], Some(10)),
        ]
    );
}

#[test]
fn two_stores_of_one_place_that_belong_together_explain_what_falls_between() {
    // A lock is taken and given back at place 10; something else comes in between, which in the
    // second operation happens to help.
    let medium = FakeMedium {
        sites: vec![10, 10, 10, 11, 10],
        spans: vec![span(0, 2), span(2, 5)],
        crash_points: vec![
            FakeCrashPoint::new(Phase::InFlight(0), &[&[0], &[1]]),
            FakeCrashPoint::new(Phase::InFlight(1), &[&[2], &[3], &[4]]),
        ],
        prints: |there| match there {
            [0] | [1] | [2] | [3] | [4] => BAD,
            [] => OLD,
            _ => NEW,
        },
    };
    let found = causes(&medium, &[(0, &[1, 0]), (1, &[1, 0, 0])]);
    let causes_found: Vec<_> = found.iter().map(|cause| summary(&medium, cause)).collect();
    assert_eq!(causes_found, [(CauseKind::Atomicity, vec![10], Some(10))]);
    assert_eq!(found[0].states, 2);
}
