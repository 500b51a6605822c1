//! The section `[test]`: which crashes are tried, and how it is judged what they left.

use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use crashpoint_blocks::FileSystem;
use crashpoint_check::files::behaviours::Division;
use crashpoint_check::process::output::Ignored;
use crashpoint_search::{self as search, ArgumentKind, KeySettings, OperationKind};
use crashpoint_states::representative::Limits;
use serde::Deserialize;

use super::template::{CHECK, Template};
use super::wrong::{Reason, Wrong, choose};
use crate::arguments;

/// The file that `--write-baseline` makes if no other is named.
pub const BASELINE: &str = "crashpoint.baseline";

/// As it is written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct TestSection {
    operations: Option<usize>,
    seed: Option<u64>,
    ops_file: Option<PathBuf>,
    threads: Option<usize>,
    keys: Option<String>,
    distinct_keys: Option<usize>,
    values: Option<String>,
    strategy: Option<String>,
    bound: Option<u32>,
    random_states: Option<u64>,
    per_kind: Option<u64>,
    sets: Option<u64>,
    gap: Option<u32>,
    neighbours: Option<u32>,
    round: Option<u32>,
    oracle: Option<String>,
    check: Option<String>,
    ignore: Vec<String>,
    suffix: Option<usize>,
    probe: Option<bool>,
    recovery: Option<String>,
    prune: Option<bool>,
    timeout: Option<String>,
    memory: Option<String>,
    states: Option<u64>,
    states_per_point: Option<u64>,
    time: Option<String>,
    jobs: Option<usize>,
    baseline: Option<PathBuf>,
    confirm: Option<String>,
    remarks: Option<bool>,
}

/// Which crash states are tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Strategy {
    /// States that violate what the program's own behaviour says must hold; see `crashpoint infer`
    #[default]
    Conditions,
    /// `conditions` first, then `representative` with what is left of the budget; for memory
    Auto,
    /// Every distinct state
    Exhaustive,
    /// States in which at most --bound cache lines differ from what was stored so far
    Bounded,
    /// --random-states of each crash point, by --seed
    Random,
    /// States inside of update behaviours that stand for all others like them
    Representative,
}

/// How a recording is divided into update behaviours, and how much of one is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Representatives {
    /// Sets of a representative's nodes at one crash point.
    pub sets: u64,
    /// DBSCAN over the positions of calls: how far apart neighbours may be, and how many of them,
    /// itself counted, hold a cluster together.
    pub gap: u32,
    pub neighbours: u32,
    /// Calls after which a behaviour that repeats itself is taken to begin anew.
    pub round: u32,
}

impl Default for Representatives {
    fn default() -> Representatives {
        let division = Division::default();
        Representatives {
            sets: Limits::default().sets as u64,
            gap: division.time.gap,
            neighbours: division.time.least,
            round: division.rounds.most_steps as u32,
        }
    }
}

/// How it is judged what a crash left, besides failures that anybody can see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Oracle {
    /// What is printed after recovery must be what is printed if the interrupted operation
    /// happened, or if it did not
    #[default]
    Output,
    /// What the checker prints must be the lines that the program had printed, and perhaps those
    /// that come next
    Acknowledged,
    /// Only visible failures, and the checker if there is one
    None,
}

/// How often the power goes out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Recovery {
    /// Once
    #[default]
    Once,
    /// Once more, while the program recovers
    Crash,
}

/// How a target is tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestSettings {
    pub operations: usize,
    pub seed: u64,
    /// A list of operations, instead of a generated one.
    pub ops_file: Option<PathBuf>,
    /// How many generated operations run at once.
    pub threads: usize,
    pub keys: KeySettings,
    pub values: RangeInclusive<u64>,
    /// None: what suits the target.
    pub strategy: Option<Strategy>,
    pub bound: Option<u32>,
    /// Of each crash point.
    pub random_states: u64,
    /// Of each kind of violation, before they are seldom.
    pub per_kind: u64,
    pub representative: Representatives,
    pub oracle: Oracle,
    /// [`CHECK`] can be filled in.
    pub check: Option<Template>,
    /// Lines of output that do not count.
    pub ignored: Ignored,
    /// How many of the remaining operations run after recovery.
    pub suffix: usize,
    pub probe: bool,
    pub recovery: Recovery,
    pub prune: bool,
    /// Of one check.
    pub timeout: Duration,
    /// Bytes that one check may use.
    pub memory: Option<u64>,
    /// The most states in all.
    pub states: Option<u64>,
    pub states_per_point: Option<u64>,
    /// The most time in all.
    pub time: Option<Duration>,
    /// None: as many as there are cores.
    pub jobs: Option<NonZeroUsize>,
    pub baseline: Option<PathBuf>,
    /// The real file system on which findings about files are looked for.
    pub confirm: Option<FileSystem>,
    /// Whether syncs that could go are told.
    pub remarks: bool,
}

