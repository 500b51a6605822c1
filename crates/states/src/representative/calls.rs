//! Behaviours of programs that persist by files: by functions (§4.1).
//!
//! # Model
//!
//! Two calls that follow each other in a thread have call stacks with a common beginning: the same
//! frames, and then one more function that both are in, at the same or another line. Calls for
//! which that function is the same belong together (algorithm 1): a *function subgraph*. Up the tree
//! of call stacks, the subgraphs of a function are united with those of the functions that it calls,
//! and split by time where they lie far apart ([`Closeness`]).
//!
//! # Deviations
//!
//! - A behaviour ends where all that it did is durable, or never will be: what follows can't be
//!   persisted before the former, so that no state is lost by calling it another behaviour, and
//!   parts that are alike are found in behaviours that are not. The latter is something that came
//!   before to all that follow.
//! - Stacks are without repetition ([`Stacks`]), so that recursion is no behaviour of its own at every
//!   depth.
//! - A call stack does not tell two calls of a function from the same line apart, so that a loop
//!   over operations is one behaviour by the paper's rules. Here one also ends where the program has
//!   acknowledged something since it began, or where it has [`Rounds::most_steps`] steps and comes to
//!   a place that it has had already.
//! - What of a function's behaviour lies in one function that it calls is that one's alone.
//! - Stacks begin with a function that is not there, so that all of a thread have something in
//!   common even where they could not be seen to their ends.
//! - A step that algorithm 1 leaves over, such as the only one of a thread, is a behaviour of the
//!   function that made it. Nothing is left out.
//! - A node's place is the way from the behaviour's function to the system call, and what the call
//!   does there. So functions that everything goes through (`write_all`) are told apart by who
//!   called them, and interpreters, which do everything from one place, by what is done.

use super::cluster::Closeness;
use super::facts::{Facts, NEVER};
use super::plan::PlanBuilder;
use super::relation::ProgramPlace;
use crashpoint_persist::graph::NodeId;
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::hash::{Hash, Hasher as _};
use std::ops::Range;

pub use super::cluster::Closeness as TimeSplit;

/// A function of a call stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub u32);

/// One level of a call stack: a function, and where in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StackFrame {
    pub function: FunctionId,
    pub at: u64,
}

/// Call stacks without repetition: a function that calls itself is reached by as many stacks as it is
/// deep in itself, and does the same by all of them. A stack is cut where a function is entered again:
/// what it was called by the first time, and what it calls now.
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    all: Vec<Vec<StackFrame>>,
    numbers: FxHashMap<Vec<StackFrame>, u32>,
}

impl Stacks {
    /// The number of a stack, outermost function first.
    pub fn number(&mut self, frames: &[StackFrame]) -> u32 {
        let mut folded: Vec<StackFrame> = Vec::with_capacity(frames.len());
        for frame in frames {
            let mut entered = folded.iter();
            if let Some(first) = entered.position(|one| one.function == frame.function) {
                folded.truncate(first);
            }
            folded.push(*frame);
        }
        let fresh = self.all.len() as u32;
        *self.numbers.entry(folded).or_insert_with_key(|folded| {
            self.all.push(folded.clone());
            fresh
        })
    }
}

impl std::ops::Deref for Stacks {
    type Target = [Vec<StackFrame>];

    fn deref(&self) -> &[Vec<StackFrame>] {
        &self.all
    }
}

/// One call. Its position in the list is its time.
#[derive(Clone, Debug)]
pub struct CallStep {
    pub thread: u32,
    /// Into [`Calls::stacks`].
    pub stack: u32,
    pub order: u64,
    /// What it does: calls that do the same have the same.
    pub kind: u64,
    /// What it issued.
    pub nodes: Range<u32>,
}

/// A recording of calls.
pub struct Calls<'a> {
    /// Outermost function first.
    pub stacks: &'a [Vec<StackFrame>],
    pub steps: &'a [CallStep],
    /// Of each node, what it does.
    pub kinds: &'a [u64],
    pub facts: &'a Facts,
    /// Orders of the calls by which something was acknowledged, ascending.
    pub acknowledged: &'a [u64],
    /// Steps that belong to other behaviours already: alone they are none.
    pub is_divided: &'a dyn Fn(&CallStep) -> bool,
}

/// When a behaviour that repeats itself ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounds {
    pub most_steps: usize,
}

impl Default for Rounds {
    fn default() -> Rounds {
        Rounds { most_steps: 64 }
    }
}

/// A function subgraph: a node of the tree of call stacks, and its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    at: usize,
    steps: Vec<u32>,
}

/// The call stacks of one thread.
#[derive(Debug, Default)]
struct Tree {
    nodes: Vec<Branch>,
    by_function: FxHashMap<(usize, FunctionId), usize>,
    /// Of each stack that was met, its way from the root.
    ways: FxHashMap<u32, Vec<usize>>,
}

