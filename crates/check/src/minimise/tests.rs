//! What small failures come from, of a toy.

use super::*;
use crate::image::ImageHash;
use crate::server::End;
use crate::table::Sighting;
use crate::toy::{At, BAD, NEW, OLD, Toy, span};

/// Explains cuts, each of a moment.
fn causes(toy: &Toy, cuts: &[(usize, &[u32])]) -> Vec<Cause> {
    let failing = cuts.iter().map(|(point, cut)| Failing {
        sighting: Sighting {
            point: *point,
            phase: toy.moments[*point].phase,
            cut: Cut(cut.to_vec()),
            variant: 0,
            found_by: "test",
        },
        key: toy.key(toy.moments[*point].phase, ImageHash(u128::MAX)),
        observed: Observed {
            worlds: crate::judge::Worlds::NONE,
            end: End::Exited(0),
        },
    });
    let explored = Explored {
        failing: failing.collect(),
        ..Explored::default()
    };
    minimise(toy, explored, &mut toy.runs()).unwrap().causes
}

/// Kind, places that were needed, and the one that went ahead.
fn told(toy: &Toy, cause: &Cause) -> (Kind, Vec<u64>, Option<u64>) {
    let needed = cause.needed.iter().map(|id| toy.site(*id));
    (
        cause.kind,
        needed.collect(),
        cause.ahead.map(|id| toy.site(id)),
    )
}

#[test]
fn what_is_lost_only_because_it_lies_behind_is_not_needed() {
    // Store 1 lies in the line of store 0, and nobody misses it.
    let toy = Toy {
        sites: vec![10, 11, 12],
        spans: vec![span(0, 3)],
        moments: vec![
            At {
                phase: Phase::In(0),
                chains: vec![vec![0, 1], vec![2]],
            },
            At {
                phase: Phase::After(0),
                chains: vec![vec![0, 1], vec![2]],
            },
        ],
        prints: |there| match (there.contains(&0), there.contains(&2)) {
            (true, true) => NEW,
            (false, true) => BAD,
            (_, false) => OLD,
        },
    };
    let ordering = causes(&toy, &[(0, &[0, 1])]);
    let told_of: Vec<_> = ordering.iter().map(|cause| told(&toy, cause)).collect();
    assert_eq!(told_of, [(Kind::Ordering, vec![10], Some(12))]);
    let toy = Toy {
        prints: |there| if there.contains(&0) { NEW } else { OLD },
        ..toy
    };
    let durability = causes(&toy, &[(1, &[0, 1])]);
    let told_of: Vec<_> = durability.iter().map(|cause| told(&toy, cause)).collect();
    assert_eq!(told_of, [(Kind::Durability, vec![10], None)]);
}

#[test]
fn what_an_earlier_operation_left_behind_is_late_whatever_shows_it() {
    // Store 0 is of an operation that returned. Where it is lost, store 1 shows that. Store 2 does
    // harm of its own, so that giving back store 0 does not help where that is kept.
    let toy = Toy {
        sites: vec![10, 11, 12],
        spans: vec![span(0, 1), span(1, 3)],
        moments: vec![At {
            phase: Phase::In(1),
            chains: vec![vec![0], vec![1], vec![2]],
        }],
        prints: |there| match there {
            [] | [0] => OLD,
            [0, 1] => NEW,
            _ => BAD,
        },
    };
    let found = causes(&toy, &[(0, &[0, 1, 0])]);
    let told_of: Vec<_> = found.iter().map(|cause| told(&toy, cause)).collect();
    assert_eq!(told_of, [(Kind::Durability, vec![10], None)]);
}

#[test]
fn an_operation_that_never_makes_it_whole_has_a_cause_of_its_own() {
    // Both operations store at place 10 first; the second goes on at another place.
    let toy = Toy {
        sites: vec![10, 11, 10, 12],
        spans: vec![span(0, 2), span(2, 4)],
        moments: vec![
            At {
                phase: Phase::In(0),
                chains: vec![vec![0], vec![1]],
            },
            At {
                phase: Phase::In(1),
                chains: vec![vec![2], vec![3]],
            },
        ],
        prints: |there| match there {
            [0] | [2] | [1] | [3] => BAD,
            [] => OLD,
            _ => NEW,
        },
    };
    let found = causes(&toy, &[(0, &[1, 0]), (1, &[1, 0])]);
    let told_of: Vec<_> = found.iter().map(|cause| told(&toy, cause)).collect();
    assert_eq!(
        told_of,
        [
            (Kind::Atomicity, vec![11], Some(10)),
            (Kind::Atomicity, vec![12], Some(10)),
        ]
    );
}

#[test]
fn two_stores_of_one_place_that_belong_together_explain_what_falls_between() {
    // A lock is taken and given back at place 10; something else comes in between, which in the
    // second operation happens to help.
    let toy = Toy {
        sites: vec![10, 10, 10, 11, 10],
        spans: vec![span(0, 2), span(2, 5)],
        moments: vec![
            At {
                phase: Phase::In(0),
                chains: vec![vec![0], vec![1]],
            },
            At {
                phase: Phase::In(1),
                chains: vec![vec![2], vec![3], vec![4]],
            },
        ],
        prints: |there| match there {
            [0] | [1] | [2] | [3] | [4] => BAD,
            [] => OLD,
            _ => NEW,
        },
    };
    let found = causes(&toy, &[(0, &[1, 0]), (1, &[1, 0, 0])]);
    let told_of: Vec<_> = found.iter().map(|cause| told(&toy, cause)).collect();
    assert_eq!(told_of, [(Kind::Atomicity, vec![10], Some(10))]);
    assert_eq!(found[0].states, 2);
}