impl Default for TestSettings {
    fn default() -> TestSettings {
        let generated = search::Settings::default();
        TestSettings {
            operations: generated.count,
            seed: generated.seed,
            ops_file: None,
            threads: generated.at_once,
            keys: generated.keys,
            values: generated.values,
            strategy: None,
            bound: None,
            random_states: 20,
            per_kind: 8,
            representative: Representatives::default(),
            oracle: Oracle::default(),
            check: None,
            ignored: Ignored::default(),
            suffix: 50,
            probe: true,
            recovery: Recovery::default(),
            prune: true,
            timeout: Duration::from_secs(5),
            memory: Some(4 << 30),
            states: Some(100_000),
            states_per_point: Some(4096),
            time: Some(Duration::from_secs(600)),
            jobs: None,
            baseline: None,
            confirm: None,
            remarks: false,
        }
    }
}

impl TestSection {
    pub fn resolve(self, folder: &Path) -> Result<TestSettings, Wrong> {
        let base = TestSettings::default();
        let check = at("check", self.check, |line| {
            Template::parse(line, CHECK, folder)
        })?;
        let oracle = at("oracle", self.oracle, |name| {
            choose("oracle", "oracles", name)
        })?;
        let strategy = at("strategy", self.strategy, |name| {
            choose("strategy", "strategies", name)
        })?;
        let recovery = at("recovery", self.recovery, |name| {
            choose("way to recover", "ways to recover", name)
        })?;
        let duration = |text: &str| arguments::duration(text).map_err(Reason::new);
        let time = at("time", self.time, duration)?;
        let memory = at("memory", self.memory, |text| {
            arguments::size(text).map_err(Reason::new)
        })?;
        Ok(TestSettings {
            operations: self.operations.unwrap_or(base.operations),
            seed: self.seed.unwrap_or(base.seed),
            ops_file: self.ops_file.map(|file| folder.join(file)),
            threads: match self.threads {
                Some(threads) => arguments::threads(threads)
                    .map_err(|reason| Reason::new(reason).at(&["test", "threads"]))?,
                None => base.threads,
            },
            keys: KeySettings {
                range: at("keys", self.keys, range)?.unwrap_or(base.keys.range),
                distinct: self.distinct_keys,
            },
            values: at("values", self.values, range)?.unwrap_or(base.values),
            strategy,
            bound: self.bound,
            random_states: self.random_states.unwrap_or(base.random_states),
            per_kind: self.per_kind.unwrap_or(base.per_kind),
            representative: Representatives {
                sets: self.sets.unwrap_or(base.representative.sets),
                gap: self.gap.unwrap_or(base.representative.gap),
                neighbours: self.neighbours.unwrap_or(base.representative.neighbours),
                round: self.round.unwrap_or(base.representative.round),
            },
            oracle: oracle.unwrap_or(by_default(check.is_some())),
            check,
            ignored: Ignored(self.ignore),
            suffix: self.suffix.unwrap_or(base.suffix),
            probe: self.probe.unwrap_or(base.probe),
            recovery: recovery.unwrap_or_default(),
            prune: self.prune.unwrap_or(base.prune),
            timeout: at("timeout", self.timeout, positive)?.unwrap_or(base.timeout),
            memory: memory.map_or(base.memory, limit),
            states: self.states.map_or(base.states, limit),
            states_per_point: self.states_per_point.map_or(base.states_per_point, limit),
            time: time.map_or(base.time, some_time),
            jobs: self.jobs.and_then(NonZeroUsize::new),
            baseline: self.baseline.map(|file| folder.join(file)),
            confirm: at("confirm", self.confirm, |name| {
                arguments::file_system(name).map_err(Reason::new)
            })?,
            remarks: self.remarks.unwrap_or(base.remarks),
        })
    }
}

