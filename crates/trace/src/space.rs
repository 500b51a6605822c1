//! The persistent part of a process's address space: which file lies where.
//!
//! A sorted list of extents that do not overlap, with the last one that was asked for remembered.
//! Neighbours that continue each other in one file are one extent, so that an access is split only
//! where the file offsets really jump.

use crate::{FileIndex, PmAddress};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) start: u64,
    /// First address behind it.
    pub(crate) end: u64,
    /// Of its first byte.
    pm: PmAddress,
}

impl Extent {
    const EMPTY: Extent = Extent {
        start: 0,
        end: 0,
        pm: PmAddress(0),
    };

    #[inline]
    fn holds(&self, address: u64) -> bool {
        self.start <= address && address < self.end
    }

    #[inline]
    pub(crate) fn pm(&self, address: u64) -> PmAddress {
        PmAddress(self.pm.0 + (address - self.start))
    }

    fn continued_by(&self, next: &Extent) -> bool {
        self.end == next.start
            && self.pm.file() == next.pm.file()
            && self.pm.0 + (self.end - self.start) == next.pm.0
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Space {
    extents: Vec<Extent>,
    last: Extent,
}

impl Default for Space {
    fn default() -> Space {
        Space {
            extents: Vec::new(),
            last: Extent::EMPTY,
        }
    }
}

impl Space {
    /// Maps a range over whatever was there. `None`, and nothing happens, if the range wraps or
    /// its file offsets cannot be addressed.
    pub(crate) fn map(
        &mut self,
        address: u64,
        length: u64,
        file: FileIndex,
        file_offset: u64,
    ) -> Option<()> {
        let end = address.checked_add(length)?;
        let last = file_offset.checked_add(length)?;
        if last > PmAddress::MAX_OFFSET || length == 0 {
            return None;
        }
        self.unmap(address, length);
        let new = Extent {
            start: address,
            end,
            pm: PmAddress::new(file, file_offset),
        };
        let at = self
            .extents
            .partition_point(|extent| extent.start < address);
        self.extents.insert(at, new);
        self.join(at + 1);
        self.join(at);
        Some(())
    }

    /// Joins the extent at this index to the one before it where it continues it.
    fn join(&mut self, at: usize) {
        let Some([before, here]) = at
            .checked_sub(1)
            .and_then(|from| self.extents.get(from..=at))
        else {
            return;
        };
        if before.continued_by(here) {
            self.extents[at - 1].end = here.end;
            self.extents.remove(at);
        }
    }

    pub(crate) fn unmap(&mut self, address: u64, length: u64) {
        self.last = Extent::EMPTY;
        let end = address.saturating_add(length);
        let from = self.extents.partition_point(|extent| extent.end <= address);
        let to = self.extents.partition_point(|extent| extent.start < end);
        if from >= to || end <= address {
            return;
        }
        let (first, last) = (self.extents[from], self.extents[to - 1]);
        let before = (first.start < address).then_some(Extent {
            end: address,
            ..first
        });
        let after = (end < last.end).then(|| Extent {
            start: end,
            end: last.end,
            pm: last.pm(end),
        });
        self.extents
            .splice(from..to, before.into_iter().chain(after));
    }

    /// The extent that holds an address.
    #[inline]
    pub(crate) fn find(&mut self, address: u64) -> Option<Extent> {
        if !self.last.holds(address) {
            let at = self.extents.partition_point(|extent| extent.end <= address);
            let extent = self.extents.get(at)?;
            if !extent.holds(address) {
                return None;
            }
            self.last = *extent;
        }
        Some(self.last)
    }

    /// Where the first mapping above an address begins.
    pub(crate) fn next_start(&self, address: u64) -> Option<u64> {
        let at = self
            .extents
            .partition_point(|extent| extent.start <= address);
        self.extents.get(at).map(|extent| extent.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Map {
            address: u64,
            length: u64,
            file: u32,
            offset: u64,
        },
        Unmap {
            address: u64,
            length: u64,
        },
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..40u64, 1..12u64, 0..2u32, 0..40u64).prop_map(|(address, length, file, offset)| {
                Step::Map {
                    address,
                    length,
                    file,
                    offset,
                }
            }),
            (0..40u64, 0..12u64).prop_map(|(address, length)| Step::Unmap { address, length }),
        ]
    }

    proptest! {
        #[test]
        fn a_space_is_a_map_from_bytes_to_bytes(steps in prop::collection::vec(step(), 0..30)) {
            let mut space = Space::default();
            let mut model = [None; 64];
            for step in steps {
                match step {
                    Step::Map { address, length, file, offset } => {
                        prop_assert!(space.map(address, length, FileIndex(file), offset).is_some());
                        for at in 0..length {
                            let pm = PmAddress::new(FileIndex(file), offset + at);
                            model[(address + at) as usize] = Some(pm);
                        }
                    }
                    Step::Unmap { address, length } => {
                        space.unmap(address, length);
                        model[address as usize..(address + length) as usize].fill(None);
                    }
                }
                for (address, expected) in (0..).zip(model) {
                    prop_assert_eq!(space.find(address).map(|e| e.pm(address)), expected);
                    let starts = |at: &u64| space.extents.iter().any(|e| e.start == *at);
                    let next = (address + 1..64).find(starts);
                    prop_assert_eq!(space.next_start(address), next);
                }
                for pair in space.extents.windows(2) {
                    prop_assert!(pair[0].end <= pair[1].start && !pair[0].continued_by(&pair[1]));
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_addressed_is_not_mapped() {
        let mut space = Space::default();
        assert!(space.map(u64::MAX, 2, FileIndex(0), 0).is_none());
        assert!(
            space
                .map(0, 2, FileIndex(0), PmAddress::MAX_OFFSET)
                .is_none()
        );
        assert!(space.map(0, 0, FileIndex(0), 0).is_none());
        assert!(space.find(0).is_none());
    }
}
