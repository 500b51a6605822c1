//! The section `[test]`: which crashes are tried, and how it is judged what they left.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crashpoint_campaign::settings::{
    AfterCrash, BudgetSettings, CheckLimits, JudgingSettings, Oracle, Recovery, Representatives,
    Strategy, StrategySettings, TestSettings, WorkloadSettings,
};
use crashpoint_check::process::output::Ignored;
use crashpoint_search::workload::{KeySettings, Settings as Generated};

use super::options;
use super::values::{
    CheckCommand, NumberRange, OneOf, RealFileSystem, Size, Threads, Time, Timeout, beside,
};

options! {
    /// How a target is tested.
    pub struct TestOptions {
        /// Also run the workload on this real file system, and look for each finding in crash images of
        /// its disk: ext4, xfs, btrfs; needs root
        ///
        /// Needs FUSE and loop devices too. The report says of each finding whether an image shows it.
        #[arg(long, value_name = "FS", help_heading = "Files")]
        pub confirm: Option<RealFileSystem>,
        /// How often the power goes out: once, or once more during recovery (crash) [default: once]
        #[arg(long, value_name = "WHEN", help_heading = "Memory", hide_possible_values = true)]
        pub recovery: Option<OneOf<Recovery>>,

        /// How many operations are generated [default: 200]
        #[arg(long, value_name = "N", help_heading = "Operations")]
        pub operations: Option<usize>,
        /// What operations and random states are generated from [default: 1]
        ///
        /// The same seed gives the same list in every version.
        #[arg(long, value_name = "N", help_heading = "Operations")]
        pub seed: Option<u64>,
        /// Run the operations in this file, one per line, instead of generated ones
        ///
        /// Blank lines and lines that begin with `#` are skipped.
        #[arg(long, value_name = "FILE", help_heading = "Operations")]
        pub ops_file: Option<PathBuf>,
        /// How many generated operations run at once, 1 to 4 [default: 1]
        ///
        /// The operations of a line, with `||` between them, run in threads of their own.
        #[arg(long, value_name = "N", help_heading = "Operations")]
        pub threads: Option<Threads>,
        /// The range of generated keys [default: 1..2147483648]
        #[arg(skip)]
        pub keys: Option<NumberRange>,
        /// The most keys that are ever generated; then the keys come again
        #[arg(skip)]
        pub distinct_keys: Option<usize>,
        /// The range of generated values [default: 1..999999]
        #[arg(skip)]
        pub values: Option<NumberRange>,

        /// Which crash states are tried: conditions, representative, auto, exhaustive, bounded, random
        /// [default: conditions; exhaustive where there are at most 2,000 states; with --dir:
        /// representative]
        ///
        /// `conditions`: states that violate what was inferred. `representative`: states inside update
        /// behaviours that represent the others. `auto`: conditions, then representative. `exhaustive`:
        /// every distinct state. `bounded`: at most --bound chains differ from what was stored so far.
        /// `random`: --random-states of each crash point.
        #[arg(long, value_name = "STRATEGY", help_heading = "Crash states")]
        #[arg(hide_possible_values = true)]
        pub strategy: Option<OneOf<Strategy>>,
        /// With --strategy bounded: how many cache lines (files: blocks, entries) may differ from what
        /// was stored so far [default: 2; with --dir: 1]
        #[arg(long, value_name = "N", help_heading = "Crash states")]
        pub bound: Option<u32>,
        /// With --strategy random: how many states of each crash point [default: 20]
        #[arg(long, value_name = "N", help_heading = "Crash states")]
        pub random_states: Option<u64>,
        /// With --strategy conditions: how many violations of a kind are tried before violations of the
        /// kind are only sampled; 0 for all [default: 8]
        ///
        /// Violations are of one kind if they have the same two places in the program, reached by the same
        /// calls, in the same operation.
        #[arg(long, value_name = "N", help_heading = "Crash states", hide_short_help = true)]
        pub per_kind: Option<u64>,
        /// With --strategy representative: how many sets of a behaviour's parts are tried at a crash
        /// point, with the rest kept and with the rest lost [default: 64]
        #[arg(long, value_name = "N", help_heading = "Crash states", hide_short_help = true)]
        pub sets: Option<u64>,
        /// With --strategy representative and --dir: calls that are further apart belong to different
        /// behaviours [default: 10]
        ///
        /// The epsilon of DBSCAN, in recorded calls.
        #[arg(long, value_name = "CALLS", help_heading = "Crash states", hide_short_help = true)]
        pub gap: Option<u32>,
        /// With --strategy representative and --dir: how many calls, each within --gap of another, hold
        /// a behaviour together [default: 1]
        ///
        /// The minimum of DBSCAN, the call itself counted.
        #[arg(long, value_name = "N", help_heading = "Crash states", hide_short_help = true)]
        pub neighbours: Option<u32>,
        /// With --strategy representative and --dir: a behaviour that repeats itself begins anew after
        /// this many calls, if neither a sync nor an output separates its rounds [default: 64]
        #[arg(long, value_name = "CALLS", help_heading = "Crash states", hide_short_help = true)]
        pub round: Option<u32>,
        /// Also try states that differ only in bytes which the check of another state did not read
        #[arg(long = "no-prune", num_args = 0, default_missing_value = "false")]
        #[arg(help_heading = "Crash states")]
        pub prune: Option<bool>,

        /// A command that inspects the crashed pool or folder; exit status 0 is consistent
        ///
        /// `{pool}` is the crashed pool, `{dir}` the crashed folder, and `{printed}` a file with what the
        /// program had printed before the crash.
        #[arg(long, value_name = "COMMAND", help_heading = "Judging")]
        pub check: Option<CheckCommand>,
        /// How a crash state is judged: output, acknowledged, none [default: output; with --check: none;
        /// with --dir and no --check: saved files are whole]
        ///
        /// `output`: what is printed after recovery is what is printed if the interrupted operation
        /// happened, or if it did not. `acknowledged`: the checker prints the lines that the program had
        /// printed, and perhaps the lines that come next. `none`: only visible failures count, and the
        /// checker if there is one.
        #[arg(long, value_name = "ORACLE", help_heading = "Judging", hide_possible_values = true)]
        pub oracle: Option<OneOf<Oracle>>,
        /// A line of output that does not count, such as 'recovered *': a glob, may be repeated
        ///
        /// `*` stands for anything, `?` for one byte. Such lines are removed before outputs are compared
        /// and before `{printed}` is written.
        #[arg(long, value_name = "GLOB", help_heading = "Judging")]
        pub ignore: Vec<String>,
        /// How many of the remaining operations run after recovery [default: 50]
        #[arg(long, value_name = "N", help_heading = "Judging")]
        pub suffix: Option<usize>,
        /// Do not ask after recovery for the keys that were used before the crash
        ///
        /// The read-only operations of `[ops]` ask for the keys.
        #[arg(long = "no-probe", num_args = 0, default_missing_value = "false")]
        #[arg(help_heading = "Judging")]
        pub probe: Option<bool>,
        /// A file of known findings, which are listed and do not change the exit code
        #[arg(long, value_name = "FILE", help_heading = "Judging")]
        pub baseline: Option<PathBuf>,
        /// Also report work without effect: with --dir redundant syncs, else data in persistent memory
        /// that is never persisted
        ///
        /// Such remarks are notes, which do not change the exit code.
        #[arg(long, num_args = 0, default_missing_value = "true", help_heading = "Judging")]
        pub remarks: Option<bool>,
        /// Exit with 0 where nothing was found in a test that is incomplete, instead of 3
        ///
        /// A test is incomplete if the budget ended it, if the recording has gaps, or if states could
        /// not be judged or explained; the last line of the report says what was not looked at.
        #[arg(long, num_args = 0, default_missing_value = "true", help_heading = "Judging")]
        pub accept_incomplete: Option<bool>,

        /// Time limit of one check [default: 5s]
        ///
        /// The limit is of processor time, and of sleeping. Where runs without a crash are short, the
        /// limit is shorter: see "Hangs" in docs/soundness.md.
        #[arg(long, value_name = "TIME", help_heading = "Limits")]
        pub timeout: Option<Timeout>,
        /// Memory limit of one check, 0 for no limit [default: 4G]
        #[arg(long, value_name = "SIZE", help_heading = "Limits")]
        pub memory: Option<Size>,
        /// The most states in all, 0 for no limit [default: 100000]
        #[arg(long, value_name = "N", help_heading = "Limits")]
        pub states: Option<u64>,
        /// The most states of one crash point, 0 for no limit [default: 4096]
        #[arg(long, value_name = "N", help_heading = "Limits", hide_short_help = true)]
        pub states_per_point: Option<u64>,
        /// Time limit of the exploration, 0 for no limit [default: 10m]
        #[arg(long, value_name = "TIME", help_heading = "Limits")]
        pub time: Option<Time>,
        /// How many checks run at once, 0 for as many as there are cores [default: 0]
        #[arg(long, short, value_name = "N", help_heading = "Limits")]
        pub jobs: Option<usize>,
    }
}

