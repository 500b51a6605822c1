//! What waits for what: pending nodes as chains, while calls add to them and syncs take away.
//!
//! A node needs older ones. It goes to the end of a chain that ends in a node that it needs, or
//! begins a new one; what else it needs is an implication. The operations on metadata that a model
//! keeps in order have a chain of their own, *the journal*.
//!
//! Where a sync writes ahead of the journal ([`Order::new`] with `out_of_order`), being behind
//! something in the journal binds a commit and not a sync: such a need is *by order*. It concerns
//! all of the journal up to a node, whether or not that node is durable already.

use crate::graph::{Chain, Frontier, Implication, NodeId};
use smallvec::SmallVec;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TrackId(u32);

const JOURNAL: TrackId = TrackId(0);

#[derive(Clone, Debug)]
struct Mark {
    track: TrackId,
    durable: bool,
    needs: SmallVec<[NodeId; 2]>,
    /// All of the journal up to this node.
    behind: Option<NodeId>,
}

#[derive(Clone, Debug, Default)]
struct Track {
    /// Ascending; the first one is pending, others may be durable.
    nodes: VecDeque<NodeId>,
}

#[derive(Clone, Debug)]
pub(super) struct Order {
    marks: Vec<Mark>,
    tracks: Vec<Track>,
    free: Vec<TrackId>,
    out_of_order: bool,
    /// The newest node of the journal, pending or not.
    tip: Option<NodeId>,
    pending: usize,
    /// Nodes that became durable, in no order.
    pub durable: Vec<NodeId>,
}

impl Order {
    pub fn new(out_of_order: bool) -> Order {
        Order {
            marks: Vec::new(),
            tracks: vec![Track::default()],
            free: Vec::new(),
            out_of_order,
            tip: None,
            pending: 0,
            durable: Vec::new(),
        }
    }

    fn track(&self, id: TrackId) -> &Track {
        &self.tracks[id.0 as usize]
    }

    fn track_mut(&mut self, id: TrackId) -> &mut Track {
        &mut self.tracks[id.0 as usize]
    }

    pub fn is_pending(&self, node: NodeId) -> bool {
        !self.marks[node.index()].durable
    }

    pub fn is_in_journal(&self, node: NodeId) -> bool {
        self.marks[node.index()].track == JOURNAL
    }

    pub fn is_behind_journal(&self, node: NodeId) -> bool {
        self.marks[node.index()].behind.is_some()
    }

    pub fn pending(&self) -> usize {
        self.pending
    }

    /// The newest node of the journal.
    pub fn tip(&self) -> Option<NodeId> {
        self.tip
    }

    /// Whether anything of the journal up to this node is pending.
    pub fn is_pending_up_to(&self, node: NodeId) -> bool {
        let first = self.track(JOURNAL).nodes.front();
        first.is_some_and(|first| *first <= node)
    }

    /// Adds the next node at the end of the journal.
    pub fn add_to_journal(&mut self, node: NodeId, needs: &[NodeId]) {
        let behind = self.tip.replace(node);
        self.add_to(JOURNAL, node, needs, behind);
    }

    /// Adds the next node as one that is neither pending nor durable, in the journal or not.
    pub fn add_silent(&mut self, node: NodeId, in_journal: bool) {
        assert_eq!(node.index(), self.marks.len());
        self.marks.push(Mark {
            track: JOURNAL,
            durable: true,
            needs: SmallVec::new(),
            behind: None,
        });
        if in_journal {
            self.tip = Some(node);
        }
    }

    /// What a pending node needs, but for its place in the journal.
    pub fn needs(&self, node: NodeId) -> &[NodeId] {
        &self.marks[node.index()].needs
    }

    /// Makes a node durable, and the silent one after it pending in its place, with some of what
    /// the first one needed. Where the node was taken to be durable, so is the other.
    pub fn replace(&mut self, node: NodeId, silent: NodeId, needs: &[NodeId]) {
        if !self.is_pending(node) {
            self.durable.push(silent);
            return;
        }
        let mark = &mut self.marks[node.index()];
        let behind = mark.behind;
        mark.needs.retain(|need| !needs.contains(need));
        self.settle(node);
        let nodes = &mut self.track_mut(JOURNAL).nodes;
        let place = nodes.partition_point(|other| *other < silent);
        nodes.insert(place, silent);
        let mark = &mut self.marks[silent.index()];
        mark.durable = false;
        mark.behind = behind;
        mark.needs = SmallVec::from_slice(needs);
        self.pending += 1;
    }

    /// Adds the next node outside of the journal, behind what the journal holds up to a node.
    pub fn add(&mut self, node: NodeId, needs: &[NodeId], behind: Option<NodeId>) {
        let host = needs.iter().find_map(|need| {
            let mark = &self.marks[need.index()];
            let may_host = !mark.durable && mark.track != JOURNAL;
            let is_last = || self.track(mark.track).nodes.back() == Some(need);
            (may_host && is_last()).then_some(mark.track)
        });
        let track = host.or_else(|| self.free.pop()).unwrap_or_else(|| {
            self.tracks.push(Track::default());
            TrackId(self.tracks.len() as u32 - 1)
        });
        self.add_to(track, node, needs, behind);
    }

