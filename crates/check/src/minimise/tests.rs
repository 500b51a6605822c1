//! A toy: what a run finds is decided by which stores are there.

use super::*;
use crate::image::ImageHash;
use crate::pin::Pinned;
use crate::server::{End, Ended, Limits};
use crate::subject::{Content, Place, Show};
use crate::table::{Key, Sighting};
use crate::timeline::Span;
use crashpoint_persist::graph::Chain;
use std::time::Duration;

const BAD: &[u8] = b"bad";
const OLD: &[u8] = b"old";
const NEW: &[u8] = b"new";

/// Node `i` comes from place `sites[i]`; nothing becomes durable.
struct Toy {
    sites: Vec<u64>,
    spans: Vec<Span>,
    moments: Vec<At>,
    /// What a run prints where these nodes are there.
    prints: fn(&[u32]) -> &'static [u8],
}

struct At {
    phase: Phase,
    chains: Vec<Vec<u32>>,
}

impl Subject for Toy {
    type Patch = Vec<NodeId>;
    type Content = Present;

    fn before(&self) -> Present {
        Present
    }

    fn moments(&self, show: &mut Show<'_>) {
        for (index, at) in self.moments.iter().enumerate() {
            let chains = at.chains.iter().map(|nodes| Chain {
                nodes: nodes.iter().map(|id| NodeId(*id)).collect(),
            });
            let frontier = Frontier::new(index as u64, chains.collect(), Vec::new());
            let moment = Moment {
                index,
                order: index as u64,
                phase: at.phase,
                returned: matches!(at.phase, Phase::After(_)),
                issued: self.span(at.phase.list().0 - 1).end,
                durable: &[],
                frontier: &|| frontier.clone(),
            };
            if show(&moment, &mut Vec::new()).is_break() {
                return;
            }
        }
    }

    fn points(&self) -> usize {
        self.moments.len()
    }

    fn nodes(&self) -> usize {
        self.sites.len()
    }

    fn span(&self, operation: u32) -> Span {
        self.spans[operation as usize]
    }

    fn list(&self, phase: Phase) -> ListId {
        phase.list()
    }

    fn key(&self, phase: Phase, image: ImageHash) -> Key {
        Key {
            list: phase.list(),
            acknowledged: false,
            image,
        }
    }

    fn varying(&self, _: ListId) -> Vec<Place> {
        Vec::new()
    }

    fn site(&self, node: NodeId) -> u64 {
        self.sites[node.index()]
    }

    fn is_same_place(&self, _: NodeId, _: NodeId) -> bool {
        false
    }

    fn observe(&self, _: Phase, ended: &Ended) -> Observed {
        Observed {
            skipped: ended.stdout == OLD,
            done: ended.stdout == NEW,
            end: ended.end,
        }
    }
}

struct Present;

impl Content for Present {
    type Patch = Vec<NodeId>;

    fn advance(&mut self, _: &[NodeId], _: u64) -> Result<(), WorkerError> {
        Ok(())
    }

    fn variants(&mut self, _: &[NodeId]) -> u8 {
        1
    }

    fn patch(&mut self, kept: &[NodeId], _: u8) -> Vec<NodeId> {
        kept.to_vec()
    }

    fn hash_with(&self, patch: &Vec<NodeId>) -> ImageHash {
        ImageHash(patch.iter().map(|id| 1 << id.0).sum())
    }

    fn value(&self, _: &Vec<NodeId>, _: Place) -> u64 {
        0
    }
}

struct Runs {
    prints: fn(&[u32]) -> &'static [u8],
    limits: Limits,
}

impl Content for Runs {
    type Patch = Vec<NodeId>;

    fn advance(&mut self, _: &[NodeId], _: u64) -> Result<(), WorkerError> {
        Ok(())
    }

    fn variants(&mut self, kept: &[NodeId]) -> u8 {
        Present.variants(kept)
    }

    fn patch(&mut self, kept: &[NodeId], variant: u8) -> Vec<NodeId> {
        Present.patch(kept, variant)
    }

    fn hash_with(&self, patch: &Vec<NodeId>) -> ImageHash {
        Present.hash_with(patch)
    }

    fn value(&self, patch: &Vec<NodeId>, place: Place) -> u64 {
        Present.value(patch, place)
    }
}

impl Checker for Runs {
    fn rewind(&mut self) -> Result<(), WorkerError> {
        Ok(())
    }

    fn run(&mut self, patch: &Vec<NodeId>, _: Phase, _: bool) -> Result<Ended, WorkerError> {
        let there: Vec<u32> = patch.iter().map(|id| id.0).collect();
        Ok(Ended {
            end: End::Exited(0),
            stdout: (self.prints)(&there).to_vec(),
            stderr: Vec::new(),
            notes: 0,
            left_processes: false,
            wall: Duration::ZERO,
            processor: Duration::ZERO,
        })
    }

    fn reads(&self, _: &[Place]) -> Result<Option<Vec<Place>>, WorkerError> {
        Ok(None)
    }

    fn limits(&mut self) -> &mut Limits {
        &mut self.limits
    }

    fn stay(&self) -> Pinned {
        Pinned::to(None)
    }

    fn restarts(&self) -> u32 {
        0
    }
}

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
            skipped: false,
            done: false,
            end: End::Exited(0),
        },
    });
    let explored = Explored {
        failing: failing.collect(),
        ..Explored::default()
    };
    let mut runs = Runs {
        prints: toy.prints,
        limits: Limits::default(),
    };
    minimise(toy, explored, &mut runs).unwrap().causes
}

fn span(begin: usize, end: usize) -> Span {
    Span { begin, end }
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
