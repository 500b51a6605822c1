//! Which behaviours a recording has, which of them are tried, and when each is under way.

use super::facts::{Facts, NEVER};
use super::groups::group;
use super::relation::{ProgramPlace, Shape};
use crashpoint_persist::graph::NodeId;
use rustc_hash::{FxHashMap, FxHashSet};

/// One instance of a behaviour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// The function or type that it belongs to, as its finder counts them.
    pub of: u32,
    /// Ascending; at least one.
    pub nodes: Vec<NodeId>,
    /// Of each node.
    pub origins: Vec<NodeOrigin>,
    /// Orders of the first event that it is under way at, and of the last.
    pub begin: u64,
    pub end: u64,
    /// How many instances it stands for, itself included.
    pub stands_for: u64,
    /// Places in the program that it comes from.
    pub places: usize,
}

/// Where a node comes from, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeOrigin {
    pub site: u64,
    /// Of the event that issued it, and of the one by which something was acknowledged next.
    pub order: u64,
    pub acknowledged_at: u64,
    /// Its place stores again before that.
    pub recurs: bool,
}

/// What is to be tried, and what it stands for.
#[derive(Clone, Debug, Default)]
pub struct RepresentativePlan {
    /// Instances in all.
    pub behaviours: u64,
    /// Of these, those that differ.
    pub shapes: u64,
    /// The smallest first.
    pub representatives: Vec<Behaviour>,
    /// Orders of events by which an operation returned that others may run beside, ascending: what
    /// makes it durable may still be theirs to store.
    pub returned_amid: Vec<u64>,
}

/// Of each node, whether its place stores again before something is acknowledged: a loop that goes
/// on.
fn recurring(facts: &Facts, acknowledged: &[u64]) -> Vec<bool> {
    let mut acks = acknowledged.iter().rev().peekable();
    // Places that are still to come, and when.
    let mut coming: FxHashMap<u64, u64> = FxHashMap::default();
    let recurs = facts.nodes.iter().rev().map(|fact| {
        if acks.next_if(|ack| **ack >= fact.order).is_some() {
            coming.clear();
            while acks.next_if(|ack| **ack >= fact.order).is_some() {}
        }
        let next = coming.insert(fact.site, fact.order);
        next.is_some_and(|next| next > fact.order)
    });
    let mut recurs: Vec<bool> = recurs.collect();
    recurs.reverse();
    recurs
}

/// Whether a behaviour goes on: of its nodes, with their sites, the last one of some site is not the
/// last before something is acknowledged.
pub(super) fn loop_continues(nodes: impl Iterator<Item = (u64, bool)>) -> bool {
    let last: FxHashMap<u64, bool> = nodes.collect();
    last.into_values().any(|recurs| recurs)
}

/// A shape, and where it was seen.
struct Seen {
    of: u32,
    count: u64,
    /// The first few.
    instances: Vec<Vec<NodeId>>,
}

/// Instances that are kept of a shape, to choose from.
const KEPT_INSTANCES: usize = 16;

/// Takes in behaviours and forgets those that are like others.
pub struct PlanBuilder<'f> {
    facts: &'f Facts,
    /// Orders of the events by which something was acknowledged, ascending.
    acknowledged: &'f [u64],
    /// Of each node.
    recurs: Vec<bool>,
    behaviours: u64,
    shapes: Vec<Shape>,
    seen: Vec<Seen>,
    numbers: FxHashMap<Shape, usize>,
}

/// What is known when all behaviours were handed over, for tests and pictures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gathered {
    pub of: u32,
    pub count: u64,
    pub first: Vec<NodeId>,
}

impl<'f> PlanBuilder<'f> {
    /// `acknowledged`: orders of the events by which something was acknowledged, ascending.
    pub fn new(facts: &'f Facts, acknowledged: &'f [u64]) -> PlanBuilder<'f> {
        PlanBuilder {
            facts,
            acknowledged,
            recurs: recurring(facts, acknowledged),
            behaviours: 0,
            shapes: Vec::new(),
            seen: Vec::new(),
            numbers: FxHashMap::default(),
        }
    }

    /// An instance: its nodes, ascending, with their places.
    pub fn add(&mut self, of: u32, nodes: &[(NodeId, ProgramPlace)]) {
        self.behaviours += 1;
        let sites = nodes.iter().map(|(node, _)| {
            let fact = &self.facts[*node];
            (fact.site, self.recurs[node.index()])
        });
        let shape = self.facts.shape(nodes);
        let shape = shape.continuing(loop_continues(sites));
        let number = *self.numbers.entry(shape).or_insert_with_key(|shape| {
            self.shapes.push(shape.clone());
            self.seen.push(Seen {
                of,
                count: 0,
                instances: Vec::new(),
            });
            self.seen.len() - 1
        });
        let seen = &mut self.seen[number];
        seen.count += 1;
        if seen.instances.len() < KEPT_INSTANCES {
            let nodes = nodes.iter().map(|(node, _)| *node);
            seen.instances.push(nodes.collect());
        }
    }

    pub fn gathered(&self) -> Vec<Gathered> {
        let gathered = self.seen.iter().map(|seen| Gathered {
            of: seen.of,
            count: seen.count,
            first: seen.instances[0].clone(),
        });
        gathered.collect()
    }

    /// Groups what there is.
    pub fn finish(self) -> RepresentativePlan {
        let shapes: Vec<&Shape> = self.shapes.iter().collect();
        let groups = group(&shapes);
        let mut covered: FxHashSet<NodeId> = FxHashSet::default();
        let mut representatives = Vec::new();
        for group in &groups {
            let seen = &self.seen[group.representative];
            // An instance inside of one that is tried anyway costs next to nothing.
            let is_covered = |nodes: &&Vec<NodeId>| nodes.iter().all(|node| covered.contains(node));
            let instance = seen.instances.iter().find(is_covered);
            let nodes = instance.unwrap_or(&seen.instances[0]).clone();
            covered.extend(&nodes);
            let members = group.members.iter();
            representatives.push(Behaviour {
                of: seen.of,
                begin: self.facts[nodes[0]].order,
                end: self.end(&nodes),
                stands_for: members.map(|member| self.seen[*member].count).sum(),
                places: shapes[group.representative].places().len(),
                origins: nodes.iter().map(|node| self.origin(*node)).collect(),
                nodes,
            });
        }
        representatives.sort_by_key(|one| (one.nodes.len(), one.begin));
        RepresentativePlan {
            behaviours: self.behaviours,
            shapes: shapes.len() as u64,
            representatives,
            returned_amid: Vec::new(),
        }
    }

    fn origin(&self, node: NodeId) -> NodeOrigin {
        let fact = &self.facts[node];
        let later = self.acknowledged.partition_point(|at| *at < fact.order);
        NodeOrigin {
            site: fact.site,
            order: fact.order,
            acknowledged_at: self.acknowledged.get(later).copied().unwrap_or(NEVER),
            recurs: self.recurs[node.index()],
        }
    }

    /// A behaviour is under way until all of it is durable, or the program has acknowledged
    /// something after it: what comes then belongs to others.
    fn end(&self, nodes: &[NodeId]) -> u64 {
        let NodeOrigin {
            order: last,
            acknowledged_at,
            ..
        } = self.origin(nodes[nodes.len() - 1]);
        let durable = self.facts.durable(nodes);
        match durable.min(acknowledged_at) {
            NEVER => last,
            end => end.max(last),
        }
    }
}
