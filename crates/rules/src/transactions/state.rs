//! The transaction of one thread.

use crate::intervals::Intervals;
use crashpoint_persist::memory::x86::Mark;
use crashpoint_trace::{PmAddress, SiteId};

/// A watched call that has not returned.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenCall {
    pub(super) site: SiteId,
    pub(super) arguments: [u64; 8],
    pub(super) mark: Mark,
}

/// Why a range may be changed in a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cover {
    Logged(Mark),
    Allocated(Mark),
}

/// A store to a range that was not logged by then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unlogged {
    pub(super) mark: Mark,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) place: PmAddress,
    /// The call that logged it afterwards.
    pub(super) logged: Option<Mark>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) open: Vec<OpenCall>,
    /// Nested transactions, the innermost last: whether its work is over.
    levels: Vec<bool>,
    pub(super) began: Mark,
    /// Address of the pool, if the library says.
    pub(super) pool: Option<u64>,
    pub(super) covered: Intervals<Cover>,
    pub(super) unlogged: Vec<Unlogged>,
    /// An object was allocated whose place is not known.
    pub(super) blind: bool,
    /// Ranges that the program stored to.
    pub(super) stored: Vec<(u64, u64)>,
    pub(super) freed: Vec<u64>,
}

impl State {
    /// Whether stores of the thread are part of a transaction.
    #[inline]
    pub(super) fn working(&self) -> bool {
        self.levels.last() == Some(&false)
    }

    /// The address that an argument means.
    pub(super) fn address(&self, argument: u64, in_pool: bool) -> u64 {
        let base = if in_pool { self.pool.unwrap_or(0) } else { 0 };
        base.wrapping_add(argument)
    }

    pub(super) fn begin(&mut self, mark: Mark, pool: Option<u64>) {
        if self.levels.is_empty() {
            self.began = mark;
            self.pool = pool;
        }
        self.levels.push(false);
    }

    /// True if the outermost transaction is over by this.
    pub(super) fn commit(&mut self, leaves: bool) -> bool {
        let outermost = self.levels.len() == 1 && self.working();
        if leaves {
            self.levels.pop();
        } else {
            if let Some(done) = self.levels.last_mut() {
                *done = true;
            }
        }
        outermost
    }

    pub(super) fn abort(&mut self, leaves: bool) -> bool {
        let any = self.levels.iter().any(|done| !done);
        if leaves {
            self.levels.clear();
        } else {
            self.levels.fill(true);
        }
        any
    }

    /// True if the outermost transaction is over by this; usually it was before.
    pub(super) fn end(&mut self) -> bool {
        let outermost = self.levels.len() == 1 && self.working();
        self.levels.pop();
        outermost
    }

    /// Logs or allocates a range.
    pub(super) fn cover(&mut self, start: u64, end: u64, cover: Cover) {
        self.covered.add(start, end, cover);
        if let Cover::Logged(mark) = cover {
            let late = self.unlogged.iter_mut();
            for store in late.filter(|store| start <= store.start && store.end <= end) {
                store.logged.get_or_insert(mark);
            }
        }
    }

    /// Forgets the transaction's ranges.
    pub(super) fn clear(&mut self) {
        self.covered.clear();
        self.unlogged.clear();
        self.stored.clear();
        self.freed.clear();
        self.blind = false;
    }
}
