//! The commands that crash: `test` and `replay`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use crashpoint_blockdev::FileSystem;

use super::{Configuration, Format, duration, file_system, size, threads};
use crate::config::template::{CHECK, PM, RUN, Template, Word};
use crate::config::{Model, Oracle, Recovery, Strategy};
use crate::exit;

/// Crash a program at every moment that matters, and see whether it recovers
///
/// Records the target while it runs a list of operations, works out what a power failure could
/// leave of its persistent memory at each point, runs its recovery on that, and judges what it then
/// does. What to build, how to start it and which operations it knows stands in crashpoint.toml;
/// every option here has a key there.
#[derive(Debug, Args)]
#[command(after_long_help = format!("\
Examples:
  crashpoint test                             as crashpoint.toml says
  crashpoint test stores/hash.toml --strategy bounded --bound 1
  crashpoint test --operations 20 --seed 7    fewer operations, other ones
  crashpoint test --ops-file crashpoint.out/ops --no-probe
  crashpoint test --check './check {{pool}} {{printed}}' --time 1h
  crashpoint test --operation 'store_apply' -- ./store {{pool}} {{ops}}
  crashpoint test --dir data --check './verify {{dir}} {{printed}}' -- ./workload data
  crashpoint test --dir data --fs xfs -- ./workload data
  crashpoint test --dir data --confirm ext4 -- ./workload data
  crashpoint test --resume                    go on where a run was stopped
  crashpoint test --write-baseline            accept what is found now, fail on what is new

In a command, {{pool}} is the file that is persistent memory, {{ops}} the file with the operations,
one per line, {{printed}} the file with what the program had printed before the crash, and {{dir}}
the folder with its files. A workload without {{dir}} runs in the folder itself, which is put back as
it was afterwards.

{}", exit::HELP))]
pub struct Test {
    /// Read settings from this file [default: crashpoint.toml]
    #[arg(value_name = "CONFIG", conflicts_with_all = ["config", "no_config"])]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub configuration: Configuration,
    /// Where everything goes: the recording, findings, logs, what replays them
    #[arg(long, short, value_name = "FOLDER", default_value = "crashpoint.out")]
    pub out: PathBuf,
    /// Go on with the run that was stopped in the folder
    #[arg(long)]
    pub resume: bool,
    /// How findings are printed
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub format: Format,
    /// Print what was enumerated, pruned, tried and skipped, and how long it took
    #[arg(long)]
    pub stats: bool,

    /// Globs of the files that are persistent memory, may be repeated [default: {pool}]
    #[arg(long, value_name = "GLOB", value_parser = pm, help_heading = "Target")]
    pub pm: Vec<Word>,
    /// Functions of which each call is one operation: a glob, may be repeated [default:
    /// crashpoint_apply]
    #[arg(long, value_name = "GLOB", help_heading = "Target")]
    pub operation: Vec<String>,
    /// What a crash can lose [default: x86]
    #[arg(long, value_name = "MODEL", value_enum, help_heading = "Target")]
    pub model: Option<Model>,
    /// Test what the program does to the files in this folder, by system calls; any program, as it is
    #[arg(long, value_name = "FOLDER", help_heading = "Target")]
    pub dir: Option<PathBuf>,
    /// With --dir, the file system: posix, ext4-ordered, ext4-writeback, ext4-journal, xfs, btrfs, or
    /// a file that describes one [default: ext4-ordered]
    #[arg(long, value_name = "MODEL", help_heading = "Target")]
    pub fs: Option<String>,

    /// How many operations are generated [default: 200]
    #[arg(long, value_name = "N", help_heading = "Operations")]
    pub operations: Option<usize>,
    /// What the operations and random states are made from [default: 1]
    #[arg(long, value_name = "N", help_heading = "Operations")]
    pub seed: Option<u64>,
    /// Run the operations in this file, one per line, instead of generated ones
    #[arg(long, value_name = "FILE", help_heading = "Operations")]
    pub ops_file: Option<PathBuf>,
    /// How many generated operations run at once, 1 to 4; the target runs those of a line, with `||`
    /// between them, in threads of their own [default: 1]
    #[arg(long, value_name = "N", value_parser = some_threads, help_heading = "Operations")]
    pub threads: Option<usize>,

