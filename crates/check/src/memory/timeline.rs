//! The recorded workload as a line of crash points at which power may fail.
//!
//! A crash is tried right before each fence that decides something, where the most is open, and at
//! the end of each operation, where what was acknowledged must be there. SerialExecution two such points
//! nothing is possible that is not possible at the second: what may be kept only grows until a
//! fence decides.
//! Where nothing changed since the last point there is none.
//!
//! Under eADR a fence decides nothing, so every event that stores is a point.

use crate::engine::crash_points::{CrashPoint, CrashPointVisitor, CrashPoints, Phase, Span};
use crate::memory::overlap::OverlapGroup;
use crashpoint_persist::graph::{NodeId, Walker as _};
use crashpoint_persist::memory::{MemoryWalker, Model, Node};
use crashpoint_trace::{Event, EventKind, FileIndex, Recording, SiteId, ThreadIndex};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::ControlFlow;

/// What tells operations from the rest of the recording.
#[derive(Clone, Debug, Default)]
pub struct Operations {
    /// Sites that call a function of which each call is one operation.
    pub sites: FxHashSet<SiteId>,
    /// Of the operations that run at once, the number of the one that a site calls.
    pub lanes: FxHashMap<SiteId, u8>,
    /// How many operations each line of the workload has, run at once; one where it says nothing.
    pub overlapping: Vec<u8>,
}

impl Operations {
    fn overlapping(&self, operation: u32) -> usize {
        let count = self.overlapping.get(operation as usize).copied();
        usize::from(count.unwrap_or(1))
    }
}

/// All that a first walk learns.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    pub nodes: Vec<Node>,
    pub operations: Vec<Span>,
    /// How many nodes were durable when each operation began, and of each node, how many were when it
    /// became so.
    durable_at_begin: Vec<u32>,
    durable_since: Vec<u32>,
    /// For each, how those that run at once are related; the same for all where only one runs.
    pub overlap_groups: Vec<OverlapGroup>,
    pub points: usize,
    /// Operations of several threads were under way at once that the workload does not name so.
    pub has_unnamed_overlap: bool,
}

impl Timeline {
    /// Nodes that were pending when an operation began. It looks at all before, as what is never
    /// made durable would otherwise be noted with every operation.
    pub fn pending_at_begin(&self, operation: usize) -> impl Iterator<Item = usize> + '_ {
        let known = self.durable_at_begin[operation];
        let before = self.durable_since[..self.operations[operation].begin].iter();
        let pending = before
            .enumerate()
            .filter(move |(_, since)| **since >= known);
        pending.map(|(node, _)| node)
    }
}

/// Walks a recording and shows every crash point at which a crash is to be tried.
pub struct Walk<'r> {
    recording: &'r Recording,
    operations: &'r Operations,
    model: Model,
}

enum Boundary {
    Begin,
    End,
}

/// A call of an operation that has not returned.
struct Call {
    thread: ThreadIndex,
    lane: u8,
    /// Calls of operations that it makes itself.
    depth: u32,
}