#[derive(Debug)]
struct Branch {
    function: FunctionId,
    /// From 1, for the function that is not there.
    depth: usize,
    parent: usize,
    own: Vec<Vec<u32>>,
}

/// The function that all stacks begin with.
const OUTSIDE: FunctionId = FunctionId(u32::MAX);

impl Tree {
    fn new() -> Tree {
        let mut tree = Tree::default();
        tree.nodes.push(Branch {
            function: OUTSIDE,
            depth: 0,
            parent: 0,
            own: Vec::new(),
        });
        tree
    }

    fn enter(&mut self, stack: u32, frames: &[StackFrame]) {
        if self.ways.contains_key(&stack) {
            return;
        }
        let mut way = vec![0];
        for frame in frames {
            let parent = way[way.len() - 1];
            let fresh = self.nodes.len();
            let at = *self
                .by_function
                .entry((parent, frame.function))
                .or_insert(fresh);
            if at == fresh {
                self.nodes.push(Branch {
                    function: frame.function,
                    depth: way.len(),
                    parent,
                    own: Vec::new(),
                });
            }
            way.push(at);
        }
        self.ways.insert(stack, way);
    }
}

/// How many frames two stacks have in common, the last one perhaps at different lines.
fn common(one: &[StackFrame], other: &[StackFrame]) -> usize {
    let same = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let next = one.get(same).zip(other.get(same));
    same + usize::from(next.is_some_and(|(a, b)| a.function == b.function))
}

