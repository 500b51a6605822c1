//! Chains while the walker extends them at one end and fences shorten them at the other.
//!
//! A chain is named by the place that it is for, and lives while it has pending nodes. What a node
//! needs besides its chain's earlier nodes is kept beside it: older nodes of another chain, or
//! barriers of its thread. A *barrier* is a `clflush`: the nodes that its line had then. A node
//! that is issued after `n` barriers of its thread needs all of them, so that the numbers of the
//! first and last barrier describe it, and no work grows with the number of barriers between.
//! Only [`Chains::collect`] spells them out, without those that others imply.
//!
//! References to nodes of a chain ("up to this node") are never cleaned up. Nodes are numbered in
//! the order of issue: when the nodes are durable, or the chain's slot serves another place, every
//! node that is left is newer, and the reference means nothing.

use super::LineId;
use crate::graph::{Chain, Implication, NodeId};
use crashpoint_trace::ThreadIndex;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Line(LineId),
    /// Non-temporal stores to a word; its address divided by 8.
    Word(u64),
    /// Address divided by 4096.
    Page(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChainId(u32);

/// A chain's nodes up to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UpTo {
    pub chain: ChainId,
    pub node: NodeId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Nodes(UpTo),
    /// The barriers of a thread behind number `after`, up to number `last`.
    Barriers {
        thread: ThreadIndex,
        after: u64,
        last: u64,
    },
}

#[derive(Clone, Copy, Debug)]
struct Need {
    at: NodeId,
    what: What,
}

#[derive(Clone, Debug)]
struct Track {
    key: Key,
    nodes: VecDeque<NodeId>,
    /// By node.
    needs: VecDeque<Need>,
    /// For a line: the last node of each word, pending or not.
    last: [Option<NodeId>; 8],
}

#[derive(Clone, Debug)]
struct Barrier {
    nodes: SmallVec<[UpTo; 2]>,
    /// Its nodes need this thread's barriers up to this number anyhow.
    covers: u64,
}

/// Barriers of a thread that are not known to be passed, with numbers from 1.
#[derive(Clone, Debug, Default)]
struct Barriers {
    passed: u64,
    live: VecDeque<Barrier>,
}

