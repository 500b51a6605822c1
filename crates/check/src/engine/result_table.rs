//! What is known of crash states: which images were tried with which operations, what came of it,
//! and which states need not be tried because they differ from a tried one only in words that the
//! run never read.
//!
//! A run depends on nothing but the words it reads. Two states of one list whose images agree on
//! all words that a run of the first one read lead to the same run, whatever else they differ in.

use crate::engine::crash_points::{Phase, SuffixId};
use crate::engine::medium::{ReadLocation, StateHash};
use crate::engine::outcome::Observed;
use crashpoint_persist::graph::Cut;
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry as MapEntry;

/// All that a run depends on: an image, the operations that run on it, and what the program is said
/// to have printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub suffix: SuffixId,
    /// It is told that the operation had returned. Only for those who ask: to all others the same
    /// image in an operation and after it is one state.
    pub acknowledged: bool,
    pub image: StateHash,
}

/// Where a state was met first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sighting {
    pub point: usize,
    pub phase: Phase,
    pub cut: Cut,
    /// Which of the ways in which the cut may show.
    pub variant: u8,
    /// The strategy that chose it.
    pub found_by: &'static str,
}

/// What meeting a state comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Met {
    /// It has to be tried.
    New,
    /// For the first time in this run, and an earlier one that it goes on with has tried it.
    Known,
    Again,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    is_met: bool,
    observed: Option<Observed>,
    /// One for each phase: the same image may be fine in an operation and not after it.
    sightings: Vec<Sighting>,
}

/// A failing state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    pub sighting: Sighting,
    pub key: Key,
    pub observed: Observed,
}

#[derive(Debug, Default)]
pub struct ResultTable {
    entries: FxHashMap<Key, Entry>,
    known_runs: FxHashMap<SuffixId, Runs>,
}

/// Runs of one list.
#[derive(Debug, Default)]
struct Runs {
    /// By the words that they read.
    by_reads: Vec<(Vec<ReadLocation>, Results)>,
}

/// By what was found in those words.
type Results = FxHashMap<Vec<u64>, Observed>;

/// Sets of reads that are kept for one list; a program that never reads the same twice is not
/// worth the search.
const MAX_READ_SETS: usize = 64;

impl ResultTable {
    /// A state is met.
    pub fn meet(&mut self, key: Key, sighting: Sighting) -> Met {
        let (entry, met) = match self.entries.entry(key) {
            MapEntry::Vacant(vacant) => (vacant.insert(Entry::default()), Met::New),
            MapEntry::Occupied(occupied) => {
                let entry = occupied.into_mut();
                let met = if entry.is_met { Met::Again } else { Met::Known };
                (entry, met)
            }
        };
        entry.is_met = true;
        entry.see(sighting);
        met
    }

    pub fn observed(&self, key: Key) -> Option<Observed> {
        self.entries.get(&key)?.observed
    }

    /// What came of a state.
    pub fn resolve(&mut self, key: Key, observed: Observed) {
        let entry = self.entries.entry(key).or_default();
        entry.observed = Some(observed);
        let fails = |sighting: &Sighting| observed.fails(sighting.phase);
        entry.sightings.retain(fails);
    }

    /// A run read these words, of those that may differ between states of the list, and found
    /// these values in them.
    pub fn learn(
        &mut self,
        suffix: SuffixId,
        read: Vec<ReadLocation>,
        found: Vec<u64>,
        observed: Observed,
    ) {
        let runs = &mut self.known_runs.entry(suffix).or_default().by_reads;
        match runs.iter().position(|(known, _)| *known == read) {
            Some(at) => {
                runs[at].1.insert(found, observed);
            }
            None if runs.len() < MAX_READ_SETS => {
                runs.push((read, FxHashMap::from_iter([(found, observed)])));
            }
            None => {}
        }
    }

    /// A known run that this state would repeat.
    pub fn equivalent(
        &self,
        suffix: SuffixId,
        word: impl Fn(ReadLocation) -> u64,
    ) -> Option<Observed> {
        let runs = &self.known_runs.get(&suffix)?.by_reads;
        runs.iter().find_map(|(read, results)| {
            let found: Vec<u64> = read.iter().map(|at| word(*at)).collect();
            results.get(&found).copied()
        })
    }

