//! The content of a disk, copied on write: a clone costs a table, whatever the disk holds.
//!
//! Blocks that were never written hold [`FILL`], so that a file system that shows what lay on the
//! disk before (stale data) is found out by its content. The hash of a disk is the sum of the
//! hashes of its blocks, kept up to date by each write: two images built in different ways and
//! equal byte for byte have the same hash.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, LazyLock};

use crashpoint_persist::files::STALE_BYTE;

/// Bytes of a block: what all three file systems write at once.
pub const BLOCK: usize = 4096;
/// What a disk holds where nothing was written: the models call it stale.
pub const FILL: u8 = STALE_BYTE;
const CHUNK: usize = 512;

/// A block of data with its hash.
#[derive(Debug)]
pub struct DiskBlock {
    pub bytes: [u8; BLOCK],
    pub hash: u64,
}

impl DiskBlock {
    /// `bytes`, continued by zeros.
    ///
    /// # Panics
    /// If there are more bytes than a block holds.
    pub fn new(bytes: &[u8]) -> Arc<DiskBlock> {
        // Makers of file systems write many.
        static ZEROS: LazyLock<Arc<DiskBlock>> = LazyLock::new(|| DiskBlock::hashed([0; BLOCK]));
        if bytes.iter().all(|byte| *byte == 0) {
            return ZEROS.clone();
        }
        let mut whole = [0; BLOCK];
        whole[..bytes.len()].copy_from_slice(bytes);
        DiskBlock::hashed(whole)
    }

    fn hashed(whole: [u8; BLOCK]) -> Arc<DiskBlock> {
        let mut hasher = DefaultHasher::new();
        whole.hash(&mut hasher);
        Arc::new(DiskBlock {
            bytes: whole,
            hash: hasher.finish(),
        })
    }
}

type Chunk = Vec<Option<Arc<DiskBlock>>>;

#[derive(Clone, Debug)]
pub struct Disk {
    chunks: Vec<Option<Arc<Chunk>>>,
    size: u64,
    hash: u64,
}

impl Disk {
    /// # Panics
    /// If `size` is no multiple of the size of a block.
    pub fn new(size: u64) -> Disk {
        assert!(
            size.is_multiple_of(BLOCK as u64),
            "a disk of {size} bytes ends inside a block"
        );
        let chunks = size.div_ceil((BLOCK * CHUNK) as u64) as usize;
        Disk {
            chunks: vec![None; chunks],
            size,
            hash: 0,
        }
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    /// Equal for equal content.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    fn block(&self, index: usize) -> Option<&Arc<DiskBlock>> {
        self.chunks[index / CHUNK].as_ref()?[index % CHUNK].as_ref()
    }

    /// Replaces one block.
    pub fn put(&mut self, index: usize, block: Arc<DiskBlock>) {
        let added = block_hash(index, &block);
        let chunk = self.chunks[index / CHUNK].get_or_insert_with(|| Arc::new(vec![None; CHUNK]));
        let old = Arc::make_mut(chunk)[index % CHUNK].replace(block);
        let removed = old.map_or(0, |old| block_hash(index, &old));
        self.hash = self.hash.wrapping_sub(removed).wrapping_add(added);
    }

    /// # Panics
    /// If the range reaches beyond the disk; the same for every other access.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        for (index, start, range) in pieces(offset, into.len()) {
            let into = &mut into[range];
            match self.block(index) {
                Some(block) => into.copy_from_slice(&block.bytes[start..start + into.len()]),
                None => into.fill(FILL),
            }
        }
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (index, start, range) in pieces(offset, bytes.len()) {
            let bytes = &bytes[range];
            if bytes.len() == BLOCK {
                self.put(index, DiskBlock::new(bytes));
                continue;
            }
            let mut whole = match self.block(index) {
                Some(block) => block.bytes,
                None => [FILL; BLOCK],
            };
            whole[start..start + bytes.len()].copy_from_slice(bytes);
            self.put(index, DiskBlock::new(&whole));
        }
    }
}

/// A block counts with where it lies, mixed so that equal blocks in swapped places differ.
fn block_hash(index: usize, block: &DiskBlock) -> u64 {
    let mixed = block.hash ^ (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 29)
}

/// A range cut at blocks: the block, where in it the piece begins, and which bytes of the range.
pub(crate) fn pieces(
    offset: u64,
    length: usize,
) -> impl Iterator<Item = (usize, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == length {
            return None;
        }
        let at = offset as usize + done;
        let start = at % BLOCK;
        let end = length.min(done + BLOCK - start);
        let range = done..end;
        done = end;
        Some((at / BLOCK, start, range))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 4 << 20;

    #[test]
    fn what_was_never_written_is_filled() {
        let mut disk = Disk::new(SIZE);
        disk.write(4090, b"across a border");
        let mut read = [0; 21];
        disk.read(4087, &mut read);
        let filled = [&[FILL; 3], b"across a border".as_slice(), &[FILL; 3]].concat();
        assert_eq!(read, *filled);
    }

    #[test]
    fn a_copy_does_not_change_with_its_original() {
        let mut disk = Disk::new(SIZE);
        disk.write(0, b"old");
        let copy = disk.clone();
        disk.write(0, b"new");
        let mut read = [0; 3];
        copy.read(0, &mut read);
        assert_eq!(&read, b"old");
        assert_ne!(copy.hash(), disk.hash());
    }

    #[test]
    fn the_hash_tells_content_and_place_but_not_the_way_there() {
        let block = |letter: u8| [letter; BLOCK];
        let mut one = Disk::new(SIZE);
        one.write(0, &block(b'x'));
        one.write(0, &block(b'a'));
        one.write(BLOCK as u64, &block(b'b'));
        let mut other = Disk::new(SIZE);
        other.write(0, &[block(b'a'), block(b'b')].concat());
        assert_eq!(one.hash(), other.hash());
        let mut swapped = Disk::new(SIZE);
        swapped.write(0, &[block(b'b'), block(b'a')].concat());
        assert_ne!(one.hash(), swapped.hash());
    }
}
