//! A test of a program that persists by memory.

pub mod conditions;
mod plan;
mod recovery_crash;
mod types;
mod volatile_data;
mod workspace;

use std::time::Duration;

use crashpoint_check::engine::journal::JournalError;
use crashpoint_check::memory::MemoryMedium;
use crashpoint_check::memory::behaviours::{self, Divided};
use crashpoint_check::memory::judge::References;
use crashpoint_check::memory::plan::TestPlan;
use crashpoint_check::memory::references::{self, AllReferences, Unjudged, Why};
use crashpoint_check::memory::timeline::{Timeline, Walk};
use crashpoint_check::memory::worker::Worker;
use crashpoint_check::process::run::Limits;
use crashpoint_explain::memory::{self as explain, MemoryExplainer};
use crashpoint_explain::{manuals, picture};
use crashpoint_report::resolve::Resolver;
use crashpoint_report::{Finding, LeftOut, LeftOutReason};
use crashpoint_states::Strategy;
use crashpoint_states::representative::Behaviour;
use crashpoint_trace::Recording;
use crashpoint_trace::program::Program;

use crate::left_out;
use crate::lint;
use crate::output_dir::FolderError;
use crate::pipeline::{self, Exploration, JournalFile, Outcome};
use crate::settings::{Recovery, Settings};
use crate::strategies::{self, Strategies};
use crate::target;
use crate::test::{self, Concluded, Run, Summary, TestError};
use crate::workload::Workload;
use recovery_crash::RecoveryCrash;
use types::Types;
use workspace::Workspace;

/// A check that runs for less is not taken for a hang, however short the others are.
const SHORTEST_HANG: Duration = Duration::from_millis(50);

/// A check that prints less is not taken for one that prints without end.
const LEAST_OUTPUT_BYTES: usize = 1 << 20;

/// What is known before any crash.
pub struct Prepared {
    pub workload: Workload,
    /// What the program prints without a crash.
    pub printed: Vec<u8>,
    pub recording: Recording,
    pub program: Program,
}

/// What came of the crashes of one recording.
struct Crashed {
    timeline: Timeline,
    references: AllReferences,
    strategies: Strategies,
    outcome: Outcome,
    problems: Vec<String>,
    left_out: Vec<LeftOut>,
}

/// The whole test.
pub fn test(run: &Run<'_>) -> Result<Concluded, TestError> {
    let settings = run.settings;
    let prepared = if run.resume {
        prepare_again(run)?
    } else {
        prepare(run)?
    };
    let crashed = crash(run, &prepared)?;
    let line = |operation: u32| prepared.workload.line(operation).to_owned();
    let model = settings.target.model;
    let mut left_out = crashed.left_out;
    let mut findings: Vec<Finding> = Vec::new();
    findings.extend(explain::forgotten(
        &crashed.references.forgotten,
        model,
        &line,
    ));
    if settings.test.after_crash.recovery == Recovery::Crash {
        let recovery = RecoveryCrash {
            run,
            prepared: &prepared,
            timeline: &crashed.timeline,
            references: &crashed.references,
        };
        let first = crashed.outcome.findings.len() + findings.len() + 1;
        let second = run.time("second crash", || recovery.test(first))?;
        run.observer.note(format!(
            "recovery was crashed too: {} states of {} recoveries",
            second.states, second.recoveries
        ));
        left_out.extend(second.left_out());
        findings.extend(second.findings);
    }
    if settings.test.remarks {
        findings.extend(run.time("remarks", || {
            volatile_data::harmless(settings, &prepared, &crashed.timeline, &crashed.outcome)
        }));
    }
    let summary = Summary {
        command: lint::command(&prepared.recording),
        figures: lint::figures(&prepared.recording, Duration::ZERO),
        rules: manuals::of_tests(),
        model: model.name().to_owned(),
        model_shown_by: String::new(),
        operations: crashed.timeline.operations.len() as u64,
        problems: crashed.problems,
        left_out,
        findings,
    };
    Ok(test::report(
        run,
        crashed.outcome,
        &crashed.strategies,
        summary,
    ))
}

