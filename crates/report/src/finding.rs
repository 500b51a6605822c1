//! What a finding is once it is resolved: source lines instead of site numbers, stacks instead of
//! context numbers, file names instead of indices. Every renderer consumes these.

use std::fmt;
use std::path::PathBuf;

use crashpoint_rules::Severity;

use crate::category::Category;
use crate::verdict::LeftOut;

/// All that one analysis of one recording has to tell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The folder of the recording.
    pub recording: PathBuf,
    /// The command line that was recorded, as far as it is known.
    pub command: Vec<String>,
    pub figures: Figures,
    /// The rules that were asked, by id.
    pub rules: Vec<Rule>,
    /// Findings, errors first, then by place in the source.
    pub findings: Vec<Finding>,
    /// What limits the trust in the result: damage, limits, writes by code that was not recorded.
    pub problems: Vec<String>,
    /// What was to be looked at and was not: then a report without findings is not a clean one.
    pub left_out: Vec<LeftOut>,
    /// What a test of crashes did; none for rules.
    pub test: Option<TestFigures>,
}

/// What a test did, in numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TestFigures {
    pub model: String,
    /// The command that prints the model; empty for those of memory, which have a manual.
    pub model_shown_by: String,
    pub strategy: String,
    pub operations: u64,
    pub crash_points: u64,
    /// Crash states that can exist; a number of any length.
    pub possible_states: String,
    /// Whether that is exact, or a lower bound.
    pub possible_exact: bool,
    pub chosen_states: u64,
    /// Chosen states of a kind of which several had failed; not tried.
    pub settled_states: u64,
    pub duplicate_states: u64,
    pub pruned_states: u64,
    pub audited_states: u64,
    pub tried_states: u64,
    pub resumed_states: u64,
    pub inconsistent_states: u64,
    pub unstable_states: u64,
    pub unexplained_states: u64,
    /// States that were tried to explain failing ones, and for nothing else.
    pub explaining_states: u64,
    /// Crash points at which a budget left something out, and those never reached.
    pub points_cut: u64,
    pub points_left: u64,
    pub states_per_second: f64,
    /// Instances of update behaviours, and the representatives among them.
    pub behaviours: u64,
    pub representatives: u64,
    /// For each strategy, in order: states that the strategy chose, and states that were tried for it.
    pub by_strategy: Vec<(String, u64, u64)>,
    /// Seconds by phase, in order.
    pub seconds: Vec<(String, f64)>,
    /// Kinds of states that failed: operation and path of what was kept or lost.
    pub clusters: u64,
    pub conditions: Option<ConditionFigures>,
}

/// What conditions were inferred, and what came of them. Numbers by rule or reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConditionFigures {
    pub inferred: Vec<(String, u64)>,
    /// Violations that can happen, and those whose states were chosen.
    pub violations: Vec<(String, u64)>,
    pub chosen: Vec<(String, u64)>,
    /// States that were handed out.
    pub states: Vec<(String, u64)>,
    pub kinds: u64,
    /// What could not be followed, by what it is.
    pub unfollowed: Vec<(String, u64)>,
}

/// How much was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    pub events: u64,
    pub stores: u64,
    pub flushes: u64,
    pub fences: u64,
    pub processes: u64,
    pub threads: u64,
    pub seconds: f64,
}

/// A rule as its users know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub id: String,
    pub severity: Severity,
    /// The rule in one line.
    pub summary: String,
    /// Markdown: what is wrong, what to do, what the rule can get wrong.
    pub manual: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Id of the rule.
    pub rule: String,
    pub severity: Severity,
    /// How often it happened here.
    pub count: u64,
    /// How often it could have happened: what `count` is a part of.
    pub total: u64,
    pub message: String,
    pub help: String,
    /// Where to look first: the innermost frame that is not a helper.
    pub location: Option<Location>,
    /// The call stack, innermost first, from the very instruction outwards.
    pub stack: Vec<Frame>,
    /// What happened to the cache line, oldest first; also the event itself, where it is known.
    pub history: Vec<Step>,
    /// The persistent memory it is about, first occurrence.
    pub place: Option<FileRange>,
    /// Place of the first occurrence in the order of all events.
    pub first_order: u64,
    /// The persistency model under which it holds.
    pub model: String,
    /// What a crash showed; none for findings of rules.
    pub crash: Option<Crash>,
}

