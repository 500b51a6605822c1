//! What each sync covers, when it has returned.

use super::model::{Fdatasync, Fsync, FsyncDirectory};
use super::op::{MicroOp, MicroOpKind};
use super::order::Order;
use super::walker::FileWalker;
use crate::graph::NodeId;
use crashpoint_trace::files::{InodeId, SyncKind};
use rustc_hash::FxHashSet;

/// What a sync makes durable, and with it all that it needs.
#[derive(Clone, Debug, Default)]
struct Cover {
    nodes: Vec<NodeId>,
    /// All of the journal up to here.
    up_to: Option<NodeId>,
    everything: bool,
    /// Renames of which only the new name is covered.
    halves: Vec<NodeId>,
}

/// The part of a file that a sync is about.
#[derive(Clone, Copy, Debug)]
struct Range {
    from: u64,
    to: u64,
}

impl Range {
    const ALL: Range = Range {
        from: 0,
        to: u64::MAX,
    };

    fn of(offset: u64, length: u64) -> Range {
        Range {
            from: offset,
            to: offset.saturating_add(length),
        }
    }
}

impl<'a> FileWalker<'a> {
    pub(super) fn sync(&mut self, sync: SyncKind) {
        let from = self.order.durable.len();
        let cover = self.cover(sync);
        if cover.everything {
            self.reorder(Order::settle_all);
        }
        for node in cover.halves {
            self.halve(node);
        }
        for node in cover.nodes {
            self.reorder(|order| order.settle(node));
        }
        if let Some(node) = cover.up_to {
            self.reorder(|order| order.settle_up_to(node));
        }
        self.note_durable(from);
        self.forget_durable(sync);
    }

    /// Whether anything pending is covered.
    pub(super) fn covers(&self, sync: SyncKind) -> bool {
        let cover = self.cover(sync);
        let nodes = cover.nodes.iter().chain(&cover.halves);
        let up_to = cover.up_to;
        cover.everything && self.order.pending() != 0
            || nodes.into_iter().any(|node| self.order.is_pending(*node))
            || up_to.is_some_and(|node| self.order.is_pending_up_to(node))
    }