impl Barriers {
    fn last(&self) -> u64 {
        self.passed + self.live.len() as u64
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Chains {
    tracks: Vec<Track>,
    free: Vec<ChainId>,
    by_key: FxHashMap<Key, ChainId>,
    /// How many of them are for words.
    words: usize,
    barriers: Vec<Barriers>,
    /// Nodes that became durable, in no order.
    pub durable: Vec<NodeId>,
}

impl Chains {
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    pub fn keys(&self) -> impl Iterator<Item = Key> {
        self.by_key.keys().copied()
    }

    fn track(&self, chain: ChainId) -> &Track {
        &self.tracks[chain.0 as usize]
    }

    fn track_mut(&mut self, chain: ChainId) -> &mut Track {
        &mut self.tracks[chain.0 as usize]
    }

    /// All nodes that the chain for a place has now.
    pub fn whole(&self, key: Key) -> Option<UpTo> {
        if self.words == 0 && matches!(key, Key::Word(_)) {
            return None;
        }
        let chain = *self.by_key.get(&key)?;
        let node = *self.track(chain).nodes.back()?;
        Some(UpTo { chain, node })
    }

    /// The nodes of the chain for a place up to this one.
    pub fn up_to(&self, key: Key, node: NodeId) -> Option<UpTo> {
        let chain = *self.by_key.get(&key)?;
        Some(UpTo { chain, node })
    }

    /// Whether any of the nodes is pending.
    pub fn is_pending(&self, up_to: UpTo) -> bool {
        let first = self.track(up_to.chain).nodes.front();
        first.is_some_and(|first| *first <= up_to.node)
    }

    fn find_or_add(&mut self, key: Key) -> ChainId {
        if let Some(chain) = self.by_key.get(&key) {
            return *chain;
        }
        let chain = self.free.pop().unwrap_or_else(|| {
            let number = u32::try_from(self.tracks.len()).expect("a chain takes a node");
            self.tracks.push(Track {
                key,
                nodes: VecDeque::new(),
                needs: VecDeque::new(),
                last: [None; 8],
            });
            ChainId(number)
        });
        self.track_mut(chain).key = key;
        self.words += usize::from(matches!(key, Key::Word(_)));
        self.by_key.insert(key, chain);
        chain
    }

    /// Adds a node that no other chain matters for.
    pub fn push(&mut self, key: Key, node: NodeId) {
        let chain = self.find_or_add(key);
        self.track_mut(chain).nodes.push_back(node);
    }

    /// Adds a node of a cached store to a line.
    pub fn push_cached(&mut self, line: LineId, word: u64, node: NodeId, by: ThreadIndex) {
        let streamed = self.whole(Key::Word(word));
        let chain = self.find_or_add(Key::Line(line));
        let track = self.track_mut(chain);
        track.nodes.push_back(node);
        track.last[(word % 8) as usize] = Some(node);
        self.need(chain, node, streamed, by);
    }

    /// Adds a node of a non-temporal store, and tells where it is.
    pub fn push_streamed(
        &mut self,
        line: LineId,
        word: u64,
        node: NodeId,
        by: ThreadIndex,
    ) -> UpTo {
        let cached = self.by_key.get(&Key::Line(line)).and_then(|chain| {
            let node = self.track(*chain).last[(word % 8) as usize]?;
            let chain = *chain;
            Some(UpTo { chain, node })
        });
        let chain = self.find_or_add(Key::Word(word));
        self.track_mut(chain).nodes.push_back(node);
        self.need(chain, node, cached, by);
        UpTo { chain, node }
    }

    /// Notes what a new node needs.
    fn need(&mut self, chain: ChainId, at: NodeId, same_word: Option<UpTo>, by: ThreadIndex) {
        if let Some(up_to) = same_word.filter(|up_to| self.is_pending(*up_to)) {
            let what = What::Nodes(up_to);
            let needs = &mut self.track_mut(chain).needs;
            if needs.back().is_none_or(|need| need.what != what) {
                needs.push_back(Need { at, what });
            }
        }
        let Some(barriers) = self.barriers.get(by.index()) else {
            return;
        };
        if barriers.live.is_empty() {
            return;
        }
        let (passed, last) = (barriers.passed, barriers.last());
        let after = self.needed_barrier(chain, by).max(passed);
        if after < last {
            let thread = by;
            let what = What::Barriers {
                thread,
                after,
                last,
            };
            self.track_mut(chain).needs.push_back(Need { at, what });
        }
    }

    /// The number of the last barrier of a thread that some node of the chain needs.
    fn needed_barrier(&self, chain: ChainId, of: ThreadIndex) -> u64 {
        let mut latest = self.track(chain).needs.iter().rev();
        let last = latest.find_map(|need| match need.what {
            What::Barriers { thread, last, .. } if thread == of => Some(last),
            What::Barriers { .. } | What::Nodes(_) => None,
        });
        last.unwrap_or(0)
    }

    /// What the thread issues from now on needs these nodes.
    pub fn add_barrier(&mut self, of: ThreadIndex, nodes: SmallVec<[UpTo; 2]>) {
        let needed = nodes
            .iter()
            .map(|up_to| self.needed_barrier(up_to.chain, of));
        let covers = needed.max().unwrap_or(0);
        if self.barriers.len() <= of.index() {
            self.barriers.resize_with(of.index() + 1, Barriers::default);
        }
        let barrier = Barrier { nodes, covers };
        self.barriers[of.index()].live.push_back(barrier);
    }

    /// These nodes are durable, and with them all that they need.
    pub fn settle(&mut self, up_to: UpTo) {
        let mut open: SmallVec<[UpTo; 8]> = SmallVec::new();
        open.push(up_to);
        while let Some(UpTo { chain, node }) = open.pop() {
            if !self.is_pending(UpTo { chain, node }) {
                continue;
            }
            let track = &mut self.tracks[chain.0 as usize];
            while let Some(first) = track.nodes.pop_front_if(|first| *first <= node) {
                self.durable.push(first);
            }
            while let Some(need) = track.needs.pop_front_if(|need| need.at <= node) {
                match need.what {
                    What::Nodes(up_to) => open.push(up_to),
                    What::Barriers { thread, last, .. } => {
                        let barriers = &mut self.barriers[thread.index()];
                        while barriers.passed < last
                            && let Some(barrier) = barriers.live.pop_front()
                        {
                            barriers.passed += 1;
                            open.extend(barrier.nodes);
                        }
                    }
                }
            }
            if track.nodes.is_empty() {
                let key = track.key;
                self.by_key.remove(&key);
                self.words -= usize::from(matches!(key, Key::Word(_)));
                self.free.push(chain);
            }
        }
    }

    /// A fence of the thread has waited for its barriers.
    pub fn pass_barriers(&mut self, of: ThreadIndex) {
        if let Some(barriers) = self.barriers.get_mut(of.index()) {
            barriers.passed = barriers.last();
            barriers.live.clear();
        }
    }

    /// Everything pending, the chains in the order of their first nodes.
    pub fn collect(&self) -> (Vec<Chain>, Vec<Implication>) {
        let mut order: Vec<ChainId> = self.by_key.values().copied().collect();
        order.sort_unstable_by_key(|chain| self.track(*chain).nodes.front());
        let mut places = vec![u32::MAX; self.tracks.len()];
        for (place, chain) in (0..).zip(&order) {
            places[chain.0 as usize] = place;
        }
        let mut implications = Vec::new();
        for chain in &order {
            let track = self.track(*chain);
            for need in &track.needs {
                let before = track.nodes.partition_point(|node| *node < need.at);
                self.each(need.what, |target| {
                    let nodes = &self.track(target.chain).nodes;
                    let least = nodes.partition_point(|node| *node <= target.node);
                    if least != 0 && target.chain != *chain {
                        implications.push(Implication {
                            if_chain: places[chain.0 as usize],
                            if_more_than: before as u32,
                            then_chain: places[target.chain.0 as usize],
                            then_least: least as u32,
                        });
                    }
                });
            }
        }
        let nodes = order.iter().map(|chain| &self.track(*chain).nodes);
        let chains = nodes.map(|nodes| Chain {
            nodes: nodes.iter().copied().collect(),
        });
        (chains.collect(), implications)
    }

    /// What a need stands for, without barriers that other ones imply.
    fn each(&self, what: What, mut see: impl FnMut(UpTo)) {
        match what {
            What::Nodes(up_to) => see(up_to),
            What::Barriers {
                thread,
                after,
                last,
            } => {
                let barriers = &self.barriers[thread.index()];
                let mut covered = after.max(barriers.passed);
                let mut number = last;
                while number > covered {
                    let barrier = &barriers.live[(number - barriers.passed - 1) as usize];
                    barrier.nodes.iter().for_each(|up_to| see(*up_to));
                    covered = covered.max(barrier.covers);
                    number -= 1;
                }
            }
        }
    }
}
