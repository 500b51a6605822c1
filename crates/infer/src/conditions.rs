//! Conditions on ranges of bytes, and the hints they come from.

use crashpoint_trace::{PmAddress, SiteId};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::hash_map::Entry;

const WORD_BYTES: u64 = 8;

/// Why something must persist before something else.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub enum Rule {
    /// What was written depends on what was read: the read place first (`y = x + 3`).
    Po1,
    /// What was read decided that something is written: the read place first (`if (x) y = 3`).
    Po2,
    /// What was read decided that something else is read, which it guards: the guarded place first
    /// (`if (x) z = y`).
    Po3,
    /// What was read is the way to something else that is read: what it leads to first (`z = *x`).
    /// Not of Witcher's rules; there, only a test of the pointer counts.
    Po4,
    /// Two places guard others: both or none.
    Pa1,
    /// The user says so.
    Given,
}

impl Rule {
    pub const ALL: [Rule; 6] = [
        Rule::Po1,
        Rule::Po2,
        Rule::Po3,
        Rule::Po4,
        Rule::Pa1,
        Rule::Given,
    ];

    /// As in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            Rule::Po1 => "PO1",
            Rule::Po2 => "PO2",
            Rule::Po3 => "PO3",
            Rule::Po4 => "PO4",
            Rule::Pa1 => "PA1",
            Rule::Given => "given",
        }
    }

    pub fn from_name(name: &str) -> Option<Rule> {
        Rule::ALL.into_iter().find(|rule| rule.name() == name)
    }
}

/// Bytes of persistent memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range {
    pub start: PmAddress,
    pub length: u64,
}

impl Range {
    /// The words that it lies in.
    pub fn words(self) -> std::ops::RangeInclusive<u64> {
        let last = self.start.0.saturating_add(self.length.max(1) - 1);
        self.start.0 / WORD_BYTES..=last / WORD_BYTES
    }

    pub fn overlaps(self, start: PmAddress, length: u64) -> bool {
        start.0 < self.start.0.saturating_add(self.length)
            && self.start.0 < start.0.saturating_add(length)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RangeId(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HintId(pub u32);

/// Two places in the program that hint at conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    pub rule: Rule,
    /// The access to what must persist first, and to what must persist later.
    pub first: SiteId,
    pub later: SiteId,
    /// How often it was seen.
    pub seen: u64,
    /// How many conditions it gave that were not known before.
    pub conditions: u64,
}

/// One way in which a place is bound to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    pub to: RangeId,
    pub hint: HintId,
}

/// What must hold.
#[derive(Debug, Default)]
pub struct Conditions {
    ranges: Vec<Range>,
    known: FxHashMap<Range, RangeId>,
    /// First, later, and the hint that said so first.
    pairs: FxHashMap<(RangeId, RangeId), HintId>,
    hints: Vec<Hint>,
    hint_ids: FxHashMap<(Rule, SiteId, SiteId), HintId>,
    /// By the range that comes later, and by the one that comes first.
    earlier: Vec<SmallVec<[Bound; 4]>>,
    later: Vec<SmallVec<[Bound; 4]>>,
    /// Ranges that lie in a word.
    words: FxHashMap<u64, SmallVec<[RangeId; 2]>>,
    /// Words that guard others.
    guardians: FxHashMap<u64, HintId>,
}

impl Conditions {
    pub fn range(&mut self, range: Range) -> RangeId {
        if let Some(id) = self.known.get(&range) {
            return *id;
        }
        let id = RangeId(u32::try_from(self.ranges.len()).expect("fewer than 2^32 ranges"));
        self.ranges.push(range);
        self.known.insert(range, id);
        self.earlier.push(SmallVec::new());
        self.later.push(SmallVec::new());
        for word in range.words() {
            self.words.entry(word).or_default().push(id);
        }
        id
    }

    pub fn get(&self, id: RangeId) -> Range {
        self.ranges[id.0 as usize]
    }

    fn hint(&mut self, rule: Rule, first: SiteId, later: SiteId) -> HintId {
        let next = HintId(self.hints.len() as u32);
        let id = *self.hint_ids.entry((rule, first, later)).or_insert(next);
        if id == next {
            self.hints.push(Hint {
                rule,
                first,
                later,
                seen: 0,
                conditions: 0,
            });
        }
        id
    }

    /// One range must persist before another; seen at these accesses.
    pub fn add(
        &mut self,
        rule: Rule,
        (first, first_site): (RangeId, SiteId),
        (later, later_site): (RangeId, SiteId),
    ) {
        let hint = self.hint(rule, first_site, later_site);
        self.hints[hint.0 as usize].seen += 1;
        if first == later {
            return;
        }
        match self.pairs.entry((first, later)) {
            Entry::Occupied(_) => return,
            Entry::Vacant(slot) => slot.insert(hint),
        };
        self.hints[hint.0 as usize].conditions += 1;
        self.earlier[later.0 as usize].push(Bound { to: first, hint });
        self.later[first.0 as usize].push(Bound { to: later, hint });
    }

    /// A hint that is known was seen so many times more.
    pub fn seen_again(&mut self, rule: Rule, first: SiteId, later: SiteId, times: u64) {
        let hint = self.hint(rule, first, later);
        self.hints[hint.0 as usize].seen += times;
        if rule == Rule::Po3 {
            let guardian = self.hint(Rule::Pa1, later, later);
            self.hints[guardian.0 as usize].seen += times;
        }
    }

    /// A range guards another.
    pub fn guards(&mut self, guardian: RangeId, site: SiteId) {
        let hint = self.hint(Rule::Pa1, site, site);
        self.hints[hint.0 as usize].seen += 1;
        for word in self.get(guardian).words() {
            if let Entry::Vacant(slot) = self.guardians.entry(word) {
                slot.insert(hint);
                self.hints[hint.0 as usize].conditions += 1;
            }
        }
    }

