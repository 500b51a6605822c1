//! The wire form of what only tests of crashes have.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

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

/// The wire form of [`finding::TestFigures`]; a field that is missing here does not compile.
#[derive(Serialize)]
#[serde(remote = "finding::TestFigures")]
struct Test {
    model: String,
    #[serde(skip)]
    model_shown_by: String,
    strategy: String,
    operations: u64,
    crash_points: u64,
    /// A string: it may have more digits than any number type.
    possible_states: String,
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
    #[serde(serialize_with = "by_strategy")]
    by_strategy: Vec<(String, u64, u64)>,
    #[serde(serialize_with = "as_map")]
    seconds: Vec<(String, f64)>,
    clusters: u64,
    #[serde(serialize_with = "conditions")]
    conditions: Option<finding::ConditionFigures>,
}

/// The wire form of [`finding::ConditionFigures`]. Numbers by rule or reason.
#[derive(Serialize)]
#[serde(remote = "finding::ConditionFigures")]
struct Conditions {
    #[serde(serialize_with = "as_map")]
    inferred: Vec<(String, u64)>,
    #[serde(serialize_with = "as_map")]
    violations: Vec<(String, u64)>,
    #[serde(serialize_with = "as_map")]
    chosen: Vec<(String, u64)>,
    #[serde(serialize_with = "as_map")]
    states: Vec<(String, u64)>,
    kinds: u64,
    #[serde(serialize_with = "as_map")]
    unfollowed: Vec<(String, u64)>,
}

/// What a test did, if the report is of a test.
pub fn test<S: Serializer>(
    figures: &Option<&finding::TestFigures>,
    to: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Wire<'a>(#[serde(with = "Test")] &'a finding::TestFigures);
    figures.map(Wire).serialize(to)
}

fn conditions<S: Serializer>(
    figures: &Option<finding::ConditionFigures>,
    to: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Wire<'a>(#[serde(with = "Conditions")] &'a finding::ConditionFigures);
    figures.as_ref().map(Wire).serialize(to)
}

/// Entries in the order of their names.
fn as_map<V: Serialize, S: Serializer>(entries: &[(String, V)], to: S) -> Result<S::Ok, S::Error> {
    let entries = entries.iter().map(|(name, value)| (name.as_str(), value));
    entries.collect::<BTreeMap<_, _>>().serialize(to)
}

fn by_strategy<S: Serializer>(shares: &[(String, u64, u64)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(shares.iter().map(ByStrategy::from))
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
