//! How much to try, and what was left out for it.
//!
//! Limits are asked before each state: at this point, in all, and by the clock, which the caller
//! reads. Whoever is told to stop says how many states that leaves out, so that a report can tell;
//! a number that is only a lower bound makes the sum one.

use crashpoint_persist::graph::Count;
use num_bigint::BigUint;
use std::time::Duration;

/// `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// States at one point.
    pub point: Option<u64>,
    /// States in all.
    pub total: Option<u64>,
    pub time: Option<Duration>,
}

/// Which limit was hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    Point,
    Total,
    Time,
}

impl Limit {
    /// For reports.
    pub fn name(self) -> &'static str {
        match self {
            Limit::Point => "states per point",
            Limit::Total => "states in total",
            Limit::Time => "time",
        }
    }

    /// Nothing more is to be tried, at this point or any other.
    pub fn ends_all(self) -> bool {
        match self {
            Limit::Point => false,
            Limit::Total | Limit::Time => true,
        }
    }
}

/// What a limit left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Points that were not done with, or not begun.
    pub points: u64,
    pub states: Count,
}

impl Default for Skipped {
    fn default() -> Skipped {
        Skipped {
            points: 0,
            states: Count {
                value: BigUint::ZERO,
                exact: true,
            },
        }
    }
}

impl Skipped {
    fn add(&mut self, states: &Count) {
        self.points += 1;
        self.states.value += &states.value;
        self.states.exact &= states.exact;
    }
}

#[derive(Clone, Debug, Default)]
pub struct Budget {
    limits: Limits,
    tried: u64,
    tried_here: u64,
    by_point: Skipped,
    by_total: Skipped,
    by_time: Skipped,
}

impl Budget {
    pub fn new(limits: Limits) -> Budget {
        Budget {
            limits,
            ..Budget::default()
        }
    }

    /// The next states are those of another point.
    pub fn begin_point(&mut self) {
        self.tried_here = 0;
    }

    /// Asks to try one more state, when this much time has passed. It counts as tried if there is
    /// no objection.
    pub fn try_one(&mut self, elapsed: Duration) -> Result<(), Limit> {
        let Limits { point, total, time } = self.limits;
        if time.is_some_and(|time| elapsed >= time) {
            return Err(Limit::Time);
        }
        if total.is_some_and(|total| self.tried >= total) {
            return Err(Limit::Total);
        }
        if point.is_some_and(|point| self.tried_here >= point) {
            return Err(Limit::Point);
        }
        self.tried += 1;
        self.tried_here += 1;
        Ok(())
    }

    /// A limit left out this many states of a point.
    pub fn skip(&mut self, limit: Limit, states: &Count) {
        self.skipped_mut(limit).add(states);
    }

    /// A limit left out what is left of a point with this many states.
    pub fn skip_rest(&mut self, limit: Limit, possible: &Count) {
        let tried = BigUint::from(self.tried_here);
        // A lower bound may be smaller than what was tried.
        let value = match possible.value > tried {
            true => &possible.value - tried,
            false => BigUint::ZERO,
        };
        let exact = possible.exact;
        self.skip(limit, &Count { value, exact });
    }

    fn skipped_mut(&mut self, limit: Limit) -> &mut Skipped {
        match limit {
            Limit::Point => &mut self.by_point,
            Limit::Total => &mut self.by_total,
            Limit::Time => &mut self.by_time,
        }
    }

    pub fn skipped(&self, limit: Limit) -> &Skipped {
        match limit {
            Limit::Point => &self.by_point,
            Limit::Total => &self.by_total,
            Limit::Time => &self.by_time,
        }
    }

    /// States tried so far.
    pub fn tried(&self) -> u64 {
        self.tried
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(value: u64, exact: bool) -> Count {
        let value = BigUint::from(value);
        Count { value, exact }
    }

    #[test]
    fn the_first_limit_that_is_hit_says_so() {
        let second = Duration::from_secs(1);
        let mut budget = Budget::new(Limits {
            point: Some(2),
            total: Some(3),
            time: Some(second * 9),
        });
        budget.begin_point();
        assert_eq!(budget.try_one(second), Ok(()));
        assert_eq!(budget.try_one(second), Ok(()));
        assert_eq!(budget.try_one(second), Err(Limit::Point));
        budget.begin_point();
        assert_eq!(budget.try_one(second), Ok(()));
        assert_eq!(budget.try_one(second), Err(Limit::Total));
        assert_eq!(budget.try_one(second * 9), Err(Limit::Time));
        assert_eq!(budget.tried(), 3);
    }

    #[test]
    fn without_limits_everything_is_tried() {
        let mut budget = Budget::new(Limits::default());
        for _ in 0..1000 {
            assert_eq!(budget.try_one(Duration::MAX), Ok(()));
        }
    }

    #[test]
    fn what_is_skipped_adds_up_by_limit() {
        let mut budget = Budget::new(Limits::default());
        budget.begin_point();
        assert_eq!(budget.try_one(Duration::ZERO), Ok(()));
        budget.skip_rest(Limit::Point, &states(10, true));
        assert_eq!(budget.skipped(Limit::Point).states, states(9, true));
        budget.skip(Limit::Point, &states(5, false));
        let expected = Skipped {
            points: 2,
            states: states(14, false),
        };
        assert_eq!(*budget.skipped(Limit::Point), expected);
        budget.skip_rest(Limit::Time, &states(0, false));
        assert_eq!(budget.skipped(Limit::Time).states, states(0, false));
        assert_eq!(*budget.skipped(Limit::Total), Skipped::default());
    }
}
