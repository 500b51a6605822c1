//! What a file holds, as extents of borrowed bytes: no byte is copied until somebody reads it.

use super::op::{BLOCK_BYTES, Data};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::{xxh3_128, xxh3_128_with_seed};

/// Where the bytes of an extent come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteSource<'a> {
    Bytes(&'a [u8]),
    /// Nobody knows; this byte stands for it.
    Filler(u8),
}

/// A part of a file, from one source. Between extents is what nobody wrote, and reads as zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent<'a> {
    pub offset: u64,
    pub length: u64,
    pub source: ByteSource<'a>,
}

impl<'a> Extent<'a> {
    pub fn end(&self) -> u64 {
        self.offset + self.length
    }

    fn slice(&self, from: u64, to: u64) -> Extent<'a> {
        let source = match self.source {
            ByteSource::Bytes(bytes) => {
                let start = (from - self.offset) as usize;
                ByteSource::Bytes(&bytes[start..start + (to - from) as usize])
            }
            ByteSource::Filler(byte) => ByteSource::Filler(byte),
        };
        Extent {
            offset: from,
            length: to - from,
            source,
        }
    }
}

/// The bytes of a file.
///
/// Data behind the end is kept and not seen: the size that makes it visible may come later.
#[derive(Clone, Debug, Default)]
pub struct Content<'a> {
    size: u64,
    /// By offset; they do not overlap.
    extents: BTreeMap<u64, Extent<'a>>,
}

