//! The content of persistent files at one moment, with a hash that follows every change.
//!
//! The hash is a sum over the words that differ from the start, so that it costs as much as what
//! changed, and the same content has the same hash by whatever way it came about. With 128 bits
//! of a mixing function that nobody attacks, two contents meet by chance in no real run.

use crate::engine::medium::StateHash;
use crashpoint_persist::memory::Node;
use crashpoint_trace::{FileIndex, PmAddress, Recording};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

pub const PAGE_BYTES: usize = 4096;
const WORD_BYTES: u64 = 8;

/// Which word of which file: a [`PmAddress`] divided by 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WordId(pub u64);

impl WordId {
    pub fn of(address: PmAddress) -> WordId {
        WordId(address.0 / WORD_BYTES)
    }

    pub fn address(self) -> PmAddress {
        PmAddress(self.0 * WORD_BYTES)
    }
}

/// A persistent file as it is to be laid out for a check.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FileShape {
    #[serde(skip)]
    pub index: FileIndex,
    /// Where the recorded program had it.
    pub path: PathBuf,
    pub size_bytes: u64,
}

/// Words that a crash state has on top of an image, by address.
pub type Patch = BTreeMap<WordId, u64>;

/// Contents of all persistent files.
#[derive(Clone, Debug, Default)]
pub struct Image {
    pages: FxHashMap<u64, Box<[u8; PAGE_BYTES]>>,
    hash: StateHash,
}

fn mix(word: WordId, value: u64) -> u128 {
    let spread = |seed: u64| {
        let mut x = (word.0 ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ value.rotate_left(29);
        x = (x ^ x >> 32)
            .wrapping_mul(0xd6e8_feb8_6659_fd93)
            .wrapping_add(value);
        x = (x ^ x >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93 ^ seed);
        x ^ x >> 29
    };
    u128::from(spread(0x51ed_270b)) << 64 | u128::from(spread(0xb492_b66f_be98_f273))
}

impl Image {
    /// What the files held before the recorded program touched them.
    pub fn before(recording: &Recording) -> io::Result<Image> {
        let mut image = Image::default();
        for (index, file) in (0..).map(FileIndex).zip(recording.files()) {
            if let Some(path) = file.image.as_deref().filter(|_| !file.private) {
                image.read(index, path)?;
            }
        }
        Ok(image)
    }

    /// Takes in the content of a file.
    pub fn read(&mut self, index: FileIndex, path: &Path) -> io::Result<()> {
        let file = File::open(path)?;
        let end = file.metadata()?.len();
        let mut at = 0;
        while at < end {
            // The images are sparse; what is not there is zero.
            at = match rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(at)) {
                Ok(data) => data / PAGE_BYTES as u64 * PAGE_BYTES as u64,
                Err(rustix::io::Errno::NXIO) => break,
                Err(error) => return Err(error.into()),
            };
            let mut page = Box::new([0; PAGE_BYTES]);
            let length = (PAGE_BYTES as u64).min(end - at) as usize;
            file.read_exact_at(&mut page[..length], at)?;
            if page.iter().any(|byte| *byte != 0) {
                let number = PmAddress::new(index, at).0 / PAGE_BYTES as u64;
                self.pages.insert(number, page);
            }
            at += PAGE_BYTES as u64;
        }
        Ok(())
    }

    pub fn hash(&self) -> StateHash {
        self.hash
    }

    pub fn word(&self, word: WordId) -> u64 {
        let address = word.address().0;
        let Some(page) = self.pages.get(&(address / PAGE_BYTES as u64)) else {
            return 0;
        };
        let at = address as usize % PAGE_BYTES;
        u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"))
    }

    pub fn set_word(&mut self, word: WordId, value: u64) {
        let old = self.word(word);
        if old == value {
            return;
        }
        let sum = self.hash.0.wrapping_sub(mix(word, old));
        self.hash = StateHash(sum.wrapping_add(mix(word, value)));
        let address = word.address().0;
        let page = self.pages.entry(address / PAGE_BYTES as u64);
        let page = page.or_insert_with(|| Box::new([0; PAGE_BYTES]));
        let at = address as usize % PAGE_BYTES;
        page[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    pub fn apply(&mut self, node: &Node) {
        let word = WordId::of(node.address);
        self.set_word(word, merged(self.word(word), node));
    }

    /// The words that change if these nodes, in order, come on top.
    pub fn patch<'a>(&self, nodes: impl Iterator<Item = &'a Node>) -> Patch {
        let mut patch = Patch::new();
        for node in nodes {
            let word = WordId::of(node.address);
            let now = patch.entry(word).or_insert_with(|| self.word(word));
            *now = merged(*now, node);
        }
        patch.retain(|word, value| self.word(*word) != *value);
        patch
    }

    /// The hash of this image with a patch on top.
    pub fn hash_with(&self, patch: &Patch) -> StateHash {
        let mut sum = self.hash.0;
        for (word, value) in patch {
            sum = sum.wrapping_sub(mix(*word, self.word(*word)));
            sum = sum.wrapping_add(mix(*word, *value));
        }
        StateHash(sum)
    }

    /// All pages that are not zero, by address.
    pub fn pages(&self) -> impl Iterator<Item = (PmAddress, &[u8; PAGE_BYTES])> {
        let pages = self.pages.iter();
        pages.map(|(number, page)| (PmAddress(number * PAGE_BYTES as u64), &**page))
    }
}

/// A word after a node has been stored into it.
fn merged(word: u64, node: &Node) -> u64 {
    let mut bytes = word.to_le_bytes();
    let at = (node.address.0 % WORD_BYTES) as usize;
    let stored = node.bytes();
    bytes[at..at + stored.len()].copy_from_slice(stored);
    u64::from_le_bytes(bytes)
}

/// The files that a check needs, in the recording's order.
pub fn shapes(recording: &Recording) -> Vec<FileShape> {
    let files = (0..).map(FileIndex).zip(recording.files());
    let shared = files.filter(|(_, file)| !file.private);
    shared
        .map(|(index, file)| FileShape {
            index,
            path: file.path.clone(),
            size_bytes: file.size_bytes,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_depends_on_content_alone() {
        let (a, b) = (WordId(3), WordId(700));
        let mut one = Image::default();
        one.set_word(a, 5);
        one.set_word(b, 6);
        let mut other = Image::default();
        other.set_word(b, 9);
        other.set_word(a, 5);
        assert_ne!(one.hash(), other.hash());
        other.set_word(b, 6);
        assert_eq!(one.hash(), other.hash());
        other.set_word(a, 0);
        other.set_word(b, 0);
        assert_eq!(other.hash(), StateHash::default());
    }

    #[test]
    fn a_patch_hashes_like_the_image_it_makes() {
        let mut image = Image::default();
        image.set_word(WordId(1), 1);
        let patch: Patch = [(WordId(1), 7), (WordId(9), 2)].into();
        let expected = image.hash_with(&patch);
        for (word, value) in &patch {
            image.set_word(*word, *value);
        }
        assert_eq!(image.hash(), expected);
    }
}
