//! The recorded workload as a line of moments at which power may fail.
//!
//! A crash is tried right before each fence that decides something, where the most is open, and at
//! the end of each operation, where what was acknowledged must be there. Between two such points
//! nothing is possible that is not possible at the second: what may be kept only grows until a
//! fence decides.
//! Where nothing changed since the last point there is none.
//!
//! Under eADR a fence decides nothing, so every event that stores is a point.

use crashpoint_persist::graph::{Frontier, Model, Node, NodeId, Walker};
use crashpoint_trace::{Event, EventKind, FileIndex, Recording, SiteId, ThreadIndex};
use rustc_hash::FxHashSet;
use std::ops::ControlFlow;

/// Where in the workload a moment lies. Operations count from 0.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub enum Phase {
    /// Before the first operation.
    Opening,
    /// The operation has begun and not returned: it may have happened or not.
    In(u32),
    /// The operation has returned: it has happened.
    After(u32),
}

impl Phase {
    /// The list of operations to run after recovery: what the operation is followed by.
    pub fn list(self) -> ListId {
        match self {
            Phase::Opening => ListId(0),
            Phase::In(operation) | Phase::After(operation) => ListId(operation + 1),
        }
    }
}

/// What runs after recovery: 0 for everything, `i + 1` for what follows operation `i`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct ListId(pub u32);

/// What tells operations from the rest of the recording.
#[derive(Clone, Debug, Default)]
pub struct Operations {
    /// Sites that call a function of which each call is one operation.
    pub sites: FxHashSet<SiteId>,
}

/// A moment at which a crash is tried.
pub struct Moment<'w> {
    /// How many such moments came before.
    pub index: usize,
    /// The last event before it, in the order of all events.
    pub order: u64,
    pub phase: Phase,
    /// The operation has just returned.
    pub returned: bool,
    /// How many nodes have been issued.
    pub issued: usize,
    /// Nodes that are durable, in the order in which they became so.
    pub durable: &'w [NodeId],
    /// What may be lost.
    pub frontier: &'w dyn Fn() -> Frontier,
}

impl Moment<'_> {
    pub fn frontier(&self) -> Frontier {
        (self.frontier)()
    }
}

/// A node that is taken to be durable after a point: its loss is known to do harm, and would hide
/// what else does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assumption {
    pub point: usize,
    pub node: NodeId,
}

/// Where the operations lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Nodes issued before the operation began, and before it returned.
    pub begin: usize,
    pub end: usize,
}

/// All that a first walk learns.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    pub nodes: Vec<Node>,
    pub operations: Vec<Span>,
    /// For each operation, the words that may differ between two states of its list: indices of
    /// the first pending node at its begin.
    pub pending_at_begin: Vec<Vec<NodeId>>,
    pub points: usize,
    /// Operations of several threads were under way at once.
    pub overlapping: bool,
}

/// Walks a recording and shows every moment at which a crash is to be tried.
pub struct Walk<'r> {
    recording: &'r Recording,
    operations: &'r Operations,
    model: Model,
}

enum Boundary {
    Begin,
    End,
}

/// What a walk keeps track of.
struct Progress {
    walker: Walker,
    phase: Phase,
    running: Option<(ThreadIndex, u32)>,
    depth: u32,
    next_operation: u32,
    points: usize,
    durable: Vec<NodeId>,
    /// Something changed since the last point.
    changed: bool,
    order: u64,
    overlapping: bool,
}

