//! The states of all lines, event by event.

use super::line::{Flusher, LineState, Mark, Writer};
use crate::memory::{LineId, LineTable, Origin, Piece, pieces};
use crashpoint_trace::{FlushKind, PmAddress, ThreadIndex};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

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
}

/// How a store reaches memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreRoute {
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

/// A line and what an analysis keeps for it, side by side in whole cache lines.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Entry<X> {
    line: LineState,
    extra: X,
}

/// What a thread has put on its way.
#[derive(Clone, Copy, Debug)]
struct Share {
    thread: ThreadIndex,
    mask: u64,
}

/// Lines with bytes that several threads have put on their way. Rare: two threads flush one line
/// before either fences.
#[derive(Debug, Default)]
struct Contended {
    shares: FxHashMap<LineId, SmallVec<[Share; 2]>>,
}

/// Keeps the state of every line. Each method takes the events of one kind; the closures see a
/// line as it was before the event changes it, and what an analysis keeps for that line.
#[derive(Debug, Default)]
pub struct LineTracker<X = ()> {
    lines: LineTable<Entry<X>>,
    contended: Contended,
    threads: Vec<Thread>,
    epochs: u32,
}

impl<X: Default> LineTracker<X> {
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
    pub fn store(
        &mut self,
        who: Who,
        how: StoreRoute,
        piece: Piece,
        seen: impl FnOnce(&LineState, &mut X),
    ) {
        let Piece { line: id, mask } = piece;
        let epoch = self.thread(who.thread).epoch;
        let Entry { line, extra } = self.lines.entry(id);
        seen(line, extra);
        if line.pending & mask != 0 {
            self.contended.supersede(id, line, mask);
        }
        line.durable &= !mask;
        match how {
            StoreRoute::Cached => {
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
            StoreRoute::NonTemporal => {
                line.foreign &= !mask;
                line.dirty &= !mask;
                line.stream(who.mark());
                let new = self.contended.send(id, line, who.thread, mask);
                self.sent(who.thread, id, new);
            }
            StoreRoute::Foreign => {
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
        seen: impl FnOnce(&LineState, &mut X, Flushed),
    ) -> Flushed {
        let id = LineId::of(address);
        let Entry { line, extra } = self.lines.entry(id);
        let found = self.contended.before_flush(id, line, who.thread);
        seen(line, extra, found);
        let sent = line.dirty | line.pending;
        let new = sent != 0 && self.contended.send(id, line, who.thread, sent);
        if kind == FlushKind::Clflush {
            line.ordered |= sent;
        }
        line.durable |= std::mem::take(&mut line.foreign);
        line.dirty = 0;
        line.forget_writers();
        line.set_flush(who.mark());
        self.sent(who.thread, id, new);
        found
    }

    #[inline]
    fn sent(&mut self, thread: ThreadIndex, id: LineId, new: bool) {
        let thread = self.thread(thread);
        thread.busy = true;
        if new {
            thread.sent.push(id);
        }
    }

    /// A fence, of whatever kind.
    #[inline]
    pub fn fence(&mut self, who: Who) -> Fenced {
        let epoch = self.new_epoch();
        let thread = self.thread(who.thread);
        thread.epoch = epoch;
        thread.fence = who.mark();
        if !std::mem::take(&mut thread.busy) {
            return Fenced::Nothing;
        }
        let mut sent = std::mem::take(&mut thread.sent);
        let mut lines = 0;
        for id in &sent {
            let line = &mut self.lines.entry(*id).line;
            if self.contended.arrive(*id, line, who.thread) {
                lines += 1;
                line.set_fence(who.mark());
            }
        }
        sent.clear();
        self.thread(who.thread).sent = sent;
        Fenced::Completed { lines }
    }

    /// `msync`: whatever the range holds is durable, whoever stored it.
    pub fn msync(&mut self, who: Who, address: PmAddress, length: u64) {
        for Piece { line: id, .. } in pieces(address, length) {
            if self.line(id).is_none_or(|line| line.stored() == 0) {
                continue;
            }
            let line = &mut self.lines.entry(id).line;
            line.durable = line.stored();
            self.contended.supersede(id, line, !0);
            (line.dirty, line.foreign) = (0, 0);
            line.forget_writers();
            line.set_flush(who.mark());
            line.set_fence(who.mark());
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
}

impl<X> LineTracker<X> {
    /// The state of a line, if its page was ever touched.
    pub fn line(&self, id: LineId) -> Option<&LineState> {
        self.lines.get(id).map(|entry| &entry.line)
    }

    /// What an analysis keeps for a line.
    pub fn extra(&self, id: LineId) -> Option<&X> {
        self.lines.get(id).map(|entry| &entry.extra)
    }

    /// All lines of touched pages, by file and offset.
    pub fn lines(&self) -> impl Iterator<Item = (LineId, &LineState)> {
        self.lines.iter().map(|(id, entry)| (id, &entry.line))
    }

    /// The thread's last fence.
    pub fn last_fence(&self, thread: ThreadIndex) -> Mark {
        let thread = self.threads.get(thread.index());
        thread.map_or(Mark::default(), |thread| thread.fence)
    }

    /// Lines with bytes that the thread has put on their way and not waited for, and those bytes.
    pub fn unfenced(&self, thread: ThreadIndex) -> impl Iterator<Item = (LineId, &LineState, u64)> {
        let state = self.threads.get(thread.index());
        let sent = state.map_or(&[][..], |state| &state.sent);
        sent.iter().filter_map(move |id| {
            let line = self.line(*id)?;
            Some((*id, line, self.contended.of(*id, line, thread)))
        })
    }

    pub fn threads(&self) -> impl Iterator<Item = ThreadIndex> + use<X> {
        (0..self.threads.len() as u32).map(ThreadIndex)
    }
}

impl Contended {
    /// Bytes that a thread has put on their way.
    #[inline]
    fn of(&self, id: LineId, line: &LineState, thread: ThreadIndex) -> u64 {
        match line.flusher {
            Flusher::Nobody => 0,
            Flusher::One(one) if one == thread => line.pending,
            Flusher::One(_) => 0,
            Flusher::Several => {
                let shares = self.shares.get(&id).into_iter().flatten();
                let own = shares.filter(|share| share.thread == thread);
                own.fold(0, |mask, share| mask | share.mask)
            }
        }
    }

    #[inline]
    fn before_flush(&self, id: LineId, line: &LineState, thread: ThreadIndex) -> Flushed {
        if line.dirty != 0 {
            return Flushed::Dirty(line.dirty);
        }
        if line.foreign != 0 {
            return Flushed::Unknown;
        }
        if line.pending & !self.of(id, line, thread) != 0 {
            return Flushed::PendingElsewhere;
        }
        match (line.pending, line.durable) {
            (0, 0) => Flushed::Untouched,
            (0, _) => Flushed::Clean,
            _ => Flushed::AlreadyPending,
        }
    }

    /// The latest values of these bytes are no longer on their way: they were replaced.
    fn supersede(&mut self, id: LineId, line: &mut LineState, mask: u64) {
        line.pending &= !mask;
        line.ordered &= !mask;
        if line.flusher == Flusher::Several {
            let shares = self.shares.get_mut(&id).into_iter().flatten();
            shares.for_each(|share| share.mask &= !mask);
        }
    }

    /// Puts bytes on their way on behalf of a thread; true if it did not know of the line.
    #[inline]
    fn send(&mut self, id: LineId, line: &mut LineState, thread: ThreadIndex, mask: u64) -> bool {
        let before = line.pending;
        line.pending |= mask;
        match line.flusher {
            Flusher::One(one) if one == thread => false,
            Flusher::One(other) if before != 0 => {
                let other = Share {
                    thread: other,
                    mask: before,
                };
                self.shares
                    .insert(id, smallvec![other, Share { thread, mask }]);
                line.flusher = Flusher::Several;
                true
            }
            Flusher::Nobody | Flusher::One(_) => {
                line.flusher = Flusher::One(thread);
                true
            }
            Flusher::Several => {
                let shares = self.shares.entry(id).or_default();
                match shares.iter_mut().find(|share| share.thread == thread) {
                    Some(share) => {
                        share.mask |= mask;
                        false
                    }
                    None => {
                        shares.push(Share { thread, mask });
                        true
                    }
                }
            }
        }
    }

    /// A fence of the thread: what it had put on its way has arrived. True if that was anything.
    #[inline]
    fn arrive(&mut self, id: LineId, line: &mut LineState, thread: ThreadIndex) -> bool {
        let done = self.of(id, line, thread) & line.pending;
        line.pending &= !done;
        line.ordered &= !done;
        line.durable |= done;
        match line.flusher {
            Flusher::One(one) if one == thread => line.flusher = Flusher::Nobody,
            Flusher::Nobody | Flusher::One(_) => {}
            Flusher::Several => self.leave(id, line, thread, done),
        }
        done != 0
    }

    fn leave(&mut self, id: LineId, line: &mut LineState, thread: ThreadIndex, done: u64) {
        let Some(shares) = self.shares.get_mut(&id) else {
            return;
        };
        shares.retain(|share| share.thread != thread);
        shares.iter_mut().for_each(|share| share.mask &= !done);
        if let [last] = shares[..] {
            line.flusher = Flusher::One(last.thread);
            self.shares.remove(&id);
        }
    }
}
