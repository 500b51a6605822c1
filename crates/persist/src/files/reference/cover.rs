//! What syncs cover, as a list of operations.

use super::{Fs, Op, Reference, Step, overlap};
use crashpoint_trace::files::{InodeId, InodeKind, Slot, SyncKind};
use std::collections::BTreeSet;

impl<'a> Reference<'a> {
    pub(super) fn sync(&mut self, sync: SyncKind) {
        let all = |_: &Op<'a>| true;
        let cover: Vec<usize> = match sync {
            SyncKind::Everything => self.which(all),
            SyncKind::WriteOut { .. } => Vec::new(),
            SyncKind::Full(inode) | SyncKind::Data(inode)
                if self.kinds[&inode] == InodeKind::Directory =>
            {
                self.directory(inode)
            }
            SyncKind::Full(inode) => self.file(inode, true, (0, u64::MAX)),
            SyncKind::Data(inode) => self.file(inode, self.fs == Fs::Btrfs, (0, u64::MAX)),
            SyncKind::DataRange {
                inode,
                offset,
                length,
            } => self.file(inode, self.fs == Fs::Btrfs, (offset, offset + length)),
            SyncKind::FullRange {
                inode,
                offset,
                length,
            } => self.file(inode, true, (offset, offset + length)),
        };
        let pending = cover.iter().any(|step| !self.durable.contains(step));
        let cover = match self.fs {
            Fs::Journal if pending => self.which(all),
            _ => cover,
        };
        self.settle(cover);
    }

    fn which(&self, what: impl Fn(&Op<'a>) -> bool) -> Vec<usize> {
        let steps = self.steps.iter().enumerate();
        steps
            .filter(|(_, step)| what(&step.op))
            .map(|(index, _)| index)
            .collect()
    }

    /// The journal up to the last operation that mentions this.
    fn journal(&self, of: InodeId) -> Vec<usize> {
        let last = self.which(|op| self.is_chained(op) && op.mentions(of));
        let last = last.last().map_or(0, |last| last + 1);
        let mut all = self.which(|op| self.is_chained(op));
        all.retain(|step| *step < last);
        all
    }

    fn file(&self, of: InodeId, full: bool, range: (u64, u64)) -> Vec<usize> {
        let mut cover = self.which(|op| {
            op.own() == Some(of)
                && match op {
                    Op::Data { from, bytes, .. } => {
                        overlap((*from, from + bytes.len() as u64), range)
                    }
                    Op::Grow { from, .. } => self.is_chained(op) || *from < range.1,
                    Op::Shrink(_, to) => self.is_chained(op) || *to < range.1,
                    Op::Extents { from, .. } => self.is_chained(op) || *from < range.1,
                    Op::Attribute(..) => full,
                    _ => false,
                }
        });
        match self.fs {
            Fs::Ext4 | Fs::Xfs | Fs::Journal if full => cover.extend(self.journal(of)),
            Fs::Btrfs => cover.extend(self.names(of)),
            Fs::Posix | Fs::Ext4 | Fs::Xfs | Fs::Journal => {}
        }
        cover
    }

    /// Names of a file, and of new directories on the way to it.
    fn names(&self, of: InodeId) -> Vec<usize> {
        let directories = |step: usize| {
            let slots = self.steps[step].op.slots();
            slots.into_iter().map(|slot| slot.directory)
        };
        let mut cover = self.which(|op| op.named().contains(&of));
        let mut open: Vec<InodeId> = self.parents.get(&of).copied().into_iter().collect();
        for step in &cover {
            if !self.durable.contains(step) {
                open.extend(directories(*step));
            }
        }
        let mut seen = BTreeSet::new();
        while let Some(directory) = open.pop() {
            let own = self.which(|op| op.named().contains(&directory));
            let is_new = own.iter().any(|step| {
                matches!(self.steps[*step].op, Op::Link(..)) && !self.durable.contains(step)
            });
            if is_new && seen.insert(directory) {
                open.extend(own.iter().flat_map(|step| directories(*step)));
                cover.extend(own);
                open.extend(self.parents.get(&directory));
            }
        }
        cover
    }

    fn directory(&mut self, of: InodeId) -> Vec<usize> {
        let own = self.which(|op| op.own() == Some(of));
        let entries = self.which(|op| op.slots().iter().any(|slot| slot.directory == of));
        match self.fs {
            Fs::Posix => [own, entries].concat(),
            Fs::Ext4 | Fs::Xfs | Fs::Journal => [own, self.journal(of)].concat(),
            Fs::Btrfs => {
                let mut cover = [own, self.names(of)].concat();
                for step in entries.into_iter().rev() {
                    if self.durable.contains(&step) {
                        continue;
                    }
                    for inode in self.steps[step].op.named() {
                        let attribute = |op: &Op<'a>| {
                            matches!(op, Op::Attribute(..)) && op.own() == Some(inode)
                        };
                        cover.extend(self.which(attribute));
                    }
                    match self.steps[step].op {
                        Op::Rename(from, to, inode, victim)
                            if to.directory == of && from.directory != of =>
                        {
                            cover = self.halve(step, (from, to), inode, victim, cover);
                        }
                        _ => cover.push(step),
                    }
                }
                cover
            }
        }
    }

    /// Only the new name of a rename is durable; the old one goes when the whole would have.
    fn halve(
        &mut self,
        step: usize,
        names: (Slot<'a>, Slot<'a>),
        inode: InodeId,
        victim: Option<InodeId>,
        cover: Vec<usize>,
    ) -> Vec<usize> {
        self.steps[step].op = Op::Take(names.1, inode, victim);
        let call = self.steps[step].call;
        let op = Op::Leave(names.0, inode);
        self.steps.insert(step + 1, Step { call, op });
        let moved = |index: usize| index + usize::from(index > step);
        self.durable = self.durable.iter().copied().map(moved).collect();
        let cover = cover.into_iter().map(moved);
        cover.chain([step]).collect()
    }
}
