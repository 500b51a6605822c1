//! From bytes to blocks: what a write, a truncation or an allocation is made of.
//!
//! A write is one node for each block that it touches, and one for each size that it passes on the
//! way: block boundaries and its end. A call that touches more than [`MAX_PIECES`] blocks is cut
//! into that many runs of blocks instead, each of which persists whole.

use super::inode::CutKind;
use super::model::{Copy, DataOrder, Filler, SizeOrder, SizePlacement, Tear};
use super::op::{BLOCK_BYTES, Class, Data, Growth, MicroOpKind, SECTOR_BYTES};
use super::walker::{FileWalker, Stand};
use crate::graph::NodeId;
use crashpoint_trace::files::{Allocation, InodeId, Through};

/// Into how many pieces one call is cut at most.
pub const MAX_PIECES: u64 = 64;

/// What a journal of data takes whole.
pub const MAX_ATOMIC_BYTES: u64 = 1 << 20;

/// Bytes on their way to a file.
#[derive(Clone, Copy, Debug)]
struct Piece<'a> {
    inode: InodeId,
    offset: u64,
    data: Data<'a>,
    through: Through,
}

impl<'a> Piece<'a> {
    fn end(&self) -> u64 {
        self.offset + self.data.len()
    }

    fn slice(&self, from: u64, to: u64) -> Piece<'a> {
        let data = match self.data {
            Data::Bytes(bytes) => {
                let start = (from - self.offset) as usize;
                Data::Bytes(&bytes[start..start + (to - from) as usize])
            }
            Data::Zeros(_) => Data::Zeros(to - from),
        };
        Piece {
            offset: from,
            data,
            ..*self
        }
    }

    fn kind(&self, class: Class, grow: Option<Growth>) -> MicroOpKind<'a> {
        MicroOpKind::Write {
            inode: self.inode,
            offset: self.offset,
            data: self.data,
            class,
            through: self.through,
            grow,
        }
    }
}

fn floor(offset: u64, unit: u64) -> u64 {
    offset / unit * unit
}

fn ceil(offset: u64, unit: u64) -> u64 {
    offset.div_ceil(unit) * unit
}

impl<'a> FileWalker<'a> {
    pub(super) fn write(&mut self, inode: InodeId, offset: u64, bytes: &'a [u8], through: Through) {
        if bytes.is_empty() {
            return;
        }
        let whole = Piece {
            inode,
            offset,
            data: Data::Bytes(bytes),
            through,
        };
        let shares = through == Through::Copy && self.model.copy == Copy::Share;
        match self.model.data.order {
            DataOrder::Chain => {
                let mut at = offset;
                while at < whole.end() {
                    let end = whole.end().min(at + MAX_ATOMIC_BYTES);
                    self.write_whole(whole.slice(at, end));
                    at = end;
                }
            }
            DataOrder::Free if shares => self.write_whole(whole),
            DataOrder::Free => self.write_blocks(whole),
        }
    }

    /// One operation on metadata, with the size.
    fn write_whole(&mut self, piece: Piece<'a>) {
        let (from, to) = (piece.offset, piece.end());
        let class = self.class(piece.inode, from, to);
        let inode = self.inode_mut(piece.inode);
        let (first, last) = (floor(from, BLOCK_BYTES), ceil(to, BLOCK_BYTES));
        let mut needs = inode.writers(first, last);
        needs.extend(inode.held_up_by(from, to));
        let from_size = inode.size();
        let grow = (to > from_size).then_some(Growth {
            from: from_size,
            to,
        });
        if grow.is_some() {
            needs.extend(inode.last_size);
            needs.extend(&inode.floating);
        }
        let path = self.paths.of(piece.inode);
        let node = self.issue(piece.kind(class, grow), path, &needs, Stand::Journal);
        let inode = self.inode_mut(piece.inode);
        inode.own.push(node);
        inode.last_meta = Some(node);
        inode.wrote(first, last, node);
        if grow.is_some() {
            inode.last_size = Some(node);
        }
        inode.content.grow(to);
        inode.content.write(from, piece.data);
    }

    fn class(&self, inode: InodeId, from: u64, to: u64) -> Class {
        let Some(inode) = self.inode(inode) else {
            return Class::Fresh;
        };
        let block = from / BLOCK_BYTES;
        if !inode.is_allocated(block) {
            let start = block * BLOCK_BYTES;
            let again = !inode.writers(start, start + BLOCK_BYTES).is_empty();
            return if again && to > inode.size() && from < start + BLOCK_BYTES {
                Class::Both
            } else {
                Class::Fresh
            };
        }
        if to <= inode.sure() {
            Class::Over
        } else if block * BLOCK_BYTES < inode.sure() {
            Class::Tail
        } else {
            Class::Fresh
        }
    }

