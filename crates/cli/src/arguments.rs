//! The command line. Help texts teach by example; every option has a twin in `crashpoint.toml`.

mod models;
mod test;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use crashpoint_abi::Level;
use crashpoint_check::engine::outcome::MAX_OVERLAPPING;

use crate::exit;
use crate::filter::{Kind, Range};

pub use models::{Models, ModelsCommand, Verify, file_system};
pub use test::{Replay, Test};

const ABOUT: &str = "\
Finds crash-consistency bugs: what a program loses, tears or reorders when the power goes out.";

const MAIN_EXAMPLES: &str = "\
Build your program with crashpoint-cc or crashpoint-c++ (drop-ins for clang), then:

  crashpoint test                                   # with a crashpoint.toml beside it
  crashpoint replay crashpoint.out/findings/1

  crashpoint record --pm '/dev/shm/pool*' -- ./store /dev/shm/pool ops.txt
  crashpoint lint crashpoint.out
  crashpoint show crashpoint.out

`crashpoint demo` does all of it on a small example; `crashpoint doctor` checks your machine.";

#[derive(Debug, Parser)]
#[command(name = "crashpoint", version, about = ABOUT, max_term_width = 100)]
#[command(after_help = MAIN_EXAMPLES)]
#[command(after_long_help = format!("{MAIN_EXAMPLES}\n\n{}", exit::HELP))]
pub struct Cli {
    /// Colours in the output
    #[arg(long, value_name = "WHEN", value_enum, default_value_t, global = true)]
    pub color: Color,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Test(Box<Test>),
    Replay(Replay),
    Record(Record),
    Lint(Box<Lint>),
    Explain(Explain),
    Infer(Box<Infer>),
    Show(Box<Show>),
    Models(Models),
    Doctor(Doctor),
    Demo(Demo),
}

/// Run a program and write down what it does to persistent memory, or to files
///
/// The program runs as usual: its input, output, exit status and signals are its own. Files whose
/// mappings count as persistent memory are named by --pm; mappings made with MAP_SYNC always count.
/// With --dir it is watched from outside instead, by its system calls, and need not be built in any
/// special way: what it does to the files in that folder is recorded.
#[derive(Debug, Args)]
#[command(after_long_help = format!("\
Examples:
  crashpoint record --pm '/dev/shm/pool*' -- ./store /dev/shm/pool ops.txt
  crashpoint record --pm '/mnt/pmem/**' --out run1 --timeout 5m -- make check
  crashpoint record --pm pool --calls 'tx_*' --loads -- ./store pool
  crashpoint record --dir data -- ./workload data

{}", exit::HELP))]
pub struct Record {
    /// Record what the program does to the files in this folder
    #[arg(
        long,
        value_name = "FOLDER",
        conflicts_with_all = ["pm", "level", "loads", "calls", "limit"],
    )]
    pub dir: Option<PathBuf>,
    /// With --dir: no call stacks, which are most of the cost
    #[arg(long, requires = "dir")]
    pub no_stacks: bool,
    #[command(flatten)]
    pub options: RecordOptions,
    /// Where the recording goes; an older recording there is replaced
    #[arg(long, short, value_name = "FOLDER", default_value = "crashpoint.out")]
    pub out: PathBuf,
    /// End as the program ended, instead of 0
    #[arg(long)]
    pub exit_status: bool,
    #[command(flatten)]
    pub configuration: Configuration,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<std::ffi::OsString>,
}

/// How a program is recorded; the section `[record]` of crashpoint.toml.
#[derive(Clone, Debug, Default, Args)]
pub struct RecordOptions {
    /// Files whose mappings are persistent memory: a glob, may be repeated. `*` stays within a
    /// folder, `**` does not; relative ones start in the current folder
    #[arg(long, value_name = "GLOB")]
    pub pm: Vec<String>,
    /// How much to record: `off` nothing, `pm` stores, flushes, fences and call stacks, `flow` also
    /// branches and addresses, `value` also the values of loads [default: pm]
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    pub level: Option<Level>,
    /// Also record loads from persistent memory
    #[arg(long)]
    pub loads: bool,
    /// Also record calls of functions with these names, with their arguments: a glob, may be
    /// repeated. Functions of PMDK's transactions are always recorded
    #[arg(long, value_name = "GLOB")]
    pub calls: Vec<String>,
    /// Most bytes that each process may record, such as 500M or 4G
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub limit: Option<u64>,
    /// Kill the program after this time, such as 30s, 5m or 1h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub timeout: Option<Duration>,
}

