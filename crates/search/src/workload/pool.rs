//! Chance, numbers that are drawn once, and sets to draw from.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng as _;

/// Chance, the same on every machine and in every version: PCG is a published algorithm
/// (O'Neill 2014), and how its words become numbers and choices is written here, because the
/// distributions of `rand` may change with its versions.
pub struct Dice(Pcg64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        /// Any number does; it chooses one of the sequences that PCG has.
        const STREAM: u128 = 0xa02b_dbf7_bb3c_0a7a_c28f_a16a_64ab_f96b;
        let mut generator = Pcg64::new(seed.into(), STREAM);
        // The first word still resembles that of the next seed.
        generator.next_u64();
        Dice(generator)
    }

    /// A number below `limit`, which is not 0. Biased by less than one part in `u64::MAX / limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        let wide = u128::from(self.0.next_u64()) * u128::from(limit);
        (wide >> 64) as u64
    }

    pub fn within(&mut self, range: &RangeInclusive<u64>) -> u64 {
        let (min, max) = (*range.start(), *range.end());
        match (max - min).checked_add(1) {
            Some(size) => min + self.below(size),
            None => self.0.next_u64(),
        }
    }

    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

/// The numbers of a range that are still to be had.
pub struct Fresh {
    range: RangeInclusive<u64>,
    taken: HashSet<u64>,
    /// How many may be taken at all.
    most: u64,
}

impl Fresh {
    pub fn new(range: RangeInclusive<u64>, limit: Option<usize>) -> Fresh {
        let size = if range.is_empty() {
            0
        } else {
            (range.end() - range.start()).saturating_add(1)
        };
        let limit = limit.map_or(u64::MAX, |limit| limit as u64);
        Fresh {
            range,
            taken: HashSet::new(),
            most: size.min(limit),
        }
    }

    /// A number that was not taken before; `None` when all are.
    pub fn take(&mut self, dice: &mut Dice) -> Option<u64> {
        if self.taken.len() as u64 >= self.most {
            return None;
        }
        let mut number = dice.within(&self.range);
        // The next free one: this ends even where the range is nearly used up.
        while !self.taken.insert(number) {
            number = if number == *self.range.end() {
                *self.range.start()
            } else {
                number + 1
            };
        }
        Some(number)
    }
}

/// A set that one can draw from. Its order depends on what was done with it alone, unlike that of a
/// hash set.
#[derive(Default)]
pub struct Bag {
    items: Vec<u64>,
    positions: HashMap<u64, usize>,
}

impl Bag {
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub fn insert(&mut self, item: u64) {
        if !self.positions.contains_key(&item) {
            self.positions.insert(item, self.items.len());
            self.items.push(item);
        }
    }

    /// Whether it was there.
    pub fn remove(&mut self, item: u64) -> bool {
        let Some(position) = self.positions.remove(&item) else {
            return false;
        };
        self.items.swap_remove(position);
        if let Some(moved) = self.items.get(position) {
            self.positions.insert(*moved, position);
        }
        true
    }

    pub fn pick(&self, dice: &mut Dice) -> Option<u64> {
        match self.items.len() {
            0 => None,
            count => Some(self.items[dice.below(count as u64) as usize]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_used_up_to_the_last_number() {
        let mut dice = Dice::new(7);
        let mut fresh = Fresh::new(5..=9, None);
        let mut all: Vec<u64> = std::iter::from_fn(|| fresh.take(&mut dice)).collect();
        all.sort_unstable();
        assert_eq!(all, [5, 6, 7, 8, 9]);
        let mut few = Fresh::new(0..=u64::MAX, Some(3));
        assert_eq!(std::iter::from_fn(|| few.take(&mut dice)).count(), 3);
        #[expect(clippy::reversed_empty_ranges, reason = "the case to test")]
        let mut none = Fresh::new(2..=1, None);
        assert_eq!(none.take(&mut dice), None);
    }

    #[test]
    fn what_is_drawn_from_a_bag_is_in_it() {
        let mut dice = Dice::new(5);
        let mut bag = Bag::default();
        (0..10).for_each(|item| bag.insert(item));
        bag.insert(3);
        for gone in [3, 9, 0, 3] {
            bag.remove(gone);
        }
        assert!(!bag.remove(3));
        let drawn: HashSet<u64> = (0..200).filter_map(|_| bag.pick(&mut dice)).collect();
        assert_eq!(drawn, HashSet::from([1, 2, 4, 5, 6, 7, 8]));
        assert_eq!(Bag::default().pick(&mut dice), None);
    }

    #[test]
    fn the_dice_fall_as_they_always_did() {
        let mut dice = Dice::new(1);
        let fell: Vec<u64> = (0..8).map(|_| dice.below(1000)).collect();
        assert_eq!(fell, [792, 792, 831, 213, 478, 160, 125, 992]);
    }
}