impl<'r> Walk<'r> {
    pub fn new(recording: &'r Recording, operations: &'r Operations, model: Model) -> Walk<'r> {
        Walk {
            recording,
            operations,
            model,
        }
    }

    fn start(&self) -> Progress {
        let mut walker = Walker::new(self.model);
        for (index, file) in (0..).map(FileIndex).zip(self.recording.files()) {
            if file.private {
                walker.ignore(index);
            }
        }
        Progress {
            walker,
            phase: Phase::Opening,
            running: None,
            depth: 0,
            next_operation: 0,
            points: 0,
            durable: Vec::new(),
            changed: false,
            order: 0,
            overlapping: false,
        }
    }

    /// Shows all moments until `show` breaks off. It may add nodes that are taken to be durable
    /// from there on.
    pub fn moments(&self, mut show: impl FnMut(&Moment<'_>, &mut Vec<NodeId>) -> ControlFlow<()>) {
        let mut progress = self.start();
        for event in self.recording.events() {
            let next = self.step(&mut progress, &event, &mut show, |_, _, _| ());
            if next.is_break() {
                return;
            }
        }
        let _ = progress.point(&mut show, false);
    }

    /// The first walk.
    pub fn survey(&self) -> Timeline {
        let mut timeline = Timeline::default();
        let mut progress = self.start();
        for event in self.recording.events() {
            let mut note = |boundary: Boundary, operation: u32, walker: &Walker| {
                let issued = walker.nodes().len();
                match boundary {
                    Boundary::Begin => {
                        timeline.operations.push(Span {
                            begin: issued,
                            end: issued,
                        });
                        let frontier = walker.frontier();
                        let pending = frontier.chains.iter().flat_map(|chain| &chain.nodes);
                        timeline.pending_at_begin.push(pending.copied().collect());
                    }
                    Boundary::End => timeline.operations[operation as usize].end = issued,
                }
            };
            let mut ignore = |_: &Moment<'_>, _: &mut Vec<NodeId>| ControlFlow::Continue(());
            let _ = self.step(&mut progress, &event, &mut ignore, &mut note);
        }
        let _ = progress.point(&mut |_, _| ControlFlow::Continue(()), false);
        // An operation that never returned ends with the recording.
        let issued = progress.walker.nodes().len();
        if let Some((_, operation)) = progress.running {
            timeline.operations[operation as usize].end = issued;
        }
        timeline.points = progress.points;
        timeline.overlapping = progress.overlapping;
        timeline.nodes = progress.walker.nodes().to_vec();
        timeline
    }

    fn step(
        &self,
        progress: &mut Progress,
        event: &Event<'_>,
        show: &mut impl FnMut(&Moment<'_>, &mut Vec<NodeId>) -> ControlFlow<()>,
        mut note: impl FnMut(Boundary, u32, &Walker),
    ) -> ControlFlow<()> {
        if progress.walker.completes(event) {
            progress.point(show, false)?;
        }
        let fed = progress.walker.feed(event);
        progress.order = event.order;
        progress.changed |= fed.changed;
        if self.model == Model::Eadr && fed.changed {
            // On top of what was durable before the event.
            progress.point(show, false)?;
        }
        progress.durable.extend(progress.walker.take_durable());
        match event.kind {
            EventKind::Call { .. } if self.operations.sites.contains(&event.site) => {
                if let Some(operation) = progress.begin(event.thread) {
                    note(Boundary::Begin, operation, &progress.walker);
                }
            }
            EventKind::Return { .. } if self.operations.sites.contains(&event.site) => {
                if let Some(operation) = progress.end(event.thread) {
                    note(Boundary::End, operation, &progress.walker);
                    // What must be there has grown, though nothing was stored.
                    progress.changed |= !progress.walker.is_quiet();
                    progress.point(show, true)?;
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

impl Progress {
    fn point(
        &mut self,
        show: &mut impl FnMut(&Moment<'_>, &mut Vec<NodeId>) -> ControlFlow<()>,
        returned: bool,
    ) -> ControlFlow<()> {
        if !std::mem::take(&mut self.changed) {
            return ControlFlow::Continue(());
        }
        let walker = &self.walker;
        let moment = Moment {
            index: self.points,
            order: self.order,
            phase: self.phase,
            returned,
            issued: walker.nodes().len(),
            durable: &self.durable,
            frontier: &|| match walker.model() {
                Model::Eadr => walker.torn(),
                Model::X86 | Model::Msync => walker.frontier(),
            },
        };
        self.points += 1;
        let mut assumed = Vec::new();
        let next = show(&moment, &mut assumed);
        for node in assumed {
            self.walker.assume_durable(node);
        }
        self.durable.extend(self.walker.take_durable());
        next
    }

    /// An operation is called; its number, unless it is part of one that runs.
    fn begin(&mut self, thread: ThreadIndex) -> Option<u32> {
        if let Some((running, _)) = self.running {
            self.overlapping |= running != thread;
            self.depth += 1;
            return None;
        }
        let operation = self.next_operation;
        self.next_operation += 1;
        self.running = Some((thread, operation));
        self.phase = Phase::In(operation);
        Some(operation)
    }

    fn end(&mut self, thread: ThreadIndex) -> Option<u32> {
        let (running, operation) = self.running?;
        if self.depth > 0 {
            self.depth -= 1;
            return None;
        }
        self.overlapping |= running != thread;
        self.running = None;
        self.phase = Phase::After(operation);
        Some(operation)
    }
}
