//! Stores that were never flushed, and why: forgotten, or never meant to be durable.
//!
//! That a byte is dirty when the recording ends is a fact of the tracker. Whether its flush was
//! forgotten ([`crate::missing_flush`]) or the program keeps volatile data in persistent memory
//! ([`crate::unpersisted`]) is a question of intent, and this analysis guesses it from habits. The
//! guess decides which of the two rules reports a site, never whether one does; no site is
//! reported by both.
//!
//! The question is asked of bytes. They are **volatile** if nothing in the recording ever flushed a
//! value stored to them, or if they are a lock: changed by locked instructions, and never flushed
//! on purpose. Else they were persisted at another time, and the store that was not is a mistake.
//! A site stores volatile data if more lines that it left dirty say so than say otherwise, and than
//! it has stores that were flushed on purpose.
//!
//! A flush writes back whatever the line holds, so that a counter is flushed by accident whenever
//! its neighbours are. A store was flushed **on purpose** if its line was flushed with no fence of
//! its thread between the store and the last store to the line before the flush: it belongs to the
//! batch that the flush was for. If several sites have a part in the batch, it says nothing about
//! bytes that had never been stored before: objects are initialised and flushed whole.
//!
//! Where a place is left dirty and was stored to again after a store that was not flushed on
//! purpose, all sites that store to it are to blame, also those whose stores happened to be flushed
//! along with a neighbour each time. A program that leaves nothing dirty is never blamed.
//!
//! Stores of a process that did not end in order may just have been interrupted: only those that
//! at least [`FENCES_AFTER`] fences of their thread followed are taken for left.

pub(crate) mod draft;

use crate::ProgramInfo;
use crashpoint_persist::memory::x86::{Flushed, LineState, LineTracker, Mark, Writer};
use crashpoint_persist::memory::{LineId, Origin, Origins};
use crashpoint_trace::{SiteId, StoreKind, ThreadIndex};
use rustc_hash::{FxHashMap, FxHashSet};
use thin_vec::ThinVec;

/// How many fences must follow a store for it to count as left when its process was killed.
pub const FENCES_AFTER: usize = 16;

/// What is known of a line beyond its state. All masks are of bytes.
#[derive(Debug, Default)]
pub(crate) struct Habits {
    /// Stored to more than once since the last flush.
    rewritten: u64,
    /// Stored to again after a store that was not flushed on purpose.
    repeated: u64,
    /// The last store was flushed, but not on purpose.
    careless: u64,
    /// Stored to before the last flush.
    known: u64,
    /// Flushed on purpose.
    purposeful: u64,
    /// Stored to by a locked instruction.
    locked: u64,
    /// Stores that were flushed, but not on purpose.
    late: ThinVec<Late>,
}

/// Stores of one origin to a line that were flushed, but not on purpose.
#[derive(Clone, Copy, Debug)]
struct Late {
    /// The first of them that is known.
    mark: Mark,
    mask: u64,
}

const _: () = assert!(size_of::<Habits>() <= 64);

/// The tracker, with the habits of each line.
pub(crate) type Tracker = LineTracker<Habits>;

/// How the stores of an origin fare.
#[derive(Clone, Copy, Debug, Default)]
struct Fate {
    on_purpose: u32,
    late: u32,
    locked: bool,
}

/// Stores of one origin to one line that were never flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) origin: Origin,
    pub(crate) line: LineId,
    /// Bytes that it stored and that are dirty.
    pub(crate) mask: u64,
    /// Of these, the ones that still hold its value.
    pub(crate) own: u64,
    /// The latest of the stores.
    pub(crate) mark: Mark,
    pub(crate) count: u64,
    /// They were flushed after all, by accident.
    pub(crate) late: bool,
    repeated: bool,
    volatile: bool,
}

/// When a thread last fenced.
#[derive(Clone, Debug, Default)]
struct Fences {
    orders: [u64; FENCES_AFTER],
    /// Of the earliest of them.
    next: usize,
}

impl Fences {
    fn push(&mut self, order: u64) {
        self.orders[self.next] = order;
        self.next = (self.next + 1) % FENCES_AFTER;
    }

