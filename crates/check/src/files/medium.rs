//! A folder as a [`Medium`]: nodes are what system calls did to files, and a check runs on a folder
//! that is laid out for it.
//!
//! Power may fail after every call that changed something, and after every line that the program
//! printed: what was printed is what it had acknowledged. An *operation* is what lies between two
//! outputs. Checks of one list are those with the same text printed.

use super::layout::Layout;
use super::names::Names;
use super::oracle::{FileOracle, Versions, acknowledged_output, is_acknowledged};
use crate::engine::crash_points::{CrashPointVisitor, CrashPoints, Phase, Span, SuffixId};
use crate::engine::medium::{CheckError, DurableState, Medium, ReadLocation, StateHash};
use crate::engine::outcome::{Observed, OutcomeSet};
use crate::engine::result_table::Key;
use crate::process::message::MessageKind;
use crate::process::run::{FinishedRun, RunEnd};
use crashpoint_persist::files::{FileWalker, Filler, MicroOp, Model, Trees};
use crashpoint_persist::graph::{NodeId, Walker as _};
use crashpoint_trace::files::{Before, Call, Effect, EffectClass, Stream};
use rustc_hash::FxHasher;
use std::hash::{Hash as _, Hasher as _};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A recording of system calls under a model.
pub struct FileMedium<'a> {
    pub before: &'a Before<'a>,
    pub calls: &'a [Call<'a>],
    pub model: &'a Model,
    pub oracle: FileOracle,
    pub nodes: Arc<[MicroOp<'a>]>,
    /// All that was printed, and where each output ends.
    pub printed: Vec<u8>,
    ends: Vec<usize>,
    prints_lines: bool,
    spans: Vec<Span>,
    points: usize,
    pub versions: Versions<'a>,
    pub(super) names: Names,
}

impl<'a> FileMedium<'a> {
    pub fn new(
        before: &'a Before<'a>,
        calls: &'a [Call<'a>],
        model: &'a Model,
        oracle: FileOracle,
    ) -> FileMedium<'a> {
        let mut files = FileMedium {
            before,
            calls,
            model,
            oracle,
            nodes: Arc::default(),
            printed: Vec::new(),
            ends: Vec::new(),
            prints_lines: calls
                .iter()
                .flat_map(stdout)
                .flatten()
                .any(|byte| *byte == b'\n'),
            spans: Vec::new(),
            points: 0,
            versions: Versions::default(),
            names: Names::default(),
        };
        files.survey();
        files
    }

    fn survey(&mut self) {
        let mut walk = Walk::new(self);
        for call in self.calls {
            let issued = walk.points.walker.nodes().len();
            let _ = walk.step(call, self.acknowledges(call), &mut |_, _| {
                ControlFlow::Continue(())
            });
            self.printed.extend(stdout(call).flatten());
            if self.acknowledges(call) {
                let begin = self.spans.last().map_or(0, |span: &Span| span.end);
                self.ends.push(self.printed.len());
                let end = issued;
                self.spans.push(Span { begin, end });
            }
        }
        let begin = self.spans.last().map_or(0, |span| span.end);
        let nodes: Arc<[MicroOp<'a>]> = walk.points.walker.nodes().into();
        let points = walk.points.count();
        self.spans.push(Span {
            begin,
            end: nodes.len(),
        });
        self.points = points;
        self.names = Names::new(nodes.iter().map(|node| &node.path), self.before);
        self.nodes = nodes;
        if self.oracle == FileOracle::WholeFiles {
            self.versions = self.all_versions();
        }
    }

    fn all_versions(&self) -> Versions<'a> {
        let mut versions = Versions::default();
        let mut content = DurableFiles::new(self);
        let before = content.patch(&[], 0);
        versions.note(&before);
        for call in self.calls {
            let is_done = call.effects.iter().any(|effect| match effect.class() {
                EffectClass::Moves
                | EffectClass::LastClose
                | EffectClass::Sync
                | EffectClass::Output => true,
                EffectClass::New
                | EffectClass::Names
                | EffectClass::Data
                | EffectClass::Attributes => false,
            });
            if is_done {
                versions.note(&content.whole(call.order));
            }
        }
        let after = content.whole(u64::MAX);
        versions.note(&after);
        versions.only_in(&before, &after);
        versions
    }

    /// The folder after everything, with nothing lost.
    pub fn after(&self) -> Layout<'a> {
        DurableFiles::new(self).whole(u64::MAX)
    }

    /// What had been printed.
    pub fn printed(&self, suffix: SuffixId) -> &[u8] {
        let end = (suffix.0 as usize).checked_sub(1);
        &self.printed[..end.map_or(0, |end| self.ends[end])]
    }

    /// Whether a call says that something is done: by the end of a line, or by anything at all in a
    /// program that prints no lines.
    pub(super) fn acknowledges(&self, call: &Call<'_>) -> bool {
        stdout(call).any(|bytes| !self.prints_lines || bytes.contains(&b'\n'))
    }

    /// How many outputs there were.
    pub fn outputs(&self) -> usize {
        self.ends.len()
    }
}

