//! The states of all lines, event by event.

use super::line::{Flusher, Line, Mark, Writer};
use crate::{LineId, LineTable, Origin, Piece, pieces};
use crashpoint_trace::{FlushKind, PmAddress, ThreadIndex};

/// Who does something, and when.
#[derive(Clone, Copy, Debug)]
pub struct Who {
    pub order: u64,
    pub origin: Origin,
    pub thread: ThreadIndex,
}

impl Who {
    pub fn mark(self) -> Mark {
        Mark {
            order: self.order,
            origin: self.origin,
        }
    }

    fn sends(self, mask: u64, stored: bool) -> Flusher {
        Flusher {
            thread: self.thread,
            mask,
            mark: self.mark(),
            stored,
        }
    }
}

/// How a store reaches memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Cached,
    NonTemporal,
    /// By code that was not instrumented, some time before.
    Foreign,
}

/// What a flush found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushed {
    /// These bytes were dirty and are on their way now.
    Dirty(u64),
    /// Foreign writes only: whether there was something to flush is not known.
    Unknown,
    /// Nothing was dirty; what is on its way was put there by this thread already.
    AlreadyPending,
    /// Nothing was dirty, but what another thread has put on its way is not durable yet, and this
    /// thread cannot wait for that without a flush of its own.
    PendingElsewhere,
    /// Every byte that was stored in this recording is durable.
    Clean,
    /// The line was never stored to in this recording.
    Untouched,
}

/// What a fence waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fenced {
    /// The thread has executed no flush and no non-temporal store since its last fence.
    Nothing,
    /// Lines that became durable, perhaps none: what the thread flushed was clean, or was durable
    /// thanks to another thread by then.
    Completed { lines: usize },
}

#[derive(Debug, Default)]
struct Thread {
    /// Unique number of the time between two fences of this thread.
    epoch: u32,
    /// Lines with bytes that this thread has put on their way.
    sent: Vec<LineId>,
    /// Whether there was anything for a fence to wait for.
    busy: bool,
    fence: Mark,
}

/// Keeps the state of every line. Each method takes the events of one kind; the closures see a
/// line as it was before the event changes it.
#[derive(Debug, Default)]
pub struct LineTracker {
    lines: LineTable<Line>,
    threads: Vec<Thread>,
    epochs: u32,
}

impl LineTracker {
    #[inline]
    fn thread(&mut self, thread: ThreadIndex) -> &mut Thread {
        if self.threads.len() <= thread.index() {
            self.add_threads(thread);
        }
        &mut self.threads[thread.index()]
    }

    #[cold]
    fn add_threads(&mut self, thread: ThreadIndex) {
        while self.threads.len() <= thread.index() {
            let epoch = self.new_epoch();
            self.threads.push(Thread {
                epoch,
                ..Thread::default()
            });
        }
    }

    #[inline]
    fn new_epoch(&mut self) -> u32 {
        // Numbers come again after 2^32 fences, when nothing compares them any more.
        self.epochs = self.epochs.wrapping_add(1);
        self.epochs
    }

    /// A store to part of a line.
    #[inline]
    pub fn store(&mut self, who: Who, how: How, piece: Piece, seen: impl FnOnce(&Line)) {
        let Piece { line: id, mask } = piece;
        let epoch = self.thread(who.thread).epoch;
        let line = self.lines.entry(id);
        seen(line);
        line.supersede(mask);
        line.durable &= !mask;
        match how {
            How::Cached => {
                line.foreign &= !mask;
                line.dirty |= mask;
                line.write(Writer {
                    origin: who.origin,
                    epoch,
                    mask,
                    order: who.order,
                    count: 1,
                });
            }
            How::NonTemporal => {
                line.foreign &= !mask;
                line.dirty &= !mask;
                line.flushed_store = who.mark();
                line.flush = who.mark();
                let new = line.send(who.sends(mask, true));
                let thread = self.thread(who.thread);
                thread.busy = true;
                if new {
                    thread.sent.push(id);
                }
            }
            How::Foreign => {
                line.dirty &= !mask;
                line.foreign |= mask;
            }
        }
    }

