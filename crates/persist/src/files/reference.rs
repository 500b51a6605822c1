//! The models a second time, to hold the graph against: slow, and close to the words of the rules.
//!
//! A program is a list of micro-operations, inodes and every size among them. A rule is a predicate
//! on two of them: may the second persist without the first? A crash state is any set that honours
//! all rules and has what syncs covered; it is replayed from the beginning, byte by byte. Nothing
//! is shared with the graph but the input and the form of the output.

mod replay;

use super::op::{BLOCK_BYTES, SECTOR_BYTES};
use crashpoint_trace::files::{
    Allocation, Before, Call, Effect, InodeId, InodeKind, Slot, SyncKind,
};
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

    fn effect(&mut self, effect: &Effect<'a>) {
        let splits = self.fs == Fs::Posix;
        match *effect {
            Effect::New { inode, kind, .. } => {
                self.kinds.insert(inode, kind);
                self.now.insert(inode, Vec::new());
                self.push(Op::Inode(inode));
            }
            Effect::Link { slot, inode } => {
                self.parents.insert(inode, slot.directory);
                self.push(Op::Link(slot, inode));
            }
            Effect::Unlink { slot, inode } => self.push(Op::Unlink(slot, inode)),
            Effect::Rename {
                from,
                to,
                inode,
                victim,
            } => {
                self.parents.insert(inode, to.directory);
                if splits {
                    self.push(Op::Leave(from, inode));
                    self.push(Op::Take(to, inode, victim));
                } else {
                    self.push(Op::Rename(from, to, inode, victim));
                }
            }
            Effect::Exchange {
                first,
                first_inode,
                second,
                second_inode,
            } => {
                self.parents.insert(first_inode, second.directory);
                self.parents.insert(second_inode, first.directory);
                if splits {
                    self.push(Op::Take(first, second_inode, None));
                    self.push(Op::Take(second, first_inode, None));
                } else {
                    self.push(Op::Exchange([(first, first_inode), (second, second_inode)]));
                }
            }
            Effect::Write {
                inode,
                offset,
                bytes,
                ..
            } => self.write(inode, offset, bytes),
            Effect::Resize { inode, to, .. } => self.resize(inode, to),
            Effect::Allocate {
                inode,
                offset,
                length,
                what,
            } => self.allocate(inode, offset, length, what),
            Effect::SetXattr { inode, name, value } => {
                self.push(Op::Attribute(
                    inode,
                    name,
                    value.unwrap_or_default().to_vec(),
                ));
            }
            Effect::SetMode { inode, mode } => {
                self.push(Op::Attribute(inode, b"", mode.to_le_bytes().to_vec()));
            }
            Effect::Sync(_) | Effect::LastClose { .. } | Effect::Output { .. } => {}
        }
    }

    /// Whether the block is on the disk: the last word on it is a durable write.
    fn is_allocated(&self, of: InodeId, block: u64) -> bool {
        let (start, end) = (block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES);
        for (index, step) in self.steps.iter().enumerate().rev() {
            match step.op {
                Op::Data {
                    inode,
                    from,
                    ref bytes,
                    ..
                } if inode == of && overlap((from, from + bytes.len() as u64), (start, end)) => {
                    if self.durable.contains(&index) {
                        return true;
                    }
                }
                Op::Shrink(inode, to) if inode == of && to <= start => return false,
                Op::Extents {
                    inode,
                    from,
                    to,
                    what: Allocation::PunchHole,
                    ..
                } if inode == of && from <= start && end <= to => return false,
                _ => {}
            }
        }
        let mut before = self.before.inodes.iter();
        before.any(|initial| initial.inode == of && (initial.bytes.len() as u64) > start)
    }

    fn sure_size(&self, of: InodeId) -> u64 {
        let mut before = self.before.inodes.iter();
        let initial = before.find(|initial| initial.inode == of);
        let mut size = initial.map_or(0, |initial| initial.bytes.len() as u64);
        for (index, step) in self.steps.iter().enumerate() {
            let durable = self.durable.contains(&index);
            match step.op {
                Op::Grow { inode, to, .. } if inode == of && durable => size = size.max(to),
                Op::Extents {
                    inode, size: to, ..
                } if inode == of && durable => {
                    size = size.max(to);
                }
                Op::Data {
                    inode,
                    from,
                    ref bytes,
                    grows: true,
                    ..
                } if inode == of && durable => size = size.max(from + bytes.len() as u64),
                Op::Shrink(inode, to) if inode == of => size = size.min(to),
                _ => {}
            }
        }
        size
    }

    fn class(&self, inode: InodeId, from: u64, to: u64) -> Class {
        let block = from / BLOCK_BYTES;
        let sure = self.sure_size(inode);
        if !self.is_allocated(inode, block) {
            Class::Fresh
        } else if to <= sure {
            Class::Over
        } else if block * BLOCK_BYTES < sure {
            Class::Tail
        } else {
            Class::Fresh
        }
    }

    /// A block that was fresh and is written again: it may be on the disk by now.
    fn was_fresh(&self, of: InodeId, block: u64) -> bool {
        let range = (block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES);
        let written = |step: &Step<'a>| match step.op {
            Op::Data { inode, unit, .. } => inode == of && overlap(unit, range),
            _ => false,
        };
        self.steps.iter().any(written)
    }

    fn data(&mut self, inode: InodeId, from: u64, bytes: &[u8], class: Class, unit: u64) {
        let to = from + bytes.len() as u64;
        let now = self.now.get_mut(&inode).expect("a file");
        let (start, end) = (from as usize, to as usize);
        if class == Class::Over && now[start..end] == *bytes {
            return;
        }
        now.resize(now.len().max(end), 0);
        now[start..end].copy_from_slice(bytes);
        self.push(Op::Data {
            inode,
            from,
            bytes: bytes.to_vec(),
            class,
            unit: (from / unit * unit, to.div_ceil(unit) * unit),
            grows: false,
        });
    }

    /// Copies that share blocks are not among these programs.
    fn write(&mut self, inode: InodeId, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        if self.fs == Fs::Journal {
            let class = self.class(inode, offset, end);
            let grows = end > self.now[&inode].len() as u64;
            let now = self.now.get_mut(&inode).expect("a file");
            now.resize(now.len().max(end as usize), 0);
            now[offset as usize..end as usize].copy_from_slice(bytes);
            self.push(Op::Data {
                inode,
                from: offset,
                bytes: bytes.to_vec(),
                class,
                unit: (
                    offset / BLOCK_BYTES * BLOCK_BYTES,
                    end.div_ceil(BLOCK_BYTES) * BLOCK_BYTES,
                ),
                grows,
            });
            return;
        }
        let mut pieces = Vec::new();
        let mut from = offset;
        while from < end {
            let to = end.min((from / BLOCK_BYTES + 1) * BLOCK_BYTES);
            pieces.push((from, to, self.class(inode, from, to)));
            from = to;
        }
        for (from, to, class) in pieces {
            let part =
                |from: u64, to: u64| &bytes[(from - offset) as usize..(to - offset) as usize];
            let tears = self.fs != Fs::Btrfs;
            let split = match class {
                Class::Over => to,
                Class::Tail => self.sure_size(inode) / SECTOR_BYTES * SECTOR_BYTES,
                Class::Fresh => from,
            };
            let mut at = from;
            while tears && at < split.min(to) {
                let next = to.min(split).min((at / SECTOR_BYTES + 1) * SECTOR_BYTES);
                self.data(inode, at, part(at, next), Class::Over, SECTOR_BYTES);
                at = next;
            }
            if at == to {
                continue;
            }
            let unit = match class {
                Class::Tail if tears => SECTOR_BYTES,
                Class::Tail | Class::Over | Class::Fresh => BLOCK_BYTES,
            };
            let size = self.now[&inode].len() as u64;
            self.data(inode, at, part(at, to), class, unit);
            if to > size {
                self.push(Op::Grow {
                    inode,
                    from: size,
                    to,
                    floats: class != Class::Tail || self.fs != Fs::Ext4,
                    by_write: true,
                });
            }
        }
    }

    fn zero(&mut self, inode: InodeId, from: u64, to: u64) {
        let block = from / BLOCK_BYTES;
        let has = self.is_allocated(inode, block) || self.was_fresh(inode, block);
        if from >= to || self.fs == Fs::Journal || !has {
            return;
        }
        let class = self.class(inode, from, to);
        let tears = class == Class::Over && self.fs != Fs::Btrfs;
        let mut at = from;
        while at < to {
            let next = match tears {
                true => to.min((at / SECTOR_BYTES + 1) * SECTOR_BYTES),
                false => to,
            };
            let unit = match tears {
                true => SECTOR_BYTES,
                false => BLOCK_BYTES,
            };
            self.data(inode, at, &vec![0; (next - at) as usize], class, unit);
            at = next;
        }
    }

    fn resize(&mut self, inode: InodeId, to: u64) {
        let size = self.now[&inode].len() as u64;
        let edge = |offset: u64| offset.div_ceil(BLOCK_BYTES) * BLOCK_BYTES;
        if to > size {
            self.push(Op::Grow {
                inode,
                from: size,
                to,
                floats: false,
                by_write: false,
            });
            self.now
                .get_mut(&inode)
                .expect("a file")
                .resize(to as usize, 0);
            if self.fs == Fs::Posix {
                self.zero(inode, size, edge(size).min(to));
            }
            return;
        }
        self.zero(inode, to, edge(to).min(size));
        self.push(Op::Shrink(inode, to));
        self.now
            .get_mut(&inode)
            .expect("a file")
            .truncate(to as usize);
    }

    /// Only what programs of these tests do: reserving, and holes of whole blocks.
    fn allocate(&mut self, inode: InodeId, offset: u64, length: u64, what: Allocation) {
        let size = self.now[&inode].len() as u64;
        let end = offset + length;
        match what {
            Allocation::Reserve if end > size => {}
            Allocation::PunchHole if offset < size => {}
            _ => return,
        }
        let now = self.now.get_mut(&inode).expect("a file");
        let to = match what {
            Allocation::Reserve => {
                now.resize(end as usize, 0);
                end
            }
            _ => {
                let last = end.min(size) as usize;
                now[offset as usize..last].fill(0);
                size
            }
        };
        self.push(Op::Extents {
            inode,
            from: offset,
            to: end,
            what,
            size: to,
        });
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

    fn sync(&mut self, sync: SyncKind) {
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
        let mut cover = self.which(|op| op.named().contains(&of));
        let mut open: Vec<InodeId> = self.parents.get(&of).copied().into_iter().collect();
        for step in &cover {
            if !self.durable.contains(step) {
                open.extend(
                    self.steps[*step]
                        .op
                        .slots()
                        .iter()
                        .map(|slot| slot.directory),
                );
            }
        }
        let mut seen = BTreeSet::new();
        while let Some(directory) = open.pop() {
            let own = self.which(|op| op.named().contains(&directory));
            let is_new = own.iter().any(|step| {
                matches!(self.steps[*step].op, Op::Link(..)) && !self.durable.contains(step)
            });
            if is_new && seen.insert(directory) {
                for step in &own {
                    open.extend(
                        self.steps[*step]
                            .op
                            .slots()
                            .iter()
                            .map(|slot| slot.directory),
                    );
                }
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
