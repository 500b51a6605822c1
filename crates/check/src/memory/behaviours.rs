//! The update behaviours of a program that persists by memory, for representative testing.
//!
//! One walk over the recording notes of each node what it needs and when it is durable. What has a
//! type is divided by objects and epochs, what has none by the allocations that it lies in where
//! these are known, and everything by the calls that led to it: what a whole operation does goes
//! over many objects, and raw bytes may belong to none.

use crate::memory::timeline::Operations;
use crashpoint_abi::record::FlushKind;
use crashpoint_persist::graph::{NodeId, Walker as _};
use crashpoint_persist::memory::LineId;
use crashpoint_persist::memory::{MemoryWalker, Model, Node};
use crashpoint_states::representative::calls::{
    CallStep, Calls, Rounds, StackFrame, Stacks, TimeSplit,
};
use crashpoint_states::representative::facts::{EventPart, Fact};
use crashpoint_states::representative::objects::{self, Member, Update};
use crashpoint_states::representative::{Facts, NEVER, PlanBuilder, RepresentativePlan};
use crashpoint_trace::{ContextId, Event, EventClass, FileIndex, Recording, SiteId, StoreKind};
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;
use std::hash::{Hash as _, Hasher as _};

/// What the program model knows of a recording.
pub trait ProgramModel {
    /// The calls that led to a store and the store itself, outermost first.
    fn frames(&mut self, site: SiteId, context: ContextId) -> Vec<StackFrame>;

    /// The objects that a node is part of, innermost first; none if its type is not known.
    fn members(&mut self, node: &Node) -> SmallVec<[Member; 2]>;

