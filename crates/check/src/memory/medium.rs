//! Persistent memory as a [`Medium`]: nodes are words of stores, and recovery runs on a pool that
//! is patched in place.

use crate::engine::crash_points::{CrashPointVisitor, Phase, Span, SuffixId};
use crate::engine::medium::{CheckError, Checker, DurableState, Medium, ReadLocation, StateHash};
use crate::engine::outcome::Observed;
use crate::engine::result_table::Key;
use crate::memory::image::{Image, Patch, WordId};
use crate::memory::judge::References;
use crate::memory::plan::TestPlan;
use crate::memory::timeline::{Timeline, Walk};
use crate::memory::worker::Worker;
use crate::process::pin::Pinned;
use crate::process::run::{FinishedRun, Limits};
use crashpoint_abi::serve::notes;
use crashpoint_persist::graph::{Node, NodeId};
use std::ops::ControlFlow;

/// A recording of stores, flushes and fences.
pub struct MemoryMedium<'a> {
    pub plan: &'a TestPlan<'a>,
    pub timeline: &'a Timeline,
    pub references: &'a [Option<References>],
}

impl<'a> MemoryMedium<'a> {
    /// Lends a worker to checks. Its pool must hold what was there before.
    pub fn checker<'w, 's>(&self, worker: &'w mut Worker<'s>) -> MemoryChecker<'w, 's, 'a> {
        MemoryChecker {
            worker,
            plan: self.plan,
            nodes: &self.timeline.nodes,
            is_opaque: true,
        }
    }
}

impl<'a> Medium for MemoryMedium<'a> {
    type Patch = Patch;
    type DurableState = DurableMemory<'a>;

    fn before(&self) -> DurableMemory<'a> {
        DurableMemory {
            image: self.plan.setup.before.clone(),
            nodes: &self.timeline.nodes,
        }
    }

    fn crash_points(&self, visit: &mut CrashPointVisitor<'_>) {
        let plan = self.plan;
        let walk = Walk::new(plan.recording, &plan.operations, plan.model);
        walk.crash_points(|point, assumed| {
            // Of a recovery only what comes before the first operation is crashed.
            if plan.recovery.is_some() && point.phase != Phase::Opening {
                ControlFlow::Break(())
            } else {
                visit(point, assumed)
            }
        });
    }

    fn points(&self) -> usize {
        self.timeline.points
    }

    fn nodes(&self) -> usize {
        self.timeline.nodes.len()
    }

    fn started(&self) -> usize {
        let first = self.timeline.operations.first();
        first.map_or(self.nodes(), |first| first.begin)
    }

    fn span(&self, operation: u32) -> Span {
        self.timeline.operations[operation as usize]
    }

    fn suffix(&self, phase: Phase) -> SuffixId {
        phase.suffix()
    }

    fn key(&self, phase: Phase, image: StateHash) -> Key {
        self.plan.key(phase, image)
    }

    /// Words of nodes that were pending when the list's operation began, and of nodes issued from
    /// there until the next one begins.
    fn varying(&self, suffix: SuffixId) -> Vec<ReadLocation> {
        let timeline = self.timeline;
        let word = |node: usize| ReadLocation(WordId::of(timeline.nodes[node].address).0);
        let operation = (suffix.0 as usize).checked_sub(1);
        let begin = operation.map_or(0, |index| timeline.operations[index].begin);
        let next = timeline.operations.get(suffix.0 as usize);
        let end = next.map_or(timeline.nodes.len(), |span| span.begin);
        let pending = operation.map(|index| timeline.pending_at_begin(index));
        let mut words: Vec<ReadLocation> = pending.into_iter().flatten().map(word).collect();
        words.extend((begin..end).map(word));
        words.sort_unstable();
        words.dedup();
        words
    }

    fn site(&self, node: NodeId) -> u64 {
        u64::from(self.timeline.nodes[node.index()].site.0)
    }

    fn is_same_place(&self, first: NodeId, second: NodeId) -> bool {
        let word = |id: NodeId| WordId::of(self.timeline.nodes[id.index()].address);
        word(first) == word(second)
    }

    fn is_one_write(&self, first: NodeId, second: NodeId) -> bool {
        let order = |id: NodeId| self.timeline.nodes[id.index()].order;
        order(first) == order(second)
    }

    fn observe(&self, phase: Phase, ended: &FinishedRun) -> Observed {
        self.plan.observe(phase.suffix(), ended, self.references)
    }

    fn take_back(&self, patch: &mut Patch, node: NodeId) -> bool {
        let nodes = &self.timeline.nodes;
        let word = WordId::of(nodes[node.index()].address);
        if patch.contains_key(&word) {
            return false;
        }
        let earlier = nodes[..node.index()].iter();
        let of_word = earlier.filter(|node| WordId::of(node.address) == word);
        let before = &self.plan.setup.before;
        let was = before.patch(of_word).get(&word).copied();
        patch.insert(word, was.unwrap_or_else(|| before.word(word)));
        true
    }
}

