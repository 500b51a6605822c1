//! From events to nodes, and from flushes and fences to what is durable.

use super::chains::{Chains, Key, UpTo};
use super::model::Model;
use super::node::{Node, WORD_BYTES, words};
use super::{LineId, pieces};
use crate::graph::{Chain, Fed, Frontier, NodeId, Walker};
use crashpoint_abi::CACHE_LINE_BYTES;
use crashpoint_trace::{
    Event, EventClass, EventKind, FenceKind, FileIndex, FlushKind, PmAddress, StoreKind,
    ThreadIndex,
};
use smallvec::SmallVec;

const PAGE_BYTES: u64 = 4096;

/// Follows the events of a recording.
#[derive(Clone, Debug)]
pub struct MemoryWalker {
    model: Model,
    nodes: Vec<Node>,
    /// How many of them there were before the last event.
    before: usize,
    /// How many were handed out as durable.
    taken: usize,
    chains: Chains,
    /// By thread: what its next fence makes durable.
    sent: Vec<Vec<UpTo>>,
    /// By file.
    ignored: Vec<bool>,
    order: u64,
}

impl MemoryWalker {
    pub fn new(model: Model) -> MemoryWalker {
        MemoryWalker {
            model,
            nodes: Vec::new(),
            before: 0,
            taken: 0,
            chains: Chains::default(),
            sent: Vec::new(),
            ignored: Vec::new(),
            order: 0,
        }
    }

    pub fn model(&self) -> Model {
        self.model
    }

    /// Stores to this file never persist, as it is mapped privately: they make no nodes.
    pub fn ignore(&mut self, file: FileIndex) {
        if self.ignored.len() <= file.index() {
            self.ignored.resize(file.index() + 1, false);
        }
        self.ignored[file.index()] = true;
    }

    fn is_ignored(&self, address: PmAddress) -> bool {
        let ignored = self.ignored.get(address.file().index());
        ignored.is_some_and(|ignored| *ignored)
    }

    fn store(
        &mut self,
        event: &Event<'_>,
        kind: StoreKind,
        address: PmAddress,
        length: u64,
        value: impl Fn(u64, &mut [u8]),
    ) {
        if self.is_ignored(address) {
            return;
        }
        for (at, length) in words(address, length) {
            let id = NodeId::after(self.nodes.len());
            let mut bytes = [0; 8];
            value(at, &mut bytes[..usize::from(length)]);
            let node = Node {
                order: event.order,
                thread: event.thread,
                site: event.site,
                context: event.context,
                address: PmAddress(address.0 + at),
                length,
                bytes,
                kind,
            };
            self.nodes.push(node);
            self.issue(id, &node);
        }
    }

    fn issue(&mut self, id: NodeId, node: &Node) {
        let line = LineId::of(node.address);
        let word = node.address.0 / WORD_BYTES;
        match (self.model, node.kind) {
            (Model::Eadr, _) => self.chains.durable.push(id),
            (Model::Msync, _) => {
                let page = Key::Page(node.address.0 / PAGE_BYTES);
                self.chains.push(page, id);
            }
            (Model::X86, StoreKind::NonTemporal) => {
                let up_to = self.chains.push_streamed(line, word, id, node.thread);
                self.sent(node.thread).push(up_to);
            }
            (
                Model::X86,
                StoreKind::Plain
                | StoreKind::Atomic
                | StoreKind::Locked
                | StoreKind::Memory
                | StoreKind::Assembly
                | StoreKind::Foreign,
            ) => self.chains.push_cached(line, word, id, node.thread),
        }
    }

    fn sent(&mut self, thread: ThreadIndex) -> &mut Vec<UpTo> {
        if self.sent.len() <= thread.index() {
            self.sent.resize_with(thread.index() + 1, Vec::new);
        }
        &mut self.sent[thread.index()]
    }

    /// All that a line has, cached and not.
    fn in_line(&self, line: LineId) -> SmallVec<[UpTo; 2]> {
        let first = line.start().0 / WORD_BYTES;
        let words = first..first + CACHE_LINE_BYTES / WORD_BYTES;
        let streamed = words.filter_map(|word| self.chains.whole(Key::Word(word)));
        let cached = self.chains.whole(Key::Line(line));
        cached.into_iter().chain(streamed).collect()
    }

    fn flush(&mut self, thread: ThreadIndex, kind: FlushKind, address: PmAddress) {
        if self.model != Model::X86 {
            return;
        }
        let nodes = self.in_line(LineId::of(address));
        if nodes.is_empty() {
            return;
        }
        self.sent(thread).extend(nodes.iter().copied());
        match kind {
            FlushKind::Clflush => self.chains.add_barrier(thread, nodes),
            FlushKind::Clflushopt | FlushKind::Clwb => {}
        }
    }

    fn fence(&mut self, thread: ThreadIndex, kind: FenceKind) {
        match kind {
            FenceKind::Sfence | FenceKind::Mfence | FenceKind::Locked => {}
        }
        let Some(sent) = self.sent.get_mut(thread.index()) else {
            return;
        };
        for up_to in sent.drain(..) {
            self.chains.settle(up_to);
        }
        self.chains.pass_barriers(thread);
    }