impl Calls<'_> {
    /// Algorithm 1 for one thread.
    fn subgraphs(&self, steps: &[u32], tree: &mut Tree) -> Vec<Found> {
        let stack = |step: u32| &self.stacks[self.steps[step as usize].stack as usize][..];
        for step in steps {
            tree.enter(self.steps[*step as usize].stack, stack(*step));
        }
        let at = |step: u32, depth: usize| {
            let way = &tree.ways[&self.steps[step as usize].stack];
            way[depth.min(way.len() - 1)]
        };
        let mut found = Vec::new();
        // The depth of the function of the behaviour that is under way, and its steps.
        let mut current: Option<(usize, Vec<u32>)> = None;
        let mut end = |depth: usize, steps: Vec<u32>| {
            if let Some(first) = steps.first() {
                let at = at(*first, depth);
                found.push(Found { at, steps });
            }
        };
        for pair in steps.windows(2) {
            let (left, right) = (pair[0], pair[1]);
            let depth = common(stack(left), stack(right));
            current = match current.take() {
                None => Some((depth, vec![left, right])),
                Some((before, mut behaviour)) if before == depth => {
                    behaviour.push(right);
                    Some((before, behaviour))
                }
                // A function was called: the step before is its first one.
                Some((before, mut behaviour)) if before < depth => {
                    behaviour.pop();
                    end(before, behaviour);
                    Some((depth, vec![left, right]))
                }
                // A function has returned.
                Some((before, behaviour)) => {
                    end(before, behaviour);
                    None
                }
            };
        }
        let last = steps.last().copied();
        match (current, last) {
            (Some((depth, behaviour)), _) => end(depth, behaviour),
            (None, Some(last)) => end(stack(last).len(), vec![last]),
            (None, None) => {}
        }
        found
    }

    /// Divides the recording, and hands over every behaviour.
    pub fn behaviours(&self, closeness: Closeness, rounds: Rounds, builder: &mut PlanBuilder<'_>) {
        let suffixes = Suffixes::new(self.stacks);
        let mut threads: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        for (index, step) in (0..).zip(self.steps) {
            threads.entry(step.thread).or_default().push(index);
        }
        let mut threads: Vec<(u32, Vec<u32>)> = threads.into_iter().collect();
        threads.sort_unstable();
        for (_, steps) in threads {
            let mut tree = Tree::new();
            for found in self.subgraphs(&steps, &mut tree) {
                tree.nodes[found.at].own.push(found.steps);
            }
            self.group(tree, |branch, steps| {
                for near in closeness.split(&steps) {
                    let depth = branch.depth;
                    self.rounds(&near, depth, rounds, &suffixes, |round| {
                        let alone = match round {
                            [one] => (self.is_divided)(&self.steps[*one as usize]),
                            _ => false,
                        };
                        if !alone && !self.is_of_one_callee(round, depth) {
                            self.hand_over(branch, round, &suffixes, builder);
                        }
                    });
                }
            });
        }
    }

    /// Up the tree: each function's own subgraphs, and all that lies below it in one.
    fn group(&self, mut tree: Tree, mut deliver: impl FnMut(&Branch, Vec<u32>)) {
        // Children have larger numbers than their parents.
        let mut below: Vec<Vec<Vec<u32>>> = vec![Vec::new(); tree.nodes.len()];
        for at in (0..tree.nodes.len()).rev() {
            let own = std::mem::take(&mut tree.nodes[at].own);
            let branch = &tree.nodes[at];
            let of_children = std::mem::take(&mut below[at]);
            let parts = own.len() + of_children.len();
            if parts == 0 {
                continue;
            }
            // What only passes through is the behaviour of the function that it goes to.
            let passes_through = own.is_empty() && of_children.len() == 1;
            let mut all: Vec<u32> = own.iter().chain(&of_children).flatten().copied().collect();
            all.sort_unstable();
            all.dedup();
            let is_united = !of_children.is_empty() && !passes_through;
            for one in own.into_iter().filter(|one| !is_united || one.len() > 1) {
                deliver(branch, one);
            }
            if is_united {
                deliver(branch, all.clone());
            }
            if at > 0 {
                below[branch.parent].push(all);
            }
        }
    }

    /// Splits where a behaviour begins anew.
    fn rounds(
        &self,
        steps: &[u32],
        depth: usize,
        rounds: Rounds,
        suffixes: &Suffixes,
        mut deliver: impl FnMut(&[u32]),
    ) {
        let mut seen: FxHashSet<u64> = FxHashSet::default();
        let mut begin = 0;
        // From when on all that the round did is durable.
        let mut durable = 0;
        for (index, number) in steps.iter().enumerate() {
            let step = &self.steps[*number as usize];
            let site = suffixes.place(step.stack, depth, step.kind).0;
            let first = &self.steps[steps[begin] as usize];
            let is_over = durable > 0 && durable < step.order
                || self.is_told_between(first.order, step.order)
                || seen.contains(&site) && index - begin >= rounds.most_steps;
            if is_over {
                deliver(&steps[begin..index]);
                begin = index;
                seen.clear();
                durable = 0;
            }
            seen.insert(site);
            let nodes = step.nodes.clone().map(NodeId);
            durable = nodes
                .map(|node| self.facts[node].durable)
                .filter(|since| *since != NEVER)
                .fold(durable, u64::max);
        }
        if begin < steps.len() {
            deliver(&steps[begin..]);
        }
    }

    /// Whether several steps lie in one function that this one calls: then they are that one's
    /// behaviour. A single step is its callers' too, as programs store and write through small
    /// functions of their own.
    fn is_of_one_callee(&self, steps: &[u32], depth: usize) -> bool {
        let stack = |step: &u32| &self.stacks[self.steps[*step as usize].stack as usize][..];
        steps.len() > 1
            && steps
                .windows(2)
                .all(|pair| common(stack(&pair[0]), stack(&pair[1])) > depth)
    }

    fn is_told_between(&self, from: u64, to: u64) -> bool {
        let later = self.acknowledged.partition_point(|at| *at <= from);
        self.acknowledged.get(later).is_some_and(|at| *at < to)
    }

    fn hand_over(
        &self,
        branch: &Branch,
        steps: &[u32],
        suffixes: &Suffixes,
        builder: &mut PlanBuilder<'_>,
    ) {
        let mut nodes: Vec<(NodeId, ProgramPlace)> = Vec::new();
        for number in steps {
            let step = &self.steps[*number as usize];
            nodes.extend(step.nodes.clone().map(|node| {
                let place = suffixes.place(step.stack, branch.depth, self.kinds[node as usize]);
                (NodeId(node), place)
            }));
        }
        if !nodes.is_empty() {
            builder.add(branch.function.0, &nodes);
        }
    }
}

/// Of each stack, a hash of its frames from each depth inwards.
struct Suffixes(Vec<Vec<u64>>);

impl Suffixes {
    fn new(stacks: &[Vec<StackFrame>]) -> Suffixes {
        let of_stack = |frames: &Vec<StackFrame>| {
            let mut hashes = vec![0; frames.len() + 1];
            for (index, frame) in frames.iter().enumerate().rev() {
                let mut hasher = FxHasher::default();
                (frame.function, frame.at, hashes[index + 1]).hash(&mut hasher);
                hashes[index] = hasher.finish();
            }
            hashes
        };
        Suffixes(stacks.iter().map(of_stack).collect())
    }

    /// As seen from the function at a depth, which counts from 1; 0 is outside of all.
    fn place(&self, stack: u32, depth: usize, kind: u64) -> ProgramPlace {
        let hashes = &self.0[stack as usize];
        let suffix = hashes[depth.saturating_sub(1).min(hashes.len() - 1)];
        let mut hasher = FxHasher::default();
        (suffix, kind).hash(&mut hasher);
        ProgramPlace(hasher.finish())
    }
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