/// The durable words.
pub struct DurableMemory<'a> {
    image: Image,
    nodes: &'a [Node],
}

fn patch(image: &Image, nodes: &[Node], kept: &[NodeId]) -> Patch {
    image.patch(kept.iter().map(|id| &nodes[id.index()]))
}

fn value(image: &Image, patch: &Patch, place: ReadLocation) -> u64 {
    let word = WordId(place.0);
    let patched = patch.get(&word).copied();
    patched.unwrap_or_else(|| image.word(word))
}

impl DurableState for DurableMemory<'_> {
    type Patch = Patch;

    fn advance(&mut self, nodes: &[NodeId], _: u64) -> Result<(), CheckError> {
        for id in nodes {
            self.image.apply(&self.nodes[id.index()]);
        }
        Ok(())
    }

    fn variants(&mut self, _: &[NodeId]) -> u8 {
        1
    }

    fn patch(&mut self, kept: &[NodeId], _: u8) -> Patch {
        patch(&self.image, self.nodes, kept)
    }

    fn hash_with(&self, patch: &Patch) -> StateHash {
        self.image.hash_with(patch)
    }

    fn value(&self, patch: &Patch, place: ReadLocation) -> u64 {
        value(&self.image, patch, place)
    }
}

/// A worker that checks states of a plan.
pub struct MemoryChecker<'w, 's, 'a> {
    worker: &'w mut Worker<'s>,
    plan: &'a TestPlan<'a>,
    nodes: &'a [Node],
    /// The last run may have read something unseen.
    is_opaque: bool,
}

impl MemoryChecker<'_, '_, '_> {
    /// The pool as a crash leaves it: what is durable, with a patch on top.
    pub fn crashed_image(&self, patch: &Patch) -> Image {
        let mut image = self.worker.image().clone();
        for (word, value) in patch {
            image.set_word(*word, *value);
        }
        image
    }
}

impl DurableState for MemoryChecker<'_, '_, '_> {
    type Patch = Patch;

    fn advance(&mut self, nodes: &[NodeId], _: u64) -> Result<(), CheckError> {
        let all = self.nodes;
        self.worker.advance(nodes.iter().map(|id| &all[id.index()]))
    }

    fn variants(&mut self, _: &[NodeId]) -> u8 {
        1
    }

    fn patch(&mut self, kept: &[NodeId], _: u8) -> Patch {
        patch(self.worker.image(), self.nodes, kept)
    }

    fn hash_with(&self, patch: &Patch) -> StateHash {
        self.worker.image().hash_with(patch)
    }

    fn value(&self, patch: &Patch, place: ReadLocation) -> u64 {
        value(self.worker.image(), patch, place)
    }
}

impl Checker for MemoryChecker<'_, '_, '_> {
    fn rewind(&mut self) -> Result<(), CheckError> {
        self.worker.rewind()
    }

    fn run(&mut self, patch: &Patch, phase: Phase, mark: bool) -> Result<FinishedRun, CheckError> {
        let acknowledged = matches!(phase, Phase::Returned(_));
        let text = self.plan.suffixes.get(phase.suffix());
        let suffix = text.suffix(phase.suffix(), acknowledged);
        let ended = self.worker.run(patch, &suffix, mark)?;
        self.is_opaque = !mark || ended.notes & notes::UNMARKED_READS != 0;
        Ok(ended)
    }

    fn reads(&self, varying: &[ReadLocation]) -> Result<Option<Vec<ReadLocation>>, CheckError> {
        if self.is_opaque {
            return Ok(None);
        }
        let words = varying.iter().map(|place| WordId(place.0));
        let read = self.worker.reads().among(words);
        let read = read.map_err(CheckError::in_folder(&self.plan.scratch))?;
        Ok(Some(
            read.into_iter().map(|word| ReadLocation(word.0)).collect(),
        ))
    }

    fn limits(&mut self) -> &mut Limits {
        &mut self.worker.limits
    }

    fn stay(&self) -> Pinned {
        self.worker.stay()
    }

    fn restarts(&self) -> u32 {
        self.worker.restarts
    }
}
