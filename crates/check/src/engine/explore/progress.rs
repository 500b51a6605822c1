//! How far an exploration got: what a round leaves to the next one.

use super::{Shared, Statistics};
use crate::engine::crash_points::{Assumption, Phase, SuffixId};
use crate::engine::journal::{JournalEntry, ResultOrigin};
use crate::engine::minimise::Causes;
use crate::engine::result_table::{Key, ResultTable};
use crashpoint_states::KindId;
use num_bigint::BigUint;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Of the states that a strategy has for a crash point, how many were looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Taken {
    pub cuts: u64,
    /// There are no more, or no more are wanted.
    pub is_done: bool,
}

/// States that are taken to be alike.
#[derive(Clone, Debug)]
pub struct Alike {
    pub offered: Vec<(Key, Phase)>,
    /// At how many of them it is asked how many failed.
    pub ask_at: usize,
    /// Enough have failed.
    pub known_to_fail: bool,
}

impl Default for Alike {
    fn default() -> Alike {
        Alike {
            offered: Vec::new(),
            ask_at: 1,
            known_to_fail: false,
        }
    }
}

impl Taken {
    /// The strategy has nothing to try there.
    pub const NOTHING: Taken = Taken {
        cuts: 0,
        is_done: true,
    };
}

/// What a round leaves to the next one.
pub struct Progress {
    pub round: u32,
    pub began: Instant,
    pub statistics: Statistics,
    pub assumptions: Vec<Assumption>,
    /// Places in the program: what is stored there, left behind by an operation and lost, does harm.
    pub harmful: FxHashSet<u64>,
    /// By crash point, as far as the walk got; of one strategy.
    pub taken: Vec<Taken>,
    pub kinds: FxHashMap<KindId, Alike>,
    /// Why states fail, as far as it was looked for, and what was tried for that alone.
    pub causes: Causes,
    pub asked: FxHashSet<Key>,
    /// By crash point, whether its possible states were counted.
    pub counted: Vec<bool>,
    /// By the run that is resumed: the budget is for both.
    tried_before: u64,
    /// Distinct states so far, whether they were tried or turned out not to need it: which ones a
    /// crash point gets depends on this, and so not on who was faster.
    pub offered: u64,
}

impl Progress {
    pub fn new(known: &[JournalEntry]) -> Progress {
        let was_tried = |result: &&JournalEntry| result.how == ResultOrigin::Tried;
        Progress {
            round: 0,
            began: Instant::now(),
            statistics: Statistics {
                exact: true,
                resumed: known.len() as u64,
                ..Statistics::default()
            },
            assumptions: Vec::new(),
            harmful: FxHashSet::default(),
            taken: Vec::new(),
            kinds: FxHashMap::default(),
            causes: Causes::default(),
            asked: FxHashSet::default(),
            counted: Vec::new(),
            tried_before: known.iter().filter(was_tried).count() as u64,
            offered: 0,
        }
    }

    pub fn is_spent<S>(&self, shared: &Shared<'_, S>) -> bool {
        let limits = &shared.limits;
        let tried = shared.tried.load(Ordering::Relaxed) + self.tried_before;
        (limits.states > 0 && tried >= limits.states)
            || limits.time.is_some_and(|time| self.began.elapsed() >= time)
    }

    pub fn wants_more<S>(&self, shared: &Shared<'_, S>) -> bool {
        let cut = self.taken.iter().any(|taken| !taken.is_done);
        cut && !self.is_spent(shared) && !shared.stop.load(Ordering::Relaxed)
    }

    /// Kinds of states of which some failed.
    pub fn clusters(&self, table: &ResultTable) -> u64 {
        let fails = |(key, phase): &(Key, Phase)| {
            let observed = table.observed(*key);
            observed.is_some_and(|observed| observed.fails(*phase))
        };
        let kinds = self.kinds.values();
        let failing = kinds.filter(|kind| kind.offered.iter().any(fails));
        failing.count() as u64
    }

    /// What is counted of a list.
    pub fn of_suffix(&mut self, suffix: SuffixId) -> &mut (BigUint, u64) {
        let by_suffix = &mut self.statistics.by_suffix;
        let index = suffix.0 as usize;
        if by_suffix.len() <= index {
            by_suffix.resize(index + 1, Default::default());
        }
        &mut by_suffix[index]
    }

    /// Of the strategy that is done; the next one begins anew.
    pub fn next_strategy(&mut self) {
        let cut = self.taken.iter().filter(|taken| !taken.is_done);
        self.statistics.points_cut += cut.count() as u64;
        self.taken.clear();
        self.round = 0;
    }

    pub fn end(mut self) -> (Statistics, Vec<Assumption>) {
        self.statistics.points = self.counted.len() as u64;
        self.statistics.asked = self.asked.len() as u64;
        // What nobody looked at was not counted.
        self.statistics.exact &= self.counted.iter().all(|counted| *counted);
        (self.statistics, self.assumptions)
    }
}