/// What a call printed on the standard output.
fn stdout<'c>(call: &'c Call<'_>) -> impl Iterator<Item = &'c [u8]> {
    call.effects.iter().filter_map(|effect| match effect {
        Effect::Output {
            stream: Stream::Stdout,
            bytes,
        } => Some(*bytes),
        _ => None,
    })
}

/// One way through the recording.
struct Walk<'a> {
    points: CrashPoints<FileWalker<'a>>,
    outputs: u32,
}

impl<'a> Walk<'a> {
    fn new(files: &FileMedium<'a>) -> Walk<'a> {
        let walker = FileWalker::new(files.model, files.before);
        Walk {
            points: CrashPoints::new(walker, Phase::InFlight(0)),
            outputs: 0,
        }
    }

    fn step(
        &mut self,
        call: &Call<'a>,
        acknowledges: bool,
        visitor: &mut CrashPointVisitor<'_>,
    ) -> ControlFlow<()> {
        let points = &mut self.points;
        let fed = points.walker.begin(call);
        points.order = call.order;
        if fed.changed
            && let Phase::Returned(operation) = points.phase
        {
            points.phase = Phase::InFlight(operation + 1);
        }
        // What a sync writes ahead of the rest may be there alone before the next sync.
        if fed.changed || points.walker.completes(call) {
            let returned = matches!(points.phase, Phase::Returned(_));
            points.visit(visitor, returned)?;
        }
        points.walker.end(call);
        points.note_durable();
        if acknowledges {
            points.phase = Phase::Returned(self.outputs);
            self.outputs += 1;
            if !points.walker.is_quiet() {
                points.visit(visitor, true)?;
            }
        }
        ControlFlow::Continue(())
    }
}

impl<'a> Medium for FileMedium<'a> {
    type Patch = Layout<'a>;
    type DurableState = DurableFiles<'a>;

    fn before(&self) -> DurableFiles<'a> {
        DurableFiles::new(self)
    }

    fn crash_points(&self, visit: &mut CrashPointVisitor<'_>) {
        let mut walk = Walk::new(self);
        for call in self.calls {
            if walk.step(call, self.acknowledges(call), visit).is_break() {
                return;
            }
        }
    }

    fn points(&self) -> usize {
        self.points
    }

    fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// What comes before the first output is its operation.
    fn started(&self) -> usize {
        0
    }

    fn span(&self, operation: u32) -> Span {
        self.spans[operation as usize]
    }

    fn suffix(&self, phase: Phase) -> SuffixId {
        match phase {
            Phase::Opening => SuffixId(0),
            Phase::InFlight(operation) | Phase::Overlapping { operation, .. } => {
                SuffixId(operation)
            }
            Phase::Returned(operation) => SuffixId(operation + 1),
        }
    }

    fn key(&self, phase: Phase, image: StateHash) -> Key {
        Key {
            suffix: self.suffix(phase),
            acknowledged: false,
            image,
        }
    }

    fn varying(&self, _: SuffixId) -> Vec<ReadLocation> {
        Vec::new()
    }

    /// The call stack says where in the program, the file's name what for: interpreters do
    /// everything from one place.
    fn site(&self, node: NodeId) -> u64 {
        let node = &self.nodes[node.index()];
        let mut hasher = FxHasher::default();
        node.stack.hash(&mut hasher);
        std::mem::discriminant(&node.kind).hash(&mut hasher);
        self.names.kind(&node.path).hash(&mut hasher);
        hasher.finish()
    }

    fn is_same_place(&self, first: NodeId, second: NodeId) -> bool {
        let kind = |id: NodeId| &self.nodes[id.index()].kind;
        let (first, second) = (kind(first), kind(second));
        first.is_content() == second.is_content() && first.inode() == second.inode()
    }