/// What a walk keeps track of.
struct Progress {
    points: CrashPoints<MemoryWalker>,
    /// The line of the workload that runs, and its calls.
    running: Option<u32>,
    calls: Vec<Call>,
    overlap: OverlapGroup,
    next_operation: u32,
    /// Something changed since the last point.
    changed: bool,
    has_unnamed_overlap: bool,
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
        let mut walker = MemoryWalker::new(self.model);
        for (index, file) in (0..).map(FileIndex).zip(self.recording.files()) {
            if file.private {
                walker.ignore(index);
            }
        }
        Progress {
            points: CrashPoints::new(walker, Phase::Opening),
            running: None,
            calls: Vec::new(),
            overlap: OverlapGroup::new(1),
            next_operation: 0,
            changed: false,
            has_unnamed_overlap: false,
        }
    }

    /// Shows all crash points until `show` breaks off. It may add nodes that are taken to be durable
    /// from there on.
    pub fn crash_points(
        &self,
        mut visit: impl FnMut(&CrashPoint<'_>, &mut Vec<NodeId>) -> ControlFlow<()>,
    ) {
        let mut progress = self.start();
        for event in self.recording.events() {
            let next = self.step(&mut progress, &event, &mut visit, |_, _, _| ());
            if next.is_break() {
                return;
            }
        }
        let _ = progress.visit(&mut visit, false);
    }

    /// The first walk.
    pub fn survey(&self) -> Timeline {
        let mut timeline = Timeline::default();
        let mut progress = self.start();
        for event in self.recording.events() {
            let mut note = |boundary: Boundary, operation: u32, progress: &Progress| {
                let walker = &progress.points.walker;
                let issued = walker.nodes().len();
                match boundary {
                    Boundary::Begin => {
                        timeline.operations.push(Span {
                            begin: issued,
                            end: issued,
                        });
                        let durable = progress.points.durable().len() as u32;
                        timeline.durable_at_begin.push(durable);
                    }
                    Boundary::End => {
                        timeline.operations[operation as usize].end = issued;
                        timeline.overlap_groups.push(progress.overlap.clone());
                    }
                }
            };
            let mut ignore = |_: &CrashPoint<'_>, _: &mut Vec<NodeId>| ControlFlow::Continue(());
            let _ = self.step(&mut progress, &event, &mut ignore, &mut note);
        }
        let _ = progress.visit(&mut |_, _| ControlFlow::Continue(()), false);
        // An operation that never returned ends with the recording.
        let issued = progress.points.walker.nodes().len();
        if let Some(operation) = progress.running {
            timeline.operations[operation as usize].end = issued;
            timeline.overlap_groups.push(progress.overlap.clone());
        }
        timeline.points = progress.points.count();
        timeline.has_unnamed_overlap = progress.has_unnamed_overlap;
        timeline.nodes = progress.points.walker.nodes().to_vec();
        timeline.durable_since = vec![u32::MAX; issued];
        for (number, node) in (0..).zip(progress.points.durable()) {
            timeline.durable_since[node.index()] = number;
        }
        timeline
    }

    fn step(
        &self,
        progress: &mut Progress,
        event: &Event<'_>,
        visitor: &mut CrashPointVisitor<'_>,
        mut note: impl FnMut(Boundary, u32, &Progress),
    ) -> ControlFlow<()> {
        if progress.points.walker.completes(event) {
            progress.visit(visitor, false)?;
        }
        let fed = progress.points.walker.feed(event);
        progress.points.order = event.order;
        progress.changed |= fed.changed;
        if self.model == Model::Eadr && fed.changed {
            // On top of what was durable before the event.
            progress.visit(visitor, false)?;
        }
        progress.points.note_durable();
        match event.kind {
            EventKind::Call { .. } if self.operations.sites.contains(&event.site) => {
                if let Some(operation) = progress.begin(event, self.operations) {
                    note(Boundary::Begin, operation, progress);
                }
            }
            EventKind::Return { .. } if self.operations.sites.contains(&event.site) => {
                if let Some(operation) = progress.end(event.thread) {
                    if progress.running.is_none() {
                        note(Boundary::End, operation, progress);
                    }
                    // What must be there has grown, though nothing was stored.
                    progress.changed |= !progress.points.walker.is_quiet();
                    progress.visit(visitor, true)?;
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

impl Progress {
    /// Shows a crash point, unless nothing has changed since the last one.
    fn visit(&mut self, visitor: &mut CrashPointVisitor<'_>, returned: bool) -> ControlFlow<()> {
        if !std::mem::take(&mut self.changed) {
            return ControlFlow::Continue(());
        }
        self.points.visit(visitor, returned)
    }

    /// An operation is called; the number of its line, unless that has begun before.
    fn begin(&mut self, event: &Event<'_>, operations: &Operations) -> Option<u32> {
        let thread = event.thread;
        if let Some(call) = self.calls.iter_mut().find(|call| call.thread == thread) {
            call.depth += 1;
            return None;
        }
        let begun = self.running;
        if begun.is_some() && self.overlap.have_all_begun() {
            self.has_unnamed_overlap = true;
            // Counted with one that runs, so that the walk can go on.
            if let Some(call) = self.calls.first_mut() {
                call.depth += 1;
            }
            return None;
        }
        let operation = begun.unwrap_or(self.next_operation);
        if begun.is_none() {
            self.next_operation += 1;
            self.running = Some(operation);
            self.overlap = OverlapGroup::new(operations.overlapping(operation));
        }
        let lane = self
            .overlap
            .begin(operations.lanes.get(&event.site).copied());
        self.calls.push(Call {
            thread,
            lane,
            depth: 0,
        });
        self.points.phase = self.overlap.phase(operation);
        begun.is_none().then_some(operation)
    }

    /// A call returns; the number of its line, unless it is part of another call.
    fn end(&mut self, thread: ThreadIndex) -> Option<u32> {
        let operation = self.running?;
        let own = self.calls.iter().position(|call| call.thread == thread);
        // Whose it is does not matter where it cannot be judged.
        self.has_unnamed_overlap |= own.is_none();
        let index = own.unwrap_or(0);
        let call = self.calls.get_mut(index)?;
        if call.depth > 0 {
            call.depth -= 1;
            return None;
        }
        let lane = self.calls.remove(index).lane;
        self.overlap.end(lane);
        self.points.phase = self.overlap.phase(operation);
        if self.overlap.have_all_returned() {
            self.running = None;
        }
        Some(operation)
    }
}
