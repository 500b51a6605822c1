//! What persists whole: a store, cut at the boundaries of aligned 8-byte words.

use crashpoint_trace::{ContextId, PmAddress, SiteId, StoreKind, ThreadIndex};

/// Up to 8 bytes of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Of its event; the nodes of one event share it.
    pub order: u64,
    pub thread: ThreadIndex,
    pub site: SiteId,
    pub context: ContextId,
    pub address: PmAddress,
    /// How many of `bytes` were stored; 1 to 8.
    pub length: u8,
    pub bytes: [u8; 8],
    pub kind: StoreKind,
}

impl Node {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

pub(super) const WORD_BYTES: u64 = 8;

/// Cuts a range at the boundaries of words: where each piece begins, as an offset in the range, and
/// its length. A range that would run past the last address ends there.
pub(super) fn words(address: PmAddress, length: u64) -> impl Iterator<Item = (u64, u8)> {
    let length = length.min(u64::MAX - address.0);
    let mut next = 0;
    std::iter::from_fn(move || {
        if next >= length {
            return None;
        }
        let room = WORD_BYTES - (address.0 + next) % WORD_BYTES;
        let count = room.min(length - next);
        let piece = (next, count as u8);
        next += count;
        Some(piece)
    })
}
