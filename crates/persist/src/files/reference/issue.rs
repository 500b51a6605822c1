//! What calls are made of, in the words of the specification.

use super::super::op::{BLOCK_BYTES, SECTOR_BYTES};
use super::{Class, Fs, Op, Reference, Step, overlap};
use crashpoint_trace::files::{Allocation, Effect, InodeId};

impl<'a> Reference<'a> {
    pub(super) fn effect(&mut self, effect: &Effect<'a>) {
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
                } if inode == of
                    && overlap((from, from + bytes.len() as u64), (start, end))
                    && self.durable.contains(&index) =>
                {
                    return true;
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
        let unit = if self.fs == Fs::Btrfs {
            BLOCK_BYTES
        } else {
            SECTOR_BYTES
        };
        let mut at = from;
        while at < to {
            let next = to.min((at / unit + 1) * unit);
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
}
