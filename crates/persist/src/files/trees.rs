//! From sets of nodes to directory trees.
//!
//! A state is what its nodes make of the folder as it was, in the order of execution. Names are
//! independent of each other, and so are files: for each there is what is settled, folded into one
//! value, and a window of nodes behind the first pending one. Nodes become durable in any order; one
//! that is durable behind a pending one waits in the window.

use super::content::Content;
use super::effect::{change, lose, rename_slot};
use super::model::{Filler, Model};
use super::op::{MicroOp, MicroOpKind, Touched};
use super::tree::{self, Object, Paths, Tree};
use crate::graph::NodeId;
use crashpoint_trace::files::{Before, InodeId, InodeKind, Slot};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::Arc;

/// A node that is not folded yet.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    node: NodeId,
    durable: bool,
}

type Window = VecDeque<Waiting>;

fn mark(window: &mut Window, node: NodeId) {
    let place = window.partition_point(|waiting| waiting.node < node);
    if let Some(waiting) = window.get_mut(place).filter(|waiting| waiting.node == node) {
        waiting.durable = true;
    }
}

#[derive(Clone, Debug)]
struct File<'a> {
    base: Arc<Object<'a>>,
    window: Window,
}

/// What a file looks like with these of its pending nodes kept.
type Known<'a> = FxHashMap<(InodeId, Vec<NodeId>, Filler), Arc<Object<'a>>>;

/// Names that are not as settled, and whose they are.
type Changed<'a> = BTreeMap<Slot<'a>, Option<InodeId>>;

/// States of files that are remembered.
const MAX_KNOWN: usize = 1 << 14;

/// Makes directory trees of sets of nodes.
#[derive(Clone, Debug)]
pub struct Trees<'a> {
    stale_fresh: bool,
    stale_tail: bool,
    files: FxHashMap<InodeId, File<'a>>,
    /// Names that are settled, by directory.
    names: FxHashMap<InodeId, BTreeMap<&'a [u8], InodeId>>,
    slots: FxHashMap<Slot<'a>, Window>,
    /// How many nodes were seen.
    seen: usize,
    known: Known<'a>,
    /// Successive states often have the same names.
    last_paths: Option<(Changed<'a>, Arc<Paths>)>,
}