    /// What `msync` of a range makes durable.
    fn in_range(&self, address: PmAddress, length: u64) -> Vec<UpTo> {
        if length == 0 || self.chains.is_empty() {
            return Vec::new();
        }
        let last = address.0.saturating_add(length - 1);
        let unit = match self.model {
            Model::X86 => CACHE_LINE_BYTES,
            Model::Msync => PAGE_BYTES,
            Model::Eadr => return Vec::new(),
        };
        let units = address.0 / unit..=last / unit;
        // A whole file may be synced for the sake of a few places.
        if last / unit - address.0 / unit >= self.chains.len() as u64 {
            let within = self.chains.keys().filter(|key| match key {
                Key::Line(line) => units.contains(&(line.start().0 / unit)),
                Key::Word(word) => units.contains(&(word * WORD_BYTES / unit)),
                Key::Page(page) => units.contains(page),
            });
            return within.filter_map(|key| self.chains.whole(key)).collect();
        }
        match self.model {
            Model::Msync => {
                let keys = units.map(Key::Page);
                keys.filter_map(|key| self.chains.whole(key)).collect()
            }
            Model::X86 | Model::Eadr => {
                let lines = pieces(address, length).map(|piece| piece.line);
                lines.flat_map(|line| self.in_line(line)).collect()
            }
        }
    }

    /// The nodes of the last event as one chain: the states of a crash in the midst of it.
    ///
    /// Under eADR these are all states that there are. The nodes are durable as soon as the event
    /// was fed, so that the state before them is that of all that was durable before.
    pub fn torn(&self) -> Frontier {
        let nodes = (self.before as u32..self.nodes.len() as u32).map(NodeId);
        let chain = Chain {
            nodes: nodes.collect(),
        };
        let chains = if chain.nodes.is_empty() {
            Vec::new()
        } else {
            vec![chain]
        };
        Frontier::new(self.order, chains, Vec::new())
    }
}

impl Walker for MemoryWalker {
    type Event<'e> = Event<'e>;
    type Node = Node;

    fn begin(&mut self, event: &Event<'_>) -> Fed {
        self.order = event.order;
        self.before = self.nodes.len();
        let durable = self.chains.durable.len();
        let mut completing = false;
        match event.kind {
            EventKind::Store { kind, place, bytes } => {
                self.store(event, kind, place.pm, bytes.len() as u64, |at, to| {
                    to.copy_from_slice(&bytes[at as usize..][..to.len()]);
                });
            }
            EventKind::Fill {
                kind,
                place,
                length,
                byte,
            } => self.store(event, kind, place.pm, length, |_, to| to.fill(byte)),
            EventKind::Flush { kind, place } => self.flush(event.thread, kind, place.pm),
            EventKind::Fence { kind } => {
                completing = true;
                self.fence(event.thread, kind);
            }
            EventKind::Msync { place, length } => {
                completing = true;
                for up_to in self.in_range(place.pm, length) {
                    self.chains.settle(up_to);
                }
            }
            EventKind::Load { .. }
            | EventKind::Opaque
            | EventKind::Call { .. }
            | EventKind::Return { .. }
            | EventKind::Sync { .. }
            | EventKind::Map { .. }
            | EventKind::Unmap { .. } => {}
        }
        let settled = self.chains.durable.len() > durable;
        Fed {
            fence: completing && settled,
            changed: settled || self.nodes.len() > self.before,
        }
    }

    /// Accesses to memory have no duration: they are over when they have begun.
    fn end(&mut self, _: &Event<'_>) -> Fed {
        Fed::default()
    }

    fn completes(&self, event: &Event<'_>) -> bool {
        match event.kind.class() {
            EventClass::Fence(_) => {
                let sent = self.sent.get(event.thread.index());
                let mut sent = sent.into_iter().flatten();
                sent.any(|up_to| self.chains.is_pending(*up_to))
            }
            EventClass::Msync { place, length } => !self.in_range(place.pm, length).is_empty(),
            EventClass::Write(_)
            | EventClass::Flush { .. }
            | EventClass::Call
            | EventClass::Return
            | EventClass::Other => false,
        }
    }

    fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    fn take_durable(&mut self) -> Vec<NodeId> {
        let mut durable = std::mem::take(&mut self.chains.durable);
        durable.sort_unstable();
        self.taken += durable.len();
        durable
    }

    fn assume_durable(&mut self, id: NodeId) {
        let node = &self.nodes[id.index()];
        let key = match (self.model, node.kind) {
            (Model::Eadr, _) => return,
            (Model::Msync, _) => Key::Page(node.address.0 / PAGE_BYTES),
            (Model::X86, StoreKind::NonTemporal) => Key::Word(node.address.0 / WORD_BYTES),
            (Model::X86, _) => Key::Line(LineId::of(node.address)),
        };
        if let Some(up_to) = self.chains.up_to(key, id) {
            self.chains.settle(up_to);
        }
    }

    fn frontier(&self) -> Frontier {
        let (chains, implications) = self.chains.collect();
        Frontier::new(self.order, chains, implications)
    }

    /// Under eADR all nodes are durable as soon as they are issued.
    fn crash_frontier(&self) -> Frontier {
        match self.model {
            Model::Eadr => self.torn(),
            Model::X86 | Model::Msync => self.frontier(),
        }
    }

    fn pending(&self) -> usize {
        self.nodes.len() - self.taken - self.chains.durable.len()
    }
}
