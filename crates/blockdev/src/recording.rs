//! What reached a disk while a program ran: writes when they were complete, flushes when they came,
//! and marks of the workload, in one order.
//!
//! A flush covers the writes that stand before it. A write that was under way when a flush came
//! stands after it, as on a disk that finishes it late.

use std::sync::Arc;

use crate::disk::{BLOCK, Disk, DiskBlock, pieces};

/// Bytes of a sector: what a disk writes whole or not at all, whatever happens.
pub const SECTOR: usize = 512;

#[derive(Clone, Debug)]
pub enum DiskRecord {
    /// One request, cut at blocks.
    Write(Vec<Unit>),
    Flush,
    /// The workload has got this far.
    Mark(u32),
}

/// Part of a write that lies in one block.
#[derive(Clone, Debug)]
pub struct Unit {
    index: usize,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    Whole(Arc<DiskBlock>),
    Part { start: usize, bytes: Arc<[u8]> },
}

impl Unit {
    pub(crate) fn cut(offset: u64, bytes: &[u8]) -> Vec<Unit> {
        let unit = |(index, start, range): (usize, usize, std::ops::Range<usize>)| Unit {
            index,
            content: match range.len() {
                BLOCK => Content::Whole(DiskBlock::new(&bytes[range])),
                _ => Content::Part {
                    start,
                    bytes: Arc::from(&bytes[range]),
                },
            },
        };
        pieces(offset, bytes.len()).map(unit).collect()
    }

    /// The same in sectors, but only those that not all of `disks` hold already.
    pub(crate) fn sectors(&self, disks: &[&Disk]) -> Vec<Unit> {
        let (start, bytes) = self.bytes();
        let mut sectors = Vec::new();
        for (number, sector) in bytes.chunks(SECTOR).enumerate() {
            let start = start + number * SECTOR;
            let differs = |disk: &&Disk| {
                let mut old = vec![0; sector.len()];
                disk.read((self.index * BLOCK + start) as u64, &mut old);
                old != sector
            };
            if disks.iter().any(differs) {
                sectors.push(Unit {
                    index: self.index,
                    content: Content::Part {
                        start,
                        bytes: Arc::from(sector),
                    },
                });
            }
        }
        sectors
    }

    fn bytes(&self) -> (usize, &[u8]) {
        match &self.content {
            Content::Whole(block) => (0, &block.bytes),
            Content::Part { start, bytes } => (*start, bytes),
        }
    }

    pub(crate) fn whole(&self) -> Option<&Arc<DiskBlock>> {
        match &self.content {
            Content::Whole(block) => Some(block),
            Content::Part { .. } => None,
        }
    }

    pub(crate) fn apply(&self, disk: &mut Disk) {
        match &self.content {
            Content::Whole(block) => disk.put(self.index, block.clone()),
            Content::Part { start, bytes } => {
                disk.write((self.index * BLOCK + start) as u64, bytes);
            }
        }
    }
}

#[derive(Clone, Debug)]
pub struct Recording {
    /// What the disk held before, durable every bit of it.
    pub base: Disk,
    pub records: Vec<DiskRecord>,
}

impl Recording {
    pub fn new(base: Disk) -> Recording {
        Recording {
            base,
            records: Vec::new(),
        }
    }

    pub fn writes(&self) -> usize {
        let is_write = |record: &&DiskRecord| matches!(record, DiskRecord::Write(_));
        self.records.iter().filter(is_write).count()
    }

    pub fn flushes(&self) -> usize {
        let is_flush = |record: &&DiskRecord| matches!(record, DiskRecord::Flush);
        self.records.iter().filter(is_flush).count()
    }
}