    /// Which crash states are tried [default: conditions, or exhaustive where there are few in all;
    /// with --dir: representative]
    #[arg(long, value_name = "STRATEGY", value_enum, help_heading = "Crashes")]
    pub strategy: Option<Strategy>,
    /// With --strategy bounded: how many cache lines may differ [default: 2], or with --dir files,
    /// blocks and entries [default: 1]
    #[arg(long, value_name = "N", help_heading = "Crashes")]
    pub bound: Option<u32>,
    /// With --strategy random: how many states of each crash point [default: 20]
    #[arg(long, value_name = "N", help_heading = "Crashes")]
    pub random_states: Option<u64>,
    /// With --strategy conditions: how many violations of a kind are tried before they are tried
    /// but seldom; 0 for all [default: 8]
    #[arg(long, value_name = "N", help_heading = "Crashes")]
    pub per_kind: Option<u64>,
    /// With --strategy representative: how many sets of a behaviour's parts are tried at a crash
    /// point, with the rest kept and with the rest lost [default: 64]
    #[arg(long, value_name = "N", help_heading = "Crashes")]
    pub sets: Option<u64>,
    /// With --strategy representative and --dir: calls that are further apart belong to different
    /// behaviours (DBSCAN's epsilon) [default: 10]
    #[arg(long, value_name = "CALLS", help_heading = "Crashes")]
    pub gap: Option<u32>,
    /// With --strategy representative and --dir: how many calls, each within --gap of another, hold
    /// a behaviour together (DBSCAN's minimum) [default: 1]
    #[arg(long, value_name = "N", help_heading = "Crashes")]
    pub neighbours: Option<u32>,
    /// With --strategy representative and --dir: a behaviour that repeats itself begins anew after
    /// this many calls, if neither a sync nor an output tells its rounds apart [default: 64]
    #[arg(long, value_name = "CALLS", help_heading = "Crashes")]
    pub round: Option<u32>,
    /// How often the power goes out: `once`, or once more during recovery (`crash`) [default: once]
    #[arg(long, value_name = "WHEN", value_enum, help_heading = "Crashes")]
    pub recovery: Option<Recovery>,
    /// Also try states that differ only in bytes which recovery did not read
    #[arg(long, help_heading = "Crashes")]
    pub no_prune: bool,

    /// How what was left is judged [default: output, with --check: none; with --dir and no --check,
    /// whether files that were saved are whole]
    #[arg(long, value_name = "ORACLE", value_enum, help_heading = "Verdicts")]
    pub oracle: Option<Oracle>,
    /// A command that looks at the crashed pool; exit status 0 is consistent
    #[arg(long, value_name = "COMMAND", value_parser = check, help_heading = "Verdicts")]
    pub check: Option<Template>,
    /// A line of output that does not count, such as 'recovered *'; may be repeated
    #[arg(long, value_name = "GLOB", help_heading = "Verdicts")]
    pub ignore: Vec<String>,
    /// How many of the remaining operations run after recovery [default: 50]
    #[arg(long, value_name = "N", help_heading = "Verdicts")]
    pub suffix: Option<usize>,
    /// Do not ask after recovery for every key that was used before the crash
    #[arg(long, help_heading = "Verdicts")]
    pub no_probe: bool,
    /// Known findings: they are listed, but the exit code is that of the others
    #[arg(long, value_name = "FILE", help_heading = "Verdicts")]
    pub baseline: Option<PathBuf>,
    /// Write what is found into the baseline [default: crashpoint.baseline]
    #[arg(long, help_heading = "Verdicts")]
    pub write_baseline: bool,
    /// With --dir: run the workload on this real file system too, and look for each finding in crash
    /// images of its disk: ext4, xfs, btrfs; needs root
    #[arg(long, value_name = "FS", value_parser = file_system, help_heading = "Verdicts")]
    pub confirm: Option<FileSystem>,
    /// Also tell what could go without making any state fail: with --dir syncs, else what is kept in
    /// persistent memory and never persisted
    #[arg(long, help_heading = "Verdicts")]
    pub remarks: bool,

    /// Most time of one check [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = some_time, help_heading = "Limits")]
    pub timeout: Option<Duration>,
    /// Most memory of one check, 0 for no limit [default: 4G]
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Limits")]
    pub memory: Option<u64>,
    /// Most states in all, 0 for no limit [default: 100000]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub states: Option<u64>,
    /// Most states of one crash point, 0 for no limit [default: 4096]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub states_per_point: Option<u64>,
    /// Most time in all, 0 for no limit [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Limits")]
    pub time: Option<Duration>,
    /// How many checks run at once, 0 for as many as there are cores [default: 0]
    #[arg(long, short, value_name = "N", help_heading = "Limits")]
    pub jobs: Option<usize>,