/// 0 is no limit.
fn limit(number: u64) -> Option<u64> {
    (number > 0).then_some(number)
}

impl TestOptions {
    /// Makes paths and commands start in this folder.
    pub fn in_folder(mut self, folder: &Path) -> TestOptions {
        self.ops_file = beside(folder, self.ops_file);
        self.baseline = beside(folder, self.baseline);
        if let Some(check) = &mut self.check {
            check.0.start_in(folder);
        }
        self
    }

    /// The options of the command line on top of the keys of the file.
    pub fn on_top_of(self, mut file: TestOptions) -> TestOptions {
        // Asked for on the command line, operations are generated.
        if self.operations.is_some() {
            file.ops_file = None;
        }
        // The oracle of the file was chosen for another checker.
        if self.check.is_some() {
            file.oracle = None;
        }
        self.or(file)
    }

    pub fn resolve(self) -> TestSettings {
        let base = TestSettings::default();
        let (generated, strategies) = (base.workload.generated, base.strategies);
        let (after_crash, limits, budget) = (base.after_crash, base.limits, base.budget);
        let representative = strategies.representative;
        TestSettings {
            workload: WorkloadSettings {
                ops_file: self.ops_file,
                generated: Generated {
                    count: self.operations.unwrap_or(generated.count),
                    seed: self.seed.unwrap_or(generated.seed),
                    keys: KeySettings {
                        range: self.keys.map_or(generated.keys.range, |keys| keys.0),
                        distinct: self.distinct_keys,
                    },
                    values: self.values.map_or(generated.values, |values| values.0),
                    at_once: self.threads.map_or(generated.at_once, |threads| threads.0),
                    kinds: Vec::new(),
                },
            },
            strategies: StrategySettings {
                strategy: self.strategy.map(|strategy| strategy.0),
                bound: self.bound,
                random_states: self.random_states.unwrap_or(strategies.random_states),
                per_kind: self.per_kind.unwrap_or(strategies.per_kind),
                representative: Representatives {
                    sets: self.sets.unwrap_or(representative.sets),
                    gap: self.gap.unwrap_or(representative.gap),
                    neighbours: self.neighbours.unwrap_or(representative.neighbours),
                    round: self.round.unwrap_or(representative.round),
                },
            },
            after_crash: AfterCrash {
                suffix: self.suffix.unwrap_or(after_crash.suffix),
                probe: self.probe.unwrap_or(after_crash.probe),
                recovery: self
                    .recovery
                    .map_or(after_crash.recovery, |recovery| recovery.0),
            },
            judging: JudgingSettings {
                oracle: self.oracle.map(|oracle| oracle.0),
                check: self.check.map(|check| check.0),
                ignored: Ignored(self.ignore),
                prune: self.prune.unwrap_or(base.judging.prune),
            },
            limits: CheckLimits {
                timeout: self.timeout.map_or(limits.timeout, |timeout| timeout.0),
                memory: self.memory.map_or(limits.memory, |size| limit(size.0)),
            },
            budget: BudgetSettings {
                states: self.states.map_or(budget.states, limit),
                states_per_point: self.states_per_point.map_or(budget.states_per_point, limit),
                time: self.time.map_or(budget.time, |time| {
                    (time.0 > Duration::ZERO).then_some(time.0)
                }),
            },
            jobs: self.jobs.and_then(NonZeroUsize::new),
            confirm: self.confirm.map(|file_system| file_system.0),
            remarks: self.remarks.unwrap_or(base.remarks),
            accept_incomplete: self.accept_incomplete.unwrap_or(base.accept_incomplete),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::RangeInclusive;

    /// Help texts name defaults, which are those of the library.
    #[test]
    fn the_defaults_that_help_texts_name_are_true() {
        let settings = TestSettings::default();
        let (generated, strategies) = (settings.workload.generated, settings.strategies);
        let (limits, budget) = (settings.limits, settings.budget);
        let representative = strategies.representative;
        let range = |range: &RangeInclusive<u64>| format!("{}..{}", range.start(), range.end());
        let some = |limit: Option<u64>| limit.map_or(0, |limit| limit).to_string();
        for (field, default) in [
            ("operations", generated.count.to_string()),
            ("seed", generated.seed.to_string()),
            ("threads", generated.at_once.to_string()),
            ("keys", range(&generated.keys.range)),
            ("values", range(&generated.values)),
            ("random_states", strategies.random_states.to_string()),
            ("per_kind", strategies.per_kind.to_string()),
            ("sets", representative.sets.to_string()),
            ("gap", representative.gap.to_string()),
            ("neighbours", representative.neighbours.to_string()),
            ("round", representative.round.to_string()),
            ("suffix", settings.after_crash.suffix.to_string()),
            ("timeout", format!("{}s", limits.timeout.as_secs())),
            ("memory", format!("{}G", limits.memory.unwrap_or(0) >> 30)),
            ("states", some(budget.states)),
            ("states_per_point", some(budget.states_per_point)),
            (
                "time",
                format!("{}m", budget.time.unwrap_or_default().as_secs() / 60),
            ),
        ] {
            let fields = TestOptions::FIELDS.iter().zip(TestOptions::DOCUMENTATION);
            let mut documented = fields.filter(|(name, _)| **name == field);
            let (_, lines) = documented.next().expect("a field");
            let help = lines.concat();
            let default = format!("[default: {default}]");
            assert!(help.contains(&default), "{field}: {help} {default}");
        }
    }
}