    /// The runs of a list are no longer needed.
    pub fn forget_runs(&mut self, suffix: SuffixId) {
        self.known_runs.remove(&suffix);
    }

    /// All states that fail, in the order in which they were met.
    pub fn failing(&self) -> Vec<Failing> {
        let mut failing = Vec::new();
        for (key, entry) in &self.entries {
            let Some(observed) = entry.observed else {
                continue;
            };
            failing.extend(entry.sightings.iter().map(|sighting| Failing {
                sighting: sighting.clone(),
                key: *key,
                observed,
            }));
        }
        failing.sort_by(|a, b| (&a.sighting, a.key).cmp(&(&b.sighting, b.key)));
        failing
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl Entry {
    fn see(&mut self, sighting: Sighting) {
        let passes = |observed: Observed| !observed.fails(sighting.phase);
        if self.observed.is_some_and(passes) {
            return;
        }
        let mut known = self.sightings.iter_mut();
        match known.find(|known| known.phase == sighting.phase) {
            // The earliest, whatever order workers and a resumed run bring them in.
            Some(known) if sighting < *known => *known = sighting,
            Some(_) => {}
            None => self.sightings.push(sighting),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::outcome::{OutcomeSet, RecoveryOutcome};
    use crate::process::message::MessageKind;
    use crate::process::run::RunEnd;

    fn sighting(point: usize, phase: Phase) -> Sighting {
        Sighting {
            point,
            phase,
            cut: Cut(vec![point as u32]),
            variant: 0,
            found_by: "exhaustive",
        }
    }

    fn observed(rolled_back: bool, done: bool) -> Observed {
        let all = if rolled_back {
            OutcomeSet::ALL
        } else {
            OutcomeSet::COMMITTED
        };
        Observed {
            outcomes: if done {
                all
            } else {
                all.without(RecoveryOutcome::COMMITTED)
            },
            end: RunEnd::Exited(0),
            message: MessageKind::default(),
        }
    }

    const KEY: Key = Key {
        suffix: SuffixId(1),
        acknowledged: false,
        image: StateHash(7),
    };

    #[test]
    fn an_image_is_tried_once_and_judged_for_each_phase() {
        let mut table = ResultTable::default();
        assert_eq!(table.meet(KEY, sighting(3, Phase::InFlight(0))), Met::New);
        assert_eq!(table.meet(KEY, sighting(4, Phase::Returned(0))), Met::Again);
        table.resolve(KEY, observed(true, false));
        assert_eq!(table.meet(KEY, sighting(2, Phase::InFlight(0))), Met::Again);
        let failing = table.failing();
        assert_eq!(failing.len(), 1);
        assert_eq!(failing[0].sighting, sighting(4, Phase::Returned(0)));
    }

    #[test]
    fn what_an_earlier_run_tried_is_known_once_and_then_met_again() {
        let mut table = ResultTable::default();
        table.resolve(KEY, observed(true, true));
        assert_eq!(table.meet(KEY, sighting(3, Phase::InFlight(0))), Met::Known);
        assert_eq!(table.meet(KEY, sighting(4, Phase::InFlight(0))), Met::Again);
    }

    #[test]
    fn a_state_that_agrees_on_what_was_read_is_the_same() {
        let mut table = ResultTable::default();
        let words = vec![ReadLocation(1), ReadLocation(5)];
        table.learn(SuffixId(1), words, vec![10, 20], observed(true, true));
        let with = |one: u64, five: u64, other: u64| {
            table.equivalent(SuffixId(1), |word| match word.0 {
                1 => one,
                5 => five,
                _ => other,
            })
        };
        assert_eq!(with(10, 20, 1), Some(observed(true, true)));
        assert_eq!(with(10, 20, 2), Some(observed(true, true)));
        assert_eq!(with(10, 21, 1), None);
        assert_eq!(table.equivalent(SuffixId(2), |_| 10), None);
    }
}
