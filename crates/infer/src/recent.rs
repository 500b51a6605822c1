//! A table of what was met lately, of a size that stays.
//!
//! Programs do a thing again soon, or in another place of their data. A table of all that was ever
//! met would be out of the processor's reach before long, for what is hardly ever asked for.

use rustc_hash::FxBuildHasher;
use std::hash::{BuildHasher as _, Hash};

/// Each key has one place, which the last one that came there holds.
#[derive(Debug)]
pub struct Recent<K, V> {
    places: Box<[Option<(K, V)>]>,
}

const PLACES: usize = 1 << 14;

impl<K: Clone, V: Clone> Default for Recent<K, V> {
    fn default() -> Recent<K, V> {
        Recent {
            places: vec![None; PLACES].into(),
        }
    }
}

impl<K: Hash + Eq, V> Recent<K, V> {
    /// Where a key is, or whatever has taken its place.
    fn place(&mut self, key: &K) -> &mut Option<(K, V)> {
        let hash = FxBuildHasher.hash_one(key);
        // The upper bits are the good ones.
        let index = (hash >> (u64::BITS - PLACES.ilog2())) as usize;
        &mut self.places[index]
    }

    pub fn get(&mut self, key: &K) -> Option<&mut V> {
        match self.place(key) {
            Some((known, value)) if known == key => Some(value),
            Some(_) | None => None,
        }
    }

    /// Returns what it takes the place of.
    pub fn insert(&mut self, key: K, value: V) -> Option<(K, V)> {
        let place = self.place(&key);
        place.replace((key, value))
    }

    /// Everything that is there.
    pub fn into_values(self) -> impl Iterator<Item = (K, V)> {
        self.places.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_met_lately_is_known_and_nothing_is_mistaken_for_it() {
        let mut recent = Recent::default();
        let mut gone = 0;
        for key in 0..4 * PLACES as u64 {
            assert_eq!(recent.get(&key), None);
            gone += usize::from(recent.insert(key, key + 1).is_some());
            assert_eq!(recent.get(&key), Some(&mut (key + 1)));
        }
        let there: Vec<(u64, u64)> = recent.into_values().collect();
        assert_eq!(there.len() + gone, 4 * PLACES);
        assert!(there.iter().all(|(key, value)| *value == key + 1));
        assert!(there.len() > PLACES / 2, "{} places are used", there.len());
    }
}
