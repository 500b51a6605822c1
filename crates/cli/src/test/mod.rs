//! `crashpoint test`: record, crash, recover, judge, explain.
//!
//! The phases, in order: build the target; run it twice without a crash; record it; find out what
//! a consistent program prints; try crash states; minimise those that fail; report. What each phase
//! leaves is in the output folder, so that a run that was killed goes on from the last of them.

mod baseline;
pub mod choose;
mod conditions;
pub mod files;
mod ground;
mod plan;
mod progress;
mod remarks;
mod search;
mod second;
mod statistics;
mod target;
mod tell;
mod types;
mod workload;

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use crashpoint_check::engine::explore::{ExploreError, Explored, Statistics};
use crashpoint_check::engine::journal::JournalError;
use crashpoint_check::engine::medium::CheckError;
use crashpoint_check::engine::minimise::{self, Causes};
use crashpoint_check::memory::MemoryMedium;
use crashpoint_check::memory::behaviours::{self, Divided};
use crashpoint_check::memory::plan::TestPlan;
use crashpoint_check::memory::references::{self, AllReferences, ReferenceError, Unjudged, Why};
use crashpoint_check::memory::timeline::{Timeline, Walk};
use crashpoint_check::memory::worker::Worker;
use crashpoint_check::process::run::Limits;
use crashpoint_report::{ConditionFigures, Finding, Report, Severity, json, junit, sarif};
use crashpoint_trace::program::Program;
use crashpoint_trace::{OpenError, Recording};

use crashpoint_persist::graph::NodeId;
use crashpoint_report::resolve::Resolver;
use crashpoint_states::representative::Behaviour;
use types::Types;

use crate::arguments;
use crate::config::{ConfigError, Recovery, Settings};
use crate::exit::{Ending, Exit};
use crate::lint;
use crate::output::Output;
use crashpoint_campaign::output_dir::{FolderError, OutputDir};
use crashpoint_campaign::recording_dir::{FINDINGS_JSON, FINDINGS_JUNIT, FINDINGS_SARIF};
use crashpoint_explain::picture;
use files::FilesError;
use ground::Ground;
use progress::Progress;
use search::Search;
use second::Again;
use target::TargetError;
use workload::{Workload, WorkloadError};