fn prepare(run: &Run<'_>) -> Result<Prepared, TestError> {
    let settings = run.settings;
    let command = settings.target.run.as_ref().ok_or(TestError::NoTarget)?;
    run.time("build", || target::build(settings))?;
    let workload = Workload::new(settings)?;
    let workspace = Workspace::new(settings, run.scratch)?;
    // Without threads, since who is first may differ from run to run.
    let one_by_one = if workload.has_threads() {
        workload.one_by_one()
    } else {
        workload.text.clone()
    };
    let printed = run.time("without a crash", || workspace.plain(command, &one_by_one))?;
    run.forget_results()?;
    let recorded = run.output.file("recorded");
    run.time("record", || {
        workspace.record(command, &workload.text, &recorded)
    })?;
    // The folder of a test is also that of its recording.
    for part in ["trace", "models"] {
        run.output.replace(part, &recorded.join(part))?;
    }
    // What is left in there is nothing that anybody asks for.
    let _ = std::fs::remove_dir_all(&recorded);
    run.output.write("ops", &workload.text)?;
    run.output.write("printed", &printed)?;
    let recording = Recording::open(&run.output.path)?;
    for problem in recording.problems() {
        run.observer.warning(problem.to_string());
    }
    let (program, missing) = Program::load_available(&recording);
    for error in missing {
        run.observer
            .warning(format!("places have no source line: {error}"));
    }
    Ok(Prepared {
        workload,
        printed,
        recording,
        program,
    })
}

/// What the run that is resumed had prepared.
fn prepare_again(run: &Run<'_>) -> Result<Prepared, TestError> {
    let (settings, output) = (run.settings, run.output);
    // The journal is what a run begins to write when all of this is there.
    output.read("journal")?;
    let text = String::from_utf8_lossy(&output.read("ops")?).into_owned();
    // What is there decides; settings that ask for something else are not ignored.
    if Workload::new(settings)?.text != text {
        let path = output.file("journal");
        let what = "the operations";
        return Err(JournalError::Other { path, what }.into());
    }
    let operations = crashpoint_search::workload::parse(&text, &settings.operations);
    let recording = Recording::open(&output.path)?;
    let (program, _) = Program::load_available(&recording);
    Ok(Prepared {
        workload: Workload { operations, text },
        printed: output.read("printed")?,
        recording,
        program,
    })
}

/// Crashes the recorded program.
fn crash(run: &Run<'_>, prepared: &Prepared) -> Result<Crashed, TestError> {
    let settings = run.settings;
    let plan = plan::make(settings, prepared, run.scratch)?;
    let walk = Walk::new(&prepared.recording, &plan.operations, plan.model);
    let timeline = run.time("analyse", || walk.survey());
    plan::check(settings, prepared, &timeline)?;
    let mut workers = run.time("start", || plan.workers())?;
    let mut problems = Vec::new();
    let mut written = Ok(());
    let mut strategies = strategies::for_memory(run, prepared, &plan, &timeline, || {
        run.time("behaviours", || {
            let (recording, program) = (&prepared.recording, &prepared.program);
            let mut types = Types::new(recording, program, &settings.rules.transactions);
            let divided = behaviours::plan(recording, &plan.operations, plan.model, &mut types);
            problems.extend(untyped(&divided));
            written = write_behaviours(run, prepared, &timeline, &divided, &types);
            divided.plan
        })
    });
    written?;
    let references = run.time("references", || {
        let wanted = |list| strategies.wants(list);
        references::references(&plan, &timeline, &mut workers, &prepared.printed, wanted)
    })?;
    for worker in &mut workers {
        tighten(&mut worker.limits, settings, &references);
    }
    let mut left_out = gaps(&prepared.recording);
    left_out.extend(unjudged(prepared, &references.unjudged));
    let identity = plan::identity(settings, prepared);
    let exploration = MemoryExploration {
        plan: &plan,
        timeline: &timeline,
        references: &references.by_suffix,
        resolver: &Resolver::new(&prepared.recording, &prepared.program),
        operation_line: &|operation| prepared.workload.line(operation).to_owned(),
        count_lost: settings.test.remarks,
        journal: Some(JournalFile {
            path: &run.output.file("journal"),
            identity: &identity,
            resume: run.resume,
        }),
        first_finding: 1,
    };
    let outcome = exploration.run(run, &mut workers, &mut strategies.all)?;
    if outcome.pruning_refuted {
        problems.push(
            "code that was not built by crashpoint-cc reads persistent memory, so that nothing \
             was left out as unread"
                .to_owned(),
        );
    }
    Ok(Crashed {
        timeline,
        references,
        strategies,
        outcome,
        problems,
        left_out,
    })
}