    /// The next event, before its nodes are asked about.
    fn see(&mut self, event: &Event<'_>);

    /// Where its type is not known, the allocation that a node lies in.
    fn allocation(&mut self, node: &Node) -> Option<Member>;
}

/// What became of the nodes.
#[derive(Clone, Debug)]
pub struct Divided {
    pub plan: RepresentativePlan,
    /// What each node needs, and when it is durable.
    pub facts: Facts,
    /// Nodes in all; those that no type is known of; and of these, those that lie in an object whose
    /// allocation is known.
    pub nodes: usize,
    pub untyped: usize,
    pub allocated: usize,
}

/// A loop over operations ends a round with each of them; this is for loops that tell nothing.
const MAX_STEPS: usize = 4096;

/// Returns of operations amid others that are looked at.
const MAX_AMID: usize = 16;

/// Divides a recording, and says what is to be tried.
pub fn plan(
    recording: &Recording,
    operations: &Operations,
    model: Model,
    known: &mut impl ProgramModel,
) -> Divided {
    let mut noted = Noted::new(recording, model);
    for event in recording.events() {
        noted.event(&event, operations, known);
    }
    let facts = &noted.facts;
    let mut builder = PlanBuilder::new(facts, &noted.acknowledged);
    objects::epochs(&noted.updates, facts, &mut builder);
    let kinds = vec![0; facts.nodes.len()];
    let calls = Calls {
        stacks: &noted.stacks,
        steps: &noted.steps,
        kinds: &kinds,
        facts,
        acknowledged: &noted.acknowledged,
        is_divided: &|_| false,
    };
    let time = TimeSplit {
        gap: u32::MAX,
        least: 1,
    };
    let rounds = Rounds {
        most_steps: MAX_STEPS,
    };
    calls.behaviours(time, rounds, &mut builder);
    let plan = RepresentativePlan {
        returned_amid: noted.amid,
        ..builder.finish()
    };
    let nodes = facts.nodes.len();
    Divided {
        plan,
        nodes,
        untyped: nodes + noted.allocated - noted.updates.len(),
        allocated: noted.allocated,
        facts: noted.facts,
    }
}

/// What each node needs, and when it is durable.
pub fn facts(recording: &Recording, model: Model) -> Facts {
    struct Nothing;
    impl ProgramModel for Nothing {
        fn frames(&mut self, _: SiteId, _: ContextId) -> Vec<StackFrame> {
            Vec::new()
        }

        fn members(&mut self, _: &Node) -> SmallVec<[Member; 2]> {
            SmallVec::new()
        }

        fn see(&mut self, _: &Event<'_>) {}

        fn allocation(&mut self, _: &Node) -> Option<Member> {
            None
        }
    }
    let mut noted = Noted::new(recording, model);
    for event in recording.events() {
        noted.event(&event, &Operations::default(), &mut Nothing);
    }
    noted.facts
}

struct Noted {
    walker: MemoryWalker,
    model: Model,
    facts: Facts,
    updates: Vec<Update>,
    /// Of these, those whose object is known by its allocation alone.
    allocated: usize,
    steps: Vec<CallStep>,
    stacks: Stacks,
    stack_numbers: FxHashMap<(SiteId, ContextId), u32>,
    /// The last node of each line, or page.
    last: FxHashMap<u64, NodeId>,
    /// The last non-temporal node of each word, as these have an order of their own.
    last_streamed: FxHashMap<u64, NodeId>,
    /// Of each thread, nodes that a `clflush` since its last fence went over.
    flushed: FxHashMap<u32, Vec<NodeId>>,
    acknowledged: Vec<u64>,
    /// Of these, the first ones in other threads than the first operation's.
    amid: Vec<u64>,
    first_thread: Option<u32>,
    /// Operations that are under way in each thread, one in another.
    depths: FxHashMap<u32, u32>,
}

const PAGE_BYTES: u64 = 4096;
const WORD_BYTES: u64 = 8;

impl Noted {
    fn new(recording: &Recording, model: Model) -> Noted {
        let mut walker = MemoryWalker::new(model);
        for (index, file) in (0..).map(FileIndex).zip(recording.files()) {
            if file.private {
                walker.ignore(index);
            }
        }
        Noted {
            walker,
            model,
            facts: Facts::default(),
            updates: Vec::new(),
            allocated: 0,
            steps: Vec::new(),
            stacks: Stacks::default(),
            stack_numbers: FxHashMap::default(),
            last: FxHashMap::default(),
            last_streamed: FxHashMap::default(),
            flushed: FxHashMap::default(),
            acknowledged: Vec::new(),
            amid: Vec::new(),
            first_thread: None,
            depths: FxHashMap::default(),
        }
    }

    fn event(&mut self, event: &Event<'_>, operations: &Operations, known: &mut impl ProgramModel) {
        known.see(event);
        let first = self.walker.nodes().len();
        self.walker.feed(event);
        let last = self.walker.nodes().len();
        let stack = if first < last {
            self.stack(event, known)
        } else {
            0
        };
        for index in first..last {
            let node = self.walker.nodes()[index];
            let end = EventPart::of(index, &(first..last));
            let mut hasher = FxHasher::default();
            (stack, end).hash(&mut hasher);
            self.node(NodeId(index as u32), &node, hasher.finish(), known);
        }
        for node in self.walker.take_durable() {
            self.facts.nodes[node.index()].durable = event.order;
        }
        if first < last {
            self.step(event, stack, first as u32..last as u32);
        }
        let is_operation = operations.sites.contains(&event.site);
        match event.kind.class() {
            EventClass::Flush {
                kind: FlushKind::Clflush,
                place,
            } => {
                let line = LineId::of(place.pm);
                let node = self.last.get(&line.number()).copied();
                let flushed = self.flushed.entry(event.thread.0);
                flushed.or_default().extend(node);
            }
            EventClass::Fence(_) => {
                self.flushed.remove(&event.thread.0);
            }
            EventClass::Call if is_operation => {
                *self.depths.entry(event.thread.0).or_default() += 1;
            }
            EventClass::Return if is_operation => self.operation_returned(event),
            EventClass::Call
            | EventClass::Return
            | EventClass::Flush {
                kind: FlushKind::Clflushopt | FlushKind::Clwb,
                ..
            }
            | EventClass::Write(_)
            | EventClass::Msync { .. }
            | EventClass::Other => {}
        }
    }

    fn operation_returned(&mut self, event: &Event<'_>) {
        let depth = self.depths.entry(event.thread.0).or_default();
        *depth = depth.saturating_sub(1);
        if *depth > 0 {
            return;
        }
        self.acknowledged.push(event.order);
        // One that runs beside it may not have begun.
        let first = *self.first_thread.get_or_insert(event.thread.0);
        if first != event.thread.0 && self.amid.len() < MAX_AMID {
            self.amid.push(event.order);
        }
    }

    fn node(&mut self, id: NodeId, node: &Node, site: u64, known: &mut impl ProgramModel) {
        let mut needs: SmallVec<[NodeId; 2]> = SmallVec::new();
        let word = node.address.0 / WORD_BYTES;
        match (self.model, node.kind) {
            (Model::Eadr, _) => {}
            (Model::Msync, _) => {
                needs.extend(self.last.insert(node.address.0 / PAGE_BYTES, id));
            }
            (Model::X86, StoreKind::NonTemporal) => {
                needs.extend(self.last_streamed.insert(word, id));
            }
            (
                Model::X86,
                StoreKind::Plain
                | StoreKind::Atomic
                | StoreKind::Locked
                | StoreKind::Memory
                | StoreKind::Assembly
                | StoreKind::Foreign,
            ) => {
                let line = LineId::of(node.address);
                needs.extend(self.last.insert(line.number(), id));
                needs.extend(self.last_streamed.get(&word).copied());
            }
        }
        let flushed = self.flushed.get(&node.thread.0);
        needs.extend(flushed.into_iter().flatten().copied());
        needs.retain(|need| self.facts[*need].durable == NEVER);
        self.facts.nodes.push(Fact {
            site,
            order: node.order,
            durable: NEVER,
            needs,
            is_behind_journal: false,
            is_in_journal: false,
        });
        let mut members = known.members(node);
        if members.is_empty() {
            members.extend(known.allocation(node));
            self.allocated += members.len();
        }
        if !members.is_empty() {
            self.updates.push(Update {
                node: id,
                site: u64::from(node.site.0),
                members,
            });
        }
    }

    fn stack(&mut self, event: &Event<'_>, known: &mut impl ProgramModel) -> u32 {
        let stacks = &mut self.stacks;
        let number = self.stack_numbers.entry((event.site, event.context));
        *number.or_insert_with(|| stacks.number(&known.frames(event.site, event.context)))
    }

    fn step(&mut self, event: &Event<'_>, stack: u32, nodes: std::ops::Range<u32>) {
        let step = CallStep {
            thread: event.thread.0,
            stack,
            order: event.order,
            kind: 0,
            nodes,
        };
        // An event that lies in several mappings comes in several pieces.
        match self.steps.last_mut() {
            Some(last) if last.order == step.order && last.nodes.end == step.nodes.start => {
                last.nodes.end = step.nodes.end;
            }
            Some(_) | None => self.steps.push(step),
        }
    }
}
