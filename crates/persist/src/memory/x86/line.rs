//! One cache line: the states of its bytes and what is needed to explain them.
//!
//! A recording touches millions of lines, in no order that a processor could guess, so what counts
//! is how few bytes an event has to fetch. [`Line`] is kept at 128; what few lines need lies
//! elsewhere.

use crate::memory::Origin;
use crashpoint_trace::ThreadIndex;
use thin_vec::ThinVec;

/// An event in a line's history. The default, order 0, stands for "never".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    pub order: u64,
    pub origin: Origin,
}

impl Mark {
    pub fn happened(self) -> bool {
        self.order != 0
    }
}

/// A [`Mark`] without padding.
#[derive(Clone, Copy, Debug, Default)]
struct Packed {
    order: [u32; 2],
    origin: Origin,
}

impl Packed {
    #[inline]
    fn new(mark: Mark) -> Packed {
        Packed {
            order: [mark.order as u32, (mark.order >> 32) as u32],
            origin: mark.origin,
        }
    }

    fn mark(self) -> Mark {
        Mark {
            order: u64::from(self.order[1]) << 32 | u64::from(self.order[0]),
            origin: self.origin,
        }
    }
}

/// Stores to a line that came from one origin since the line was last flushed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Writer {
    pub origin: Origin,
    /// Of the latest of them: equal for two stores if one thread made both with no fence between.
    pub epoch: u32,
    /// Bytes that any of them stored.
    pub mask: u64,
    /// Of the latest of them.
    pub order: u64,
    /// How many there were.
    pub count: u32,
}

impl Writer {
    pub fn mark(&self) -> Mark {
        Mark {
            order: self.order,
            origin: self.origin,
        }
    }

    fn absorb(&mut self, earlier: &Writer) {
        self.mask |= earlier.mask;
        self.count = self.count.saturating_add(earlier.count);
    }
}

/// Whose fence makes the pending bytes of a line durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Flusher {
    #[default]
    Nobody,
    One(ThreadIndex),
    /// See the tracker's table of such lines.
    Several,
}

/// A cache line. `dirty`, `foreign`, `pending` and `durable` are disjoint; a byte in none of them
/// was not stored in this recording.
#[derive(Clone, Debug, Default)]
pub struct LineState {
    pub dirty: u64,
    /// Written by code that was not instrumented: in no known state.
    pub foreign: u64,
    pub pending: u64,
    /// Of the pending bytes, those that were flushed by `clflush`.
    pub ordered: u64,
    pub durable: u64,
    /// The latest store since the last flush, if its count is not 0.
    last: Writer,
    /// Who stored before, the latest last; all origins differ.
    before: ThinVec<Writer>,
    pub(super) flusher: Flusher,
    flushed_store: Packed,
    flush: Packed,
    fence: Packed,
}

const _: () = assert!(size_of::<LineState>() <= 128);

impl LineState {
    /// Bytes that were stored in this recording.
    pub fn stored(&self) -> u64 {
        self.dirty | self.foreign | self.pending | self.durable
    }

    /// Who stored to the line since its last flush, the latest store last.
    pub fn writers(&self) -> impl DoubleEndedIterator<Item = &Writer> {
        let last = Some(&self.last).filter(|last| last.count != 0);
        self.before.iter().chain(last)
    }

    /// Whether all stores since the last flush came from one origin.
    pub fn has_one_writer(&self) -> bool {
        self.last.count != 0 && self.before.is_empty()
    }

    /// The latest store since the last flush.
    pub fn last_writer(&self) -> Option<&Writer> {
        Some(&self.last).filter(|last| last.count != 0)
    }

    /// Of each writer since the last flush, the bytes that still hold its value.
    pub fn latest(&self) -> impl Iterator<Item = (&Writer, u64)> {
        let mut covered = 0;
        self.writers().rev().map(move |writer| {
            let own = writer.mask & !covered & self.dirty;
            covered |= writer.mask;
            (writer, own)
        })
    }

    /// The last store before the last flush.
    pub fn flushed_store(&self) -> Mark {
        self.flushed_store.mark()
    }

    /// The last flush or non-temporal store.
    pub fn flush(&self) -> Mark {
        self.flush.mark()
    }

    /// The last fence that made any of it durable.
    pub fn fence(&self) -> Mark {
        self.fence.mark()
    }

    pub(super) fn set_flush(&mut self, mark: Mark) {
        self.flush = Packed::new(mark);
    }

    pub(super) fn set_fence(&mut self, mark: Mark) {
        self.fence = Packed::new(mark);
    }

    /// A store that goes past the cache.
    pub(super) fn stream(&mut self, mark: Mark) {
        self.flushed_store = Packed::new(mark);
        self.flush = Packed::new(mark);
    }

    /// Whether the last thing that put bytes on their way was a non-temporal store.
    pub fn was_streamed(&self) -> bool {
        let (store, flush) = (self.flushed_store, self.flush);
        store.order == flush.order && store.origin == flush.origin
    }

    /// A store that goes to the cache.
    #[inline]
    pub(super) fn write(&mut self, mut writer: Writer) {
        if self.last.count != 0 {
            if self.last.origin == writer.origin {
                writer.absorb(&self.last);
            } else {
                self.add_writer(&mut writer);
            }
        }
        self.last = writer;
    }

    fn add_writer(&mut self, writer: &mut Writer) {
        // Merging loses which of the merged stores came first, but not that the latest is last.
        let known = self
            .before
            .iter()
            .rposition(|known| known.origin == writer.origin);
        if let Some(at) = known {
            writer.absorb(&self.before.remove(at));
        }
        self.before.push(self.last);
    }

    /// All that was stored has been flushed.
    #[inline]
    pub(super) fn forget_writers(&mut self) {
        if self.last.count != 0 {
            self.flushed_store = Packed::new(self.last.mark());
            self.last.count = 0;
            self.before.clear();
        }
    }
}
