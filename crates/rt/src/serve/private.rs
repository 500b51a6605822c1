//! Private mappings in the place of shared ones.
//!
//! They keep a run's stores out of the file, and are as good as shared ones while a program has one
//! mapping of each byte. Two of them do not show each other's stores, and what is mapped after one
//! was left does not show what was stored to that one. Either is noted, and the checker maps as the
//! program asks from then on.
//!
//! A mapping that was only read may come and go: libraries look at a file's head before and while
//! they have all of it mapped. So a second mapping is *doubtful* while it lives, and noted; if it is
//! left with nothing stored to it, and nothing to the same bytes elsewhere, the note is taken back.

use super::marks;
use crate::files::{FileEntry, Index};
use crate::lock::Guard;
use crate::pagemap;
use crate::placement::MapRequest;
use crate::regions::{REGIONS, Region};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crashpoint_abi::serve::notes;

/// Where doubtful mappings begin; 0: none. With more at a time, doubts stay.
static DOUBTFUL: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];

/// Mappings have missed each other's stores.
static ARE_APART: AtomicBool = AtomicBool::new(false);

/// A file was mapped, and its region is not yet known.
pub fn mapped(index: Index, entry: &FileEntry, request: &MapRequest, address: usize) {
    let identity = &entry.identity;
    if super::marks_loads() && entry.home == 0 {
        marks::know(identity.device, identity.inode, index.number());
    }
    super::note(notes::MAPPED);
    if !super::is_private() {
        return;
    }
    let new = Region {
        base: address as u64,
        end: address as u64 + request.length as u64,
        file: u64::from(index.number()),
        offset: request.offset,
        shadow: 0,
    };
    let (mut is_second, mut is_apart) = (false, entry.is_stale);
    each_other(&new, |base, end| {
        is_second = true;
        is_apart |= pagemap::has_own(base, end);
    });
    if is_second || is_apart {
        super::note(notes::MAPPED_AGAIN);
    }
    let free = || {
        DOUBTFUL
            .iter()
            .find(|slot| slot.load(Ordering::Relaxed) == 0)
    };
    match (is_apart, is_second, free()) {
        (false, false, _) => {}
        (false, true, Some(slot)) => slot.store(new.base, Ordering::Relaxed),
        _ => ARE_APART.store(true, Ordering::Relaxed),
    }
}

/// Calls `then` with each place where bytes of a region are mapped besides.
fn each_other(region: &Region, mut then: impl FnMut(u64, u64)) {
    let others = (0..REGIONS.count()).filter_map(|at| REGIONS.get(at));
    let is_itself = |other: &Region| other.base <= region.base && region.base < other.end;
    for other in others.filter(|other| other.file == region.file && !is_itself(other)) {
        let first = region.offset.max(other.offset);
        let last = (region.offset + region.length()).min(other.offset + other.length());
        if first < last {
            let start = other.base - other.offset;
            then(start + first, start + last);
        }
    }
}

/// What is mapped in a range is about to go.
pub fn leaves(process: &mut Guard, base: u64, end: u64) {
    if !super::is_private() {
        return;
    }
    let mut at = base;
    while let Some(part) = REGIONS.first_in(at, end) {
        leave(process, &part);
        at = part.end;
    }
    let is_clear = !ARE_APART.load(Ordering::Relaxed)
        && DOUBTFUL
            .iter()
            .all(|slot| slot.load(Ordering::Relaxed) == 0);
    if is_clear {
        super::take_back(notes::MAPPED_AGAIN);
    }
}

fn leave(process: &mut Guard, part: &Region) {
    let has_stores = pagemap::has_own(part.base, part.end);
    if has_stores {
        process.files.get(Index::of_number(part.file)).is_stale = true;
    }
    let (mut has_other, mut are_apart) = (false, false);
    each_other(part, |base, end| {
        has_other = true;
        are_apart |= has_stores || pagemap::has_own(base, end);
    });
    let is_part = |slot: &&AtomicU64| slot.load(Ordering::Relaxed) == part.base;
    let whole = REGIONS.find(part.base).0;
    let is_whole = whole.is_some_and(|whole| (whole.base, whole.end) == (part.base, part.end));
    match DOUBTFUL.iter().find(is_part) {
        Some(slot) if is_whole && !are_apart => slot.store(0, Ordering::Relaxed),
        // The first of two goes, or a part of one: whoever stays has all that was stored.
        None if !are_apart => {}
        _ => ARE_APART.store(true, Ordering::Relaxed),
    }
    if has_other && are_apart {
        ARE_APART.store(true, Ordering::Relaxed);
    }
}
