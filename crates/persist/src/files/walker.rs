//! From calls to micro-operations, and from syncs to what is durable.

use super::inode::Inode;
use super::model::{FsyncDirectory, Model, Rename};
use super::op::{MicroOp, MicroOpKind};
use super::order::Order;
use super::paths::Paths;
use crate::graph::{Fed, Frontier, NodeId, Walker};
use crashpoint_trace::files::{
    Before, Call, Effect, EffectClass, InodeId, InodeKind, Slot, StackId, SyncKind,
};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Where an operation stands among those on metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stand {
    /// In the journal, if the model has one.
    Journal,
    /// Behind what the journal holds now; nothing waits for it.
    Floating,
    /// Anywhere.
    Free,
}

/// What the nodes of the current call have in common.
#[derive(Clone, Copy, Debug, Default)]
struct Origin {
    order: u64,
    call: u32,
    process: u32,
    thread: u32,
    stack: u32,
}

/// What a node needs: these, and all of the journal so far if it is in it or behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs<'w> {
    pub nodes: &'w [NodeId],
    pub is_in_journal: bool,
    pub is_behind_journal: bool,
}

/// Follows the system calls of a recording.
#[derive(Clone, Debug)]
pub struct FileWalker<'a> {
    pub(super) model: Model,
    pub(super) nodes: Vec<MicroOp<'a>>,
    pub(super) order: Order,
    /// The same, where callers took something to be durable that is not. What later calls are made of
    /// never depends on it, so that a [`NodeId`] means the same to all who follow the recording.
    assumed: Option<Order>,
    pub(super) inodes: Vec<Inode<'a>>,
    /// The latest change of each name.
    slots: FxHashMap<Slot<'a>, NodeId>,
    /// The latest change of the mode, and of each extended attribute.
    attributes: FxHashMap<(InodeId, Option<&'a [u8]>), NodeId>,
    pub(super) paths: Paths<'a>,
    origin: Origin,
    calls: u32,
}

impl<'a> FileWalker<'a> {
    pub fn new(model: &Model, before: &Before<'a>) -> FileWalker<'a> {
        let mut walker = FileWalker {
            model: model.clone(),
            nodes: Vec::new(),
            order: Order::new(model.syncs_out_of_order()),
            assumed: None,
            inodes: Vec::new(),
            slots: FxHashMap::default(),
            attributes: FxHashMap::default(),
            paths: Paths::default(),
            origin: Origin::default(),
            calls: 0,
        };
        for initial in &before.inodes {
            let is_directory = matches!(initial.kind, InodeKind::Directory);
            *walker.inode_mut(initial.inode) = Inode::initial(is_directory, initial.bytes);
        }
        for (slot, inode) in &before.entries {
            let is_directory = walker.inode(*inode).is_some_and(|inode| inode.is_directory);
            walker.paths.name(*inode, *slot, is_directory);
        }
        walker
    }

    pub fn model(&self) -> &Model {
        &self.model
    }

    pub(super) fn inode(&self, id: InodeId) -> Option<&Inode<'a>> {
        self.inodes.get(id.index())
    }

