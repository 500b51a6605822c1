//! The commands that crash: `test` and `replay`.

use std::path::PathBuf;

use clap::Args;

use super::{Configuration, Format};
use crate::exit;
use crate::options::values::RunWord;
use crate::options::{TargetOptions, TestOptions};

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

    /// Write what is found into the baseline [default: crashpoint.baseline]
    #[arg(long, help_heading = "Verdicts")]
    pub write_baseline: bool,
    /// Print this help with the inner knobs of the strategies, and stop
    #[arg(long)]
    pub help_all: bool,

    #[command(flatten)]
    pub target: TargetOptions,
    #[command(flatten)]
    pub test: TestOptions,

    /// How the target is started, with {pool} and {ops} in it
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<RunWord>,
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
