//! The models a second time, to hold the graph against: slow, and close to the words of the rules.
//!
//! A program is a list of micro-operations, inodes and every size among them. A rule is a predicate
//! on two of them: may the second persist without the first? A crash state is any set that honours
//! all rules and has what syncs covered; it is replayed from the beginning, byte by byte. Nothing
//! is shared with the graph but the input and the form of the output.

mod cover;
mod issue;
mod replay;

use crashpoint_trace::files::{Allocation, Before, Call, Effect, InodeId, InodeKind, Slot};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fs {
    Posix,
    Ext4,
    Journal,
    Xfs,
    Btrfs,
}

pub(super) const ALL: [(&str, Fs); 5] = [
    ("posix", Fs::Posix),
    ("ext4-ordered", Fs::Ext4),
    ("ext4-journal", Fs::Journal),
    ("xfs", Fs::Xfs),
    ("btrfs", Fs::Btrfs),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Over,
    Tail,
    Fresh,
}

#[derive(Clone, Debug, PartialEq)]
enum Op<'a> {
    Inode(InodeId),
    Link(Slot<'a>, InodeId),
    Unlink(Slot<'a>, InodeId),
    /// From, to, what, and whether it replaces something.
    Rename(Slot<'a>, Slot<'a>, InodeId, Option<InodeId>),
    Exchange([(Slot<'a>, InodeId); 2]),
    /// A name that is somebody's from now on.
    Take(Slot<'a>, InodeId, Option<InodeId>),
    /// A name that goes, if it is still this one's.
    Leave(Slot<'a>, InodeId),
    Data {
        inode: InodeId,
        from: u64,
        bytes: Vec<u8>,
        class: Class,
        /// What persists with it: the sector or the blocks.
        unit: (u64, u64),
        grows: bool,
    },
    Grow {
        inode: InodeId,
        from: u64,
        to: u64,
        /// By a write, and not in the journal.
        floats: bool,
        by_write: bool,
    },
    Shrink(InodeId, u64),
    Extents {
        inode: InodeId,
        from: u64,
        to: u64,
        what: Allocation,
        size: u64,
    },
    Attribute(InodeId, &'a [u8], Vec<u8>),
}

#[derive(Clone, Debug)]
struct Step<'a> {
    call: usize,
    op: Op<'a>,
}

impl<'a> Op<'a> {
    fn slots(&self) -> Vec<Slot<'a>> {
        match self {
            Op::Link(slot, _) | Op::Unlink(slot, _) | Op::Take(slot, ..) | Op::Leave(slot, _) => {
                vec![*slot]
            }
            Op::Rename(from, to, ..) => vec![*from, *to],
            Op::Exchange(both) => vec![both[0].0, both[1].0],
            _ => Vec::new(),
        }
    }

    /// The file whose content, size or attributes it changes.
    fn own(&self) -> Option<InodeId> {
        match self {
            Op::Data { inode, .. }
            | Op::Grow { inode, .. }
            | Op::Shrink(inode, _)
            | Op::Extents { inode, .. }
            | Op::Attribute(inode, ..) => Some(*inode),
            _ => None,
        }
    }

    /// The file whose names it changes.
    fn named(&self) -> Vec<InodeId> {
        match self {
            Op::Link(_, inode)
            | Op::Unlink(_, inode)
            | Op::Rename(_, _, inode, _)
            | Op::Take(_, inode, _)
            | Op::Leave(_, inode) => vec![*inode],
            Op::Exchange(both) => vec![both[0].1, both[1].1],
            _ => Vec::new(),
        }
    }

    fn is_size(&self) -> bool {
        match self {
            Op::Grow { .. } | Op::Shrink(..) | Op::Extents { .. } => true,
            Op::Data { grows, .. } => *grows,
            _ => false,
        }
    }

    fn mentions(&self, inode: InodeId) -> bool {
        let victim = match self {
            Op::Rename(_, _, _, victim) | Op::Take(_, _, victim) => *victim == Some(inode),
            Op::Inode(new) => *new == inode,
            _ => false,
        };
        victim
            || self.own() == Some(inode)
            || self.named().contains(&inode)
            || self.slots().iter().any(|slot| slot.directory == inode)
    }
}

fn overlap(a: (u64, u64), b: (u64, u64)) -> bool {
    a.0 < b.1 && b.0 < a.1
}

pub(super) struct Reference<'a> {
    fs: Fs,
    before: Before<'a>,
    steps: Vec<Step<'a>>,
    durable: BTreeSet<usize>,
    /// Contents as the program sees them.
    now: BTreeMap<InodeId, Vec<u8>>,
    parents: BTreeMap<InodeId, InodeId>,
    kinds: BTreeMap<InodeId, InodeKind<'a>>,
    calls: usize,
}

impl<'a> Reference<'a> {
    pub fn new(fs: Fs, before: &Before<'a>) -> Reference<'a> {
        let contents = before.inodes.iter();
        Reference {
            fs,
            steps: Vec::new(),
            durable: BTreeSet::new(),
            now: contents
                .clone()
                .map(|initial| (initial.inode, initial.bytes.to_vec()))
                .collect(),
            kinds: contents
                .map(|initial| (initial.inode, initial.kind))
                .collect(),
            parents: before
                .entries
                .iter()
                .map(|(slot, inode)| (*inode, slot.directory))
                .collect(),
            before: before.clone(),
            calls: 0,
        }
    }

    fn push(&mut self, op: Op<'a>) {
        let call = self.calls;
        self.steps.push(Step { call, op });
    }

    pub fn begin(&mut self, call: &Call<'a>) {
        self.calls += 1;
        for effect in &call.effects {
            self.effect(effect);
        }
    }

    pub fn end(&mut self, call: &Call<'a>) {
        for effect in &call.effects {
            if let Effect::Sync(sync) = effect {
                self.sync(*sync);
            }
        }
    }

    /// Whether it has its place in the journal.
    fn is_chained(&self, op: &Op<'a>) -> bool {
        match (self.fs, op) {
            (Fs::Posix, _) => false,
            (Fs::Journal, _) => true,
            (_, Op::Grow { floats, .. }) => !floats,
            (_, Op::Data { .. }) => false,
            (_, _) => true,
        }
    }

    /// Rules that bind a sync as well: K1, K2, K3, K5, E6, E8, X2, B3.
    fn needs(&self, earlier: usize, later: usize) -> bool {
        let (a, b) = (&self.steps[earlier], &self.steps[later]);
        let same_call = a.call == b.call;
        let (a, b) = (&a.op, &b.op);
        let names = |op: &Op<'a>| matches!(op, Op::Link(..) | Op::Take(..) | Op::Rename(..));
        if let Op::Inode(inode) = a {
            return names(b) && b.named().contains(inode);
        }
        if a.slots().iter().any(|slot| b.slots().contains(slot)) {
            return true;
        }
        if let (
            Op::Grow {
                inode,
                by_write: true,
                floats: true,
                ..
            },
            Op::Rename(_, _, of, Some(_)),
        ) = (a, b)
        {
            return self.fs == Fs::Ext4 && inode == of;
        }
        if a.own().is_none() || a.own() != b.own() {
            return false;
        }
        if let (Op::Attribute(_, one, _), Op::Attribute(_, other, _)) = (a, b) {
            return one == other;
        }
        if let (Op::Data { unit: one, .. }, Op::Data { unit: other, .. }) = (a, b)
            && overlap(*one, *other)
        {
            return true;
        }
        if a.is_size() && b.is_size() {
            let write = |op: &Op<'a>| matches!(op, Op::Grow { by_write: true, .. });
            return self.fs != Fs::Xfs || !(write(a) && write(b));
        }
        match (a, b) {
            (Op::Shrink(_, at), Op::Data { from, bytes, .. }) => from + bytes.len() as u64 > *at,
            (
                Op::Extents { from, to, what, .. },
                Op::Data {
                    from: start, bytes, ..
                },
            ) => {
                *what == Allocation::PunchHole
                    && overlap((*from, *to), (*start, start + bytes.len() as u64))
            }
            // Zeros before the size moves.
            (Op::Data { .. }, Op::Shrink(..)) => same_call,
            // Data before its size.
            (
                Op::Data { from, bytes, .. },
                Op::Grow {
                    to, by_write: true, ..
                },
            ) => {
                let waits = matches!(self.fs, Fs::Xfs | Fs::Btrfs);
                waits && same_call && from + bytes.len() as u64 == *to
            }
            _ => false,
        }
    }

    /// Being behind something in the journal.
    fn follows(&self, earlier: usize, later: usize) -> bool {
        let (a, b) = (&self.steps[earlier].op, &self.steps[later].op);
        let floats = matches!(b, Op::Grow { floats: true, .. }) && self.fs != Fs::Posix;
        self.is_chained(a) && (self.is_chained(b) || floats)
    }

    fn settle(&mut self, cover: Vec<usize>) {
        let mut open = cover;
        while let Some(step) = open.pop() {
            if self.durable.insert(step) {
                for earlier in 0..step {
                    let in_order = self.fs != Fs::Btrfs && self.follows(earlier, step);
                    if self.needs(earlier, step) || in_order {
                        open.push(earlier);
                    }
                }
            }
        }
    }

    /// Every state that a crash may leave now.
    pub fn states(&self) -> BTreeSet<String> {
        let mut states = BTreeSet::new();
        self.choose(0, &mut Vec::new(), &mut states);
        states
    }

    fn choose(&self, next: usize, kept: &mut Vec<bool>, states: &mut BTreeSet<String>) {
        if next == self.steps.len() {
            states.insert(replay::replay(self, kept, false));
            if self.fs == Fs::Posix {
                states.insert(replay::replay(self, kept, true));
            }
            return;
        }
        let durable = self.durable.contains(&next);
        let may = (0..next).all(|earlier| {
            let bound = self.needs(earlier, next) || !durable && self.follows(earlier, next);
            kept[earlier] || !bound
        });
        assert!(may || !durable, "what syncs cover is closed");
        if may {
            kept.push(true);
            self.choose(next + 1, kept, states);
            kept.pop();
        }
        if !durable {
            kept.push(false);
            self.choose(next + 1, kept, states);
            kept.pop();
        }
    }
}
