//! The commands that crash: `test` and `replay`.

use std::path::PathBuf;

use clap::{ArgAction, Args};

use super::{Configuration, Format};
use crate::exit;
use crate::options::values::RunWord;
use crate::options::{TargetOptions, TestOptions};

/// Crash a program at every point that matters, and check whether the program recovers
///
/// Records the target while the target runs, computes what a power failure can leave of its files or
/// of its persistent memory at each crash point, runs recovery on that, and judges the result. Every
/// option has a key in crashpoint.toml.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
#[command(after_help = format!("\
Examples, files:
  crashpoint test --dir data --check './verify {{dir}} {{printed}}' -- ./workload data
  crashpoint test --dir data --fs xfs -- ./workload data
Examples, memory:
  crashpoint test                             as crashpoint.toml says
  crashpoint test stores/hash.toml --strategy bounded --bound 1
  crashpoint test --operations 20 --seed 7    fewer operations, other ones
  crashpoint test --check './check {{pool}} {{printed}}' --time 1h
  crashpoint test --operation 'store_apply' -- ./store {{pool}} {{ops}}
Examples, both:
  crashpoint test --resume                    continue a run that was stopped
  crashpoint test --write-baseline            accept what is found now, fail on what is new

In a command, {{dir}} is the folder with the program's files, {{pool}} the file that is persistent
memory, {{ops}} the file with the operations, one per line, and {{printed}} the file with what the
program had printed before the crash.

{}", exit::HELP))]
pub struct Test {
    #[command(flatten)]
    pub target: TargetOptions,
    #[command(flatten)]
    pub test: TestOptions,

    /// Write what is found into the baseline [default: crashpoint.baseline]
    #[arg(long, help_heading = "Judging")]
    pub write_baseline: bool,

    /// Read settings from this file [default: crashpoint.toml]
    #[arg(value_name = "CONFIG", conflicts_with_all = ["config", "no_config"])]
    pub file: Option<PathBuf>,
    /// The command that starts the target
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<RunWord>,
    /// The folder for the recording, findings, logs, and what replays the findings
    #[arg(long, short, value_name = "FOLDER", default_value = "crashpoint.out")]
    #[arg(help_heading = "Run and output")]
    pub out: PathBuf,
    /// Continue the run that was stopped in the folder
    #[arg(long, help_heading = "Run and output")]
    pub resume: bool,
    /// How findings are printed
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    #[arg(help_heading = "Run and output")]
    pub format: Format,
    /// Print what was enumerated, pruned, tried and skipped, and how long it took
    #[arg(long, help_heading = "Run and output")]
    pub stats: bool,
    #[command(flatten, next_help_heading = "Run and output")]
    pub configuration: Configuration,
    /// Print this help
    #[arg(long, short, action = ArgAction::HelpShort, help_heading = "Run and output")]
    help: Option<bool>,
    /// Print this help with every option and every detail
    #[arg(long, action = ArgAction::HelpLong, help_heading = "Run and output")]
    help_all: Option<bool>,
}

impl Test {
    /// Where settings come from: the file is named with or without `--config`.
    pub fn configuration(&self) -> Configuration {
        let mut configuration = self.configuration.clone();
        configuration.config = configuration.config.or_else(|| self.file.clone());
        configuration
    }
}

/// Rebuild the crash state of a finding, and run recovery on it
///
/// Runs recovery on the crash state again and shows what happens; or opens a debugger or a shell there
/// instead.
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
    /// Open a shell beside the crashed pool, or in the crashed folder
    #[arg(long)]
    pub shell: bool,
    /// Write the crashed pool or folder, and all that belongs to it, into this folder and keep it
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
    fn the_main_help_is_ordered_and_the_whole_help_has_the_inner_knobs() {
        let (main, all) = (
            parse("test --help").unwrap_err(),
            parse("test --help-all").unwrap_err(),
        );
        let headings = [
            "\nFiles:",
            "\nMemory:",
            "\nOperations:",
            "\nCrash states:",
            "\nJudging:",
            "\nLimits:",
            "\nRun and output:",
            "\nExamples, files:",
        ];
        let places: Vec<_> = headings.iter().map(|heading| main.find(heading)).collect();
        assert!(
            places.iter().all(Option::is_some) && places.is_sorted(),
            "{places:?} {main}"
        );
        assert_eq!(parse("test -h").unwrap_err(), main);
        for knob in ["--per-kind", "--sets", "--gap", "--neighbours", "--round"] {
            assert!(!main.contains(knob) && all.contains(knob), "{knob}");
        }
        let lines = main.lines().count();
        assert!(lines <= 130, "{lines} lines: hide what few need");
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
