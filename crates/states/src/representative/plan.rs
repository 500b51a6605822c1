//! Which behaviours a recording has, which of them are tried, and when each is under way.

use super::facts::{Facts, NEVER};
use super::groups::group;
use super::relation::{Place, Shape};
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
    pub origins: Vec<Origin>,
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
pub struct Origin {
    pub site: u64,
    /// Of the event that issued it, and of the one by which something was acknowledged next.
    pub order: u64,
    pub told: u64,
}

/// What is to be tried, and what it stands for.
#[derive(Clone, Debug, Default)]
pub struct Plan {
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
    pub fn new(facts: &'f Facts) -> PlanBuilder<'f> {
        PlanBuilder {
            facts,
            behaviours: 0,
            shapes: Vec::new(),
            seen: Vec::new(),
            numbers: FxHashMap::default(),
        }
    }

    /// An instance: its nodes, ascending, with their places.
    pub fn add(&mut self, of: u32, nodes: &[(NodeId, Place)]) {
        self.behaviours += 1;
        let shape = self.facts.shape(nodes);
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

    /// Groups what there is. `acknowledged`: orders of the events by which something was
    /// acknowledged, ascending.
    pub fn finish(self, acknowledged: &[u64]) -> Plan {
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
                end: self.end(&nodes, acknowledged),
                stands_for: members.map(|member| self.seen[*member].count).sum(),
                places: shapes[group.representative].places().len(),
                origins: nodes
                    .iter()
                    .map(|node| self.origin(*node, acknowledged))
                    .collect(),
                nodes,
            });
        }
        representatives.sort_by_key(|one| (one.nodes.len(), one.begin));
        Plan {
            behaviours: self.behaviours,
            shapes: shapes.len() as u64,
            representatives,
            returned_amid: Vec::new(),
        }
    }

    fn origin(&self, node: NodeId, acknowledged: &[u64]) -> Origin {
        let fact = &self.facts[node];
        let later = acknowledged.partition_point(|at| *at < fact.order);
        Origin {
            site: fact.site,
            order: fact.order,
            told: acknowledged.get(later).copied().unwrap_or(NEVER),
        }
    }

    /// A behaviour is under way until all of it is durable, or the program has acknowledged
    /// something after it: what comes then belongs to others.
    fn end(&self, nodes: &[NodeId], acknowledged: &[u64]) -> u64 {
        let Origin {
            order: last, told, ..
        } = self.origin(nodes[nodes.len() - 1], acknowledged);
        let durable = self.facts.durable(nodes);
        match durable.min(told) {
            NEVER => last,
            end => end.max(last),
        }
    }
}
