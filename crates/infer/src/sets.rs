//! Sets of accesses, each kept once, so that a set is a number and joining two sets is mostly
//! looking up what they gave the last time.

use crate::recent::Recent;
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;
use std::hash::BuildHasher as _;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccessId(pub u32);

/// The default is the empty set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetId(pub u32);

impl SetId {
    pub const EMPTY: SetId = SetId(0);
}

/// Members of a set at most: what depends on more (a checksum, a sum over a whole table) depends on
/// too much to be a hint.
pub const MOST: usize = 8;

#[derive(Debug)]
pub struct Sets {
    /// The members of all sets, one set after the other, and where each ends.
    members: Vec<AccessId>,
    ends: Vec<u32>,
    /// By their members.
    known: Recent<u64, SetId>,
    joins: Recent<(SetId, SetId), SetId>,
    /// Joins that would have had more members than [`MOST`].
    pub cut: u64,
}

impl Default for Sets {
    fn default() -> Sets {
        Sets {
            members: Vec::new(),
            ends: vec![0],
            known: Recent::default(),
            joins: Recent::default(),
            cut: 0,
        }
    }
}

impl Sets {
    pub fn members(&self, set: SetId) -> &[AccessId] {
        let index = set.0 as usize;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.members[start as usize..self.ends[index] as usize]
    }

    pub fn one(&mut self, access: AccessId) -> SetId {
        self.intern(&[access])
    }

    /// The same members have the same number, unless much was met since.
    fn intern(&mut self, members: &[AccessId]) -> SetId {
        let key = FxBuildHasher.hash_one(members);
        let known = self.known.get(&key).copied();
        if let Some(id) = known.filter(|id| self.members(*id) == members) {
            return id;
        }
        let id = SetId(u32::try_from(self.ends.len()).expect("fewer than 2^32 sets"));
        self.members.extend_from_slice(members);
        let end = u32::try_from(self.members.len()).expect("fewer than 2^32 members");
        self.ends.push(end);
        self.known.insert(key, id);
        id
    }

    pub fn join(&mut self, one: SetId, other: SetId) -> SetId {
        if one == other || other == SetId::EMPTY {
            return one;
        }
        if one == SetId::EMPTY {
            return other;
        }
        let key = (one.min(other), one.max(other));
        if let Some(joined) = self.joins.get(&key) {
            return *joined;
        }
        let both = [self.members(one), self.members(other)];
        let mut members: SmallVec<[AccessId; 2 * MOST]> =
            both.into_iter().flatten().copied().collect();
        members.sort_unstable();
        members.dedup();
        let cut = members.len().saturating_sub(MOST);
        self.cut += u64::from(cut > 0);
        // Those met last are the nearest.
        let joined = self.intern(&members[cut..]);
        self.joins.insert(key, joined);
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joining_is_union() {
        let mut sets = Sets::default();
        let (one, two) = (sets.one(AccessId(1)), sets.one(AccessId(2)));
        let both = sets.join(two, one);
        assert_eq!(sets.members(both), [AccessId(1), AccessId(2)]);
        assert_eq!(sets.join(one, two), both);
        assert_eq!(sets.join(both, one), both);
        assert_eq!(sets.join(SetId::EMPTY, both), both);
        assert_eq!(sets.cut, 0);
    }

    #[test]
    fn a_set_has_an_end() {
        let mut sets = Sets::default();
        let mut all = SetId::EMPTY;
        for number in 0..100 {
            let one = sets.one(AccessId(number));
            all = sets.join(all, one);
        }
        assert_eq!(sets.members(all).len(), MOST);
        assert_eq!(sets.members(all)[MOST - 1], AccessId(99));
        assert_eq!(sets.cut, 100 - MOST as u64);
    }
}
