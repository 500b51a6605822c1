//! A medium for tests: what a run prints is decided by which stores are there.

use crate::engine::crash_points::{CrashPoint, CrashPointVisitor, Phase, Span, SuffixId};
use crate::engine::medium::{CheckError, Checker, DurableState, Medium, ReadLocation, StateHash};
use crate::engine::outcome::{Observed, OutcomeSet, RecoveryOutcome};
use crate::engine::result_table::Key;
use crate::process::message::MessageKind;
use crate::process::pin::Pinned;
use crate::process::run::{FinishedRun, Limits, RunEnd};
use crashpoint_persist::graph::{Chain, Frontier, Implication, NodeId};
use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::sync::Arc;

pub const BAD: &[u8] = b"bad";
pub const OLD: &[u8] = b"old";
pub const NEW: &[u8] = b"new";

/// What a run prints in a phase where these nodes are there.
pub type Prints = Arc<dyn Fn(Phase, &[u32]) -> &'static [u8] + Send + Sync>;

/// What a run prints where these nodes are there, whatever the phase.
pub fn prints(prints: impl Fn(&[u32]) -> &'static [u8] + Send + Sync + 'static) -> Prints {
    Arc::new(move |_, there| prints(there))
}

/// Node `i` comes from place `sites[i]`.
pub struct FakeMedium {
    pub sites: Vec<u64>,
    pub spans: Vec<Span>,
    pub crash_points: Vec<FakeCrashPoint>,
    pub prints: Prints,
}

#[derive(Clone, Debug)]
pub struct FakeCrashPoint {
    pub phase: Phase,
    pub chains: Vec<Vec<u32>>,
    pub implications: Vec<Implication>,
    /// What is durable, in the order in which it became so.
    pub durable: Vec<u32>,
    pub issued: usize,
}

impl FakeCrashPoint {
    /// A crash point at which these nodes are pending, and all others are still to come.
    pub fn new(phase: Phase, chains: &[&[u32]]) -> FakeCrashPoint {
        let issued = chains.iter().flat_map(|chain| chain.iter()).max();
        FakeCrashPoint {
            phase,
            chains: chains.iter().map(|chain| chain.to_vec()).collect(),
            implications: Vec::new(),
            durable: Vec::new(),
            issued: issued.map_or(0, |last| *last as usize + 1),
        }
    }
}

fn ids(numbers: &[u32]) -> Vec<NodeId> {
    numbers.iter().map(|id| NodeId(*id)).collect()
}

impl Medium for FakeMedium {
    type Patch = Vec<NodeId>;
    type DurableState = FakeState;

    fn before(&self) -> FakeState {
        FakeState::default()
    }

    fn crash_points(&self, visit: &mut CrashPointVisitor<'_>) {
        for (index, at) in self.crash_points.iter().enumerate() {
            let chains = at.chains.iter().map(|nodes| Chain { nodes: ids(nodes) });
            let frontier = Frontier::new(index as u64, chains.collect(), at.implications.clone());
            let frontier = || frontier.clone();
            let point = CrashPoint {
                index,
                order: index as u64,
                phase: at.phase,
                returned: matches!(at.phase, Phase::Returned(_)),
                issued: at.issued,
                durable: &ids(&at.durable),
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

    fn is_one_write(&self, _: NodeId, _: NodeId) -> bool {
        false
    }

    fn observe(&self, _: Phase, ended: &FinishedRun) -> Observed {
        let outcomes = match &ended.stdout {
            printed if printed == OLD => OutcomeSet::NONE.with(RecoveryOutcome::all_rolled_back(1)),
            printed if printed == NEW => OutcomeSet::COMMITTED,
            _ => OutcomeSet::NONE,
        };
        Observed {
            message: MessageKind::of(&String::from_utf8_lossy(&ended.stdout)),
            ..Observed::of_program(outcomes, ended)
        }
    }
}

/// The durable nodes.
#[derive(Clone, Default)]
pub struct FakeState {
    durable: Vec<NodeId>,
}

impl DurableState for FakeState {
    type Patch = Vec<NodeId>;

    fn advance(&mut self, nodes: &[NodeId], _: u64) -> Result<(), CheckError> {
        self.durable.extend(nodes);
        Ok(())
    }

    fn variants(&mut self, _: &[NodeId]) -> u8 {
        1
    }

    fn patch(&mut self, kept: &[NodeId], _: u8) -> Vec<NodeId> {
        kept.to_vec()
    }

    fn hash_with(&self, patch: &Vec<NodeId>) -> StateHash {
        let there = self.there(patch);
        StateHash(there.iter().map(|id| 1 << id).sum())
    }

    fn value(&self, _: &Vec<NodeId>, _: ReadLocation) -> u64 {
        0
    }
}

impl FakeState {
    fn there(&self, patch: &[NodeId]) -> Vec<u32> {
        let there = self.durable.iter().chain(patch).map(|id| id.0);
        BTreeSet::from_iter(there).into_iter().collect()
    }
}

pub struct FakeChecker {
    state: FakeState,
    prints: Prints,
    limits: Limits,
}

impl DurableState for FakeChecker {
    type Patch = Vec<NodeId>;

    fn advance(&mut self, nodes: &[NodeId], order: u64) -> Result<(), CheckError> {
        self.state.advance(nodes, order)
    }

    fn variants(&mut self, kept: &[NodeId]) -> u8 {
        self.state.variants(kept)
    }

    fn patch(&mut self, kept: &[NodeId], variant: u8) -> Vec<NodeId> {
        self.state.patch(kept, variant)
    }

    fn hash_with(&self, patch: &Vec<NodeId>) -> StateHash {
        self.state.hash_with(patch)
    }

    fn value(&self, patch: &Vec<NodeId>, place: ReadLocation) -> u64 {
        self.state.value(patch, place)
    }
}

impl Checker for FakeChecker {
    fn rewind(&mut self) -> Result<(), CheckError> {
        self.state = FakeState::default();
        Ok(())
    }

    fn run(
        &mut self,
        patch: &Vec<NodeId>,
        phase: Phase,
        _: bool,
    ) -> Result<FinishedRun, CheckError> {
        let printed = (self.prints)(phase, &self.state.there(patch)).to_vec();
        Ok(FinishedRun::new(RunEnd::Exited(0), printed, Vec::new()))
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
            state: FakeState::default(),
            prints: Arc::clone(&self.prints),
            limits: Limits::default(),
        }
    }
}

pub fn span(begin: usize, end: usize) -> Span {
    Span { begin, end }
}
