//! The update behaviours of a program that persists by files, for representative testing.
//!
//! One more walk over the calls notes of each node what it needs and when it is durable; the rest is
//! [`crashpoint_states::representative`].

use super::medium::FileMedium;
use super::names::Names;
use crashpoint_persist::files::{FileWalker, MicroOp, MicroOpKind};
use crashpoint_persist::graph::{NodeId, Walker as _};
use crashpoint_states::representative::calls::{
    CallStep, Calls, Rounds, StackFrame, Stacks, TimeSplit,
};
use crashpoint_states::representative::facts::{EventPart, Fact};
use crashpoint_states::representative::{Facts, NEVER, PlanBuilder, RepresentativePlan};
use crashpoint_trace::files::{Call, StackId};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash as _, Hasher as _};

/// How a recording is divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Division {
    pub time: TimeSplit,
    pub rounds: Rounds,
}

/// Divides a recording, and says what is to be tried. `frames` tells a call stack, outermost
/// function first.
pub fn plan(
    files: &FileMedium<'_>,
    division: &Division,
    frames: impl FnMut(StackId) -> Vec<StackFrame>,
) -> RepresentativePlan {
    let noted = Noted::of(files, frames);
    let calls = Calls {
        stacks: &noted.stacks,
        steps: &noted.steps,
        kinds: &noted.kinds,
        facts: &noted.facts,
        acknowledged: &noted.acknowledged,
        is_divided: &|_| false,
    };
    let mut builder = PlanBuilder::new(&noted.facts, &noted.acknowledged);
    calls.behaviours(division.time, division.rounds, &mut builder);
    builder.finish()
}

/// What each node needs, and when it is durable.
pub fn facts(files: &FileMedium<'_>) -> Facts {
    Noted::of(files, |_| Vec::new()).facts
}

#[derive(Default)]
struct Noted {
    stacks: Stacks,
    stack_numbers: FxHashMap<StackId, u32>,
    threads: FxHashMap<(u32, u32), u32>,
    steps: Vec<CallStep>,
    kinds: Vec<u64>,
    facts: Facts,
    acknowledged: Vec<u64>,
}

impl Noted {
    fn of(files: &FileMedium<'_>, mut frames: impl FnMut(StackId) -> Vec<StackFrame>) -> Noted {
        let mut noted = Noted::default();
        let mut walker = FileWalker::new(files.model, files.before);
        for call in files.calls {
            noted.call(call, &files.names, &mut walker, &mut frames);
            if files.acknowledges(call) {
                noted.acknowledged.push(call.order);
            }
        }
        noted
    }

    fn call<'a>(
        &mut self,
        call: &Call<'a>,
        names: &Names,
        walker: &mut FileWalker<'a>,
        frames: &mut impl FnMut(StackId) -> Vec<StackFrame>,
    ) {
        let first = walker.nodes().len();
        let stack = self.stack(call.stack, frames);
        walker.begin(call);
        for (index, node) in walker.nodes().iter().enumerate().skip(first) {
            let needs = walker.needs(NodeId(index as u32));
            let kind = kind(call, node, names);
            self.facts.nodes.push(Fact {
                site: site(
                    stack,
                    kind,
                    EventPart::of(index, &(first..walker.nodes().len())),
                ),
                order: call.order,
                durable: NEVER,
                needs: needs.nodes.iter().copied().collect(),
                is_behind_journal: needs.is_behind_journal,
                is_in_journal: needs.is_in_journal && !node.kind.is_never_pending(),
            });
            self.kinds.push(kind);
        }
        // What nobody can lose is no part of a behaviour; it comes first in a call, or last.
        let nodes = walker.nodes();
        let is_real = |index: &usize| !nodes[*index].kind.is_never_pending();
        let begin = (first..nodes.len()).find(is_real).unwrap_or(nodes.len());
        let end = (begin..nodes.len()).rev().find(is_real);
        let end = end.map_or(begin, |last| last + 1);
        walker.end(call);
        for node in walker.take_durable() {
            self.facts.nodes[node.index()].durable = call.order;
        }
        let threads = self.threads.len() as u32;
        let thread = self.threads.entry((call.process, call.thread));
        let step = CallStep {
            thread: *thread.or_insert(threads),
            stack,
            order: call.order,
            kind: self
                .kinds
                .get(begin)
                .map_or_else(|| u64::from(call.number.0), |kind| *kind),
            nodes: begin as u32..end as u32,
        };
        self.steps.push(step);
    }

    fn stack(&mut self, id: StackId, frames: &mut impl FnMut(StackId) -> Vec<StackFrame>) -> u32 {
        let stacks = &mut self.stacks;
        let number = self.stack_numbers.entry(id);
        *number.or_insert_with(|| stacks.number(&frames(id)))
    }
}

/// The calls that led to a node, and what the node does.
fn site(stack: u32, kind: u64, end: EventPart) -> u64 {
    let mut hasher = FxHasher::default();
    (stack, kind, end).hash(&mut hasher);
    hasher.finish()
}

/// What a node does, to which kind of file: what a write finds on the disk decides what a crash may
/// show in its place.
fn kind(call: &Call<'_>, node: &MicroOp<'_>, names: &Names) -> u64 {
    let mut hasher = FxHasher::default();
    call.number.hash(&mut hasher);
    std::mem::discriminant(&node.kind).hash(&mut hasher);
    if let MicroOpKind::Write { class, .. } = node.kind {
        class.hash(&mut hasher);
    }
    names.kind(&node.path).hash(&mut hasher);
    hasher.finish()
}