impl<'a> Content<'a> {
    pub fn new(bytes: &'a [u8]) -> Content<'a> {
        let mut content = Content::default();
        content.write(0, Data::Bytes(bytes));
        content.grow(bytes.len() as u64);
        content
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    /// At least so many bytes.
    pub fn grow(&mut self, to: u64) {
        self.size = self.size.max(to);
    }

    /// So many bytes, and nothing behind them.
    pub fn shrink(&mut self, to: u64) {
        self.split(to);
        self.extents.split_off(&to);
        self.size = to;
    }

    /// So many bytes, with nothing behind them and zeros where there were none.
    pub fn resize(&mut self, to: u64) {
        let size = self.size.min(to);
        self.shrink(size);
        self.size = to;
    }

    /// No extent reaches over this offset.
    fn split(&mut self, at: u64) {
        let before = self.extents.range_mut(..at).next_back();
        if let Some((_, extent)) = before
            && extent.end() > at
        {
            let behind = extent.slice(at, extent.end());
            *extent = extent.slice(extent.offset, at);
            self.extents.insert(at, behind);
        }
    }

    /// Makes a range one that nobody wrote.
    pub fn punch(&mut self, offset: u64, length: u64) {
        let end = offset.saturating_add(length);
        self.split(offset);
        self.split(end);
        while let Some((at, _)) = self.extents.range(offset..end).next() {
            let at = *at;
            self.extents.remove(&at);
        }
    }

    fn put(&mut self, extent: Extent<'a>) {
        if extent.length != 0 {
            self.punch(extent.offset, extent.length);
            self.extents.insert(extent.offset, extent);
        }
    }

    pub fn write(&mut self, offset: u64, data: Data<'a>) {
        match data {
            Data::Bytes(bytes) => self.put(Extent {
                offset,
                length: bytes.len() as u64,
                source: ByteSource::Bytes(bytes),
            }),
            Data::Zeros(length) => self.fill(offset, length, 0),
        }
    }

    pub fn fill(&mut self, offset: u64, length: u64, byte: u8) {
        self.put(Extent {
            offset,
            length,
            source: ByteSource::Filler(byte),
        });
    }

    /// Whether nobody wrote anything there.
    pub fn is_gap(&self, from: u64, to: u64) -> bool {
        let before = self.extents.range(..to).next_back();
        before.is_none_or(|(_, extent)| extent.end() <= from)
    }

    /// Fills what nobody wrote.
    pub fn fill_gaps(&mut self, from: u64, to: u64, byte: u8) {
        let mut next = from;
        let mut gaps = Vec::new();
        let before = self.extents.range(..from).next_back();
        let first = before.map_or(from, |(offset, _)| *offset);
        for extent in self.extents.range(first..to).map(|(_, extent)| extent) {
            if extent.offset > next {
                gaps.push((next, extent.offset));
            }
            next = next.max(extent.end());
        }
        gaps.push((next, to));
        for (from, to) in gaps {
            if from < to {
                self.fill(from, to - from, byte);
            }
        }
    }

    /// Takes a range out; what is behind it moves to the front.
    pub fn collapse(&mut self, offset: u64, length: u64) {
        self.punch(offset, length);
        for mut extent in self.extents.split_off(&offset).into_values() {
            extent.offset -= length;
            self.extents.insert(extent.offset, extent);
        }
        self.size = self.size.saturating_sub(length);
    }

    /// Puts zeros in; what is behind them moves to the back.
    pub fn insert(&mut self, offset: u64, length: u64) {
        self.split(offset);
        for mut extent in self.extents.split_off(&offset).into_values() {
            extent.offset += length;
            self.extents.insert(extent.offset, extent);
        }
        self.size += length;
    }

    /// What is visible, ascending.
    pub fn extents(&self) -> impl Iterator<Item = Extent<'a>> + '_ {
        let visible = self.extents.range(..self.size);
        visible.map(|(_, extent)| extent.slice(extent.offset, extent.end().min(self.size)))
    }

    /// What is visible of a range.
    pub fn extents_in(&self, from: u64, to: u64) -> impl Iterator<Item = Extent<'a>> + '_ {
        let to = to.min(self.size);
        let first = self.extents.range(..=from).next_back();
        let first = first.map_or(from, |(offset, _)| *offset);
        let all = self.extents.range(first.min(to)..to);
        let parts = all.map(move |(_, extent)| {
            let (start, end) = (extent.offset.max(from), extent.end().min(to));
            (start < end).then(|| extent.slice(start, end))
        });
        parts.flatten()
    }

    /// Copies a visible range out.
    pub fn read(&self, from: u64, to: &mut [u8]) {
        to.fill(0);
        for extent in self.extents_in(from, from + to.len() as u64) {
            let place = &mut to[(extent.offset - from) as usize..][..extent.length as usize];
            match extent.source {
                ByteSource::Bytes(bytes) => place.copy_from_slice(bytes),
                ByteSource::Filler(byte) => place.fill(byte),
            }
        }
    }

    /// Whether these bytes stand there already, and are visible.
    pub fn holds(&self, offset: u64, bytes: &[u8]) -> bool {
        let end = offset + bytes.len() as u64;
        if end > self.size {
            return false;
        }
        let mut next = offset;
        for extent in self.extents_in(offset, end) {
            let gap = &bytes[(next - offset) as usize..(extent.offset - offset) as usize];
            let own = &bytes[(extent.offset - offset) as usize..][..extent.length as usize];
            let same = match extent.source {
                ByteSource::Bytes(bytes) => own == bytes,
                ByteSource::Filler(byte) => own.iter().all(|own| *own == byte),
            };
            if !same || gap.iter().any(|byte| *byte != 0) {
                return false;
            }
            next = extent.end();
        }
        bytes[(next - offset) as usize..]
            .iter()
            .all(|byte| *byte == 0)
    }

    /// Whether a visible range is all zeros.
    pub fn is_zero(&self, offset: u64, length: u64) -> bool {
        let end = offset + length;
        end <= self.size
            && self
                .extents_in(offset, end)
                .all(|extent| match extent.source {
                    ByteSource::Bytes(bytes) => bytes.iter().all(|byte| *byte == 0),
                    ByteSource::Filler(byte) => byte == 0,
                })
    }

    /// Equal for equal bytes, wherever they come from: a sum over the blocks that are not zeros.
    pub fn hash(&self) -> u128 {
        let mut sum = xxh3_128(&self.size.to_le_bytes());
        let mut next = 0;
        let mut buffer = [0; BLOCK_BYTES as usize];
        for extent in self.extents() {
            let blocks = extent.offset / BLOCK_BYTES..extent.end().div_ceil(BLOCK_BYTES);
            for block in blocks.start.max(next)..blocks.end {
                sum = sum.wrapping_add(self.block_hash(block, &extent, &mut buffer));
            }
            next = next.max(blocks.end);
        }
        sum
    }

    /// Zeros count as nothing; what lies behind the end counts as zeros.
    fn block_hash(&self, block: u64, extent: &Extent<'a>, buffer: &mut [u8]) -> u128 {
        let start = block * BLOCK_BYTES;
        let whole = extent.offset <= start && extent.end() >= start + BLOCK_BYTES;
        let bytes = match extent.source {
            ByteSource::Bytes(bytes) if whole => {
                &bytes[(start - extent.offset) as usize..][..BLOCK_BYTES as usize]
            }
            ByteSource::Bytes(_) | ByteSource::Filler(_) => {
                self.read(start, buffer);
                &*buffer
            }
        };
        if bytes.iter().all(|byte| *byte == 0) {
            0
        } else {
            xxh3_128_with_seed(bytes, block)
        }
    }

    pub fn equals(&self, other: &Content<'_>) -> bool {
        self.size == other.size && self.hash() == other.hash()
    }
}