    fn is_one_write(&self, first: NodeId, second: NodeId) -> bool {
        self.nodes[first.index()].call == self.nodes[second.index()].call
    }

    fn observe(&self, phase: Phase, ended: &FinishedRun) -> Observed {
        let observed = Observed::of_checker(ended);
        let printed = self.printed(self.suffix(phase));
        let all = &self.printed;
        let is_missing = self.oracle == FileOracle::Acknowledged
            && ended.end == RunEnd::Exited(0)
            && !is_acknowledged(all, printed, &ended.stdout);
        if is_missing {
            let message = acknowledged_output(all, printed, &ended.stdout);
            return Observed {
                outcomes: OutcomeSet::NONE,
                message: MessageKind::of(&message),
                ..observed
            };
        }
        match self.oracle {
            // A file is damaged, whether all of it is gone or a part.
            FileOracle::WholeFiles => Observed {
                message: MessageKind::default(),
                ..observed
            },
            FileOracle::Checker | FileOracle::Acknowledged => observed,
        }
    }
}

/// What is durable of a folder.
///
/// It follows the recording by itself: what a call was made of may be decided by a later one (a
/// rename that comes apart), so that nodes are what they are at a moment.
#[derive(Clone)]
pub struct DurableFiles<'a> {
    walker: FileWalker<'a>,
    trees: Trees<'a>,
    calls: &'a [Call<'a>],
    /// How many calls have begun; the last of them may not have ended.
    begun: usize,
    order: u64,
    durable: Vec<NodeId>,
    /// As they are in the end.
    last: Arc<[MicroOp<'a>]>,
}

impl<'a> DurableFiles<'a> {
    fn new(files: &FileMedium<'a>) -> DurableFiles<'a> {
        DurableFiles {
            walker: FileWalker::new(files.model, files.before),
            trees: Trees::new(files.model, files.before),
            calls: files.calls,
            begun: 0,
            order: 0,
            durable: Vec::new(),
            last: Arc::clone(&files.nodes),
        }
    }

    /// Goes on to where it should be.
    fn catch_up(&mut self) {
        while let Some(call) = self.calls.get(self.begun)
            && call.order <= self.order
        {
            if let Some(last) = self.begun.checked_sub(1) {
                self.walker.end(&self.calls[last]);
            }
            self.walker.begin(call);
            self.begun += 1;
        }
        let durable = std::mem::take(&mut self.durable);
        self.trees.settle(&durable, self.walker.nodes());
    }

    /// The folder when a call has returned, with nothing lost.
    fn whole(&mut self, order: u64) -> Layout<'a> {
        self.order = self.order.max(order);
        self.catch_up();
        let nodes = self.walker.nodes();
        let all: Vec<NodeId> = (0..nodes.len() as u32).map(NodeId).collect();
        Layout::of(&self.trees.tree(&all, nodes, Filler::Zeros))
    }
}

fn filler(variant: u8) -> Filler {
    match variant {
        0 => Filler::Zeros,
        _ => Filler::Stale,
    }
}

impl<'a> DurableState for DurableFiles<'a> {
    type Patch = Layout<'a>;

    fn advance(&mut self, nodes: &[NodeId], order: u64) -> Result<(), CheckError> {
        self.durable.extend(nodes);
        self.order = self.order.max(order);
        Ok(())
    }

    fn variants(&mut self, kept: &[NodeId]) -> u8 {
        self.catch_up();
        self.trees.fillers(kept, self.walker.nodes()).len() as u8
    }

    fn patch(&mut self, kept: &[NodeId], variant: u8) -> Layout<'a> {
        self.catch_up();
        let issued = self.walker.nodes().len();
        let is_later = kept.last().is_some_and(|last| last.index() >= issued);
        let tree = if is_later {
            // Somebody asks what would be if the program had gone on.
            self.trees.clone().tree(kept, &self.last, filler(variant))
        } else {
            self.trees.tree(kept, self.walker.nodes(), filler(variant))
        };
        Layout::of(&tree)
    }

    fn hash_with(&self, patch: &Layout<'a>) -> StateHash {
        patch.hash
    }

    fn value(&self, patch: &Layout<'a>, place: ReadLocation) -> u64 {
        patch.value(place)
    }
}