#[derive(Debug, thiserror::Error)]
pub enum TestError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    #[error(transparent)]
    Worker(#[from] CheckError),
    #[error(transparent)]
    Explore(#[from] ExploreError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Files(#[from] FilesError),
    #[error(transparent)]
    Baseline(#[from] baseline::Error),
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
}

impl TestError {
    /// Whose problem it is: a workload or checker that fails by itself has an exit code of its own.
    pub fn exit(&self) -> Exit {
        match self {
            TestError::Target(TargetError::Fails { .. } | TargetError::Nondeterministic { .. })
            | TestError::Reference(
                ReferenceError::Fails { .. } | ReferenceError::Nondeterministic { .. },
            )
            | TestError::Files(FilesError::Fails { .. } | FilesError::Checker { .. }) => {
                Exit::Workload
            }
            _ => Exit::Usage,
        }
    }
}

/// A check that runs for less is not taken for a hang, however short the others are.
const SHORTEST_HANG: Duration = Duration::from_millis(50);

/// A check that prints less is not taken for one that prints without end.
const LEAST_OUTPUT_BYTES: usize = 1 << 20;

/// How long each phase took.
#[derive(Default)]
pub struct Clock {
    phases: Vec<(String, f64)>,
}

impl Clock {
    fn time<R>(&mut self, phase: &str, work: impl FnOnce() -> R) -> R {
        let began = Instant::now();
        let result = work();
        self.phases
            .push((phase.to_owned(), began.elapsed().as_secs_f64()));
        result
    }
}

/// The command.
pub fn run(arguments: &arguments::Test, output: &mut Output) -> Result<Ending, TestError> {
    let settings = Settings::for_test(arguments, output.colours_on_stderr())?;
    let held = OutputDir::take(&arguments.out)?;
    let resume = arguments.resume && held.has_results()?;
    if arguments.resume && !resume {
        output.note("the run that was here had not tried anything: it begins anew");
    }
    let scratch = held.scratch()?;
    let mut clock = Clock::default();
    if let Some(dir) = &settings.target.dir {
        let test = files::Test {
            settings: &settings,
            held: &held,
            scratch: scratch.path(),
            resume,
        };
        let report = test.run(dir, &mut clock, output)?;
        drop(scratch);
        held.forget_scratch();
        return conclude(arguments, &settings, &held, report, output);
    }
    let prepared = match resume {
        true => prepare_again(&settings, &held)?,
        false => prepare(&settings, &held, scratch.path(), &mut clock, output)?,
    };
    let tested = test(
        &settings,
        &held,
        scratch.path(),
        &prepared,
        resume,
        &mut clock,
        output,
    )?;
    let mut findings = tell::findings(&settings, &held, &prepared, &tested, 1)?;
    if settings.test.recovery == Recovery::Crash {
        let again = Again {
            settings: &settings,
            held: &held,
            scratch: scratch.path(),
            prepared: &prepared,
            tested: &tested,
        };
        let more = clock.time("second crash", || again.findings(findings.len() + 1))?;
        output.note(&format!(
            "recovery was crashed too: {} states of {} recoveries",
            more.states, more.recoveries
        ));
        findings.extend(more.findings);
    }
    if settings.test.remarks {
        let told = || remarks::unpersisted(&settings, &prepared, &tested);
        findings.extend(clock.time("remarks", told));
    }
    drop(scratch);
    held.forget_scratch();
    if arguments.stats {
        held.write("states.svg", statistics::picture(&tested.statistics))?;
    }
    let report = tell::report(&settings, &held, &prepared, &tested, findings, clock.phases);
    conclude(arguments, &settings, &held, report, output)
}

/// From a report to files, words and an exit code.
fn conclude(
    arguments: &arguments::Test,
    settings: &Settings,
    held: &OutputDir,
    mut report: Report,
    output: &mut Output,
) -> Result<Ending, TestError> {
    let base = lint::current_folder();
    if arguments.write_baseline {
        baseline::write(settings, &report, base.as_deref())?;
    }
    let known = baseline::take_known(settings, &mut report, base.as_deref())?;
    write_files(held, &report, &known)?;
    lint::print(&report, arguments.format, base, output)?;
    baseline::tell(&known, output);
    if arguments.stats {
        statistics::print(&report, output)?;
    }
    let is_note = |finding: &Finding| finding.severity == Severity::Note;
    Ok(match report.findings.iter().all(is_note) {
        true => Exit::Clean.into(),
        false => Exit::Findings.into(),
    })
}

/// What is known before any crash.
pub struct Prepared {
    pub workload: Workload,
    /// What the program prints without a crash.
    pub printed: Vec<u8>,
    pub recording: Recording,
    pub program: Program,
}

fn prepare(
    settings: &Settings,
    held: &OutputDir,
    scratch: &Path,
    clock: &mut Clock,
    output: &mut Output,
) -> Result<Prepared, TestError> {
    let run = settings.target.run.as_ref().ok_or(ConfigError::NoTarget)?;
    clock.time("build", || target::build(settings))?;
    let workload = Workload::new(settings)?;
    let ground = Ground::new(settings, scratch)?;
    // Without threads, since who is first may differ from run to run.
    let one_by_one = match workload.has_threads() {
        true => workload.one_by_one(),
        false => workload.text.clone(),
    };
    let printed = clock.time("without a crash", || ground.plain(run, &one_by_one))?;
    // A journal stands for everything else: none must lie beside another run's recording.
    for old in ["journal", "findings"] {
        let path = held.file(old);
        let _ = std::fs::remove_file(&path);
        let _ = std::fs::remove_dir_all(&path);
    }
    let recorded = held.file("recorded");
    clock.time("record", || ground.record(run, &workload.text, &recorded))?;
    // The folder of a test is also that of its recording.
    for part in ["trace", "models"] {
        let to = held.file(part);
        let _ = std::fs::remove_dir_all(&to);
        let _ = std::fs::rename(recorded.join(part), &to);
    }
    let _ = std::fs::remove_dir_all(&recorded);
    held.write("ops", &workload.text)?;
    held.write("printed", &printed)?;
    let (recording, program) = open(held, output)?;
    Ok(Prepared {
        workload,
        printed,
        recording,
        program,
    })
}

fn prepare_again(settings: &Settings, held: &OutputDir) -> Result<Prepared, TestError> {
    // The journal is what a run begins to write when all of this is there.
    held.read("journal")?;
    let text = String::from_utf8_lossy(&held.read("ops")?).into_owned();
    // What is there decides; settings that ask for something else are not ignored.
    if Workload::new(settings)?.text != text {
        let path = held.file("journal");
        let what = "the operations";
        return Err(JournalError::Other { path, what }.into());
    }
    let operations = crashpoint_search::parse(&text, &settings.operations);
    let recording = Recording::open(&held.path)?;
    let (program, _) = Program::load_available(&recording);
    Ok(Prepared {
        workload: Workload { operations, text },
        printed: held.read("printed")?,
        recording,
        program,
    })
}

fn open(held: &OutputDir, output: &mut Output) -> Result<(Recording, Program), TestError> {
    let recording = Recording::open(&held.path)?;
    for problem in recording.problems() {
        output.warn(&problem.to_string());
    }
    let (program, missing) = Program::load_available(&recording);
    for error in missing {
        output.warn(&format!("places have no source line: {error}"));
    }
    Ok((recording, program))
}

/// What came of the crashes.
pub struct Tested {
    pub timeline: Timeline,
    pub references: AllReferences,
    pub statistics: Statistics,
    pub causes: Causes,
    pub details: Vec<tell::Detail>,
    pub problems: Vec<String>,
    pub conditions: Option<ConditionFigures>,
    pub strategy: String,
    /// Update behaviours, and those that stand for all.
    pub behaviours: (u64, u64),
}

fn test(
    settings: &Settings,
    held: &OutputDir,
    scratch: &Path,
    prepared: &Prepared,
    resume: bool,
    clock: &mut Clock,
    output: &mut Output,
) -> Result<Tested, TestError> {
    let plan = plan::make(settings, prepared, scratch)?;
    let walk = Walk::new(&prepared.recording, &plan.operations, plan.model);
    let timeline = clock.time("analyse", || walk.survey());
    plan::check(settings, prepared, &timeline)?;
    let mut workers = clock.time("start", || plan.workers())?;
    let (mut untyped, mut written) = (None, Ok(()));
    let mut chosen = choose::for_memory(settings, prepared, &plan, &timeline, clock, |clock| {
        clock.time("behaviours", || {
            let (recording, program) = (&prepared.recording, &prepared.program);
            let mut types = Types::new(recording, program, &settings.rules.transactions);
            let divided = behaviours::plan(recording, &plan.operations, plan.model, &mut types);
            untyped = Some((divided.untyped, divided.allocated, divided.nodes));
            written = write_behaviours(held, prepared, &timeline, &divided, &types);
            divided.plan
        })
    });
    written?;
    let references = clock.time("references", || {
        let wanted = |list| chosen.wants(list);
        references::references(&plan, &timeline, &mut workers, &prepared.printed, wanted)
    })?;
    for worker in &mut workers {
        tighten(&mut worker.limits, settings, &references);
    }
    let identity = plan::identity(settings, prepared);
    let mut problems = Vec::new();
    if let Some((untyped @ 1.., allocated, all)) = untyped {
        problems.push(format!(
            "of {all} words that were stored, {untyped} belong to no object whose type is known: \
             {allocated} of these are divided by the allocations that they lie in, all by the calls \
             that led to them"
        ));
    }
    if timeline.points == 0 {
        problems.push(
            "the operations stored nothing to persistent memory, so that there is nothing to lose"
                .to_owned(),
        );
    }
    problems.extend(unjudged(prepared, &references.unjudged));
    let progress = Progress::new(timeline.points, output);
    let memory = MemoryMedium {
        plan: &plan,
        timeline: &timeline,
        references: &references.by_suffix,
    };
    let mut checkers: Vec<_> = workers.iter_mut().map(|one| memory.checker(one)).collect();
    let search = Search {
        medium: &memory,
        limits: plan.limits,
        prune: plan.prune,
        count_lost: settings.test.remarks,
        journal: &held.file("journal"),
        identity: &identity,
        resume,
        watcher: &progress,
    };
    let (explored, refuted) = search.run(&mut chosen.all, &mut checkers, clock)?;
    drop(checkers);
    if refuted {
        problems.push(
            "code that was not built by crashpoint-cc reads persistent memory, so that nothing \
             was left out as unread"
                .to_owned(),
        );
    }
    progress.finish();
    let worker = &mut workers[0];
    let mut tested = clock.time("minimise", || {
        explain(&plan, prepared, timeline, references, explored, worker)
    })?;
    tested.problems = problems;
    tested.conditions = chosen.figures();
    tested.strategy = chosen.name(settings);
    tested.behaviours = (chosen.behaviours(), chosen.representatives());
    Ok(tested)
}

/// What is not judged by its output, and why.
fn unjudged(prepared: &Prepared, unjudged: &[Unjudged]) -> Option<String> {
    let first = unjudged.first()?;
    let why = match first.why {
        Why::NotLinearizable => {
            "without any crash they leave what no order of them leaves, which is an error of its own"
        }
        Why::Mixed => "what they print cannot be told from what is printed after them",
    };
    Some(format!(
        "{} of the lines with operations at once are judged by visible failures only, first `{}`: \
         {why}",
        unjudged.len(),
        prepared.workload.line(first.operation)
    ))
}

/// Pictures of what is to be tried.
fn write_behaviours(
    held: &OutputDir,
    prepared: &Prepared,
    timeline: &Timeline,
    divided: &Divided,
    types: &Types<'_>,
) -> Result<(), FolderError> {
    let resolver = Resolver::new(&prepared.recording, &prepared.program);
    let tell = |node: NodeId| tell::told(&resolver, &timeline.nodes[node.index()]);
    let name = |one: &Behaviour| types.name(one.of).unwrap_or("all").to_owned();
    let (plan, facts) = (&divided.plan, &divided.facts);
    let written = picture::write_behaviours(&held.path, plan, facts, &name, &tell);
    written.map_err(|source| FolderError::Io {
        path: held.path.clone(),
        source,
    })
}

/// Waiting for a hang costs as much as thousands of checks. What takes twenty times as much of a
/// processor as any run without a crash, or sleeps for longer than they would take to do everything
/// several times, does not end; nor does what prints twenty times as much.
fn tighten(limits: &mut Limits, settings: &Settings, references: &AllReferences) {
    let time = (references.busiest * 20).max(references.slowest * 4);
    limits.time = time.max(SHORTEST_HANG).min(settings.test.timeout);
    let most = references
        .longest
        .saturating_mul(20)
        .max(LEAST_OUTPUT_BYTES);
    limits.output_bytes = limits.output_bytes.min(most);
}

/// From failing states to causes with their stories.
fn explain(
    plan: &TestPlan<'_>,
    prepared: &Prepared,
    timeline: Timeline,
    references: AllReferences,
    explored: Explored,
    worker: &mut Worker<'_>,
) -> Result<Tested, TestError> {
    let statistics = explored.statistics.clone();
    worker.rewind()?;
    let memory = MemoryMedium {
        plan,
        timeline: &timeline,
        references: &references.by_suffix,
    };
    let mut causes = minimise::minimise(&memory, explored, &mut memory.checker(worker))?;
    tell::merge(prepared, &timeline, &mut causes);
    worker.rewind()?;
    let details = tell::details(plan, &timeline, &references, &mut causes, worker)?;
    Ok(Tested {
        timeline,
        references,
        statistics,
        causes,
        details,
        problems: Vec::new(),
        conditions: None,
        strategy: String::new(),
        behaviours: (0, 0),
    })
}

fn write_files(held: &OutputDir, report: &Report, known: &[Finding]) -> Result<(), FolderError> {
    let base = lint::current_folder();
    held.write(FINDINGS_JSON, json::render(report))?;
    held.write(FINDINGS_SARIF, sarif::render(report, base.as_deref()))?;
    held.write(
        FINDINGS_JUNIT,
        junit::render(report, known, base.as_deref()),
    )
}
