//! Sets of accesses, each kept once, so that a set is a number and joining two sets is mostly
//! looking up what they gave the last time.

use rustc_hash::FxHashMap;

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
    sets: Vec<Box<[AccessId]>>,
    known: FxHashMap<Box<[AccessId]>, SetId>,
    joins: FxHashMap<(SetId, SetId), SetId>,
    /// Joins that would have had more members than [`MOST`].
    pub cut: u64,
}

impl Default for Sets {
    fn default() -> Sets {
        let empty: Box<[AccessId]> = Box::default();
        Sets {
            sets: vec![empty.clone()],
            known: FxHashMap::from_iter([(empty, SetId::EMPTY)]),
            joins: FxHashMap::default(),
            cut: 0,
        }
    }
}

impl Sets {
    pub fn members(&self, set: SetId) -> &[AccessId] {
        &self.sets[set.0 as usize]
    }

    pub fn one(&mut self, access: AccessId) -> SetId {
        self.intern(Box::new([access]))
    }

    fn intern(&mut self, members: Box<[AccessId]>) -> SetId {
        if let Some(id) = self.known.get(&members) {
            return *id;
        }
        let id = SetId(u32::try_from(self.sets.len()).expect("fewer than 2^32 sets"));
        self.sets.push(members.clone());
        self.known.insert(members, id);
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
        let mut members = [self.members(one), self.members(other)].concat();
        members.sort_unstable();
        members.dedup();
        if members.len() > MOST {
            self.cut += 1;
            // Those met last are the nearest.
            members.drain(..members.len() - MOST);
        }
        let joined = self.intern(members.into());
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
