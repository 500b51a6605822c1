//! Each failing state belongs to a cause: of random programs that have several bugs at once, every
//! state that fails is explained, by a cause that it contains and that shows a failure like its own.

use super::*;
use crate::engine::fake_medium::Prints;
use crashpoint_persist::graph::{Frontier, Implication};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What is printed by a program whose bug shows, by bug.
const MESSAGES: [&[u8]; 3] = [b"damaged", b"lost", b"refused"];

/// A state without some nodes and with others fails.
#[derive(Clone, Debug)]
struct Bug {
    lost: BTreeSet<u32>,
    there: BTreeSet<u32>,
    message: usize,
}

impl Bug {
    fn shows(&self, there: &[u32]) -> bool {
        self.lost.iter().all(|id| !there.contains(id))
            && self.there.iter().all(|id| there.contains(id))
    }
}

#[derive(Clone, Debug)]
struct Program {
    sites: Vec<u64>,
    /// Nodes issued before each operation ended.
    ends: Vec<usize>,
    /// The chain of each node.
    chains: Vec<usize>,
    /// How many nodes are durable when an operation has ended.
    durable: usize,
    /// Nodes that cannot be there without another one.
    implied: Vec<(usize, usize)>,
    bugs: Vec<Bug>,
}

fn programs() -> impl Strategy<Value = Program> {
    (2..8_usize, 1..4_usize).prop_flat_map(|(nodes, operations)| {
        let some = move || proptest::collection::btree_set(0..nodes as u32, 0..3);
        let bug = (some(), some(), 0..MESSAGES.len()).prop_map(|(lost, there, message)| Bug {
            lost,
            there,
            message,
        });
        (
            proptest::collection::vec(0..6_u64, nodes),
            proptest::collection::vec(0..=nodes, operations),
            proptest::collection::vec(0..4_usize, nodes),
            0..=nodes / 2,
            proptest::collection::vec((0..nodes, 0..nodes), 0..2),
            proptest::collection::vec(bug, 1..4),
        )
            .prop_map(|(sites, mut ends, chains, durable, implied, bugs)| {
                ends.sort_unstable();
                Program {
                    sites,
                    ends,
                    chains,
                    durable,
                    implied,
                    bugs,
                }
            })
    })
}

impl Program {
    fn medium(&self) -> FakeMedium {
        let begin = |operation: usize| operation.checked_sub(1).map_or(0, |one| self.ends[one]);
        let spans = (0..self.ends.len()).map(|one| span(begin(one), self.ends[one]));
        let mut crash_points = Vec::new();
        let mut durable = 0;
        for operation in 0..self.ends.len() {
            let (begin, end) = (begin(operation), self.ends[operation]);
            for issued in begin..=end {
                crash_points.push(self.crash_point(
                    Phase::InFlight(operation as u32),
                    durable,
                    issued,
                ));
            }
            crash_points.push(self.crash_point(Phase::Returned(operation as u32), durable, end));
            durable = durable.max(self.durable.min(end));
        }
        FakeMedium {
            sites: self.sites.clone(),
            spans: spans.collect(),
            crash_points,
            prints: self.prints(),
        }
    }

    fn crash_point(&self, phase: Phase, durable: usize, issued: usize) -> FakeCrashPoint {
        let pending = |chain: usize| {
            let nodes = (durable..issued).filter(move |node| self.chains[*node] == chain);
            nodes.map(|node| node as u32).collect::<Vec<u32>>()
        };
        let chains: Vec<Vec<u32>> = (0..4)
            .map(pending)
            .filter(|chain| !chain.is_empty())
            .collect();
        let place = |node: usize| {
            chains.iter().enumerate().find_map(|(chain, nodes)| {
                let at = nodes.iter().position(|one| *one == node as u32)?;
                Some((chain as u32, at as u32))
            })
        };
        let implications = self.implied.iter().filter_map(|(one, other)| {
            // An older node never needs a younger one.
            let (younger, older) = (place(*one.max(other))?, place(*one.min(other))?);
            (younger.0 != older.0).then_some(Implication {
                if_chain: younger.0,
                if_more_than: younger.1,
                then_chain: older.0,
                then_least: older.1 + 1,
            })
        });
        FakeCrashPoint {
            implications: implications.collect(),
            chains: chains.clone(),
            phase,
            durable: (0..durable as u32).collect(),
            issued,
        }
    }

