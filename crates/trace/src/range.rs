//! Records that speak of a range of addresses, and how such a range is split over mappings.

use crate::space::Space;
use crate::{Arguments, EventKind, PmPlace};
use crashpoint_abi::record::Payload;

const PAGE_BYTES: u64 = 4096;

/// The system maps and unmaps whole pages, whatever length it is given.
pub(crate) fn whole_pages(length: u64) -> u64 {
    length
        .checked_next_multiple_of(PAGE_BYTES)
        .unwrap_or(length)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeKind {
    Access,
    Map,
    Unmap,
    Sync,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) address: u64,
    pub(crate) length: u64,
    pub(crate) kind: RangeKind,
}

/// A part of a range that lies in one extent.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) place: PmPlace,
    /// Where it begins in the range, and its length.
    pub(crate) skip: u64,
    pub(crate) length: u64,
}

impl Range {
    /// The range that a record speaks of, if any.
    #[inline]
    pub(crate) fn of(payload: &Payload<'_>) -> Option<Range> {
        let (address, length, kind) = match *payload {
            Payload::Store { address, bytes, .. } => {
                (address, bytes.len() as u64, RangeKind::Access)
            }
            Payload::Fill {
                address, length, ..
            } => (address, length, RangeKind::Access),
            Payload::Load { address, size } => (address, u64::from(size), RangeKind::Access),
            Payload::Flush { address, .. } => (address, 1, RangeKind::Access),
            Payload::Map {
                address, length, ..
            } => (address, length, RangeKind::Map),
            Payload::Unmap { address, length } => (address, length, RangeKind::Unmap),
            Payload::Msync { address, length } => (address, length, RangeKind::Sync),
            Payload::Fence { .. }
            | Payload::Opaque
            | Payload::Call { .. }
            | Payload::Return { .. }
            | Payload::Sync { .. }
            | Payload::Context(_)
            | Payload::DefineContext { .. } => return None,
        };
        Some(Range {
            address,
            length,
            kind,
        })
    }

    /// Its parts in mappings, and what lies between them, as addresses and lengths.
    pub(crate) fn parts(&self, space: &mut Space) -> (Vec<Part>, Vec<(u64, u64)>) {
        let (mut parts, mut holes) = (Vec::new(), Vec::new());
        let end = self.address.saturating_add(self.length);
        let mut at = self.address;
        while at < end {
            let next = match space.find(at) {
                Some(extent) => {
                    let next = extent.end.min(end);
                    parts.push(Part {
                        place: PmPlace {
                            address: at,
                            pm: extent.pm(at),
                        },
                        skip: at - self.address,
                        length: next - at,
                    });
                    next
                }
                None => {
                    let next = space.next_start(at).map_or(end, |next| next.min(end));
                    holes.push((at, next - at));
                    next
                }
            };
            at = next;
        }
        (parts, holes)
    }
}

/// The event of a record that speaks of no range.
#[inline]
pub(crate) fn plain<'a>(payload: &Payload<'a>) -> EventKind<'a> {
    match *payload {
        Payload::Fence { kind } => EventKind::Fence { kind },
        Payload::Opaque => EventKind::Opaque,
        Payload::Call { arguments } => EventKind::Call {
            arguments: Arguments::from_bytes(arguments),
        },
        Payload::Return { value } => EventKind::Return { value },
        Payload::Sync { kind, object } => EventKind::Sync { kind, object },
        _ => unreachable!("it speaks of a range, or has no place in the order"),
    }
}

/// The event of a part of a record that speaks of a range.
#[inline]
pub(crate) fn part<'a>(payload: &Payload<'a>, part: &Part) -> EventKind<'a> {
    let Part {
        place,
        skip,
        length,
    } = *part;
    match *payload {
        Payload::Store { kind, bytes, .. } => EventKind::Store {
            kind,
            place,
            bytes: &bytes[skip as usize..(skip + length) as usize],
        },
        Payload::Fill { kind, byte, .. } => EventKind::Fill {
            kind,
            place,
            length,
            byte,
        },
        Payload::Load { .. } => EventKind::Load {
            place,
            size: length as u32,
        },
        Payload::Flush { kind, .. } => EventKind::Flush { kind, place },
        Payload::Map { shared, .. } => EventKind::Map {
            place,
            length,
            shared,
        },
        Payload::Unmap { .. } => EventKind::Unmap { place, length },
        Payload::Msync { .. } => EventKind::Msync { place, length },
        Payload::Fence { .. }
        | Payload::Opaque
        | Payload::Call { .. }
        | Payload::Return { .. }
        | Payload::Sync { .. } => unreachable!("it speaks of no range"),
        Payload::Context(_) | Payload::DefineContext { .. } => unreachable!("it is not ordered"),
    }
}