    pub(super) fn inode_mut(&mut self, id: InodeId) -> &mut Inode<'a> {
        if self.inodes.len() <= id.index() {
            self.inodes.resize_with(id.index() + 1, Inode::default);
        }
        &mut self.inodes[id.index()]
    }

    fn apply(&mut self, effect: &Effect<'a>) {
        match *effect {
            Effect::New { inode, kind, mode } => {
                let is_directory = matches!(kind, InodeKind::Directory);
                *self.inode_mut(inode) = Inode::initial(is_directory, &[]);
                let kind = MicroOpKind::Create { inode, kind, mode };
                let node = {
                    let path = self.paths.of(inode);
                    self.note(kind, path)
                };
                self.reorder(|order| order.add_silent(node, true));
                self.inode_mut(inode).last_meta = Some(node);
            }
            Effect::Link { slot, inode } => {
                self.call_it(inode, slot);
                self.name(&[slot], &[], MicroOpKind::Link { slot, inode });
            }
            Effect::Unlink { slot, inode } => {
                self.name(&[slot], &[], MicroOpKind::Unlink { slot, inode });
            }
            Effect::Rename {
                from,
                to,
                inode,
                victim,
            } => self.rename(from, to, inode, victim),
            Effect::Exchange {
                first,
                first_inode,
                second,
                second_inode,
            } => self.exchange((first, first_inode), (second, second_inode)),
            Effect::Write {
                inode,
                offset,
                bytes,
                through,
            } => self.write(inode, offset, bytes, through),
            Effect::Resize { inode, to, .. } => self.resize(inode, to),
            Effect::Allocate {
                inode,
                offset,
                length,
                what,
            } => self.allocate(inode, offset, length, what),
            Effect::SetXattr { inode, name, value } => {
                let kind = MicroOpKind::SetXattr { inode, name, value };
                self.attribute(inode, Some(name), kind);
            }
            Effect::SetMode { inode, mode } => {
                self.attribute(inode, None, MicroOpKind::SetMode { inode, mode });
            }
            // Rules E7 and X4: closing starts to write back, and nothing waits for it.
            Effect::LastClose { .. } | Effect::Output { .. } => {}
            // When the call returns.
            Effect::Sync(_) => {}
        }
    }

    /// Adds a node; what it needs may be durable or repeated.
    pub(super) fn issue(
        &mut self,
        kind: MicroOpKind<'a>,
        path: Arc<str>,
        needs: &[NodeId],
        stand: Stand,
    ) -> NodeId {
        let id = self.note(kind, path);
        match stand {
            Stand::Journal if self.model.has_chain() => {
                self.reorder(|order| order.add_to_journal(id, needs));
            }
            Stand::Floating if self.model.has_chain() => {
                self.reorder(|order| order.add(id, needs, order.tip()));
            }
            Stand::Journal | Stand::Floating | Stand::Free => {
                self.reorder(|order| order.add(id, needs, None));
            }
        }
        id
    }

    /// Changes what waits for what.
    pub(super) fn reorder(&mut self, change: impl Fn(&mut Order)) {
        change(&mut self.order);
        if let Some(assumed) = &mut self.assumed {
            change(assumed);
        }
    }

    fn note(&mut self, kind: MicroOpKind<'a>, path: Arc<str>) -> NodeId {
        let id = NodeId::after(self.nodes.len());
        self.nodes.push(MicroOp {
            order: self.origin.order,
            call: self.origin.call,
            process: self.origin.process,
            thread: self.origin.thread,
            stack: StackId(self.origin.stack),
            path,
            kind,
        });
        id
    }

    fn call_it(&mut self, inode: InodeId, slot: Slot<'a>) {
        let is_directory = self.inode_mut(inode).is_directory;
        self.paths.name(inode, slot, is_directory);
    }

    /// Adds a change of names. Changes of one name keep their order (rule K3).
    fn name(&mut self, slots: &[Slot<'a>], needs: &[NodeId], kind: MicroOpKind<'a>) -> NodeId {
        let same_name = slots.iter().filter_map(|slot| self.slots.get(slot));
        let needs: Vec<NodeId> = same_name.chain(needs).copied().collect();
        let path = self.paths.of_slot(slots[slots.len() - 1]);
        let node = self.issue(kind, path, &needs, Stand::Journal);
        for slot in slots {
            self.slots.insert(*slot, node);
            let directory = self.inode_mut(slot.directory);
            directory.last_meta = Some(node);
            if directory.entries.last() != Some(&node) {
                directory.entries.push(node);
            }
        }
        let inode = self.inode_mut(kind.inode());
        inode.names.push(node);
        inode.last_meta = Some(node);
        node
    }

    fn rename(&mut self, from: Slot<'a>, to: Slot<'a>, inode: InodeId, victim: Option<InodeId>) {
        // Rule E6: over an existing file, blocks are allocated first.
        let sizes = if victim.is_some() && self.model.rename_over_waits_for_size {
            self.inode_mut(inode).floating.clone()
        } else {
            Vec::new()
        };
        self.call_it(inode, to);
        let target = MicroOpKind::RenameTarget {
            from,
            to,
            inode,
            victim,
        };
        let source = MicroOpKind::RenameSource { from, to, inode };
        let node = match self.model.rename {
            Rename::Atomic => {
                let kind = MicroOpKind::Rename {
                    from,
                    to,
                    inode,
                    victim,
                };
                let node = self.name(&[from, to], &sizes, kind);
                let logs = self.model.sync.fsync_directory == FsyncDirectory::Log;
                if logs && from.directory != to.directory {
                    let path = self.paths.of_slot(from);
                    let spare = self.note(MicroOpKind::Reserved { inode }, path);
                    let in_journal = self.model.has_chain();
                    self.reorder(|order| order.add_silent(spare, in_journal));
                }
                node
            }
            Rename::Split => {
                self.name(&[from], &[], source);
                self.name(&[to], &sizes, target)
            }
            Rename::LinkFirst => {
                let target = self.name(&[to], &sizes, target);
                self.name(&[from], &[target], source)
            }
        };
        if let Some(victim) = victim {
            self.inode_mut(victim).last_meta = Some(node);
        }
    }

    fn exchange(&mut self, first: (Slot<'a>, InodeId), second: (Slot<'a>, InodeId)) {
        self.call_it(first.1, second.0);
        self.call_it(second.1, first.0);
        let half = |slot: Slot<'a>, inode| MicroOpKind::ExchangeHalf { slot, inode };
        match self.model.exchange {
            Rename::Atomic => {
                let kind = MicroOpKind::Exchange {
                    first: first.0,
                    first_inode: first.1,
                    second: second.0,
                    second_inode: second.1,
                };
                let node = self.name(&[first.0, second.0], &[], kind);
                let inode = self.inode_mut(second.1);
                inode.names.push(node);
                inode.last_meta = Some(node);
            }
            Rename::Split => {
                self.name(&[first.0], &[], half(first.0, second.1));
                self.name(&[second.0], &[], half(second.0, first.1));
            }
            Rename::LinkFirst => {
                let node = self.name(&[second.0], &[], half(second.0, first.1));
                self.name(&[first.0], &[node], half(first.0, second.1));
            }
        }
    }

    /// Changes of one attribute keep their order.
    fn attribute(&mut self, inode: InodeId, name: Option<&'a [u8]>, kind: MicroOpKind<'a>) {
        let before: Vec<NodeId> = self
            .attributes
            .get(&(inode, name))
            .copied()
            .into_iter()
            .collect();
        let path = self.paths.of(inode);
        let node = self.issue(kind, path, &before, Stand::Journal);
        self.attributes.insert((inode, name), node);
        let inode = self.inode_mut(inode);
        inode.own.push(node);
        inode.last_meta = Some(node);
    }

    /// Notes what is on the disk now.
    pub(super) fn note_durable(&mut self, from: usize) {
        for index in from..self.order.durable.len() {
            let node = self.order.durable[index];
            let kind = self.nodes[node.index()].kind;
            if let MicroOpKind::Write {
                inode,
                offset,
                data,
                ..
            } = kind
            {
                let end = offset + data.len();
                self.inodes[inode.index()].became_allocated(node, offset, end);
            }
            if let Some(size) = kind.range().and_then(|range| range.size_behind) {
                self.inodes[kind.inode().index()].became_sure(node, size);
            }
        }
    }

    /// What a pending node waits for.
    pub fn needs(&self, node: NodeId) -> Needs<'_> {
        Needs {
            nodes: self.order.needs(node),
            is_in_journal: self.order.is_in_journal(node),
            is_behind_journal: self.order.is_behind_journal(node),
        }
    }
}