    /// Lists of pending nodes hold durable ones until somebody looks.
    fn forget_durable(&mut self, sync: SyncKind) {
        let order = &self.order;
        let prune = |nodes: &mut Vec<NodeId>| nodes.retain(|node| order.is_pending(*node));
        let tidy = |inode: &mut super::inode::Inode<'a>| {
            prune(&mut inode.own);
            prune(&mut inode.names);
            prune(&mut inode.entries);
            prune(&mut inode.floating);
            if inode.own.is_empty() {
                inode.became_quiet();
            }
        };
        match sync {
            SyncKind::Full(inode)
            | SyncKind::Data(inode)
            | SyncKind::DataRange { inode, .. }
            | SyncKind::FullRange { inode, .. }
            | SyncKind::WriteOut { inode, .. } => {
                if let Some(inode) = self.inodes.get_mut(inode.index()) {
                    tidy(inode);
                }
            }
            SyncKind::Everything => self.inodes.iter_mut().for_each(tidy),
        }
    }

    fn cover(&self, sync: SyncKind) -> Cover {
        match sync {
            SyncKind::Everything => Cover {
                everything: true,
                ..Cover::default()
            },
            SyncKind::WriteOut { .. } => Cover::default(),
            SyncKind::Full(inode) => self.full(inode, Range::ALL),
            SyncKind::Data(inode) => self.data(inode, Range::ALL),
            SyncKind::FullRange {
                inode,
                offset,
                length,
            } => self.full(inode, Range::of(offset, length)),
            SyncKind::DataRange {
                inode,
                offset,
                length,
            } => self.data(inode, Range::of(offset, length)),
        }
    }

    fn full(&self, id: InodeId, range: Range) -> Cover {
        let Some(inode) = self.inode(id) else {
            return Cover::default();
        };
        if inode.is_directory {
            return self.directory(id);
        }
        let own = inode.own.iter().copied();
        let mut cover = Cover {
            nodes: own.filter(|node| self.is_in(*node, range, true)).collect(),
            ..Cover::default()
        };
        let names = self.model.sync.fsync_new_file_name;
        match self.model.sync.fsync {
            Fsync::Own => {}
            Fsync::Chain if names => cover.up_to = inode.last_meta,
            Fsync::Names if names => self.names_of(id, &mut cover),
            Fsync::Chain | Fsync::Names => {}
        }
        self.commit(cover)
    }

    fn data(&self, id: InodeId, range: Range) -> Cover {
        let Some(inode) = self.inode(id) else {
            return Cover::default();
        };
        match self.model.sync.fdatasync {
            Fdatasync::Fsync => return self.full(id, range),
            Fdatasync::Data if inode.is_directory => return self.directory(id),
            Fdatasync::Data => {}
        }
        let own = inode.own.iter().copied();
        self.commit(Cover {
            nodes: own.filter(|node| self.is_in(*node, range, false)).collect(),
            ..Cover::default()
        })
    }

    /// A journal of everything is written as a whole, if there is a reason to write it.
    fn commit(&self, mut cover: Cover) -> Cover {
        if self.model.sync.commits_everything {
            let mut nodes = cover.nodes.iter();
            let up_to = cover.up_to;
            cover.everything = nodes.any(|node| self.order.is_pending(*node))
                || up_to.is_some_and(|node| self.order.is_pending_up_to(node));
        }
        cover
    }

    /// Whether a sync of a range of a file covers one of its nodes.
    fn is_in(&self, node: NodeId, range: Range, attributes: bool) -> bool {
        let kind = &self.nodes[node.index()].kind;
        if let MicroOpKind::Write {
            offset, data, grow, ..
        } = *kind
        {
            return offset < range.to && range.from < offset + data.len()
                || grow.is_some_and(|grow| grow.from < range.to);
        }
        if kind.is_attribute() {
            return attributes;
        }
        // What has its place in the journal is written with it, whatever the range.
        kind.range()
            .is_some_and(|changed| changed.first_byte < range.to || self.order.is_in_journal(node))
    }

    /// Names of a file, and of the new directories on the way to it.
    fn names_of(&self, id: InodeId, cover: &mut Cover) {
        let mut seen = FxHashSet::default();
        let mut open: Vec<InodeId> = Vec::new();
        if let Some(inode) = self.inode(id) {
            for node in &inode.names {
                cover.nodes.push(*node);
                open.extend(directories(&self.nodes[node.index()]));
            }
        }
        open.extend(self.paths.parent(id));
        while let Some(directory) = open.pop() {
            let Some(inode) = self.inode(directory).filter(|_| seen.insert(directory)) else {
                continue;
            };
            let is_new = inode.names.iter().any(|node| {
                let kind = &self.nodes[node.index()].kind;
                matches!(kind, MicroOpKind::Link { .. }) && self.order.is_pending(*node)
            });
            if is_new {
                for node in &inode.names {
                    cover.nodes.push(*node);
                    open.extend(directories(&self.nodes[node.index()]));
                }
                open.extend(self.paths.parent(directory));
            }
        }
    }

    fn directory(&self, id: InodeId) -> Cover {
        let Some(inode) = self.inode(id) else {
            return Cover::default();
        };
        let mut cover = Cover {
            nodes: inode.own.clone(),
            ..Cover::default()
        };
        match self.model.sync.fsync_directory {
            FsyncDirectory::Entries => cover.nodes.extend(&inode.entries),
            FsyncDirectory::Chain => cover.up_to = inode.last_meta,
            FsyncDirectory::Log => self.log_directory(id, &mut cover),
        }
        self.commit(cover)
    }

    /// Rules B2 and B4.
    fn log_directory(&self, id: InodeId, cover: &mut Cover) {
        let Some(inode) = self.inode(id) else {
            return;
        };
        self.names_of(id, cover);
        for node in &inode.entries {
            if !self.order.is_pending(*node) {
                continue;
            }
            let kind = &self.nodes[node.index()].kind;
            if let MicroOpKind::Rename { from, to, .. } = *kind
                && to.directory == id
                && from.directory != id
            {
                cover.halves.push(*node);
            } else {
                cover.nodes.push(*node);
            }
            let named = self.inode(kind.inode()).into_iter();
            let own = named.flat_map(|inode| &inode.own);
            let is_attribute = |node: &&NodeId| self.nodes[node.index()].kind.is_attribute();
            cover.nodes.extend(own.filter(is_attribute));
        }
    }

    /// Of a pending rename, only the new name is durable; that the old one goes is the node behind
    /// it, which was kept free for this.
    fn halve(&mut self, node: NodeId) {
        let op = &mut self.nodes[node.index()];
        let MicroOpKind::Rename {
            from,
            to,
            inode,
            victim,
        } = op.kind
        else {
            return;
        };
        op.kind = MicroOpKind::RenameTarget {
            from,
            to,
            inode,
            victim,
        };
        let source = NodeId(node.0 + 1);
        self.nodes[source.index()].kind = MicroOpKind::RenameSource { from, to, inode };
        // What happened to the old name before concerns the half that removes it.
        let needs = self.order.needs(node).iter().copied();
        let needs: Vec<NodeId> = needs
            .filter(|need| {
                !self.nodes[need.index()]
                    .kind
                    .names_of_call()
                    .contains(&Some(to))
            })
            .collect();
        self.reorder(|order| order.replace(node, source, &needs));
        self.inode_mut(from.directory).entries.push(source);
        self.inode_mut(inode).names.push(source);
    }
}

/// Directories that a change of names is in.
fn directories(op: &MicroOp<'_>) -> impl Iterator<Item = InodeId> {
    let directories = op
        .kind
        .names_of_call()
        .map(|slot| slot.map(|slot| slot.directory));
    directories.into_iter().flatten()
}