impl<'a> Trees<'a> {
    pub fn new(model: &Model, before: &Before<'a>) -> Trees<'a> {
        let files = before.inodes.iter().map(|initial| {
            let object = Object {
                kind: initial.kind,
                mode: initial.mode,
                xattrs: initial.xattrs.iter().copied().collect(),
                content: Content::new(initial.bytes),
                hash: 0,
            };
            let file = File {
                base: Arc::new(object.hashed()),
                window: Window::new(),
            };
            (initial.inode, file)
        });
        let mut names: FxHashMap<InodeId, BTreeMap<&[u8], InodeId>> = FxHashMap::default();
        for (slot, inode) in &before.entries {
            let directory = names.entry(slot.directory).or_default();
            directory.insert(slot.name, *inode);
        }
        Trees {
            stale_fresh: model.filler.fresh.contains(&Filler::Stale),
            stale_tail: model.filler.tail.contains(&Filler::Stale),
            files: files.collect(),
            names,
            slots: FxHashMap::default(),
            seen: 0,
            known: Known::default(),
            last_paths: None,
        }
    }

    /// Takes in nodes that were issued since the last time.
    fn see(&mut self, nodes: &[MicroOp<'a>]) {
        for (index, op) in (0..).zip(nodes).skip(self.seen) {
            let node = NodeId(index);
            let kind = &op.kind;
            if let MicroOpKind::Create { inode, kind, mode } = *kind {
                self.create(inode, kind, mode);
            }
            self.wait(node, kind, false);
            // With stale data, what was lost is part of the picture: new nodes change it.
            self.known.clear();
        }
        self.seen = self.seen.max(nodes.len());
    }

    fn create(&mut self, inode: InodeId, kind: InodeKind<'a>, mode: u32) {
        let object = Object {
            kind,
            mode,
            xattrs: BTreeMap::new(),
            content: Content::default(),
            hash: 0,
        };
        let file = File {
            base: Arc::new(object.hashed()),
            window: Window::new(),
        };
        self.files.insert(inode, file);
        self.last_paths = None;
    }

    fn wait(&mut self, node: NodeId, kind: &MicroOpKind<'a>, durable: bool) {
        let waiting = Waiting { node, durable };
        let add = |window: &mut Window| {
            let place = window.partition_point(|other| other.node < node);
            if window.get(place).is_none_or(|other| other.node != node) {
                window.insert(place, waiting);
            }
        };
        match kind.touched() {
            Touched::Nothing => {}
            Touched::Names(first, second) => {
                for change in [Some(first), second].into_iter().flatten() {
                    add(self.slots.entry(change.slot).or_default());
                }
            }
            Touched::Content(inode, _) => {
                if let Some(file) = self.files.get_mut(&inode) {
                    add(&mut file.window);
                }
            }
        }
    }

    /// These nodes, of all issued so far, are durable.
    pub fn settle(&mut self, durable: &[NodeId], nodes: &[MicroOp<'a>]) {
        self.see(nodes);
        for node in durable {
            let kind = &nodes[node.index()].kind;
            match kind.touched() {
                Touched::Names(..) => {
                    // Also the old name of a rename that came apart, where it waited as a whole.
                    for slot in kind.names_of_call().into_iter().flatten() {
                        self.settle_slot(slot, *node, nodes);
                    }
                }
                Touched::Nothing | Touched::Content(..) => {
                    self.settle_file(kind.inode(), *node, nodes);
                }
            }
        }
    }

    fn settle_slot(&mut self, slot: Slot<'a>, node: NodeId, nodes: &[MicroOp<'a>]) {
        // A rename that came apart: its second half takes its place.
        if let Some(op) = nodes.get(node.index() + 1)
            && let MicroOpKind::RenameSource { from, .. } = op.kind
            && matches!(nodes[node.index()].kind, MicroOpKind::RenameTarget { from: same, .. } if same == from)
            && slot == from
        {
            self.wait(NodeId(node.0 + 1), &op.kind, false);
        }
        let Some(window) = self.slots.get_mut(&slot) else {
            return;
        };
        mark(window, node);
        self.last_paths = None;
        let names = self.names.entry(slot.directory).or_default();
        while let Some(waiting) = window.pop_front_if(|waiting| waiting.durable) {
            let before = names.get(slot.name).copied();
            match rename_slot(&nodes[waiting.node.index()].kind, slot, before) {
                Some(inode) => names.insert(slot.name, inode),
                None => names.remove(slot.name),
            };
        }
        if window.is_empty() {
            self.slots.remove(&slot);
        }
    }

    fn settle_file(&mut self, inode: InodeId, node: NodeId, nodes: &[MicroOp<'a>]) {
        let Some(file) = self.files.get_mut(&inode) else {
            return;
        };
        mark(&mut file.window, node);
        if !file.window.front().is_some_and(|waiting| waiting.durable) {
            return;
        }
        // What is remembered of the file was made from another base.
        self.known.clear();
        let base = Arc::make_mut(&mut file.base);
        base.hash = 0;
        while let Some(waiting) = file.window.pop_front_if(|waiting| waiting.durable) {
            change(&nodes[waiting.node.index()].kind, base);
        }
    }

    /// What the durable nodes and these pending ones look like, with this in place of lost data.
    /// All nodes that were issued until the crash are given, and no others: what was lost is part of
    /// the picture.
    pub fn tree(&mut self, kept: &[NodeId], nodes: &[MicroOp<'a>], filler: Filler) -> Tree<'a> {
        self.see(nodes);
        let kept: FxHashSet<NodeId> = kept.iter().copied().collect();
        let paths = self.paths(&kept, nodes);
        Tree::build(paths, |inode| self.object(inode, &kept, nodes, filler))
    }

    /// Names that are not as settled.
    fn changed_names(&self, kept: &FxHashSet<NodeId>, nodes: &[MicroOp<'a>]) -> Changed<'a> {
        let mut changed = Changed::new();
        for (slot, window) in &self.slots {
            let settled = self.names.get(&slot.directory);
            let before = settled.and_then(|names| names.get(slot.name)).copied();
            let there = window
                .iter()
                .filter(|waiting| waiting.durable || kept.contains(&waiting.node));
            let after = there.fold(before, |value, waiting| {
                rename_slot(&nodes[waiting.node.index()].kind, *slot, value)
            });
            if after != before {
                changed.insert(*slot, after);
            }
        }
        changed
    }

    fn paths(&mut self, kept: &FxHashSet<NodeId>, nodes: &[MicroOp<'a>]) -> Arc<Paths> {
        let changed = self.changed_names(kept, nodes);
        if let Some((known, paths)) = &self.last_paths
            && *known == changed
        {
            return paths.clone();
        }
        let entries = |directory: InodeId| {
            let slot = |name: &'a [u8]| Slot { directory, name };
            let settled = self.names.get(&directory).into_iter().flatten();
            let same = settled.filter(|(name, _)| !changed.contains_key(&slot(name)));
            let range = slot(b"")..;
            let new = changed
                .range(range)
                .take_while(|(slot, _)| slot.directory == directory)
                .filter_map(|(slot, inode)| Some((slot.name, (*inode)?)));
            let all = same.map(|(name, inode)| (*name, *inode)).chain(new);
            all.filter(|(_, inode)| self.files.contains_key(inode))
                .collect()
        };
        let is_directory = |inode: InodeId| {
            let file = self.files.get(&inode);
            file.is_some_and(|file| file.base.kind == InodeKind::Directory)
        };
        let paths = Arc::new(tree::paths(entries, is_directory));
        self.last_paths = Some((changed, paths.clone()));
        paths
    }

    fn object(
        &mut self,
        inode: InodeId,
        kept: &FxHashSet<NodeId>,
        nodes: &[MicroOp<'a>],
        filler: Filler,
    ) -> Arc<Object<'a>> {
        let Some(file) = self.files.get_mut(&inode) else {
            return Arc::new(Object::nothing().hashed());
        };
        if file.base.hash == 0 {
            let base = Arc::make_mut(&mut file.base);
            *base = std::mem::replace(base, Object::nothing()).hashed();
        }
        if file.window.is_empty() {
            return file.base.clone();
        }
        let there = |waiting: &&Waiting| waiting.durable || kept.contains(&waiting.node);
        let own = file.window.iter().filter(there);
        let own: Vec<NodeId> = own.map(|waiting| waiting.node).collect();
        let key = (inode, own, filler);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let mut object = Object::clone(&file.base);
        for waiting in &file.window {
            let kind = &nodes[waiting.node.index()].kind;
            if there(&waiting) {
                change(kind, &mut object);
            } else if filler == Filler::Stale {
                lose(kind, &mut object, self.stale_fresh, self.stale_tail);
            }
        }
        let object = Arc::new(object.hashed());
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        self.known.insert(key, object.clone());
        object
    }

    /// What may stand in place of lost data, where it makes a difference for this state.
    pub fn fillers(&mut self, kept: &[NodeId], nodes: &[MicroOp<'a>]) -> Vec<Filler> {
        let mut fillers = vec![Filler::Zeros];
        if self.stale_fresh || self.stale_tail {
            let zeros = self.tree(kept, nodes, Filler::Zeros).hash();
            if self.tree(kept, nodes, Filler::Stale).hash() != zeros {
                fillers.push(Filler::Stale);
            }
        }
        fillers
    }
}
