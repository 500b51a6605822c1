//! One cache line: the states of its bytes and what is needed to explain them.

use crate::Origin;
use crashpoint_trace::ThreadIndex;
use smallvec::SmallVec;

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
}

/// A cache line. `dirty`, `foreign`, `pending` and `durable` are disjoint; a byte in none of them
/// was not stored in this recording.
#[derive(Clone, Debug, Default)]
pub struct Line {
    pub dirty: u64,
    /// Written by code that was not instrumented: in no known state.
    pub foreign: u64,
    pub pending: u64,
    /// Of the pending bytes, those that were flushed by `clflush`.
    pub ordered: u64,
    pub durable: u64,
    /// Who stored to the line since its last flush, the latest store last.
    pub writers: SmallVec<[Writer; 2]>,
    /// The last store before the last flush.
    pub flushed_store: Mark,
    pub flush: Mark,
    pub fence: Mark,
    /// Threads whose fence makes the pending bytes durable. Nearly always one.
    pub(super) flushers: SmallVec<[Flusher; 1]>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Flusher {
    pub(super) thread: ThreadIndex,
    /// Bytes whose latest value this thread has put on its way.
    pub(super) mask: u64,
    /// When it last did so.
    pub(super) mark: Mark,
    /// Whether that was a non-temporal store.
    pub(super) stored: bool,
}

impl Line {
    /// Bytes that were stored in this recording.
    pub fn stored(&self) -> u64 {
        self.dirty | self.foreign | self.pending | self.durable
    }

    /// Bytes that a thread has put on their way and not yet waited for.
    pub fn pending_of(&self, thread: ThreadIndex) -> u64 {
        let own = self
            .flushers
            .iter()
            .filter(|flusher| flusher.thread == thread);
        own.fold(0, |mask, flusher| mask | flusher.mask)
    }

    /// The latest store since the last flush.
    pub fn last_writer(&self) -> Option<&Writer> {
        self.writers.last()
    }

    /// Of each writer since the last flush, the bytes that still hold its value.
    pub fn latest(&self) -> impl Iterator<Item = (&Writer, u64)> {
        let mut covered = 0;
        self.writers.iter().rev().map(move |writer| {
            let own = writer.mask & !covered & self.dirty;
            covered |= writer.mask;
            (writer, own)
        })
    }

    /// Notes a store that goes to the cache.
    #[inline]
    pub(super) fn write(&mut self, writer: Writer) {
        if let Some(last) = self.writers.last_mut()
            && last.origin == writer.origin
        {
            last.mask |= writer.mask;
            last.count = last.count.saturating_add(writer.count);
            last.epoch = writer.epoch;
            last.order = writer.order;
            return;
        }
        self.write_slowly(writer);
    }

    fn write_slowly(&mut self, mut writer: Writer) {
        // Merging loses which of the merged stores came first, but not that the latest is last.
        if let Some(at) = self
            .writers
            .iter()
            .rposition(|known| known.origin == writer.origin)
        {
            let before = self.writers.remove(at);
            writer.mask |= before.mask;
            writer.count = writer.count.saturating_add(before.count);
        }
        self.writers.push(writer);
    }

    /// The latest values of these bytes are no longer on their way: they were replaced.
    #[inline]
    pub(super) fn supersede(&mut self, mask: u64) {
        if self.pending & mask == 0 {
            return;
        }
        self.pending &= !mask;
        self.ordered &= !mask;
        for flusher in &mut self.flushers {
            flusher.mask &= !mask;
        }
    }

    /// Puts bytes on their way on behalf of a thread; true if the thread had none in this line.
    #[inline]
    pub(super) fn send(&mut self, sent: Flusher) -> bool {
        self.pending |= sent.mask;
        for flusher in &mut self.flushers {
            if flusher.thread == sent.thread {
                flusher.mask |= sent.mask;
                flusher.mark = sent.mark;
                flusher.stored = sent.stored;
                return false;
            }
        }
        self.flushers.push(sent);
        true
    }

    /// When a thread last put bytes of this line on their way, if it has not waited for them, and
    /// whether it did so by a non-temporal store.
    pub fn sent_by(&self, thread: ThreadIndex) -> Option<(Mark, bool)> {
        let own = self
            .flushers
            .iter()
            .find(|flusher| flusher.thread == thread);
        own.map(|flusher| (flusher.mark, flusher.stored))
    }

    /// A fence of the thread: what it had put on its way has arrived. Returns those bytes.
    #[inline]
    pub(super) fn arrive(&mut self, thread: ThreadIndex) -> u64 {
        let Some(at) = self
            .flushers
            .iter()
            .position(|flusher| flusher.thread == thread)
        else {
            return 0;
        };
        let done = self.flushers.swap_remove(at).mask & self.pending;
        self.pending &= !done;
        self.ordered &= !done;
        self.durable |= done;
        for flusher in &mut self.flushers {
            flusher.mask &= !done;
        }
        done
    }
}