    /// The last but so many; none if there were not enough.
    fn earliest(&self) -> Option<u64> {
        Some(self.orders[self.next]).filter(|order| *order != 0)
    }
}

/// The analysis, and after [`Unflushed::conclude`] its results.
#[derive(Debug, Default)]
pub(crate) struct Unflushed {
    fates: Vec<Fate>,
    fences: Vec<Fences>,
    /// Stores whose flush is missing.
    pub(crate) missing: Vec<Left>,
    /// Stores to volatile data.
    pub(crate) volatile: Vec<Left>,
}

impl Unflushed {
    fn fate(&mut self, origin: Origin) -> &mut Fate {
        if self.fates.len() <= origin.index() {
            self.fates.resize(origin.index() + 1, Fate::default());
        }
        &mut self.fates[origin.index()]
    }

    #[inline]
    pub(crate) fn store(
        &mut self,
        habits: &mut Habits,
        line: &LineState,
        origin: Origin,
        kind: StoreKind,
        mask: u64,
    ) {
        habits.repeated |= mask & habits.careless;
        match kind {
            StoreKind::Foreign => {}
            StoreKind::NonTemporal => {
                habits.purposeful |= mask;
                habits.careless &= !mask;
                habits.known |= mask;
            }
            StoreKind::Plain | StoreKind::Atomic | StoreKind::Memory => {
                habits.rewritten |= mask & line.dirty;
            }
            StoreKind::Locked | StoreKind::Assembly => {
                habits.rewritten |= mask & line.dirty;
                habits.locked |= mask;
                self.fate(origin).locked = true;
            }
        }
    }

    #[inline]
    pub(crate) fn flush(&mut self, habits: &mut Habits, line: &LineState, found: Flushed) {
        let (Flushed::Dirty(dirty), Some(last)) = (found, line.last_writer()) else {
            return;
        };
        let alone = line.has_one_writer();
        for writer in line.writers() {
            self.flushed(habits, writer, writer.epoch == last.epoch, alone);
        }
        habits.rewritten = 0;
        habits.known |= dirty;
    }

    fn flushed(&mut self, habits: &mut Habits, writer: &Writer, in_batch: bool, alone: bool) {
        let fate = self.fate(writer.origin);
        let meant = in_batch && (alone || !fate.locked);
        if meant {
            fate.on_purpose = fate.on_purpose.saturating_add(1);
        } else {
            fate.late = fate.late.saturating_add(1);
        }
        if meant {
            let proven = if alone {
                writer.mask
            } else {
                writer.mask & habits.known
            };
            habits.purposeful |= proven;
            habits.careless &= !writer.mask;
        } else {
            habits.careless |= writer.mask;
            habits.repeated |= writer.mask & habits.rewritten;
            let same = |late: &&mut Late| late.mark.origin == writer.origin;
            match habits.late.iter_mut().find(same) {
                Some(late) => late.mask |= writer.mask,
                None => habits.late.push(Late {
                    mark: writer.mark(),
                    mask: writer.mask,
                }),
            }
        }
    }

    #[inline]
    pub(crate) fn fence(&mut self, thread: ThreadIndex, order: u64) {
        if self.fences.len() <= thread.index() {
            self.fences.resize(thread.index() + 1, Fences::default());
        }
        self.fences[thread.index()].push(order);
    }

    /// Whether a store may have been interrupted before its flush.
    fn interrupted(
        &self,
        origins: &Origins,
        program_info: &dyn ProgramInfo,
        writer: &Writer,
    ) -> bool {
        let thread = origins.info(writer.origin).thread;
        if program_info.ended_in_order(program_info.process(thread)) {
            return false;
        }
        let fences = self.fences.get(thread.index());
        let earliest = fences.and_then(Fences::earliest);
        earliest.is_none_or(|earliest| earliest < writer.order)
    }