    /// The first bug that shows says so. Otherwise the operation has happened if its last node is
    /// there.
    fn prints(&self) -> Prints {
        let program = self.clone();
        Arc::new(move |phase, there| {
            if let Some(bug) = program.bugs.iter().find(|bug| bug.shows(there)) {
                return MESSAGES[bug.message];
            }
            let operation = phase.operation().map_or(0, |operation| operation as usize);
            let begin = operation.checked_sub(1).map_or(0, |one| program.ends[one]);
            let end = program.ends[operation];
            let happened = begin == end || there.contains(&(end as u32 - 1));
            if happened { NEW } else { OLD }
        })
    }
}

/// Whether a state has, by place in the program, what a cause is made of.
fn is_in(
    medium: &FakeMedium,
    cause: &Cause,
    frontier: &Frontier,
    state: &Failing,
    at: &FakeCrashPoint,
) -> bool {
    let sites =
        |nodes: &[NodeId]| -> BTreeSet<u64> { nodes.iter().map(|id| medium.site(*id)).collect() };
    let mut there = frontier.kept(&state.sighting.cut);
    there.extend(at.durable.iter().map(|id| NodeId(*id)));
    let absent = (0..medium.sites.len() as u32).map(NodeId);
    let absent: Vec<NodeId> = absent.filter(|id| !there.contains(id)).collect();
    let (there, absent) = (sites(&there), sites(&absent));
    let ahead = cause
        .ahead
        .is_none_or(|id| there.contains(&medium.site(id)));
    let needed = sites(&cause.needed);
    ahead && (needed.is_empty() || needed.iter().any(|site| absent.contains(site)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12_000))]

    #[test]
    fn each_failing_state_belongs_to_a_cause_with_a_failure_like_its_own(program in programs()) {
        let medium = program.medium();
        let mut cuts: Vec<(usize, Cut)> = Vec::new();
        let mut frontiers: Vec<Frontier> = Vec::new();
        medium.crash_points(&mut |point, _| {
            let frontier = point.frontier();
            cuts.extend(frontier.cuts().map(|cut| (point.index, cut)));
            frontiers.push(frontier.clone());
            ControlFlow::Continue(())
        });
        let failing = failing(&medium, &cuts);
        let explained = explain(&medium, failing.clone());
        let counted: u64 = explained.causes.iter().map(|cause| cause.states).sum();
        prop_assert_eq!(counted + explained.unexplained, failing.len() as u64);
        // Of more than that, some are not looked at and counted as such.
        let at = |point| failing.iter().filter(|state| state.sighting.point == point).count();
        if (0..frontiers.len()).all(|point| at(point) <= MAX_IN_VAIN_PER_POINT) {
            prop_assert_eq!(explained.unexplained, 0);
        }
        for cause in &explained.causes {
            let frontier = &frontiers[cause.state.point];
            let mut states = frontier.cuts().map(|cut| frontier.kept(&cut));
            let kept: Vec<NodeId> = cause.state.kept.iter().map(|id| NodeId(*id)).collect();
            prop_assert!(states.any(|state| state == kept), "{cause:?} cannot be");
        }
        for state in &failing {
            let at = state.sighting.point;
            let belongs = explained.causes.iter().any(|cause| {
                cause.shows(&state.observed)
                    && is_in(&medium, cause, &frontiers[at], state, &medium.crash_points[at])
            });
            let causes = &explained.causes;
            prop_assert!(
                belongs || explained.unexplained > 0,
                "{state:?} belongs to none of {causes:#?}"
            );
        }
    }
}