impl<'a> Walker for FileWalker<'a> {
    type Event<'e> = Call<'a>;
    type Node = MicroOp<'a>;

    /// Of a write with `O_SYNC`, a crash before it returns may lose the more.
    fn begin(&mut self, call: &Call<'a>) -> Fed {
        self.origin = Origin {
            order: call.order,
            call: self.calls,
            process: call.process,
            thread: call.thread,
            stack: call.stack.0,
        };
        self.calls += 1;
        let before = self.nodes.len();
        for effect in &call.effects {
            self.apply(effect);
        }
        Fed {
            fence: false,
            changed: self.nodes.len() > before,
        }
    }

    fn end(&mut self, call: &Call<'a>) -> Fed {
        let durable = self.order.durable.len();
        for effect in &call.effects {
            if let Effect::Sync(sync) = effect {
                self.sync(*sync);
            }
        }
        let settled = self.order.durable.len() > durable;
        Fed {
            fence: settled,
            changed: settled,
        }
    }

    /// Of a call that was not begun and writes as well as syncs, it is taken to.
    fn completes(&self, call: &Call<'a>) -> bool {
        let begun = self.calls != 0 && self.origin.order == call.order;
        let mut writes = false;
        call.effects.iter().any(|effect| match effect {
            Effect::Sync(sync) => {
                self.covers(*sync) || writes && !matches!(sync, SyncKind::WriteOut { .. })
            }
            change => match change.class() {
                EffectClass::Names
                | EffectClass::Moves
                | EffectClass::Data
                | EffectClass::Attributes => {
                    writes = !begun;
                    false
                }
                EffectClass::New
                | EffectClass::Sync
                | EffectClass::LastClose
                | EffectClass::Output => false,
            },
        })
    }

    fn nodes(&self) -> &[MicroOp<'a>] {
        &self.nodes
    }

    fn take_durable(&mut self) -> Vec<NodeId> {
        let mut durable = std::mem::take(&mut self.order.durable);
        if let Some(assumed) = &mut self.assumed {
            durable = std::mem::take(&mut assumed.durable);
        }
        durable.sort_unstable();
        durable
    }

    fn assume_durable(&mut self, id: NodeId) {
        let order = &self.order;
        let assumed = self.assumed.get_or_insert_with(|| order.clone());
        assumed.commit(id);
    }

    fn frontier(&self) -> Frontier {
        let order = self.assumed.as_ref().unwrap_or(&self.order);
        order.frontier(self.origin.order)
    }

    fn pending(&self) -> usize {
        self.order.pending()
    }
}
