//! The command line. Help texts teach by example. The options of a test or a recording are keys of
//! `crashpoint.toml` too, see [`crate::options`].

mod models;
mod test;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::exit;
use crate::options::RecordOptions;
use crate::show::filter::Filter;

pub use models::{Models, ModelsCommand, Verify};
pub use test::{Replay, Test};

const ABOUT: &str = "\
Finds crash-consistency bugs: what a program loses, tears or reorders when the power goes out.";

const MAIN_EXAMPLES: &str = "\
A program that keeps files, in any language, as it is:

  crashpoint test --dir data --check './verify {dir}' -- ./workload data
  crashpoint replay crashpoint.out/findings/1 --shell

A program that keeps persistent memory, built with crashpoint-cc or crashpoint-c++ (drop-ins for clang):

  crashpoint test                                   # with a crashpoint.toml beside the program
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
    #[arg(help_heading = "Global options")]
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

/// Record what a program does to files, or to persistent memory
///
/// The program runs as usual: its input, output, exit status and signals are its own. With --dir, any
/// program is watched by its system calls, and what it does to the files in that folder is recorded.
/// Without --dir, a program that was built with crashpoint-cc records its stores, flushes and fences.
/// --pm names the files whose mappings are persistent memory; mappings made with MAP_SYNC always are.
#[derive(Debug, Args)]
#[command(after_long_help = format!("\
Examples:
  crashpoint record --dir data -- ./workload data
  crashpoint record --pm '/dev/shm/pool*' -- ./store /dev/shm/pool ops.txt
  crashpoint record --pm '/mnt/pmem/**' --out run1 --timeout 5m -- make check
  crashpoint record --pm pool --calls 'tx_*' --loads -- ./store pool

{}", exit::HELP))]
pub struct Record {
    /// Record what the program does to the files in this folder
    #[arg(
        long,
        value_name = "FOLDER",
        conflicts_with_all = ["pm", "level", "loads", "calls", "limit"],
    )]
    pub dir: Option<PathBuf>,
    /// With --dir: do not record call stacks, which are most of the cost
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

/// A program that is recorded before its recording is looked at.
#[derive(Debug, Args)]
pub struct RecordFirst {
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

/// Report misuse of stores, flushes, fences and transactions on persistent memory
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
    pub first: RecordFirst,
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

/// Print the conditions that are inferred from a recording: what should persist before what
///
/// Takes a recording at level flow with loads, or records a program first. `test` with the strategy
/// `conditions` tries the crash states that violate them.
#[derive(Debug, Args)]
#[command(after_long_help = format!("\
Examples:
  crashpoint infer --pm '/dev/shm/pool*' -- ./store /dev/shm/pool ops.txt
  crashpoint infer crashpoint.out --limit 20

The rules: PO1, a value that is written depends on data that was read; the data persists first. PO2,
data that was read decides whether a value is written; the data persists first. PO3, data that was
read guards other data that is read; the other data persists first. PO4, the same for data that is
reached by a pointer. PA1, guards persist together.

{}", exit::HELP))]
pub struct Infer {
    /// The recording [default: crashpoint.out]
    #[arg(value_name = "FOLDER", conflicts_with = "command")]
    pub recording: Option<PathBuf>,
    /// At most this many lines
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    #[command(flatten)]
    pub first: RecordFirst,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    #[default]
    Terminal,
    Json,
    Sarif,
    Junit,
}

/// Print what was recorded, or the program model of a binary
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crashpoint show                             everything in crashpoint.out
  crashpoint show --range data/log --kind write --kind sync
  crashpoint show run1 --kind store --kind flush --range pool:0x1000..0x1040
  crashpoint show run1 --function put --stack --limit 20
  crashpoint show run1 --stats
  crashpoint show --ir ./store put            the model of one function

A recording of files (record --dir): each entry is order, thread, call, source line, then the effects
of the call. Kinds: create, name, write, store, resize, attribute, sync, close, output.
A recording of memory: each entry is order, thread, kind, place, value, source line. Kinds: store,
load, flush, fence, opaque, call, return, sync, map, unmap, msync.
A range is FILE or FILE:OFFSET..OFFSET, where FILE is the end of a path, or, in a recording of memory,
ADDRESS..ADDRESS as the program saw it.")]
pub struct Show {
    /// The recording; with --ir: the binary [default: crashpoint.out]
    #[arg(value_name = "FOLDER")]
    pub subject: Option<PathBuf>,
    /// With --ir: only functions of this name
    #[arg(value_name = "FUNCTION", requires = "ir")]
    pub function_name: Option<String>,
    /// Print the program model that crashpoint-cc put into a binary, object or archive
    #[arg(long, conflicts_with_all = ENTRIES)]
    #[arg(conflicts_with_all = ["stats", "limit", "stack"])]
    pub ir: bool,
    /// Draw the graph of a finding or of an update behaviour as SVG, by its folder, such as
    /// crashpoint.out/findings/1 or crashpoint.out/behaviours/1; of a recording, list the behaviours
    #[arg(long, conflicts_with_all = ENTRIES)]
    #[arg(conflicts_with_all = ["ir", "stats", "limit", "stack"])]
    pub graph: bool,
    /// Print counts of the whole recording only
    #[arg(long, conflicts_with_all = ENTRIES)]
    #[arg(conflicts_with_all = ["limit", "stack"])]
    pub stats: bool,
    #[command(flatten)]
    pub filter: Filter,
    /// At most this many entries
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// With call stacks
    #[arg(long)]
    pub stack: bool,
}

/// Options that choose single entries of a recording.
const ENTRIES: [&str; 4] = ["threads", "range", "functions", "kinds"];

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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
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