/// A crash that leaves the program inconsistent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Crash {
    /// What the program does wrong afterwards.
    pub category: Category,
    /// The operation that was running or had returned last, and its place from 1.
    pub operation: Option<(u64, String)>,
    /// Whether the operation had returned.
    pub acknowledged: bool,
    /// The stores or calls that were needed; for atomicity, the one that would have made it whole.
    pub needed: Vec<Spot>,
    /// The one that went ahead.
    pub ahead: Option<Spot>,
    /// What a consistent program prints, where it happened and where it did not, and what this one
    /// does.
    pub expected: Vec<String>,
    pub found: String,
    /// Crash states that showed it.
    pub states: u64,
    /// The strategy that chose the first of them.
    pub found_by: String,
    /// Making the needed stores durable at once makes every one of them impossible.
    pub fix_verified: bool,
    /// What the models of other file systems say: those that allow the state, and those that do not.
    pub possible_on: Vec<String>,
    pub impossible_on: Vec<String>,
    /// Whether the state was seen on a real file system, if `--confirm` looked for it.
    pub confirmed: Option<Confirmed>,
    /// What in the model lets this happen.
    pub because: String,
    /// The command that shows it.
    pub replay: String,
}

/// What came of looking for a crash on a real file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confirmed {
    pub file_system: String,
    /// The release of Linux.
    pub kernel: String,
    /// Crash images that showed it, of all that were looked at.
    pub seen: u64,
    pub images: u64,
    /// What went on when it was first seen; empty if it was not.
    pub how: String,
}

/// Something that the program did, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Spot {
    /// The system call, such as `rename("CURRENT.tmp", "CURRENT")`; empty for a store.
    pub call: String,
    /// Unknown where there is no debug information.
    pub location: Option<Location>,
}

impl From<Location> for Spot {
    fn from(location: Location) -> Spot {
        Spot {
            call: String::new(),
            location: Some(location),
        }
    }
}

/// A place in the source. Lines and columns count from 1; 0 is unknown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    pub file: String,
    pub line: u32,
    pub column: u32,
    pub function: String,
}

/// One level of a call stack. Without debug information there is only the function.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame {
    pub function: String,
    pub location: Option<Location>,
    /// Whether the function only flushes and fences, or belongs to a library: findings are shown at
    /// its caller.
    pub helper: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Such as `the line was flushed here`.
    pub what: String,
    pub location: Option<Location>,
    pub order: u64,
    pub thread: Option<u32>,
}

/// A range of a persistent file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRange {
    pub file: String,
    pub offset: u64,
    pub length: u64,
}

impl Finding {
    /// Callers of the function that the finding is told at, innermost first.
    pub fn call_path(&self) -> &[Frame] {
        let told_at = told_at(&self.stack);
        self.stack.get(told_at + 1..).unwrap_or_default()
    }

    /// The step of the history that is the finding itself, if there is one.
    pub fn own_step(&self) -> Option<usize> {
        self.history
            .iter()
            .position(|step| step.order == self.first_order)
    }

    /// The same over runs and over edits elsewhere in the file: rule, file, functions on the stack.
    pub fn fingerprint(&self) -> String {
        // FNV-1a, as its definition is two lines and it never changes.
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        let mut add = |text: &str| {
            for byte in text.bytes().chain([0]) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        };
        add(&self.rule);
        let location = self.location.as_ref();
        let file = location.map_or("", |location| location.file.as_str());
        add(file.rsplit('/').next().unwrap_or_default());
        for frame in &self.stack {
            add(&frame.function);
        }
        format!("{hash:016x}")
    }
}

/// The frame that a finding is told at: the innermost one that is not a helper, or else the
/// outermost one.
pub fn told_at(stack: &[Frame]) -> usize {
    let told = stack.iter().position(|frame| !frame.helper);
    told.unwrap_or(stack.len().saturating_sub(1))
}

/// A file's name relative to the folder `base`, if it lies in it.
pub fn relative<'a>(file: &'a str, base: Option<&str>) -> &'a str {
    let inside = base.and_then(|base| file.strip_prefix(base)?.strip_prefix('/'));
    inside.unwrap_or(file)
}

impl fmt::Display for Location {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}:{}", self.file, self.line)?;
        if self.column > 0 {
            write!(to, ":{}", self.column)?;
        }
        Ok(())
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.location {
            Some(location) => write!(
                to,
                "{} at {}:{}",
                self.function, location.file, location.line
            ),
            None => write!(to, "{}", self.function),
        }
    }
}

impl fmt::Display for FileRange {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.file.rsplit('/').next().unwrap_or_default();
        write!(to, "{name}+{:#x}", self.offset)
    }
}
