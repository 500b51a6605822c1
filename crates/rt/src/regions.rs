//! Which addresses are persistent memory.
//!
//! Hooks ask often and from all threads, mappings change rarely: a sorted table under a sequence
//! lock. A reader that meets a change reads again; it never waits for a lock. Each thread
//! remembers the region that it hit last, and [`generation`] tells it when to forget that.

use crate::memory;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

/// A range of persistent memory that is mapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Region {
    pub base: u64,
    pub end: u64,
    /// Number of the file.
    pub file: u64,
    /// Place of `base` in the file.
    pub offset: u64,
    /// Address of the shadow of `base`; 0: none.
    pub shadow: u64,
}

impl Region {
    /// The part of a region that lies in a range, if there is one.
    pub fn part(&self, base: u64, end: u64) -> Option<Region> {
        let (from, to) = (self.base.max(base), self.end.min(end));
        (from < to).then(|| Region {
            base: from,
            end: to,
            offset: self.offset + (from - self.base),
            shadow: match self.shadow {
                0 => 0,
                shadow => shadow + (from - self.base),
            },
            ..*self
        })
    }

    pub fn length(&self) -> u64 {
        self.end - self.base
    }
}

const WORDS: usize = size_of::<Region>() / 8;

/// Most regions at a time. A target with more is recorded as far as they go.
pub const CAPACITY: usize = 1 << 16;

/// A sorted table of regions that do not overlap. Changed by one thread at a time.
pub struct RegionTable {
    /// Odd while the table changes.
    sequence: AtomicU64,
    count: AtomicUsize,
    entries: UnsafeCell<*const [AtomicU64; WORDS]>,
}

// SAFETY: `entries` is set once, before `count` becomes more than 0; the rest is atomic.
unsafe impl Sync for RegionTable {}

impl RegionTable {
    pub const fn new() -> RegionTable {
        RegionTable {
            sequence: AtomicU64::new(0),
            count: AtomicUsize::new(0),
            entries: UnsafeCell::new(core::ptr::null()),
        }
    }

    fn entry(&self, index: usize) -> &[AtomicU64; WORDS] {
        assert!(index < CAPACITY);
        // SAFETY: the table has been allocated in full, see above.
        unsafe { &*(*self.entries.get()).add(index) }
    }

    fn read(&self, index: usize) -> Region {
        let entry = self.entry(index);
        let word = |at: usize| entry[at].load(Ordering::Relaxed);
        Region {
            base: word(0),
            end: word(1),
            file: word(2),
            offset: word(3),
            shadow: word(4),
        }
    }

    fn write(&self, index: usize, region: &Region) {
        let words = [
            region.base,
            region.end,
            region.file,
            region.offset,
            region.shadow,
        ];
        for (slot, word) in self.entry(index).iter().zip(words) {
            slot.store(word, Ordering::Relaxed);
        }
    }

    /// Runs `look` until no change came in between.
    fn consistent<R>(&self, look: impl Fn() -> R) -> R {
        loop {
            let before = self.sequence.load(Ordering::Acquire);
            if before & 1 == 0 {
                let result = look();
                fence(Ordering::Acquire);
                if self.sequence.load(Ordering::Relaxed) == before {
                    return result;
                }
            }
            core::hint::spin_loop();
        }
    }