/// Where settings come from.
#[derive(Clone, Debug, Default, Args)]
pub struct Configuration {
    /// Read settings from this file [default: crashpoint.toml here or beside the program]
    #[arg(long, value_name = "FILE", conflicts_with = "no_config")]
    pub config: Option<PathBuf>,
    /// Read no crashpoint.toml
    #[arg(long)]
    pub no_config: bool,
    /// Change one setting, such as rules.extra-flush.share=0.9; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// Report what is plainly wrong with how a program uses persistent memory
///
/// Takes a recording, or records a program first. Findings are printed and written into the folder
/// of the recording, as findings.json, findings.sarif and findings.junit.xml.
#[derive(Debug, Args)]
#[command(after_long_help = format!("\
Examples:
  crashpoint lint                             the recording in crashpoint.out
  crashpoint lint run1 --format sarif > run1.sarif
  crashpoint lint --pm '/dev/shm/pool*' -- ./store /dev/shm/pool ops.txt
  crashpoint lint --rule missing-flush --rule missing-fence
  crashpoint lint --allow extra-flush --custom rules/mine.rhai
  crashpoint lint --explain missing-flush

{}", exit::HELP))]
pub struct Lint {
    /// The recording [default: crashpoint.out]
    #[arg(value_name = "FOLDER", conflicts_with = "command")]
    pub recording: Option<PathBuf>,
    /// Only these rules; may be repeated
    #[arg(long = "rule", value_name = "RULE")]
    pub rules: Vec<String>,
    /// Not these rules; may be repeated
    #[arg(long, value_name = "RULE")]
    pub allow: Vec<String>,
    /// Also a rule of your own, as a Rhai script; may be repeated
    #[arg(long, value_name = "FILE.rhai")]
    pub custom: Vec<PathBuf>,
    /// How findings are printed
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub format: Format,
    /// Print the manual of a rule, of all rules (`all`), or of the memory model (`model`), and stop
    #[arg(long, value_name = "RULE")]
    pub explain: Option<String>,
    #[command(flatten)]
    pub configuration: Configuration,
    #[command(flatten, next_help_heading = "Recording first")]
    pub options: RecordOptions,
    /// With a command: where the recording goes
    #[arg(long, short, value_name = "FOLDER", default_value = "crashpoint.out")]
    pub out: PathBuf,
    /// A program to record, and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<std::ffi::OsString>,
}

/// Print the manual of a rule, or the list of all rules
///
/// A manual says what a finding means, what the rule can get wrong, and how to fix what it finds.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  crashpoint explain                          all rules, each with one line
  crashpoint explain ordering                 a rule of `crashpoint test`
  crashpoint explain missing-flush            a rule of `crashpoint lint`")]
pub struct Explain {
    /// The rule, as findings name it; also `all` for all rules, `model` for the memory model
    #[arg(value_name = "ID")]
    pub id: Option<String>,
}

/// Print the conditions that a program's behaviour hints at: what should persist before what
///
/// Takes a recording at level flow with loads, or records a program first. `test` with the strategy
/// `conditions` tries the crash states that violate them.
#[derive(Debug, Args)]
#[command(after_long_help = format!("\
Examples:
  crashpoint infer --pm '/dev/shm/pool*' -- ./store /dev/shm/pool ops.txt
  crashpoint infer crashpoint.out --limit 20

The rules: PO1, what is written depends on what was read, which persists first. PO2, what was read
decides whether something is written, and persists first. PO3, what was read guards something else
that is read, which persists first. PO4, the same for what is the way to something. PA1, guards persist
together.

{}", exit::HELP))]
pub struct Infer {
    /// The recording [default: crashpoint.out]
    #[arg(value_name = "FOLDER", conflicts_with = "command")]
    pub recording: Option<PathBuf>,
    /// At most this many lines
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    #[command(flatten)]
    pub configuration: Configuration,
    #[command(flatten, next_help_heading = "Recording first")]
    pub options: RecordOptions,
    /// With a command: where the recording goes
    #[arg(long, short, value_name = "FOLDER", default_value = "crashpoint.out")]
    pub out: PathBuf,
    /// A program to record, and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<std::ffi::OsString>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    #[default]
    Terminal,
    Json,
    Sarif,
    Junit,
}

/// Print the events of a recording, or the program model of a binary
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  crashpoint show                             all events of crashpoint.out
  crashpoint show run1 --kind store --kind flush --range pool:0x1000..0x1040
  crashpoint show run1 --function put --stack --limit 20
  crashpoint show run1 --stats
  crashpoint show --ir ./store put            the model of one function

Each line is: order, thread, kind, place, value, source line. A range is FILE:OFFSET..OFFSET, where
FILE is the end of a persistent file's path, or ADDRESS..ADDRESS as the program saw it. Of a recording
of files (record --dir) each line is: order, thread, call, source line; what the call did follows.")]
pub struct Show {
    /// The recording; with --ir: the binary [default: crashpoint.out]
    #[arg(value_name = "FOLDER")]
    pub subject: Option<PathBuf>,
    /// With --ir: only functions of this name
    #[arg(value_name = "FUNCTION", requires = "ir")]
    pub function_name: Option<String>,
    /// Print the program model that crashpoint-cc put into a binary, object or archive
    #[arg(long, conflicts_with_all = ["stats", "threads", "range", "functions", "kinds"])]
    pub ir: bool,
    /// Draw what a finding or a behaviour consists of, as SVG: its folder, such as
    /// crashpoint.out/findings/1 or crashpoint.out/behaviours/1; of a recording, list the behaviours
    #[arg(long, conflicts_with_all = ["ir", "stats", "threads", "range", "functions", "kinds"])]
    pub graph: bool,
    /// Only counts
    #[arg(long)]
    pub stats: bool,
    /// Only this thread, by its number in the recording; may be repeated
    #[arg(long = "thread", value_name = "N")]
    pub threads: Vec<u32>,
    /// Only events that touch this range
    #[arg(long, value_name = "RANGE", value_parser = Range::parse)]
    pub range: Option<Range>,
    /// Only events in this function, or called by it; may be repeated
    #[arg(long = "function", value_name = "NAME")]
    pub functions: Vec<String>,
    /// Only events of this kind; may be repeated
    #[arg(long = "kind", value_name = "KIND", value_enum)]
    pub kinds: Vec<Kind>,
    /// At most this many events
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// With call stacks
    #[arg(long)]
    pub stack: bool,
}

/// Check that this machine has what Crashpoint needs
#[derive(Debug, Args)]
pub struct Doctor {}

/// Build, record and lint an example with seeded bugs, then its repaired twin
#[derive(Debug, Args)]
pub struct Demo {
    /// Keep the files of the demo in this folder
    #[arg(long, value_name = "FOLDER")]
    pub keep: Option<PathBuf>,
}

/// A level by its name.
pub fn level(name: &str) -> Result<Level, String> {
    Level::from_name(name).ok_or_else(|| {
        let names = Level::NAMES.map(|(name, _)| name).join(", ");
        format!("the levels are {names}")
    })
}

/// `500M`, `4G`, or plain bytes; powers of 1024.
pub fn size(text: &str) -> Result<u64, String> {
    let bytes = || {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit: u64 = match text[digits.len()..]
            .to_ascii_uppercase()
            .trim_end_matches("IB")
        {
            "" | "B" => 1,
            "K" | "KB" => 1 << 10,
            "M" | "MB" => 1 << 20,
            "G" | "GB" => 1 << 30,
            "T" | "TB" => 1 << 40,
            _ => return None,
        };
        digits.parse::<u64>().ok()?.checked_mul(unit)
    };
    bytes().ok_or_else(|| "write a number of bytes, such as 500M or 4G".to_owned())
}

/// Operations that can be judged when they run at once.
pub fn threads(count: usize) -> Result<usize, String> {
    match (1..=MAX_OVERLAPPING).contains(&count) {
        true => Ok(count),
        false => Err(format!("write a number from 1 to {MAX_OVERLAPPING}")),
    }
}

/// `30s`, `5m`, `1h`, `200ms`, or plain seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let parsed = || {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let number: u64 = digits.parse().ok()?;
        let seconds = match &text[digits.len()..] {
            "ms" => return Some(Duration::from_millis(number)),
            "" | "s" => 1,
            "m" | "min" => 60,
            "h" => 3600,
            _ => return None,
        };
        Some(Duration::from_secs(number.checked_mul(seconds)?))
    };
    parsed().ok_or_else(|| "write a time, such as 30s, 5m or 1h".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes_and_times_have_units() {
        for (text, bytes) in [("7", 7), ("2K", 2048), ("3MiB", 3 << 20), ("1gb", 1 << 30)] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for (text, millis) in [
            ("90", 90_000),
            ("5m", 300_000),
            ("200ms", 200),
            ("1h", 3_600_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "M", "1x", "-1", "99999999999G"] {
            assert!(size(text).is_err(), "{text}");
        }
        for text in ["", "s", "1d", "-1s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_command_stands_behind_two_dashes() {
        let parse = |line: &str| Cli::try_parse_from(line.split_whitespace());
        assert!(parse("crashpoint record --pm x -- ./a -o b --pm").is_ok());
        assert!(parse("crashpoint record --pm x").is_err());
        assert!(parse("crashpoint lint run1 -- ./a").is_err());
        assert!(parse("crashpoint show --ir ./a main").is_ok());
        assert!(parse("crashpoint show run1 main").is_err());
        assert!(parse("crashpoint record --dir d -- ./a").is_ok());
        assert!(parse("crashpoint record --dir d --pm x -- ./a").is_err());
    }
}