    fn write_blocks(&mut self, whole: Piece<'a>) {
        let first = whole.offset / BLOCK_BYTES;
        let count = whole.end().div_ceil(BLOCK_BYTES) - first;
        let run = count.div_ceil(MAX_PIECES);
        let mut block = first;
        let mut pieces: Vec<(Piece<'a>, Class)> = Vec::new();
        while block * BLOCK_BYTES < whole.end() {
            let from = whole.offset.max(block * BLOCK_BYTES);
            let to = whole.end().min((block + 1) * BLOCK_BYTES);
            let class = self.class(whole.inode, from, to);
            match pieces.last_mut() {
                Some((last, of))
                    if *of == class
                        && to.div_ceil(BLOCK_BYTES) - last.offset / BLOCK_BYTES <= run =>
                {
                    *last = whole.slice(last.offset, to);
                }
                Some(_) | None => pieces.push((whole.slice(from, to), class)),
            }
            block += 1;
        }
        let tears = run == 1 && self.model.data.tear == Tear::Sector;
        for (piece, class) in pieces {
            match class {
                Class::Over if tears => {
                    self.write_sectors(piece);
                }
                Class::Over => {
                    self.overwrite(piece, BLOCK_BYTES);
                }
                Class::Tail if tears => {
                    let sure = self.inode_mut(piece.inode).sure();
                    let split = floor(sure, SECTOR_BYTES).max(piece.offset);
                    self.write_sectors(piece.slice(piece.offset, split));
                    self.append(piece.slice(split, piece.end()), class);
                }
                Class::Tail | Class::Fresh | Class::Both => self.append(piece, class),
            }
        }
    }

    /// Sector by sector; those that do not change are no nodes.
    fn write_sectors(&mut self, piece: Piece<'a>) -> Vec<NodeId> {
        let mut nodes = Vec::new();
        let mut from = piece.offset;
        while from < piece.end() {
            let to = piece.end().min(floor(from, SECTOR_BYTES) + SECTOR_BYTES);
            nodes.extend(self.overwrite(piece.slice(from, to), SECTOR_BYTES));
            from = to;
        }
        nodes
    }

    fn overwrite(&mut self, piece: Piece<'a>, unit: u64) -> Option<NodeId> {
        let content = &self.inode_mut(piece.inode).content;
        let same = match piece.data {
            Data::Bytes(bytes) => content.holds(piece.offset, bytes),
            Data::Zeros(length) => content.is_zero(piece.offset, length),
        };
        (!same).then(|| self.put(piece, Class::Over, None, &[], Stand::Free, unit))
    }

    /// Adds a node of data. Writes to one unit keep their order (rule K2), and those behind a
    /// truncation wait for it (rule K5).
    fn put(
        &mut self,
        piece: Piece<'a>,
        class: Class,
        grow: Option<Growth>,
        needs: &[NodeId],
        stand: Stand,
        unit: u64,
    ) -> NodeId {
        let (first, last) = (floor(piece.offset, unit), ceil(piece.end(), unit));
        let inode = self.inode_mut(piece.inode);
        let mut all = inode.writers(first, last);
        all.extend(inode.held_up_by(piece.offset, piece.end()));
        all.extend(needs);
        let path = self.paths.of(piece.inode);
        let node = self.issue(piece.kind(class, grow), path, &all, stand);
        let inode = self.inode_mut(piece.inode);
        inode.own.push(node);
        inode.wrote(first, last, node);
        inode.content.write(piece.offset, piece.data);
        node
    }

    /// Data of a block that is not on the disk as a whole, and the size with it.
    fn append(&mut self, piece: Piece<'a>, class: Class) {
        let size = &self.model.size;
        let (place, waits) = match class {
            Class::Fresh => (size.fresh, size.waits_for_fresh_data),
            Class::Tail | Class::Over => (size.tail, size.waits_for_tail_data),
            Class::Both => {
                let floats =
                    size.fresh == SizePlacement::Floating || size.tail == SizePlacement::Floating;
                let place = if floats {
                    SizePlacement::Floating
                } else {
                    SizePlacement::Chain
                };
                let waits = size.waits_for_fresh_data && size.waits_for_tail_data;
                (place, waits)
            }
        };
        let stand = match place {
            SizePlacement::Floating => Stand::Floating,
            SizePlacement::Chain => Stand::Journal,
        };
        let unit = match class {
            Class::Tail if self.model.data.tear == Tear::Sector => SECTOR_BYTES,
            Class::Tail | Class::Fresh | Class::Both | Class::Over => BLOCK_BYTES,
        };
        let from = self.inode_mut(piece.inode).size();
        if piece.end() <= from {
            self.put(piece, class, None, &[], Stand::Free, unit);
            return;
        }
        let to = piece.end();
        // Without the size nobody sees a block that lies behind it as a whole, nor what else is
        // written to it: data and size may as well be one, or the data wait for the size.
        let unseen = floor(piece.offset, BLOCK_BYTES) >= from;
        if waits && unseen {
            let needs = self.size_needs(piece.inode, piece.offset, to);
            let grow = Some(Growth { from, to });
            let node = self.put(piece, class, grow, &needs, stand, unit);
            self.sized(piece.inode, node, to, stand);
        } else if waits {
            let data = self.put(piece, class, None, &[], Stand::Free, unit);
            self.grow(piece.inode, to, &[data], stand);
        } else {
            let ordered = self.model.size.order == SizeOrder::Kept;
            let grown = self.grow(piece.inode, to, &[], stand);
            let needs = if unseen && ordered {
                vec![grown]
            } else {
                Vec::new()
            };
            self.put(piece, class, None, &needs, Stand::Free, unit);
        }
    }

    /// What a new size waits for (rule K5).
    fn size_needs(&mut self, inode: InodeId, from: u64, to: u64) -> Vec<NodeId> {
        let order = self.model.size.order;
        let inode = self.inode_mut(inode);
        let mut needs: Vec<NodeId> = inode.held_up_by(from, to).into_iter().collect();
        match order {
            SizeOrder::Kept => needs.extend(inode.last_size),
            SizeOrder::Free => {}
        }
        needs
    }

    fn grow(&mut self, inode: InodeId, to: u64, needs: &[NodeId], stand: Stand) -> NodeId {
        let from = self.inode_mut(inode).size();
        let mut all = self.size_needs(inode, from, to);
        all.extend(needs);
        let path = self.paths.of(inode);
        let node = self.issue(MicroOpKind::Grow { inode, from, to }, path, &all, stand);
        self.inode_mut(inode).own.push(node);
        self.sized(inode, node, to, stand);
        node
    }

    /// Notes a node that makes a file longer.
    fn sized(&mut self, inode: InodeId, node: NodeId, to: u64, stand: Stand) {
        let inode = self.inode_mut(inode);
        inode.content.grow(to);
        inode.last_size = Some(node);
        match stand {
            Stand::Journal => inode.last_meta = Some(node),
            Stand::Floating | Stand::Free => inode.floating.push(node),
        }
    }

    /// All sizes so far: what a truncation waits for, and a growth by `ftruncate` (rule K5).
    fn all_sizes(&mut self, inode: InodeId) -> Vec<NodeId> {
        let order = self.model.size.order;
        let inode = self.inode_mut(inode);
        let mut needs: Vec<NodeId> = inode.last_size.into_iter().collect();
        match order {
            SizeOrder::Kept => {}
            SizeOrder::Free => needs.extend(&inode.floating),
        }
        needs
    }

    pub(super) fn resize(&mut self, inode: InodeId, to: u64) {
        let size = self.inode_mut(inode).size();
        if to > size {
            let needs = self.all_sizes(inode);
            self.grow(inode, to, &needs, Stand::Journal);
            let edge = ceil(size, BLOCK_BYTES).min(to);
            if edge > size && self.model.filler.tail.contains(&Filler::Stale) {
                self.zero(inode, size, edge);
            }
            return;
        }
        let edge = ceil(to, BLOCK_BYTES).min(size);
        // Rule E8: what is behind the new end is zeroed before the size moves.
        let mut needs = self.zero(inode, to, edge);
        needs.extend(self.all_sizes(inode));
        let kind = MicroOpKind::Shrink {
            inode,
            from: size,
            to,
        };
        let node = self.extent_change(inode, kind, &needs);
        let inode = self.inode_mut(inode);
        inode.cut(node, CutKind::Truncate { at: to });
        inode.content.shrink(to);
    }

    /// Writes zeros to a part of a block that stays, if the file has got the block.
    fn zero(&mut self, inode: InodeId, from: u64, to: u64) -> Vec<NodeId> {
        let block = floor(from, BLOCK_BYTES);
        let known = self.inode_mut(inode);
        let is_hole = !known.is_allocated(block / BLOCK_BYTES)
            && known.writers(block, block + BLOCK_BYTES).is_empty();
        if from >= to || is_hole || self.model.data.tear == Tear::Call {
            return Vec::new();
        }
        let piece = Piece {
            inode,
            offset: from,
            data: Data::Zeros(to - from),
            through: Through::Cache,
        };
        let unit = match self.model.data.tear {
            Tear::Sector => SECTOR_BYTES,
            Tear::Block | Tear::Call => BLOCK_BYTES,
        };
        match self.class(inode, from, to) {
            Class::Over if unit == SECTOR_BYTES => self.write_sectors(piece),
            Class::Over => self.overwrite(piece, BLOCK_BYTES).into_iter().collect(),
            // The block may be on the disk already, so that this tears as an overwrite does.
            class @ (Class::Tail | Class::Fresh | Class::Both) => {
                let mut nodes = Vec::new();
                let mut at = from;
                while at < to {
                    let next = to.min(floor(at, unit) + unit);
                    let part = piece.slice(at, next);
                    nodes.push(self.put(part, class, None, &[], Stand::Free, unit));
                    at = next;
                }
                nodes
            }
        }
    }

    fn extent_change(&mut self, inode: InodeId, kind: MicroOpKind<'a>, needs: &[NodeId]) -> NodeId {
        let path = self.paths.of(inode);
        let node = self.issue(kind, path, needs, Stand::Journal);
        let inode = self.inode_mut(inode);
        inode.own.push(node);
        inode.last_size = Some(node);
        inode.last_meta = Some(node);
        node
    }

    pub(super) fn allocate(&mut self, inode: InodeId, offset: u64, length: u64, what: Allocation) {
        let size = self.inode_mut(inode).size();
        let end = offset.saturating_add(length);
        match what {
            // Nobody sees it, and what is written there later is fresh as it is behind the end.
            Allocation::ReserveKeepSize => {}
            Allocation::Reserve if end <= size => {}
            Allocation::Reserve => {
                self.change_extents(inode, (offset, length), what, end, None);
                self.inode_mut(inode).content.grow(end);
            }
            Allocation::PunchHole | Allocation::ZeroKeepSize => {
                self.clear(inode, (offset, end.min(size)), what, size);
            }
            Allocation::Zero => self.clear(inode, (offset, end), what, size.max(end)),
            Allocation::Collapse => {
                let to = size.saturating_sub(length);
                let cut = CutKind::Collapse { at: offset, length };
                self.change_extents(inode, (offset, length), what, to, Some(cut));
                self.inode_mut(inode).content.collapse(offset, length);
            }
            Allocation::Insert => {
                let to = size + length;
                let cut = CutKind::Insert { at: offset, length };
                self.change_extents(inode, (offset, length), what, to, Some(cut));
                self.inode_mut(inode).content.insert(offset, length);
            }
        }
    }

    /// Whole blocks become a hole, in one operation; the parts of blocks at both ends are written.
    fn clear(&mut self, inode: InodeId, range: (u64, u64), what: Allocation, to: u64) {
        let (from, end) = range;
        let size = self.inode_mut(inode).size();
        if from >= end {
            return;
        }
        let (first, last) = match self.model.data.tear {
            Tear::Call => (from, end),
            Tear::Sector | Tear::Block => {
                let first = ceil(from, BLOCK_BYTES);
                // The last block of a file goes as a whole if its visible part does.
                let last = if end >= size {
                    ceil(end, BLOCK_BYTES)
                } else {
                    floor(end, BLOCK_BYTES)
                };
                (first, last.max(first))
            }
        };
        self.zero(inode, from, first.min(end).min(size));
        if last.max(from) < end {
            self.zero(inode, last.max(from).max(first.min(end)), end.min(size));
        }
        if first < last || to > size {
            let cut = (first < last).then_some(CutKind::Punch {
                from: first,
                to: last,
            });
            let length = last.saturating_sub(first);
            self.change_extents(inode, (first, length), what, to, cut);
            let content = &mut self.inode_mut(inode).content;
            content.punch(first, length);
            content.grow(to);
        }
    }

    fn change_extents(
        &mut self,
        inode: InodeId,
        range: (u64, u64),
        what: Allocation,
        to: u64,
        cut: Option<CutKind>,
    ) {
        let needs = self.all_sizes(inode);
        let kind = MicroOpKind::Allocate {
            inode,
            offset: range.0,
            length: range.1,
            what,
            to,
        };
        let node = self.extent_change(inode, kind, &needs);
        if let Some(cut) = cut {
            self.inode_mut(inode).cut(node, cut);
        }
    }
}