    /// Index of the first region that ends above the address.
    fn position(&self, address: u64) -> usize {
        let (mut low, mut high) = (0, self.count.load(Ordering::Relaxed).min(CAPACITY));
        while low < high {
            let middle = low + (high - low) / 2;
            if self.entry(middle)[1].load(Ordering::Relaxed) <= address {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The first region that ends above the address, and how often the table had changed by then.
    fn look(&self, address: u64) -> (Option<Region>, u64) {
        self.consistent(|| {
            let at = self.position(address);
            let found = (at < self.count.load(Ordering::Relaxed)).then(|| self.read(at));
            (found, self.sequence.load(Ordering::Relaxed))
        })
    }

    /// The region that holds an address, and the generation for which that is true.
    pub fn find(&self, address: u64) -> (Option<Region>, u64) {
        let (region, generation) = self.look(address);
        (region.filter(|region| region.base <= address), generation)
    }

    /// The first part of persistent memory in a range.
    pub fn first_in(&self, base: u64, end: u64) -> Option<Region> {
        self.look(base).0?.part(base, end)
    }

    /// How often the table has changed, times two.
    #[inline(always)]
    pub fn generation(&self) -> u64 {
        self.sequence.load(Ordering::Relaxed)
    }

    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub fn get(&self, index: usize) -> Option<Region> {
        (index < self.count()).then(|| self.read(index))
    }

    fn change(&self, change: impl FnOnce()) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.sequence.store(sequence + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        change();
        self.sequence.store(sequence + 2, Ordering::Release);
    }

    /// Adds a region where none is. False: there is no room.
    ///
    /// # Safety
    /// One thread at a time changes the table.
    pub unsafe fn insert(&self, region: &Region) -> bool {
        // SAFETY: the caller is alone; readers look at entries only once there are some.
        unsafe {
            if (*self.entries.get()).is_null() {
                let Ok(place) = memory::anonymous(CAPACITY * WORDS * 8) else {
                    return false;
                };
                *self.entries.get() = place as *const [AtomicU64; WORDS];
            }
        }
        let count = self.count();
        if count == CAPACITY || region.base >= region.end {
            return false;
        }
        let at = self.position(region.base);
        self.change(|| {
            for index in (at..count).rev() {
                self.write(index + 1, &self.read(index));
            }
            self.write(at, region);
            self.count.store(count + 1, Ordering::Relaxed);
        });
        true
    }

    /// Takes a range out: regions in it vanish, those that reach out of it are cut. `lost` is told
    /// of each part.
    ///
    /// # Safety
    /// One thread at a time changes the table.
    pub unsafe fn remove(&self, base: u64, end: u64, mut lost: impl FnMut(&Region)) {
        loop {
            let at = self.position(base);
            let Some(region) = self.get(at) else { return };
            let Some(part) = region.part(base, end) else {
                return;
            };
            lost(&part);
            let below = region.part(0, base);
            let above = region.part(end, u64::MAX);
            match (below, above) {
                (Some(below), None) => self.change(|| self.write(at, &below)),
                (None, Some(above)) => self.change(|| self.write(at, &above)),
                (Some(below), Some(above)) => {
                    self.change(|| self.write(at, &below));
                    // SAFETY: passed on. If there is no room, the upper part is no longer seen.
                    let _ = unsafe { self.insert(&above) };
                }
                (None, None) => {
                    let count = self.count();
                    self.change(|| {
                        for index in at + 1..count {
                            self.write(index - 1, &self.read(index));
                        }
                        self.count.store(count - 1, Ordering::Relaxed);
                    });
                }
            }
        }
    }

    /// Changes each region in place.
    ///
    /// # Safety
    /// One thread at a time changes the table; `edit` leaves addresses as they are.
    pub unsafe fn edit(&self, mut edit: impl FnMut(&mut Region)) {
        self.change(|| {
            for index in 0..self.count() {
                let mut region = self.read(index);
                edit(&mut region);
                self.write(index, &region);
            }
        });
    }

    /// Lowest and highest address, `None` without regions.
    pub fn envelope(&self) -> Option<(u64, u64)> {
        let last = self.count().checked_sub(1)?;
        Some((self.read(0).base, self.read(last).end))
    }
}

/// The regions of this process.
pub static REGIONS: RegionTable = RegionTable::new();

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn region(base: u64, end: u64, offset: u64) -> Region {
        Region {
            base,
            end,
            file: 1,
            offset,
            shadow: base + 0x10_0000,
        }
    }

    fn table(regions: &[(u64, u64)]) -> RegionTable {
        let table = RegionTable::new();
        for &(base, end) in regions {
            // SAFETY: one thread.
            assert!(unsafe { table.insert(&region(base, end, base)) });
        }
        table
    }

    fn all(table: &RegionTable) -> Vec<(u64, u64)> {
        (0..table.count())
            .map(|index| table.get(index).unwrap())
            .map(|region| {
                assert_eq!(region.offset, region.base);
                assert_eq!(region.shadow, region.base + 0x10_0000);
                (region.base, region.end)
            })
            .collect()
    }

    #[test]
    fn regions_are_found_in_any_order_of_insertion() {
        let table = table(&[(50, 60), (10, 20), (30, 40), (20, 30)]);
        assert_eq!(all(&table), [(10, 20), (20, 30), (30, 40), (50, 60)]);
        for address in 0..70 {
            let expected = (10..40).contains(&address) || (50..60).contains(&address);
            assert_eq!(table.find(address).0.is_some(), expected, "{address}");
        }
        assert_eq!(table.envelope(), Some((10, 60)));
        assert_eq!(table.first_in(42, 45), None);
        assert_eq!(
            table.first_in(42, 55).map(|part| (part.base, part.end)),
            Some((50, 55))
        );
    }

    #[test]
    fn every_way_to_cut_three_regions_leaves_the_rest() {
        for base in 0..12u64 {
            for end in base..12 {
                let table = table(&[(1, 4), (4, 6), (8, 11)]);
                let mut lost = Vec::new();
                // SAFETY: one thread.
                unsafe { table.remove(base, end, |part| lost.push((part.base, part.end))) };
                let was = |at| (1..6).contains(&at) || (8..11).contains(&at);
                for at in 0..12 {
                    let gone = (base..end).contains(&at);
                    assert_eq!(
                        table.find(at).0.is_some(),
                        was(at) && !gone,
                        "{base} {end} {at}"
                    );
                    let told = lost.iter().any(|&(from, to)| (from..to).contains(&at));
                    assert_eq!(told, was(at) && gone, "{base} {end} {at}");
                }
                all(&table);
            }
        }
    }

    #[test]
    fn a_change_makes_a_new_generation() {
        let table = table(&[(1, 2)]);
        let (_, before) = table.find(1);
        assert_eq!(before, table.generation());
        // SAFETY: one thread.
        unsafe { table.remove(1, 2, |_| {}) };
        assert_ne!(before, table.generation());
        assert_eq!(table.find(1).0, None);
        assert_eq!(table.envelope(), None);
    }

    #[test]
    fn readers_never_see_half_of_a_change() {
        let table = table(&[(100, 200)]);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut seen = 0;
                while seen < 200_000 {
                    if let (Some(region), _) = table.find(150) {
                        assert_eq!(region.offset, region.base);
                        assert_eq!(region.shadow, region.base + 0x10_0000);
                    }
                    seen += 1;
                }
            });
            while !reader.is_finished() {
                // SAFETY: one thread changes the table.
                unsafe {
                    table.remove(0, 1000, |_| {});
                    table.insert(&region(140, 160, 140));
                    table.remove(0, 1000, |_| {});
                    table.insert(&region(100, 200, 100));
                }
            }
        });
    }
}