    /// Judges what the tracker holds at the end of the recording.
    pub(crate) fn conclude(
        &mut self,
        origins: &Origins,
        tracker: &Tracker,
        program_info: &dyn ProgramInfo,
    ) {
        self.fates.resize(origins.len(), Fate::default());
        let mut left = Vec::new();
        for (id, line) in tracker.lines().filter(|(_, line)| line.dirty != 0) {
            let Some(last) = line.last_writer() else {
                continue;
            };
            for (writer, own) in line.latest() {
                // What was replaced before the next fence was never meant to last.
                let meant = own != 0 || writer.epoch != last.epoch;
                let concerned = writer.mask & line.dirty != 0 && meant;
                if concerned && !self.interrupted(origins, program_info, writer) {
                    left.push(judge(id, line, tracker.extra(id), writer, own));
                }
            }
        }
        let volatile = volatile_sites(origins, &left, &self.fates);
        let reported: FxHashSet<SiteId> = left
            .iter()
            .map(|left| origins.info(left.origin).site)
            .collect();
        let (mut unpersisted, mut missing) = left
            .into_iter()
            .partition(|left| volatile.contains(&origins.info(left.origin).site));
        self.blame_late(origins, tracker, &reported, &mut unpersisted);
        self.blame_late(origins, tracker, &reported, &mut missing);
        self.volatile = unpersisted;
        self.missing = missing;
    }

    /// Adds the sites whose stores to such places were always flushed, but never on purpose.
    fn blame_late(
        &self,
        origins: &Origins,
        tracker: &Tracker,
        reported: &FxHashSet<SiteId>,
        all: &mut Vec<Left>,
    ) {
        let mut purposeful: FxHashSet<SiteId> = FxHashSet::default();
        for (origin, info) in origins.iter() {
            if self.fates[origin.index()].on_purpose != 0 {
                purposeful.insert(info.site);
            }
        }
        let mut known: FxHashSet<Origin> = FxHashSet::default();
        let mut more = Vec::new();
        for left in all.iter().filter(|left| left.repeated) {
            let Some(habits) = tracker.extra(left.line) else {
                continue;
            };
            for Late { mark, mask } in &habits.late {
                let site = origins.info(mark.origin).site;
                let innocent = reported.contains(&site) || purposeful.contains(&site);
                if mask & left.mask != 0 && !innocent && known.insert(mark.origin) {
                    more.push(Left {
                        origin: mark.origin,
                        mask: mask & left.mask,
                        own: 0,
                        mark: *mark,
                        count: u64::from(self.fates[mark.origin.index()].late),
                        late: true,
                        ..*left
                    });
                }
            }
        }
        all.append(&mut more);
    }
}

fn judge(id: LineId, line: &LineState, habits: Option<&Habits>, writer: &Writer, own: u64) -> Left {
    let mask = writer.mask & line.dirty;
    let repeated = habits.map_or(0, |habits| habits.repeated | habits.rewritten);
    let volatile = habits.is_none_or(|habits| {
        let persisted = mask & habits.known != 0;
        let lock = mask & !habits.locked == 0 && mask & habits.purposeful == 0;
        !persisted || lock
    });
    Left {
        origin: writer.origin,
        line: id,
        mask,
        own,
        mark: writer.mark(),
        count: u64::from(writer.count),
        late: false,
        repeated: mask & repeated != 0,
        volatile,
    }
}

/// The sites that leave volatile places dirty. A site whose stores are flushed on purpose
/// elsewhere stores persistent data, and forgot one line of it.
fn volatile_sites(origins: &Origins, left: &[Left], fates: &[Fate]) -> FxHashSet<SiteId> {
    let mut votes: FxHashMap<SiteId, i64> = FxHashMap::default();
    for left in left {
        *votes.entry(origins.info(left.origin).site).or_default() +=
            if left.volatile { 1 } else { -1 };
    }
    for (origin, info) in origins.iter() {
        if let Some(balance) = votes.get_mut(&info.site) {
            *balance -= i64::from(fates[origin.index()].on_purpose);
        }
    }
    let volatile = votes.into_iter().filter(|(_, balance)| *balance > 0);
    volatile.map(|(site, _)| site).collect()
}
