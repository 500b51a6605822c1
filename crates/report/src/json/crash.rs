//! The wire form of what only tests of crashes have.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Location;
use crate::finding;

#[derive(Serialize)]
pub struct Crash<'a> {
    category: &'a str,
    operation: Option<Operation<'a>>,
    acknowledged: bool,
    needed: Vec<Spot<'a>>,
    ahead: Option<Spot<'a>>,
    expected: &'a [String],
    found: &'a str,
    states: u64,
    found_by: &'a str,
    mended: bool,
    possible_on: &'a [String],
    impossible_on: &'a [String],
    confirmed: Option<Confirmed<'a>>,
    because: &'a str,
    replay: &'a str,
}

/// A place may be known by its call alone.
#[derive(Serialize)]
struct Spot<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    call: &'a str,
    #[serde(flatten)]
    location: Option<Location<'a>>,
}

impl<'a> From<&'a finding::Spot> for Spot<'a> {
    fn from(spot: &'a finding::Spot) -> Self {
        Spot {
            call: &spot.call,
            location: spot.location.as_ref().map(Location::from),
        }
    }
}

#[derive(Serialize)]
struct Confirmed<'a> {
    file_system: &'a str,
    kernel: &'a str,
    seen: u64,
    images: u64,
    how: &'a str,
}

impl<'a> From<&'a finding::Confirmed> for Confirmed<'a> {
    fn from(confirmed: &'a finding::Confirmed) -> Self {
        Confirmed {
            file_system: &confirmed.file_system,
            kernel: &confirmed.kernel,
            seen: confirmed.seen,
            images: confirmed.images,
            how: &confirmed.how,
        }
    }
}

#[derive(Serialize)]
struct Operation<'a> {
    number: u64,
    line: &'a str,
}

impl<'a> From<&'a finding::Crash> for Crash<'a> {
    fn from(crash: &'a finding::Crash) -> Self {
        let operation = crash.operation.as_ref();
        Crash {
            category: crash.category.name(),
            operation: operation.map(|(number, line)| Operation {
                number: *number,
                line,
            }),
            acknowledged: crash.acknowledged,
            needed: crash.needed.iter().map(Spot::from).collect(),
            ahead: crash.ahead.as_ref().map(Spot::from),
            expected: &crash.expected,
            found: &crash.found,
            states: crash.states,
            found_by: &crash.found_by,
            mended: crash.fix_verified,
            possible_on: &crash.possible_on,
            impossible_on: &crash.impossible_on,
            confirmed: crash.confirmed.as_ref().map(Confirmed::from),
            because: &crash.because,
            replay: &crash.replay,
        }
    }
}

#[derive(Serialize)]
pub struct Test<'a> {
    model: &'a str,
    strategy: &'a str,
    operations: u64,
    crash_points: u64,
    /// A string: it may have more digits than any number type.
    possible_states: &'a str,
    possible_exact: bool,
    chosen_states: u64,
    settled_states: u64,
    duplicate_states: u64,
    pruned_states: u64,
    audited_states: u64,
    tried_states: u64,
    resumed_states: u64,
    inconsistent_states: u64,
    unstable_states: u64,
    unexplained_states: u64,
    explaining_states: u64,
    points_cut: u64,
    points_left: u64,
    states_per_second: f64,
    behaviours: u64,
    representatives: u64,
    by_strategy: Vec<ByStrategy<'a>>,
    seconds: BTreeMap<&'a str, f64>,
    clusters: u64,
    conditions: Option<Conditions<'a>>,
}

/// Numbers by rule or reason.
type Counts<'a> = BTreeMap<&'a str, u64>;

#[derive(Serialize)]
pub struct Conditions<'a> {
    inferred: Counts<'a>,
    violations: Counts<'a>,
    chosen: Counts<'a>,
    states: Counts<'a>,
    kinds: u64,
    unfollowed: Counts<'a>,
}

impl<'a> From<&'a finding::ConditionFigures> for Conditions<'a> {
    fn from(figures: &'a finding::ConditionFigures) -> Self {
        let counts = |list: &'a [(String, u64)]| {
            let entries = list.iter();
            entries
                .map(|(name, count)| (name.as_str(), *count))
                .collect()
        };
        Conditions {
            inferred: counts(&figures.inferred),
            violations: counts(&figures.violations),
            chosen: counts(&figures.chosen),
            states: counts(&figures.states),
            kinds: figures.kinds,
            unfollowed: counts(&figures.unfollowed),
        }
    }
}

/// One strategy's part of the work.
#[derive(Serialize)]
struct ByStrategy<'a> {
    strategy: &'a str,
    chosen_states: u64,
    tried_states: u64,
}

impl<'a> From<&'a (String, u64, u64)> for ByStrategy<'a> {
    fn from((strategy, chosen, tried): &'a (String, u64, u64)) -> Self {
        ByStrategy {
            strategy,
            chosen_states: *chosen,
            tried_states: *tried,
        }
    }
}

impl<'a> From<&'a finding::TestFigures> for Test<'a> {
    fn from(figures: &'a finding::TestFigures) -> Self {
        let seconds = figures.seconds.iter();
        Test {
            model: &figures.model,
            strategy: &figures.strategy,
            operations: figures.operations,
            crash_points: figures.crash_points,
            possible_states: &figures.possible_states,
            possible_exact: figures.possible_exact,
            chosen_states: figures.chosen_states,
            settled_states: figures.settled_states,
            duplicate_states: figures.duplicate_states,
            pruned_states: figures.pruned_states,
            audited_states: figures.audited_states,
            tried_states: figures.tried_states,
            resumed_states: figures.resumed_states,
            inconsistent_states: figures.inconsistent_states,
            unstable_states: figures.unstable_states,
            unexplained_states: figures.unexplained_states,
            explaining_states: figures.explaining_states,
            points_cut: figures.points_cut,
            points_left: figures.points_left,
            states_per_second: figures.states_per_second,
            behaviours: figures.behaviours,
            representatives: figures.representatives,
            by_strategy: figures.by_strategy.iter().map(ByStrategy::from).collect(),
            seconds: seconds
                .map(|(phase, time)| (phase.as_str(), *time))
                .collect(),
            clusters: figures.clusters,
            conditions: figures.conditions.as_ref().map(Conditions::from),
        }
    }
}
