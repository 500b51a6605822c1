//! The section `[test]`: which crashes are tried, and how it is judged what they left.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crashpoint_campaign::settings::{Oracle, Recovery, Representatives, Strategy, TestSettings};
use crashpoint_check::process::output::Ignored;
use crashpoint_search::workload::KeySettings;

use super::options;
use super::values::{
    CheckCommand, NumberRange, OneOf, RealFileSystem, Size, Threads, Time, Timeout, beside,
};

options! {
    /// How a target is tested.
    pub struct TestOptions {
        /// How many operations are generated [default: 200]
        #[arg(long, value_name = "N", help_heading = "Operations")]
        pub operations: Option<usize>,
        /// What the operations and random states are made from [default: 1]
        #[arg(long, value_name = "N", help_heading = "Operations")]
        pub seed: Option<u64>,
        /// Run the operations in this file, one per line, instead of generated ones
        #[arg(long, value_name = "FILE", help_heading = "Operations")]
        pub ops_file: Option<PathBuf>,
        /// How many generated operations run at once, 1 to 4; the target runs those of a line, with
        /// `||` between them, in threads of their own [default: 1]
        #[arg(long, value_name = "N", help_heading = "Operations")]
        pub threads: Option<Threads>,
        /// The range of generated keys
        #[arg(skip)]
        pub keys: Option<NumberRange>,
        /// The most keys that are ever generated
        #[arg(skip)]
        pub distinct_keys: Option<usize>,
        /// The range of generated values
        #[arg(skip)]
        pub values: Option<NumberRange>,

        /// Which crash states are tried [default: conditions, or exhaustive where there are few in all;
        /// with --dir: representative]
        #[arg(long, value_name = "STRATEGY", help_heading = "Crashes")]
        pub strategy: Option<OneOf<Strategy>>,
        /// With --strategy bounded: how many cache lines may differ [default: 2], or with --dir files,
        /// blocks and entries [default: 1]
        #[arg(long, value_name = "N", help_heading = "Crashes")]
        pub bound: Option<u32>,
        /// With --strategy random: how many states of each crash point [default: 20]
        #[arg(long, value_name = "N", help_heading = "Crashes")]
        pub random_states: Option<u64>,
        /// With --strategy conditions: how many violations of a kind are tried before they are only
        /// sampled; 0 for all [default: 8]
        #[arg(long, value_name = "N", help_heading = "Crashes", hide = true)]
        pub per_kind: Option<u64>,
        /// With --strategy representative: how many sets of a behaviour's parts are tried at a crash
        /// point, with the rest kept and with the rest lost [default: 64]
        #[arg(long, value_name = "N", help_heading = "Crashes", hide = true)]
        pub sets: Option<u64>,
        /// With --strategy representative and --dir: calls that are further apart belong to different
        /// behaviours (DBSCAN's epsilon) [default: 10]
        #[arg(long, value_name = "CALLS", help_heading = "Crashes", hide = true)]
        pub gap: Option<u32>,
        /// With --strategy representative and --dir: how many calls, each within --gap of another, hold
        /// a behaviour together (DBSCAN's minimum) [default: 1]
        #[arg(long, value_name = "N", help_heading = "Crashes", hide = true)]
        pub neighbours: Option<u32>,
        /// With --strategy representative and --dir: a behaviour that repeats itself begins anew after
        /// this many calls, if neither a sync nor an output separates its rounds [default: 64]
        #[arg(long, value_name = "CALLS", help_heading = "Crashes", hide = true)]
        pub round: Option<u32>,
        /// How often the power goes out: `once`, or once more during recovery (`crash`) [default: once]
        #[arg(long, value_name = "WHEN", help_heading = "Crashes")]
        pub recovery: Option<OneOf<Recovery>>,
        /// Also try states that differ only in bytes which recovery did not read
        #[arg(long = "no-prune", num_args = 0, default_missing_value = "false")]
        #[arg(help_heading = "Crashes")]
        pub prune: Option<bool>,

        /// How what was left is judged [default: output, with --check: none; with --dir and no --check,
        /// whether files that were saved are whole]
        #[arg(long, value_name = "ORACLE", help_heading = "Verdicts")]
        pub oracle: Option<OneOf<Oracle>>,
        /// A command that looks at the crashed pool; exit status 0 is consistent
        #[arg(long, value_name = "COMMAND", help_heading = "Verdicts")]
        pub check: Option<CheckCommand>,
        /// A line of output that does not count, such as 'recovered *'; may be repeated
        #[arg(long, value_name = "GLOB", help_heading = "Verdicts")]
        pub ignore: Vec<String>,
        /// How many of the remaining operations run after recovery [default: 50]
        #[arg(long, value_name = "N", help_heading = "Verdicts")]
        pub suffix: Option<usize>,
        /// Do not ask after recovery for every key that was used before the crash
        #[arg(long = "no-probe", num_args = 0, default_missing_value = "false")]
        #[arg(help_heading = "Verdicts")]
        pub probe: Option<bool>,
        /// Known findings: they are listed, but the exit code is that of the others
        #[arg(long, value_name = "FILE", help_heading = "Verdicts")]
        pub baseline: Option<PathBuf>,
        /// With --dir: run the workload on this real file system too, and look for each finding in
        /// crash images of its disk: ext4, xfs, btrfs; needs root
        #[arg(long, value_name = "FS", help_heading = "Verdicts")]
        pub confirm: Option<RealFileSystem>,
        /// Also report what could go without making any state fail: with --dir syncs, else what is kept
        /// in persistent memory and never persisted
        #[arg(long, num_args = 0, default_missing_value = "true", help_heading = "Verdicts")]
        pub remarks: Option<bool>,

        /// Time limit of one check [default: 5s]
        #[arg(long, value_name = "TIME", help_heading = "Limits")]
        pub timeout: Option<Timeout>,
        /// Memory limit of one check, 0 for no limit [default: 4G]
        #[arg(long, value_name = "SIZE", help_heading = "Limits")]
        pub memory: Option<Size>,
        /// The most states in all, 0 for no limit [default: 100000]
        #[arg(long, value_name = "N", help_heading = "Limits")]
        pub states: Option<u64>,
        /// The most states of one crash point, 0 for no limit [default: 4096]
        #[arg(long, value_name = "N", help_heading = "Limits")]
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
    /// Paths and commands are those of somebody in this folder.
    pub fn in_folder(mut self, folder: &Path) -> TestOptions {
        self.ops_file = beside(folder, self.ops_file);
        self.baseline = beside(folder, self.baseline);
        if let Some(check) = &mut self.check {
            check.0.start_in(folder);
        }
        self
    }

    /// Those of the command line on top of those of the file.
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
        let representative = base.representative;
        TestSettings {
            operations: self.operations.unwrap_or(base.operations),
            seed: self.seed.unwrap_or(base.seed),
            ops_file: self.ops_file,
            threads: self.threads.map_or(base.threads, |threads| threads.0),
            keys: KeySettings {
                range: self.keys.map_or(base.keys.range, |keys| keys.0),
                distinct: self.distinct_keys,
            },
            values: self.values.map_or(base.values, |values| values.0),
            strategy: self.strategy.map(|strategy| strategy.0),
            bound: self.bound,
            random_states: self.random_states.unwrap_or(base.random_states),
            per_kind: self.per_kind.unwrap_or(base.per_kind),
            representative: Representatives {
                sets: self.sets.unwrap_or(representative.sets),
                gap: self.gap.unwrap_or(representative.gap),
                neighbours: self.neighbours.unwrap_or(representative.neighbours),
                round: self.round.unwrap_or(representative.round),
            },
            oracle: self.oracle.map(|oracle| oracle.0),
            check: self.check.map(|check| check.0),
            ignored: Ignored(self.ignore),
            suffix: self.suffix.unwrap_or(base.suffix),
            probe: self.probe.unwrap_or(base.probe),
            recovery: self.recovery.map_or(base.recovery, |recovery| recovery.0),
            prune: self.prune.unwrap_or(base.prune),
            timeout: self.timeout.map_or(base.timeout, |timeout| timeout.0),
            memory: self.memory.map_or(base.memory, |size| limit(size.0)),
            states: self.states.map_or(base.states, limit),
            states_per_point: self.states_per_point.map_or(base.states_per_point, limit),
            time: self.time.map_or(base.time, |time| {
                (time.0 > Duration::ZERO).then_some(time.0)
            }),
            jobs: self.jobs.and_then(NonZeroUsize::new),
            confirm: self.confirm.map(|file_system| file_system.0),
            remarks: self.remarks.unwrap_or(base.remarks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Args as _;

    /// Help texts name defaults, which are those of the library.
    #[test]
    fn the_defaults_that_help_texts_name_are_true() {
        let settings = TestSettings::default();
        let representative = settings.representative;
        let command = TestOptions::augment_args(clap::Command::new("test"));
        let some = |limit: Option<u64>| limit.map_or(0, |limit| limit).to_string();
        for (field, default) in [
            ("operations", settings.operations.to_string()),
            ("seed", settings.seed.to_string()),
            ("threads", settings.threads.to_string()),
            ("random_states", settings.random_states.to_string()),
            ("per_kind", settings.per_kind.to_string()),
            ("sets", representative.sets.to_string()),
            ("gap", representative.gap.to_string()),
            ("neighbours", representative.neighbours.to_string()),
            ("round", representative.round.to_string()),
            ("suffix", settings.suffix.to_string()),
            ("timeout", format!("{}s", settings.timeout.as_secs())),
            ("memory", format!("{}G", settings.memory.unwrap_or(0) >> 30)),
            ("states", some(settings.states)),
            ("states_per_point", some(settings.states_per_point)),
            (
                "time",
                format!("{}m", settings.time.unwrap_or_default().as_secs() / 60),
            ),
        ] {
            let argument = command.get_arguments().find(|one| one.get_id() == field);
            let help = argument
                .and_then(clap::Arg::get_help)
                .map(ToString::to_string);
            let default = format!("[default: {default}]");
            let help = help.unwrap_or_default();
            assert!(help.contains(&default), "{field}: {help} {default}");
        }
    }
}