    fn add_to(&mut self, track: TrackId, node: NodeId, needs: &[NodeId], behind: Option<NodeId>) {
        assert_eq!(node.index(), self.marks.len());
        let mut pending: SmallVec<[NodeId; 2]> = SmallVec::new();
        for need in needs {
            assert!(*need < node, "needs are older");
            if self.is_pending(*need) && !pending.contains(need) {
                pending.push(*need);
            }
        }
        self.track_mut(track).nodes.push_back(node);
        self.marks.push(Mark {
            track,
            durable: false,
            needs: pending,
            behind,
        });
        self.pending += 1;
    }

    /// A sync makes this node durable, and with it all that it needs.
    pub fn settle(&mut self, node: NodeId) {
        self.settle_by(node, self.out_of_order);
    }

    /// A crash left this node, and with it all that it needs: no sync wrote it ahead of the journal.
    pub fn commit(&mut self, node: NodeId) {
        self.settle_by(node, false);
    }

    fn settle_by(&mut self, node: NodeId, out_of_order: bool) {
        let mut open: SmallVec<[NodeId; 8]> = SmallVec::new();
        open.push(node);
        while let Some(node) = open.pop() {
            let mark = &mut self.marks[node.index()];
            if std::mem::replace(&mut mark.durable, true) {
                continue;
            }
            let track = mark.track;
            open.extend(std::mem::take(&mut mark.needs));
            let behind = mark.behind.take().filter(|_| !out_of_order);
            self.pending -= 1;
            self.durable.push(node);
            self.trim(track);
            if let Some(behind) = behind {
                self.settle_journal(behind, &mut open);
            }
        }
    }

    /// All of the journal up to this node is durable.
    pub fn settle_up_to(&mut self, node: NodeId) {
        let mut open: SmallVec<[NodeId; 8]> = SmallVec::new();
        self.settle_journal(node, &mut open);
        while let Some(node) = open.pop() {
            self.settle(node);
        }
    }

    /// Takes them out of the journal, so that no node is looked at twice.
    fn settle_journal(&mut self, up_to: NodeId, open: &mut SmallVec<[NodeId; 8]>) {
        let nodes = &mut self.track_mut(JOURNAL).nodes;
        while let Some(node) = nodes.pop_front_if(|node| *node <= up_to) {
            open.push(node);
        }
    }

    /// Everything is durable.
    pub fn settle_all(&mut self) {
        let tracks = std::mem::take(&mut self.tracks);
        for node in tracks.iter().flat_map(|track| &track.nodes) {
            let mark = &mut self.marks[node.index()];
            if !std::mem::replace(&mut mark.durable, true) {
                mark.needs.clear();
                self.durable.push(*node);
            }
        }
        self.tracks.push(Track::default());
        self.free.clear();
        self.pending = 0;
    }

    fn trim(&mut self, id: TrackId) {
        let track = &mut self.tracks[id.0 as usize];
        let marks = &self.marks;
        while track
            .nodes
            .pop_front_if(|node| marks[node.index()].durable)
            .is_some()
        {}
        if track.nodes.is_empty() && id != JOURNAL {
            self.free.push(id);
        }
    }

    /// What a crash may lose, the chains in the order of their first nodes.
    pub fn frontier(&self, order: u64) -> Frontier {
        let mut chains: Vec<(TrackId, Chain)> = Vec::new();
        for (id, track) in (0..).zip(&self.tracks) {
            let nodes = track.nodes.iter().copied();
            let nodes: Vec<NodeId> = nodes.filter(|node| self.is_pending(*node)).collect();
            if !nodes.is_empty() {
                chains.push((TrackId(id), Chain { nodes }));
            }
        }
        chains.sort_unstable_by_key(|(_, chain)| chain.nodes[0]);
        let mut places = vec![u32::MAX; self.tracks.len()];
        for (place, (track, _)) in (0..).zip(&chains) {
            places[track.0 as usize] = place;
        }
        let mut implications = Vec::new();
        for (if_chain, (own, chain)) in (0..).zip(&chains) {
            // What a node of the chain needs is needed by those behind it, too.
            let mut needed_journal = 0;
            for (if_more_than, node) in (0..).zip(&chain.nodes) {
                let mark = &self.marks[node.index()];
                let mut imply = |track: TrackId, then_least: u32| {
                    implications.push(Implication {
                        if_chain,
                        if_more_than,
                        then_chain: places[track.0 as usize],
                        then_least,
                    });
                };
                if let Some(behind) = mark.behind.filter(|_| *own != JOURNAL)
                    && let Some((_, journal)) = chains.get(places[0] as usize)
                {
                    let least = journal.nodes.partition_point(|node| *node <= behind) as u32;
                    if least > needed_journal {
                        needed_journal = least;
                        imply(JOURNAL, least);
                    }
                }
                for need in &mark.needs {
                    let track = self.marks[need.index()].track;
                    if self.is_pending(*need) && track != *own {
                        let there = &chains[places[track.0 as usize] as usize].1.nodes;
                        let least = there.partition_point(|node| node <= need) as u32;
                        imply(track, least);
                    }
                }
            }
        }
        let chains = chains.into_iter().map(|(_, chain)| chain).collect();
        Frontier::new(order, chains, implications)
    }
}
