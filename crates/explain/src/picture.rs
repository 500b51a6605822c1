//! Graphs of findings and of behaviours, kept beside them as data; `crashpoint show --graph` draws
//! them.

use std::io;
use std::path::Path;

use crashpoint_persist::graph::NodeId;
use crashpoint_report::graph::{Fate, Graph, Operation, VERSION};
use crashpoint_states::representative::{Behaviour, Facts, ProgramPlace, RepresentativePlan};

/// The file with a graph, in a folder of its own or in that of a finding.
pub const FILE: &str = "graph.json";
/// The folder with those of representatives, numbered from 1.
pub const BEHAVIOURS: &str = "behaviours";

/// Operations in one picture: more than that nobody looks at. The last ones stay.
const MOST_OPERATIONS: usize = 60;
/// Behaviours that are kept.
const MOST_BEHAVIOURS: usize = 500;

/// What is drawn: nodes, each with what became of it, and how to tell where it comes from.
pub struct Picture<'p> {
    pub title: String,
    pub facts: &'p Facts,
    /// Ascending.
    pub nodes: Vec<(NodeId, Fate)>,
    /// What an operation is, and where, by one of its nodes.
    pub tell: &'p dyn Fn(NodeId) -> (String, String),
}

impl Picture<'_> {
    pub fn graph(self) -> Graph {
        let facts = self.facts;
        let mut orders: Vec<u64> = self
            .nodes
            .iter()
            .map(|(node, _)| facts[*node].order)
            .collect();
        orders.dedup();
        let left_out = orders.len().saturating_sub(MOST_OPERATIONS);
        let orders = orders.split_off(left_out);
        let number = |node: NodeId| orders.binary_search(&facts[node].order).ok();
        let mut operations: Vec<Operation> = Vec::new();
        let mut placed: Vec<(NodeId, ProgramPlace)> = Vec::new();
        for (node, fate) in &self.nodes {
            let Some(number) = number(*node) else {
                continue;
            };
            placed.push((*node, ProgramPlace(number as u64)));
            match operations.get_mut(number) {
                Some(known) if known.fate != *fate => known.fate = Fate::Partly,
                Some(_) => {}
                None => {
                    let (text, place) = (self.tell)(*node);
                    operations.push(Operation {
                        text,
                        place,
                        fate: *fate,
                    });
                }
            }
        }
        let shape = facts.shape(&placed);
        let edges = shape.edges().iter().map(|(a, b)| (a.0 as u32, b.0 as u32));
        let title = match left_out {
            0 => self.title,
            _ => format!("{} (the last {MOST_OPERATIONS} operations)", self.title),
        };
        Graph {
            crashpoint_graph: VERSION,
            title,
            operations,
            edges: edges.filter(|(from, to)| from < to).collect(),
        }
        .reduced()
    }
}

/// What became of pending nodes in a crash state.
pub fn fates(kept: &[u32], lost: &[u32]) -> Vec<(NodeId, Fate)> {
    let with = |fate| move |id: &u32| (NodeId(*id), fate);
    let kept = kept.iter().map(with(Fate::Kept));
    let mut all: Vec<(NodeId, Fate)> = kept.chain(lost.iter().map(with(Fate::Lost))).collect();
    all.sort_unstable_by_key(|(node, _)| *node);
    all
}

pub fn write(folder: &Path, graph: &Graph) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let text = serde_json::to_vec_pretty(graph).expect("a graph has a JSON form");
    std::fs::write(folder.join(FILE), text)
}

/// Keeps the graphs of a plan's representatives, in place of those of an earlier run.
pub fn write_behaviours(
    out: &Path,
    plan: &RepresentativePlan,
    facts: &Facts,
    name: &dyn Fn(&Behaviour) -> String,
    tell: &dyn Fn(NodeId) -> (String, String),
) -> io::Result<()> {
    let folder = out.join(BEHAVIOURS);
    match std::fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let all = plan.representatives.iter().take(MOST_BEHAVIOURS);
    for (number, behaviour) in (1..).zip(all) {
        let nodes = behaviour.nodes.iter().map(|node| (*node, Fate::Open));
        let picture = Picture {
            title: format!(
                "{}: stands for {} like it",
                name(behaviour),
                behaviour.stands_for
            ),
            facts,
            nodes: nodes.collect(),
            tell,
        };
        write(&folder.join(number.to_string()), &picture.graph())?;
    }
    Ok(())
}
