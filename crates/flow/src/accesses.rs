//! Accesses to persistent memory, as the recording has them.
//!
//! The flow stream says where every access lies; whether that is persistent memory, and how long a
//! string was, the events of the thread say. Both are in program order, so that one is looked up
//! next to where the last one was.

use crashpoint_trace::{EventKind, PmAddress, Recording, SiteId, ThreadIndex};
use std::collections::VecDeque;

/// Bytes of persistent memory that were read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub pm: PmAddress,
    pub length: u64,
    pub site: SiteId,
    pub thread: ThreadIndex,
    /// Of its event; none where the recording has none for it.
    pub order: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    Read,
    Write,
}

/// An access event of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedAccess {
    pub kind: AccessKind,
    pub address: u64,
    pub pm: PmAddress,
    pub length: u64,
    pub site: SiteId,
    pub order: u64,
}

impl RecordedAccess {
    /// As analyses see it.
    pub fn access(&self, thread: ThreadIndex) -> Access {
        Access {
            pm: self.pm,
            length: self.length.max(1),
            site: self.site,
            thread,
            order: Some(self.order),
        }
    }
}

/// Which addresses of a process are persistent memory. What was unmapped and not mapped again is
/// taken to be what it was.
#[derive(Clone, Debug, Default)]
pub struct Mappings {
    /// Start, end, and what the start is; the last that fits counts.
    ranges: Vec<(u64, u64, PmAddress)>,
}

impl Mappings {
    /// Of the process that a thread belongs to, with those its ancestors had.
    pub fn of(recording: &Recording, thread: ThreadIndex) -> Mappings {
        let mut lineage = vec![recording.thread(thread).process];
        while let Some(parent) = recording.process(lineage[lineage.len() - 1]).parent
            && !lineage.contains(&parent)
        {
            lineage.push(parent);
        }
        let mut mappings = Mappings::default();
        for event in recording.events() {
            if let EventKind::Map { place, length, .. } = event.kind
                && lineage.contains(&recording.thread(event.thread).process)
            {
                mappings.add(place.address, length, place.pm);
            }
        }
        mappings
    }

    pub fn add(&mut self, address: u64, length: u64, pm: PmAddress) {
        let range = (address, address.saturating_add(length), pm);
        if self.ranges.last() != Some(&range) {
            self.ranges.push(range);
        }
    }

    /// The persistent byte at an address.
    pub fn find(&self, address: u64) -> Option<PmAddress> {
        let holds = |range: &&(u64, u64, PmAddress)| range.0 <= address && address < range.1;
        let (start, _, pm) = self.ranges.iter().rev().find(holds)?;
        Some(PmAddress(pm.0 + (address - start)))
    }
}

/// How far ahead an access is looked for.
const LOOK_AHEAD: usize = 256;

/// The access events of a thread, taken one after the other.
pub struct Accesses<'a> {
    rest: Box<dyn Iterator<Item = RecordedAccess> + 'a>,
    ahead: VecDeque<RecordedAccess>,
    /// Events that nothing in the flow stream accounts for.
    pub skipped: u64,
}

impl<'a> Accesses<'a> {
    pub fn new(all: impl Iterator<Item = RecordedAccess> + 'a) -> Accesses<'a> {
        Accesses {
            rest: Box::new(all),
            ahead: VecDeque::new(),
            skipped: 0,
        }
    }

    pub fn of(recording: &'a Recording, thread: ThreadIndex) -> Accesses<'a> {
        let events = recording.events();
        let events = events.filter(move |event| event.thread == thread);
        Accesses::new(events.filter_map(|event| {
            let (kind, place, length) = match event.kind {
                EventKind::Load { place, size } => (AccessKind::Read, place, size.into()),
                other => {
                    let write = other.as_write()?;
                    (AccessKind::Write, write.place, write.length)
                }
            };
            Some(RecordedAccess {
                kind,
                address: place.address,
                pm: place.pm,
                length,
                site: event.site,
                order: event.order,
            })
        }))
    }

    fn peek(&mut self, at: usize) -> Option<RecordedAccess> {
        while self.ahead.len() <= at {
            self.ahead.push_back(self.rest.next()?);
        }
        Some(self.ahead[at])
    }

    /// The next event of this site and kind at an address. What comes before it is passed over.
    pub fn take(&mut self, site: SiteId, kind: AccessKind, address: u64) -> Option<RecordedAccess> {
        for at in 0..LOOK_AHEAD {
            let recorded = self.peek(at)?;
            if recorded.site == site && recorded.kind == kind && recorded.address == address {
                self.skipped += at as u64;
                self.ahead.drain(..=at);
                return Some(recorded);
            }
        }
        None
    }

    /// The next event, if it is of this site and kind, wherever it lies.
    pub fn take_next(&mut self, site: SiteId, kind: AccessKind) -> Option<RecordedAccess> {
        let next = self.peek(0)?;
        (next.site == site && next.kind == kind).then(|| {
            self.ahead.pop_front();
            next
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(order: u64, site: u32, address: u64) -> RecordedAccess {
        RecordedAccess {
            kind: AccessKind::Read,
            address,
            pm: PmAddress(address),
            length: 8,
            site: SiteId(site),
            order,
        }
    }

    #[test]
    fn what_is_passed_over_is_counted() {
        let all = [(1, 1, 8), (2, 2, 16), (3, 1, 8)];
        let all = all.map(|(order, site, address)| recorded(order, site, address));
        let mut accesses = Accesses::new(all.into_iter());
        let read = AccessKind::Read;
        assert_eq!(accesses.take(SiteId(9), read, 8), None);
        assert_eq!(accesses.take_next(SiteId(2), read), None);
        assert_eq!(accesses.take(SiteId(2), read, 16), Some(all[1]));
        assert_eq!(accesses.skipped, 1);
        assert_eq!(accesses.take_next(SiteId(1), read), Some(all[2]));
        assert_eq!(accesses.take(SiteId(1), read, 8), None);
    }

    #[test]
    fn the_last_mapping_of_an_address_counts() {
        let mut mappings = Mappings::default();
        mappings.add(0x1000, 0x1000, PmAddress(0));
        mappings.add(0x1800, 0x100, PmAddress(0x9000));
        assert_eq!(mappings.find(0x1804), Some(PmAddress(0x9004)));
        assert_eq!(mappings.find(0x1900), Some(PmAddress(0x900)));
        assert_eq!(mappings.find(0x2000), None);
    }
}