    /// How the target is started, with {pool} and {ops} in it
    #[arg(last = true, value_name = "COMMAND", value_parser = run)]
    pub command: Vec<Word>,
}

impl Test {
    /// Where settings come from, whichever way it was said.
    pub fn configuration(&self) -> Configuration {
        let mut configuration = self.configuration.clone();
        configuration.config = configuration.config.or_else(|| self.file.clone());
        configuration
    }
}

/// Rebuild the crash of a finding, and look at it
///
/// Runs recovery on the crashed state again and shows what it does; or opens a debugger or a shell
/// there instead.
#[derive(Debug, Args)]
#[command(after_long_help = format!("\
Examples:
  crashpoint replay crashpoint.out/findings/1
  crashpoint replay crashpoint.out/findings/1 --gdb
  crashpoint replay crashpoint.out/findings/1 --keep crashed

{}", exit::HELP))]
pub struct Replay {
    /// The folder of the finding
    #[arg(value_name = "FINDING")]
    pub finding: PathBuf,
    /// Start the recovery in a debugger
    #[arg(long, conflicts_with = "shell")]
    pub gdb: bool,
    /// Open a shell beside the crashed pool
    #[arg(long)]
    pub shell: bool,
    /// Put the crashed pool and all that belongs to it into this folder, and leave it there
    #[arg(long, value_name = "FOLDER")]
    pub keep: Option<PathBuf>,
}

fn run(word: &str) -> Result<Word, String> {
    Word::parse(word, RUN).map_err(|reason| reason.to_string())
}

fn pm(glob: &str) -> Result<Word, String> {
    Word::parse(glob, PM).map_err(|reason| reason.to_string())
}

fn check(line: &str) -> Result<Template, String> {
    let current = PathBuf::new();
    Template::parse(line, CHECK, &current).map_err(|reason| reason.to_string())
}

fn some_threads(text: &str) -> Result<usize, String> {
    let count = text.parse().unwrap_or(0);
    threads(count)
}

fn some_time(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("a check needs some time".to_owned()),
        time => Ok(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory as _, Parser};

    #[derive(Debug, Parser)]
    enum Line {
        Test(Box<Test>),
        Replay(Replay),
    }

    fn parse(line: &str) -> Result<Line, String> {
        let words = std::iter::once("crashpoint").chain(line.split_whitespace());
        Line::try_parse_from(words).map_err(|error| error.to_string())
    }

    #[test]
    fn the_definition_is_consistent() {
        Line::command().debug_assert();
    }

    #[test]
    fn placeholders_are_checked_where_they_are_written() {
        for (line, said) in [
            ("test -- ./store {pol}", "did you mean `{pool}`?"),
            ("test --pm {ops}", "placeholder `{ops}`"),
            ("test --check ./c{ops}", "the placeholders here are"),
            ("test --timeout 0", "a check needs some time"),
            ("test a.toml --no-config", "cannot be used with"),
            (
                "test --strategy all",
                "[possible values: conditions, auto, exhaustive,",
            ),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(said), "{line}: {error}");
        }
    }

    #[test]
    fn a_test_takes_its_file_in_two_ways() {
        for line in ["test a.toml --stats", "test --config a.toml --resume"] {
            let Ok(Line::Test(test)) = parse(line) else {
                panic!("{line}");
            };
            assert_eq!(test.configuration().config, Some("a.toml".into()));
            assert_eq!(test.out, PathBuf::from("crashpoint.out"));
            assert_eq!(test.format, Format::Terminal);
            assert!(test.stats != test.resume);
        }
    }

    #[test]
    fn a_finding_is_opened_in_a_debugger_or_a_shell() {
        assert!(parse("replay").is_err());
        assert!(parse("replay f/1 --gdb --shell").is_err());
        let Ok(Line::Replay(replay)) = parse("replay f/1 --shell --keep x") else {
            panic!("a replay");
        };
        assert_eq!(replay.finding, PathBuf::from("f/1"));
        assert!(replay.shell && !replay.gdb);
        assert_eq!(replay.keep, Some("x".into()));
    }
}
