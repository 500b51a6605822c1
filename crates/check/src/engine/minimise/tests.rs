//! What small failures come from, of a fake medium.

use super::*;
use crate::engine::fake_medium::{BAD, FakeCrashPoint, FakeMedium, NEW, OLD, prints, span};
use crate::engine::medium::DurableState as _;
use crate::engine::result_table::Sighting;

mod belonging;

/// The failing states among these cuts, each of a crash point.
fn failing(medium: &FakeMedium, cuts: &[(usize, Cut)]) -> Vec<Failing> {
    let mut failing = Vec::new();
    let mut checker = medium.checker();
    let mut durable = 0;
    medium.crash_points(&mut |point, _| {
        let new = &point.durable[durable..];
        durable = point.durable.len();
        checker.advance(new, point.order).unwrap();
        for (_, cut) in cuts.iter().filter(|(index, _)| *index == point.index) {
            let kept = point.frontier().kept(cut);
            let ended = checker.run(&kept, point.phase, false).unwrap();
            let observed = medium.observe(point.phase, &ended);
            if observed.fails(point.phase) {
                failing.push(Failing {
                    sighting: Sighting {
                        point: point.index,
                        phase: point.phase,
                        cut: cut.clone(),
                        variant: 0,
                        found_by: "test",
                    },
                    key: medium.key(point.phase, checker.hash_with(&kept)),
                    observed,
                });
            }
        }
        ControlFlow::Continue(())
    });
    failing
}

fn explain(medium: &FakeMedium, failing: Vec<Failing>) -> Causes {
    let explored = Explored {
        failing,
        ..Explored::default()
    };
    minimise(medium, explored, &mut medium.checker()).unwrap()
}

/// Explains cuts, each of a crash point.
fn causes(medium: &FakeMedium, cuts: &[(usize, &[u32])]) -> Vec<Cause> {
    let cuts: Vec<(usize, Cut)> = cuts
        .iter()
        .map(|(point, cut)| (*point, Cut(cut.to_vec())))
        .collect();
    let failing = failing(medium, &cuts);
    assert_eq!(failing.len(), cuts.len(), "each of them fails");
    explain(medium, failing).causes
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
        prints: prints(|there| match (there.contains(&0), there.contains(&2)) {
            (true, true) => NEW,
            (false, true) => BAD,
            (_, false) => OLD,
        }),
    };
    let ordering = causes(&medium, &[(0, &[0, 1])]);
    let causes_found: Vec<_> = ordering
        .iter()
        .map(|cause| summary(&medium, cause))
        .collect();
    assert_eq!(causes_found, [(CauseKind::Ordering, vec![10], Some(12))]);
    let medium = FakeMedium {
        prints: prints(|there| if there.contains(&0) { NEW } else { OLD }),
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
        prints: prints(|there| match there {
            [] | [0] => OLD,
            [0, 1] => NEW,
            _ => BAD,
        }),
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
        prints: prints(|there| match there {
            [0] | [2] | [1] | [3] => BAD,
            [] => OLD,
            _ => NEW,
        }),
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
        prints: prints(|there| match there {
            [0] | [1] | [2] | [3] | [4] => BAD,
            [] => OLD,
            _ => NEW,
        }),
    };
    let found = causes(&medium, &[(0, &[1, 0]), (1, &[1, 0, 0])]);
    let causes_found: Vec<_> = found.iter().map(|cause| summary(&medium, cause)).collect();
    assert_eq!(causes_found, [(CauseKind::Atomicity, vec![10], Some(10))]);
    assert_eq!(found[0].states, 2);
}