    pub fn hints(&self) -> &[Hint] {
        &self.hints
    }

    /// How many pairs of ranges are ordered.
    pub fn ordered(&self) -> usize {
        self.pairs.len()
    }

    /// How many words guard others.
    pub fn guardian_words(&self) -> usize {
        self.guardians.len()
    }

    /// What must persist before bytes do.
    pub fn earlier(&self, start: PmAddress, length: u64) -> impl Iterator<Item = Bound> {
        self.bound(&self.earlier, start, length)
    }

    /// What must persist after bytes do.
    pub fn later(&self, start: PmAddress, length: u64) -> impl Iterator<Item = Bound> {
        self.bound(&self.later, start, length)
    }

    fn bound<'a>(
        &'a self,
        by: &'a [SmallVec<[Bound; 4]>],
        start: PmAddress,
        length: u64,
    ) -> impl Iterator<Item = Bound> + 'a {
        let ranges = self.ranges_at(start, length);
        ranges.flat_map(|range| by[range.0 as usize].iter().copied())
    }

    /// How many conditions bytes are bound by, either way.
    pub fn bounds(&self, start: PmAddress, length: u64) -> usize {
        let ranges = self.ranges_at(start, length);
        let counts = ranges.map(|range| {
            let index = range.0 as usize;
            self.earlier[index].len() + self.later[index].len()
        });
        counts.sum()
    }

    /// Who says that some bytes must persist before others.
    pub fn between(
        &self,
        (first, first_length): (PmAddress, u64),
        (later, later_length): (PmAddress, u64),
    ) -> Option<HintId> {
        self.ranges_at(first, first_length).find_map(|one| {
            let mut others = self.ranges_at(later, later_length);
            others.find_map(|two| self.pairs.get(&(one, two)).copied())
        })
    }

    /// Ranges that bytes within a word are part of.
    fn ranges_at(&self, start: PmAddress, length: u64) -> impl Iterator<Item = RangeId> + '_ {
        let ranges = self.words.get(&(start.0 / WORD_BYTES));
        let ranges = ranges.into_iter().flatten().copied();
        ranges.filter(move |range| self.get(*range).overlaps(start, length))
    }

    /// Whether bytes guard others, and who says so.
    pub fn guardian(&self, start: PmAddress) -> Option<HintId> {
        self.guardians.get(&(start.0 / WORD_BYTES)).copied()
    }

    /// Forgets what hints gave that somebody does not want.
    pub fn suppress(&mut self, unwanted: impl Fn(&Hint) -> bool) -> u64 {
        let gone: Vec<bool> = self.hints.iter().map(unwanted).collect();
        let is_gone = |hint: HintId| gone[hint.0 as usize];
        let before = self.pairs.len() + self.guardians.len();
        for later in 0..self.earlier.len() {
            let pairs = &mut self.pairs;
            self.earlier[later].retain(|bound| {
                let keep = !is_gone(bound.hint);
                if !keep {
                    pairs.remove(&(bound.to, RangeId(later as u32)));
                }
                keep
            });
        }
        for bounds in &mut self.later {
            bounds.retain(|bound| !is_gone(bound.hint));
        }
        self.guardians.retain(|_, hint| !is_gone(*hint));
        (before - self.pairs.len() - self.guardians.len()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(conditions: &mut Conditions, start: u64, length: u64) -> RangeId {
        let start = PmAddress(start);
        conditions.range(Range { start, length })
    }

    #[test]
    fn bytes_are_bound_by_every_range_that_they_are_part_of() {
        let mut conditions = Conditions::default();
        let key = range(&mut conditions, 64, 16);
        let token = range(&mut conditions, 128, 1);
        conditions.add(Rule::Po3, (key, SiteId(1)), (token, SiteId(2)));
        conditions.add(Rule::Po3, (key, SiteId(1)), (token, SiteId(2)));
        let before_token: Vec<Bound> = conditions.earlier(PmAddress(128), 1).collect();
        assert_eq!(before_token.len(), 1);
        assert_eq!(before_token[0].to, key);
        assert_eq!(conditions.hints()[0].seen, 2);
        assert_eq!(conditions.hints()[0].conditions, 1);
        let after_key = conditions.later(PmAddress(72), 8).next();
        assert_eq!(after_key.map(|bound| bound.to), Some(token));
        assert_eq!(conditions.later(PmAddress(80), 8).count(), 0);
        // In the same word, but not the same byte.
        assert_eq!(conditions.earlier(PmAddress(129), 1).count(), 0);
    }

    #[test]
    fn conditions_that_contradict_each_other_are_both_kept() {
        let mut conditions = Conditions::default();
        let (one, two) = (range(&mut conditions, 0, 8), range(&mut conditions, 8, 8));
        conditions.add(Rule::Po1, (one, SiteId(1)), (two, SiteId(2)));
        conditions.add(Rule::Po3, (two, SiteId(3)), (one, SiteId(4)));
        assert_eq!(conditions.ordered(), 2);
        assert_eq!(conditions.suppress(|hint| hint.rule == Rule::Po1), 1);
        assert_eq!(conditions.earlier(PmAddress(8), 8).count(), 0);
        assert_eq!(conditions.earlier(PmAddress(0), 8).count(), 1);
        assert_eq!(conditions.ordered(), 1);
    }

    #[test]
    fn guardians_are_words() {
        let mut conditions = Conditions::default();
        let token = range(&mut conditions, 130, 1);
        conditions.guards(token, SiteId(1));
        assert!(conditions.guardian(PmAddress(128)).is_some());
        assert!(conditions.guardian(PmAddress(136)).is_none());
        assert_eq!(conditions.guardian_words(), 1);
    }
}
