//! Which crashes are tried, and how it is judged what they left.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use crashpoint_blockdev::FileSystem;
use crashpoint_check::engine::explore::Budget;
use crashpoint_check::files::behaviours::Division;
use crashpoint_check::process::output::Ignored;
use crashpoint_check::process::run as process;
use crashpoint_search::workload::{self as search, OperationKind};
use crashpoint_states::representative::Limits;

use super::choice::choices;
use super::template::Template;

choices! {
    /// Which crash states are tried.
    pub enum Strategy("strategy", "strategies") {
        #[default]
        Conditions = "conditions":
            "States that violate what the program's own behaviour says must hold; see `crashpoint infer`",
        Auto = "auto":
            "`conditions` first, then `representative` with what is left of the budget; for memory",
        Exhaustive = "exhaustive": "Every distinct state",
        Bounded = "bounded":
            "States in which at most --bound cache lines differ from what was stored so far",
        Random = "random": "--random-states of each crash point, by --seed",
        Representative = "representative":
            "States inside of update behaviours that stand for all others like them",
    }
}

choices! {
    /// How it is judged what a crash left, besides failures that anybody can see.
    pub enum Oracle("oracle", "oracles") {
        #[default]
        Output = "output":
            "What is printed after recovery must be what is printed if the interrupted operation \
             happened, or if it did not",
        Acknowledged = "acknowledged":
            "What the checker prints must be the lines that the program had printed, and perhaps the \
             lines that come next",
        None = "none": "Only visible failures, and the checker if there is one",
    }
}

choices! {
    /// How often the power goes out.
    pub enum Recovery("way to recover", "ways to recover") {
        #[default]
        Once = "once": "Once",
        Crash = "crash": "Once more, while the program recovers",
    }
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

/// Which operations run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadSettings {
    /// A list of operations, instead of a generated one.
    pub ops_file: Option<PathBuf>,
    /// What is generated; of which kinds, the target says.
    pub generated: search::Settings,
}

impl WorkloadSettings {
    /// What the generator needs to know.
    pub fn generator(&self, kinds: &[OperationKind]) -> search::Settings {
        search::Settings {
            kinds: kinds.to_vec(),
            ..self.generated.clone()
        }
    }
}

/// Which crash states are tried. The strategy `random` takes its seed from the workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrategySettings {
    /// The strategy; `None` for the default of the target.
    pub strategy: Option<Strategy>,
    pub bound: Option<u32>,
    /// Random states of each crash point.
    pub random_states: u64,
    /// Violations of each kind that are tried before the kind is only sampled.
    pub per_kind: u64,
    pub representative: Representatives,
}

impl Default for StrategySettings {
    fn default() -> StrategySettings {
        StrategySettings {
            strategy: None,
            bound: None,
            random_states: 20,
            per_kind: 8,
            representative: Representatives::default(),
        }
    }
}

/// How it is judged what a crash left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgingSettings {
    /// The oracle; `None` for output equivalence, or, with a checker, for the checker's verdict alone.
    pub oracle: Option<Oracle>,
    /// [`super::template::CHECK`] can be filled in.
    pub check: Option<Template>,
    /// Lines of output that do not count.
    pub ignored: Ignored,
    /// Whether a state is taken to be judged that differs only in what was not read.
    pub prune: bool,
}

impl Default for JudgingSettings {
    fn default() -> JudgingSettings {
        JudgingSettings {
            oracle: None,
            check: None,
            ignored: Ignored::default(),
            prune: true,
        }
    }
}

/// What happens after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AfterCrash {
    /// How many of the remaining operations run after recovery.
    pub suffix: usize,
    /// Whether what was touched is asked for and removed.
    pub probe: bool,
    pub recovery: Recovery,
}

impl Default for AfterCrash {
    fn default() -> AfterCrash {
        AfterCrash {
            suffix: 50,
            probe: true,
            recovery: Recovery::default(),
        }
    }
}

impl JudgingSettings {
    /// A checker is written where outputs can't be compared, or mean nothing.
    pub fn oracle(&self) -> Oracle {
        let by_default = match self.check {
            Some(_) => Oracle::None,
            None => Oracle::Output,
        };
        self.oracle.unwrap_or(by_default)
    }
}

/// What one check may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckLimits {
    pub timeout: Duration,
    /// Bytes of memory.
    pub memory: Option<u64>,
}

impl Default for CheckLimits {
    fn default() -> CheckLimits {
        CheckLimits {
            timeout: Duration::from_secs(5),
            memory: Some(4 << 30),
        }
    }
}

/// What a check may print.
const OUTPUT_BYTES: usize = 16 << 20;
/// A file that a check writes may be this much larger than the largest that there was.
const FILE_BYTES: u64 = 1 << 30;

impl CheckLimits {
    /// The limits of a check where files are as large as `largest_file` by themselves.
    pub fn of_process(&self, largest_file: u64) -> process::Limits {
        process::Limits {
            time: self.timeout,
            memory_bytes: self.memory.unwrap_or(0),
            file_bytes: largest_file.saturating_add(FILE_BYTES),
            processes: 0,
            output_bytes: OUTPUT_BYTES,
        }
    }
}

/// How much is tried in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetSettings {
    pub states: Option<u64>,
    pub states_per_point: Option<u64>,
    pub time: Option<Duration>,
}

impl Default for BudgetSettings {
    fn default() -> BudgetSettings {
        BudgetSettings {
            states: Some(100_000),
            states_per_point: Some(4096),
            time: Some(Duration::from_secs(600)),
        }
    }
}

impl BudgetSettings {
    pub fn of_exploration(&self) -> Budget {
        Budget {
            states: self.states.unwrap_or(0),
            states_per_point: self.states_per_point.unwrap_or(0),
            time: self.time,
        }
    }
}

/// How a target is tested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TestSettings {
    pub workload: WorkloadSettings,
    pub strategies: StrategySettings,
    pub after_crash: AfterCrash,
    pub judging: JudgingSettings,
    pub limits: CheckLimits,
    pub budget: BudgetSettings,
    /// Checks that run at once; `None` for as many as there are cores.
    pub jobs: Option<NonZeroUsize>,
    /// The real file system on which findings about files are looked for.
    pub confirm: Option<FileSystem>,
    /// Whether syncs and persistent data that could go are reported.
    pub remarks: bool,
    /// Whether nothing found in a part of what was to be looked at is good enough.
    pub accept_incomplete: bool,
}

impl TestSettings {
    /// How many checks run at once.
    pub fn workers(&self) -> usize {
        let cores = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        self.jobs.unwrap_or_else(cores).get()
    }
}