/// Crash states of one recording of memory: of the workload, or of one recovery.
struct MemoryExploration<'e> {
    plan: &'e TestPlan<'e>,
    timeline: &'e Timeline,
    references: &'e [Option<References>],
    resolver: &'e Resolver<'e>,
    /// The text of an operation, for findings.
    operation_line: &'e dyn Fn(u32) -> String,
    count_lost: bool,
    journal: Option<JournalFile<'e>>,
    first_finding: usize,
}

impl MemoryExploration<'_> {
    /// Through the pipeline of all tests.
    fn run(
        self,
        run: &Run<'_>,
        workers: &mut [Worker<'_>],
        strategies: &mut [Box<dyn Strategy>],
    ) -> Result<Outcome, TestError> {
        let (plan, timeline, references) = (self.plan, self.timeline, self.references);
        let memory = MemoryMedium {
            plan,
            timeline,
            references,
        };
        let mut checkers: Vec<_> = workers.iter_mut().map(|one| memory.checker(one)).collect();
        let exploration = Exploration {
            medium: &memory,
            checkers: &mut checkers,
            strategies,
            budget: plan.limits,
            prune: plan.prune,
            count_lost: self.count_lost,
            journal: self.journal,
            first_finding: self.first_finding,
        };
        let explainer = MemoryExplainer {
            plan,
            timeline,
            references,
            resolver: self.resolver,
            operation_line: self.operation_line,
        };
        pipeline::run(run, exploration, &explainer)
    }
}

/// What representative testing cannot divide by objects.
fn untyped(divided: &Divided) -> Option<String> {
    let Divided {
        nodes,
        untyped,
        allocated,
        ..
    } = divided;
    (*untyped > 0).then(|| {
        format!(
            "of {nodes} words that were stored, {untyped} belong to no object whose type is known: \
             {allocated} of these are divided by the allocations that they lie in, all by the calls \
             that led to them"
        )
    })
}

/// What the recording does not hold of what the program did.
fn gaps(recording: &Recording) -> Vec<LeftOut> {
    let problems = recording.problems().iter();
    let gaps = problems.filter(|problem| problem.kind.is_gap());
    left_out::of_recording(gaps.map(ToString::to_string))
}

/// What is not judged by its output, and why.
fn unjudged(prepared: &Prepared, unjudged: &[Unjudged]) -> Option<LeftOut> {
    let first = unjudged.first()?;
    let why = match first.why {
        Why::NotLinearizable => {
            "without any crash they leave what no order of them leaves, which is an error of its own"
        }
        Why::Mixed => "what they print cannot be told from what is printed after them",
    };
    let text = format!(
        "what {} of the lines with operations at once print, which are judged by visible failures \
         only, first `{}`: {why}",
        unjudged.len(),
        prepared.workload.line(first.operation)
    );
    Some(LeftOut::new(LeftOutReason::NotJudged, text))
}

/// Pictures of what is to be tried.
fn write_behaviours(
    run: &Run<'_>,
    prepared: &Prepared,
    timeline: &Timeline,
    divided: &Divided,
    types: &Types<'_>,
) -> Result<(), FolderError> {
    let resolver = Resolver::new(&prepared.recording, &prepared.program);
    let describe = |node| explain::describe(&resolver, timeline, node);
    let name = |one: &Behaviour| types.name(one.of).unwrap_or("all").to_owned();
    let (plan, facts) = (&divided.plan, &divided.facts);
    let out = &run.output.path;
    let written = picture::write_behaviours(out, plan, facts, &name, &describe);
    written.map_err(|source| run.output.error(out, source))
}

/// Waiting for a hang costs as much as thousands of checks. What takes twenty times as much of a
/// processor as any run without a crash, or sleeps for longer than they would take to do everything
/// several times, does not end; nor does what prints twenty times as much.
fn tighten(limits: &mut Limits, settings: &Settings, references: &AllReferences) {
    let most = &references.most;
    let time = (most.time.processor * 20).max(most.time.wall * 4);
    limits.time = time.max(SHORTEST_HANG).min(settings.test.limits.timeout);
    let output_bytes = most.output_bytes.saturating_mul(20).max(LEAST_OUTPUT_BYTES);
    limits.output_bytes = limits.output_bytes.min(output_bytes);
}
