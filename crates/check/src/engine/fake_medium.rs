//! A medium for tests: what a run prints is decided by which stores are there.

use crate::engine::crash_points::{CrashPoint, CrashPointVisitor, Phase, Span, SuffixId};
use crate::engine::medium::{CheckError, Checker, DurableState, Medium, ReadLocation, StateHash};
use crate::engine::outcome::{Observed, OutcomeSet, RecoveryOutcome};
use crate::engine::result_table::Key;
use crate::process::pin::Pinned;
use crate::process::run::{FinishedRun, Limits, RunEnd};
use crashpoint_persist::graph::{Chain, Frontier, NodeId};
use std::cell::LazyCell;
use std::time::Duration;

pub const BAD: &[u8] = b"bad";
pub const OLD: &[u8] = b"old";
pub const NEW: &[u8] = b"new";

/// Node `i` comes from place `sites[i]`; nothing becomes durable.
pub struct FakeMedium {
    pub sites: Vec<u64>,
    pub spans: Vec<Span>,
    pub crash_points: Vec<FakeCrashPoint>,
    /// What a run prints where these nodes are there.
    pub prints: fn(&[u32]) -> &'static [u8],
}

pub struct FakeCrashPoint {
    pub phase: Phase,
    pub chains: Vec<Vec<u32>>,
}

impl FakeCrashPoint {
    /// A crash point at which these nodes are pending.
    pub fn new(phase: Phase, chains: &[&[u32]]) -> FakeCrashPoint {
        FakeCrashPoint {
            phase,
            chains: chains.iter().map(|chain| chain.to_vec()).collect(),
        }
    }
}

impl Medium for FakeMedium {
    type Patch = Vec<NodeId>;
    type DurableState = FakeState;

    fn before(&self) -> FakeState {
        FakeState
    }

    fn crash_points(&self, visit: &mut CrashPointVisitor<'_>) {
        for (index, at) in self.crash_points.iter().enumerate() {
            let chains = at.chains.iter().map(|nodes| Chain {
                nodes: nodes.iter().map(|id| NodeId(*id)).collect(),
            });
            let frontier = Frontier::new(index as u64, chains.collect(), Vec::new());
            let frontier = || frontier.clone();
            let point = CrashPoint {
                index,
                order: index as u64,
                phase: at.phase,
                returned: matches!(at.phase, Phase::Returned(_)),
                issued: self.span(at.phase.suffix().0 - 1).end,
                durable: &[],
                frontier: LazyCell::new(&frontier),
            };
            if visit(&point, &mut Vec::new()).is_break() {
                return;
            }
        }
    }

    fn points(&self) -> usize {
        self.crash_points.len()
    }

    fn nodes(&self) -> usize {
        self.sites.len()
    }

    fn started(&self) -> usize {
        self.spans.first().map_or(self.nodes(), |first| first.begin)
    }

    fn span(&self, operation: u32) -> Span {
        self.spans[operation as usize]
    }

    fn suffix(&self, phase: Phase) -> SuffixId {
        phase.suffix()
    }

    fn key(&self, phase: Phase, image: StateHash) -> Key {
        Key {
            suffix: phase.suffix(),
            acknowledged: false,
            image,
        }
    }

    fn varying(&self, _: SuffixId) -> Vec<ReadLocation> {
        Vec::new()
    }

    fn site(&self, node: NodeId) -> u64 {
        self.sites[node.index()]
    }

    fn is_same_place(&self, _: NodeId, _: NodeId) -> bool {
        false
    }

    fn observe(&self, _: Phase, ended: &FinishedRun) -> Observed {
        let outcomes = match &ended.stdout {
            printed if printed == OLD => OutcomeSet::NONE.with(RecoveryOutcome::all_rolled_back(1)),
            printed if printed == NEW => OutcomeSet::COMMITTED,
            _ => OutcomeSet::NONE,
        };
        Observed {
            outcomes,
            end: ended.end,
        }
    }
}

pub struct FakeState;

impl DurableState for FakeState {
    type Patch = Vec<NodeId>;

    fn advance(&mut self, _: &[NodeId], _: u64) -> Result<(), CheckError> {
        Ok(())
    }

    fn variants(&mut self, _: &[NodeId]) -> u8 {
        1
    }

    fn patch(&mut self, kept: &[NodeId], _: u8) -> Vec<NodeId> {
        kept.to_vec()
    }

    fn hash_with(&self, patch: &Vec<NodeId>) -> StateHash {
        StateHash(patch.iter().map(|id| 1 << id.0).sum())
    }

    fn value(&self, _: &Vec<NodeId>, _: ReadLocation) -> u64 {
        0
    }
}

pub struct FakeChecker {
    prints: fn(&[u32]) -> &'static [u8],
    limits: Limits,
}

impl DurableState for FakeChecker {
    type Patch = Vec<NodeId>;

    fn advance(&mut self, _: &[NodeId], _: u64) -> Result<(), CheckError> {
        Ok(())
    }

    fn variants(&mut self, kept: &[NodeId]) -> u8 {
        FakeState.variants(kept)
    }

    fn patch(&mut self, kept: &[NodeId], variant: u8) -> Vec<NodeId> {
        FakeState.patch(kept, variant)
    }

    fn hash_with(&self, patch: &Vec<NodeId>) -> StateHash {
        FakeState.hash_with(patch)
    }

    fn value(&self, patch: &Vec<NodeId>, place: ReadLocation) -> u64 {
        FakeState.value(patch, place)
    }
}

impl Checker for FakeChecker {
    fn rewind(&mut self) -> Result<(), CheckError> {
        Ok(())
    }

    fn run(&mut self, patch: &Vec<NodeId>, _: Phase, _: bool) -> Result<FinishedRun, CheckError> {
        let there: Vec<u32> = patch.iter().map(|id| id.0).collect();
        Ok(FinishedRun {
            end: RunEnd::Exited(0),
            stdout: (self.prints)(&there).to_vec(),
            stderr: Vec::new(),
            notes: 0,
            left_processes: false,
            wall: Duration::ZERO,
            processor: Duration::ZERO,
        })
    }

    fn reads(&self, _: &[ReadLocation]) -> Result<Option<Vec<ReadLocation>>, CheckError> {
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

impl FakeMedium {
    pub fn checker(&self) -> FakeChecker {
        FakeChecker {
            prints: self.prints,
            limits: Limits::default(),
        }
    }
}

pub fn span(begin: usize, end: usize) -> Span {
    Span { begin, end }
}