    /// A flush of the line that holds an address.
    #[inline]
    pub fn flush(
        &mut self,
        who: Who,
        kind: FlushKind,
        address: PmAddress,
        seen: impl FnOnce(&Line, Flushed),
    ) -> Flushed {
        let id = LineId::of(address);
        let line = self.lines.entry(id);
        let found = line.before_flush(who.thread);
        seen(line, found);
        let sent = line.dirty | line.pending;
        let new = sent != 0 && line.send(who.sends(sent, false));
        if kind == FlushKind::Clflush {
            line.ordered |= sent;
        }
        line.durable |= std::mem::take(&mut line.foreign);
        line.dirty = 0;
        if let Some(last) = line.writers.last() {
            line.flushed_store = last.mark();
            line.writers.clear();
        }
        line.flush = who.mark();
        let thread = self.thread(who.thread);
        thread.busy = true;
        if new {
            thread.sent.push(id);
        }
        found
    }

    /// A fence, of whatever kind. The closure sees each line of which bytes become durable.
    #[inline]
    pub fn fence(&mut self, who: Who, mut seen: impl FnMut(LineId, &Line)) -> Fenced {
        let epoch = self.new_epoch();
        let thread = self.thread(who.thread);
        thread.epoch = epoch;
        thread.fence = who.mark();
        if !std::mem::take(&mut thread.busy) {
            return Fenced::Nothing;
        }
        let mut sent = std::mem::take(&mut thread.sent);
        let mut completed = 0;
        for id in &sent {
            let line = self.lines.entry(*id);
            if line.pending_of(who.thread) & line.pending != 0 {
                seen(*id, line);
                completed += 1;
                line.fence = who.mark();
            }
            line.arrive(who.thread);
        }
        sent.clear();
        self.thread(who.thread).sent = sent;
        Fenced::Completed { lines: completed }
    }

    /// `msync`: whatever the range holds is durable, whoever stored it.
    pub fn msync(&mut self, who: Who, address: PmAddress, length: u64) {
        for piece in pieces(address, length) {
            if self
                .lines
                .get(piece.line)
                .is_none_or(|line| line.stored() == 0)
            {
                continue;
            }
            let line = self.lines.entry(piece.line);
            line.durable = line.stored();
            line.supersede(!0);
            (line.dirty, line.foreign) = (0, 0);
            if let Some(last) = line.writers.last() {
                line.flushed_store = last.mark();
                line.writers.clear();
            }
            line.flush = who.mark();
            line.fence = who.mark();
        }
        self.uncertain(who.thread);
    }

    /// The thread may have flushed something that is not known.
    pub fn uncertain(&mut self, thread: ThreadIndex) {
        self.thread(thread).busy = true;
    }

    /// The thread begins to store anew, as if after a fence, though nothing is known to have
    /// become durable: a locked instruction with nothing to wait for.
    #[inline]
    pub fn boundary(&mut self, thread: ThreadIndex) {
        let epoch = self.new_epoch();
        self.thread(thread).epoch = epoch;
    }

    /// The state of a line, if its page was ever touched.
    pub fn line(&self, id: LineId) -> Option<&Line> {
        self.lines.get(id)
    }

    /// All lines of touched pages, by file and offset.
    pub fn lines(&self) -> impl Iterator<Item = (LineId, &Line)> {
        self.lines.iter()
    }

    /// The thread's last fence.
    pub fn last_fence(&self, thread: ThreadIndex) -> Mark {
        self.threads
            .get(thread.index())
            .map_or(Mark::default(), |thread| thread.fence)
    }

    /// Lines with bytes that the thread has put on their way and not waited for.
    pub fn unfenced(&self, thread: ThreadIndex) -> impl Iterator<Item = (LineId, &Line)> {
        let sent = self
            .threads
            .get(thread.index())
            .map_or(&[][..], |thread| &thread.sent);
        sent.iter()
            .filter_map(|id| Some((*id, self.lines.get(*id)?)))
    }

    pub fn threads(&self) -> impl Iterator<Item = ThreadIndex> + use<> {
        (0..self.threads.len() as u32).map(ThreadIndex)
    }
}

impl Line {
    #[inline]
    fn before_flush(&self, thread: ThreadIndex) -> Flushed {
        if self.dirty != 0 {
            return Flushed::Dirty(self.dirty);
        }
        if self.foreign != 0 {
            return Flushed::Unknown;
        }
        if self.pending & !self.pending_of(thread) != 0 {
            return Flushed::PendingElsewhere;
        }
        match (self.pending, self.durable) {
            (0, 0) => Flushed::Untouched,
            (0, _) => Flushed::Clean,
            _ => Flushed::AlreadyPending,
        }
    }
}