/// A checker is written where outputs can't be compared, or mean nothing.
fn by_default(has_check: bool) -> Oracle {
    match has_check {
        true => Oracle::None,
        false => Oracle::Output,
    }
}

fn at<T>(
    key: &str,
    text: Option<String>,
    read: impl FnOnce(&str) -> Result<T, Reason>,
) -> Result<Option<T>, Wrong> {
    let read = text.as_deref().map(read).transpose();
    read.map_err(|reason| reason.at(&["test", key]))
}

/// 0 is no limit.
fn limit(number: u64) -> Option<u64> {
    (number > 0).then_some(number)
}

/// 0 is no limit.
fn some_time(time: Duration) -> Option<Duration> {
    (!time.is_zero()).then_some(time)
}

/// A check without a limit could wait for ever for a target that hangs.
fn positive(text: &str) -> Result<Duration, Reason> {
    match arguments::duration(text) {
        Ok(Duration::ZERO) => Err(Reason::new("a check needs some time")),
        read => read.map_err(Reason::new),
    }
}

fn range(text: &str) -> Result<RangeInclusive<u64>, Reason> {
    match text.parse() {
        Ok(ArgumentKind::Number { min, max }) => Ok(min..=max),
        _ => Err(Reason::new("write a range, such as 1..1000")),
    }
}

impl TestSettings {
    /// Puts options of the command line on top.
    pub fn merge(&mut self, options: &arguments::Test) {
        if let Some(operations) = options.operations {
            self.operations = operations;
            // Asked for on the command line, they are generated.
            self.ops_file = None;
        }
        if let Some(seed) = options.seed {
            self.seed = seed;
        }
        if let Some(file) = &options.ops_file {
            self.ops_file = Some(file.clone());
        }
        self.threads = options.threads.unwrap_or(self.threads);
        self.strategy = options.strategy.or(self.strategy);
        self.bound = options.bound.or(self.bound);
        self.random_states = options.random_states.unwrap_or(self.random_states);
        self.per_kind = options.per_kind.unwrap_or(self.per_kind);
        let representative = &mut self.representative;
        representative.sets = options.sets.unwrap_or(representative.sets);
        representative.gap = options.gap.unwrap_or(representative.gap);
        representative.neighbours = options.neighbours.unwrap_or(representative.neighbours);
        representative.round = options.round.unwrap_or(representative.round);
        if let Some(check) = &options.check {
            self.check = Some(check.clone());
            self.oracle = by_default(true);
        }
        self.oracle = options.oracle.unwrap_or(self.oracle);
        if !options.ignore.is_empty() {
            self.ignored = Ignored(options.ignore.clone());
        }
        self.suffix = options.suffix.unwrap_or(self.suffix);
        self.probe &= !options.no_probe;
        self.recovery = options.recovery.unwrap_or(self.recovery);
        self.prune &= !options.no_prune;
        self.timeout = options.timeout.unwrap_or(self.timeout);
        self.memory = options.memory.map_or(self.memory, limit);
        self.states = options.states.map_or(self.states, limit);
        self.states_per_point = options
            .states_per_point
            .map_or(self.states_per_point, limit);
        self.time = options.time.map_or(self.time, some_time);
        if let Some(jobs) = options.jobs {
            self.jobs = NonZeroUsize::new(jobs);
        }
        if let Some(file) = &options.baseline {
            self.baseline = Some(file.clone());
        }
        self.confirm = options.confirm.or(self.confirm);
        self.remarks |= options.remarks;
        if options.write_baseline && self.baseline.is_none() {
            self.baseline = Some(BASELINE.into());
        }
    }

    /// What the generator needs to know.
    pub fn generator(&self, kinds: &[OperationKind]) -> search::Settings {
        search::Settings {
            kinds: kinds.to_vec(),
            count: self.operations,
            seed: self.seed,
            keys: self.keys.clone(),
            values: self.values.clone(),
            at_once: self.threads,
        }
    }

    /// How many checks run at once.
    pub fn workers(&self) -> usize {
        let cores = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        self.jobs.unwrap_or_else(cores).get()
    }
}
