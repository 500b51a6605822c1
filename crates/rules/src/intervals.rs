//! Sets of addresses, as intervals that do not overlap, each with a value.

use std::collections::BTreeMap;

/// Half-open intervals; `T` tells where an interval came from.
#[derive(Clone, Debug)]
pub(crate) struct Intervals<T> {
    /// Start to end and value.
    by_start: BTreeMap<u64, (u64, T)>,
}

impl<T> Default for Intervals<T> {
    fn default() -> Intervals<T> {
        Intervals {
            by_start: BTreeMap::new(),
        }
    }
}

impl<T: Copy> Intervals<T> {
    /// The intervals that meet a range, in order.
    fn meeting(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64, T)> {
        let before = self.by_start.range(..start).next_back();
        let before = before.filter(|(_, (to, _))| *to > start);
        let inside = self.by_start.range(start..end.max(start));
        before
            .into_iter()
            .chain(inside)
            .map(|(from, (to, value))| (*from, *to, *value))
    }

    /// Parts of a range that are in no interval.
    pub(crate) fn gaps(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let mut gaps = Vec::new();
        let mut next = start;
        for (from, to, _) in self.meeting(start, end) {
            if from > next {
                gaps.push((next, from));
            }
            next = next.max(to);
        }
        if next < end {
            gaps.push((next, end));
        }
        gaps
    }

    /// Adds a range. What was there before keeps its value.
    pub(crate) fn add(&mut self, start: u64, end: u64, value: T) {
        for (from, to) in self.gaps(start, end) {
            self.by_start.insert(from, (to, value));
        }
    }

    pub(crate) fn remove(&mut self, start: u64, end: u64) {
        let met: Vec<(u64, u64, T)> = self.meeting(start, end).collect();
        for (from, to, value) in met {
            self.by_start.remove(&from);
            if from < start {
                self.by_start.insert(from, (start, value));
            }
            if to > end {
                self.by_start.insert(end, (to, value));
            }
        }
    }

    /// Whether all of a range is in the set; an empty one is.
    pub(crate) fn covers(&self, start: u64, end: u64) -> bool {
        self.gaps(start, end).is_empty()
    }

    pub(crate) fn overlaps(&self, start: u64, end: u64) -> bool {
        start < end && self.meeting(start, end).next().is_some()
    }

    /// Where the first byte of a range came from.
    pub(crate) fn value_at(&self, address: u64) -> Option<T> {
        let meeting = self.meeting(address, address.saturating_add(1)).next();
        meeting.map(|(_, _, value)| value)
    }

    /// Where the run of intervals without a gap that begins at an address ends.
    pub(crate) fn run_end(&self, address: u64) -> u64 {
        let mut end = address;
        for (from, to, _) in self.meeting(address, u64::MAX) {
            if from > end {
                break;
            }
            end = end.max(to);
        }
        end
    }

    /// All intervals, in order; neighbours may touch.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.by_start.iter().map(|(from, (to, _))| (*from, *to))
    }

    pub(crate) fn clear(&mut self) {
        self.by_start.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_start.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_start.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range() -> impl Strategy<Value = (u64, u64)> {
        (0..40u64, 0..12u64).prop_map(|(start, length)| (start, start + length))
    }

    proptest! {
        #[test]
        fn intervals_are_a_map_from_addresses(
            steps in prop::collection::vec((range(), any::<bool>()), 0..30),
            asked in range(),
        ) {
            let mut set = Intervals::default();
            let mut model = [None; 64];
            for (number, ((start, end), add)) in steps.into_iter().enumerate() {
                if add {
                    set.add(start, end, number);
                } else {
                    set.remove(start, end);
                }
                for slot in &mut model[start as usize..end as usize] {
                    *slot = if add { slot.or(Some(number)) } else { None };
                }
            }
            let (start, end) = asked;
            let part = &model[start as usize..end as usize];
            prop_assert_eq!(set.covers(start, end), part.iter().all(Option::is_some));
            prop_assert_eq!(set.overlaps(start, end), part.iter().any(Option::is_some));
            let gaps: Vec<u64> = set.gaps(start, end).into_iter().flat_map(|(a, b)| a..b).collect();
            let expected = (start..end).filter(|at| model[*at as usize].is_none());
            prop_assert_eq!(gaps, expected.collect::<Vec<_>>());
            for (address, value) in (0..).zip(model) {
                prop_assert_eq!(set.value_at(address), value);
            }
            let run = (start..).take_while(|at| model[*at as usize].is_some()).count() as u64;
            prop_assert_eq!(set.run_end(start), start + run);
            prop_assert_eq!(set.is_empty(), model.iter().all(Option::is_none));
        }
    }
}
