//! A test of a program that persists by files.
//!
//! The workload runs twice without a crash, watched; what the folder holds afterwards must be what
//! the recording says, or nothing is concluded from it; the checker must be content with that; then
//! crash states are laid out and checked, and those that fail are explained.

mod compare;
mod confirm;
mod functions;
mod redundant_sync;
mod workspace;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crashpoint_blockdev::LabError;
use crashpoint_check::engine::crash_points::Phase;
use crashpoint_check::engine::journal::Identity;
use crashpoint_check::engine::medium::{Checker as _, Medium as _};
use crashpoint_check::files::{CheckSetup, FileChecker, FileMedium, FileOracle, behaviours};
use crashpoint_check::process::output::first_difference;
use crashpoint_explain::files::describe;
use crashpoint_explain::files::findings::{self, FilesExplainer};
use crashpoint_explain::{manuals, picture};
use crashpoint_install as install;
use crashpoint_persist::files::{Model, ModelError};
use crashpoint_persist::graph::NodeId;
use crashpoint_report::{Figures, LeftOut};
use crashpoint_states::representative::Behaviour;
use crashpoint_trace::files::{Call, Effect, FileRecording, OpenError, Stream};
use crashpoint_watch::WatchError;

use crate::identity;
use crate::left_out;
use crate::pipeline::{self, Exploration, JournalFile};
use crate::record;
use crate::settings::{self, Settings};
use crate::strategies::{self, Strategies};
use crate::target;
use crate::test::{self, Concluded, Run, Summary, TestError};
use functions::Functions;
use redundant_sync::RedundantSyncs;
use workspace::Workspace;

#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    #[error(transparent)]
    Watch(#[from] WatchError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Locate(#[from] install::LocateError),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} could not be copied: {said}", path.display())]
    Copy { path: PathBuf, said: String },
    #[error("{} is a file: --dir names the folder that the program keeps its files in", path.display())]
    NotAFolder { path: PathBuf },
    #[error("without any crash, `{program}` {end}{said}")]
    Fails {
        program: String,
        end: String,
        said: String,
    },
    #[error("without any crash, on what the workload left, {what}")]
    Checker { what: String },
    #[error(
        "the recording does not say how {path} came to be what it is ({what}): nothing can be \
         concluded from it. Does another program write there meanwhile?"
    )]
    Unexplained { path: String, what: &'static str },
    #[error(
        "there is no file system `{name}`: choose one of {known}, or name a file (.toml) that \
         describes one",
        known = Model::NAMES.join(", ")
    )]
    NoModel { name: String },
    #[error("{}: {source}", path.display())]
    Model { path: PathBuf, source: ModelError },
    #[error(
        "there is nothing to judge by: no file was there both before and after the workload, and \
         no checker is given (--check './verify {{dir}} {{printed}}')"
    )]
    NothingToJudge,
    #[error(transparent)]
    Lab(#[from] LabError),
    #[error("the oracle `acknowledged` compares what a checker lists: give one with --check")]
    NoChecker,
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> FilesError + '_ {
    move |source| FilesError::Io {
        path: path.to_owned(),
        source,
    }
}

/// A check that runs for less is not taken for a hang, however short the others are.
const SHORTEST_HANG: Duration = Duration::from_secs(1);

/// What is known before any crash.
struct Prepared {
    recording: FileRecording,
    problems: Vec<String>,
    left_out: Vec<LeftOut>,
}

/// The whole test.
pub fn test(run: &Run<'_>, dir: &Path) -> Result<Concluded, TestError> {
    let settings = run.settings;
    let model = file_system_model(&settings.target.fs)?;
    if let Some(file_system) = settings.test.confirm {
        confirm::is_possible(file_system)?;
    }
    let prepared = if run.resume {
        run.output.read("journal")?;
        let recording = FileRecording::open(&run.output.path).map_err(FilesError::from)?;
        Prepared {
            left_out: gaps(&recording),
            recording,
            problems: Vec::new(),
        }
    } else {
        prepare(run, dir)?
    };
    crash(run, dir, &model, prepared)
}

fn prepare(run: &Run<'_>, dir: &Path) -> Result<Prepared, TestError> {
    let command = run.settings.target.run.as_ref();
    let command = command.ok_or(TestError::NoTarget)?;
    run.time("build", || target::build(run.settings))?;
    run.forget_results()?;
    let workspace = Workspace::new(run, command, dir)?;
    let again = run.time("without a crash", || {
        workspace.record(&run.scratch.join("again"), false)
    })?;
    let out = &run.output.path;
    let recording = run.time("record", || workspace.record(out, true))?;
    let left_out = gaps(&recording);
    let mut problems: Vec<String> = Vec::new();
    let (first, second) = (printed(&recording), printed(&again));
    if let Some((line, _, _)) = first_difference(&second, &first) {
        problems.push(format!(
            "two runs of the workload printed different things, in line {} first: verdicts are \
             about the one that was recorded",
            line + 1
        ));
    }
    run.time("compare", || {
        compare::explain(&recording, workspace.folder())
    })?;
    Ok(Prepared {
        recording,
        problems,
        left_out,
    })
}

/// What the recording does not hold of what the program did.
fn gaps(recording: &FileRecording) -> Vec<LeftOut> {
    left_out::of_recording(recording.problems().iter().map(ToString::to_string))
}

fn oracle(settings: &Settings) -> Result<FileOracle, FilesError> {
    let judging = &settings.test.judging;
    match (&judging.check, judging.oracle()) {
        (Some(_), settings::Oracle::Acknowledged) => Ok(FileOracle::Acknowledged),
        (Some(_), settings::Oracle::Output | settings::Oracle::None) => Ok(FileOracle::Checker),
        (None, settings::Oracle::Acknowledged) => Err(FilesError::NoChecker),
        (None, settings::Oracle::Output | settings::Oracle::None) => Ok(FileOracle::WholeFiles),
    }
}

fn check_setup(settings: &Settings) -> Result<CheckSetup, FilesError> {
    let runtime = install::library(install::RUNTIME_SHARED)?;
    Ok(CheckSetup {
        command: settings.test.judging.check.as_ref().map(target::launch),
        preload: record::preload(&runtime, std::env::var_os("LD_PRELOAD")),
        limits: settings.test.limits.of_process(0),
    })
}

/// Crashes the recorded program.
fn crash(
    run: &Run<'_>,
    dir: &Path,
    model: &Model,
    prepared: Prepared,
) -> Result<Concluded, TestError> {
    let settings = run.settings;
    let Prepared {
        recording,
        mut problems,
        left_out,
    } = prepared;
    let before = recording.before();
    let calls: Vec<Call<'_>> = recording.calls().collect();
    let oracle = oracle(settings)?;
    let files = run.time("analyse", || {
        FileMedium::new(&before, &calls, model, oracle)
    });
    if oracle == FileOracle::WholeFiles && files.versions.is_empty() {
        return Err(FilesError::NothingToJudge.into());
    }
    let setup = check_setup(settings)?;
    let jobs = settings.test.workers();
    let mut checkers = run.time("start", || {
        let start = |number| FileChecker::start(&files, &setup, run.scratch, number, jobs);
        (0..jobs).map(start).collect::<Result<Vec<_>, _>>()
    })?;
    let slowest = run.time("check without a crash", || {
        without_crash(&files, &mut checkers[0])
    })?;
    let hang = (slowest * 50).max(SHORTEST_HANG);
    for checker in &mut checkers {
        checker.limits().time = hang.min(settings.test.limits.timeout);
    }
    let mut strategies = strategies(run, &recording, &files)?;
    let exploration = Exploration {
        medium: &files,
        checkers: &mut checkers,
        strategies: &mut strategies.all,
        budget: settings.test.budget.of_exploration(),
        prune: settings.test.judging.prune,
        count_lost: false,
        journal: Some(JournalFile {
            path: &run.output.file("journal"),
            identity: &identity(settings, model, &recording),
            resume: run.resume,
        }),
        first_finding: 1,
    };
    let explainer = FilesExplainer {
        recording: &recording,
        files: &files,
        others: &findings::other_models(model),
        check: setup.command.as_ref(),
        timeout: settings.test.limits.timeout,
    };
    let mut outcome = pipeline::run(run, exploration, &explainer)?;
    if outcome.pruning_refuted {
        problems.push(
            "the checker read files unseen, so that nothing was left out as unread".to_owned(),
        );
    }
    let limits = *checkers[0].limits();
    drop(checkers);
    if let Some(file_system) = settings.test.confirm
        && !outcome.findings.is_empty()
    {
        let command = settings.target.run.as_ref().ok_or(TestError::NoTarget)?;
        let confirmation = confirm::Confirmation {
            files: &files,
            workspace: &Workspace::new(run, command, dir)?,
            setup: &setup,
            scratch: run.scratch,
        };
        let confirmed = run.time("confirm", || {
            confirmation.run(file_system, &mut outcome.findings)
        });
        problems.extend(confirmed?);
    }
    let mut rules = manuals::of_tests();
    let mut redundant = Vec::new();
    if settings.test.remarks {
        rules.push(manuals::EXTRA_SYNC.describe());
        if outcome.statistics.inconsistent == 0 {
            let syncs = RedundantSyncs {
                run,
                recording: &recording,
                files: &files,
                setup: &setup,
                limits,
            };
            let found = run.time("remarks", || syncs.find())?;
            redundant = found.findings;
            if found.left > 0 {
                problems.push(format!(
                    "there was no time to see whether syncs at {} further places could go",
                    found.left
                ));
            }
        } else {
            problems.push("redundant syncs are reported once no crash state fails".to_owned());
        }
    }
    let command = recording.command().iter();
    let summary = Summary {
        command: command
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        figures: Figures {
            events: calls.len() as u64,
            ..Figures::default()
        },
        rules,
        model: model.name().to_owned(),
        model_shown_by: shown_by(&settings.target.fs),
        operations: files.outputs() as u64,
        problems,
        left_out,
        findings: redundant,
    };
    Ok(test::report(run, outcome, &strategies, summary))
}

/// The strategies of the test; behaviours, where they are divided, are written down as pictures.
fn strategies(
    run: &Run<'_>,
    recording: &FileRecording,
    files: &FileMedium<'_>,
) -> Result<Strategies, TestError> {
    let mut functions = Functions::new(recording);
    let strategies = strategies::strategies(run.settings, || {
        run.time("behaviours", || functions.plan(files, run.settings))
    });
    if let Some(plan) = &strategies.plan {
        let out = &run.output.path;
        let describe = |node: NodeId| {
            let call = &files.calls[files.nodes[node.index()].call as usize];
            describe::call(recording, call)
        };
        let name = |one: &Behaviour| functions.name(one.of).unwrap_or("all").to_owned();
        let facts = behaviours::facts(files);
        let written = picture::write_behaviours(out, plan, &facts, &name, &describe);
        written.map_err(|source| run.output.error(out, source))?;
    }
    Ok(strategies)
}

/// What results depend on.
fn identity(settings: &Settings, model: &Model, recording: &FileRecording) -> Identity {
    let test = &settings.test;
    let decisive = format!(
        "{:?} {:?} {:?} {model:?} {:?}",
        settings.target.run,
        test.judging.check,
        test.judging.oracle(),
        test.limits.timeout
    );
    let recorded = format!("{}-{:016x}", recording.count(), recorded(recording));
    let settings = format!("{:016x}", identity::hash(decisive.as_bytes()));
    let programs = test.judging.check.iter().flat_map(identity::files_of);
    Identity::new(settings, recorded, identity::contents(programs))
}

/// What a recording is known by.
fn recorded(recording: &FileRecording) -> u64 {
    let texts: String = recording.calls().map(|call| call.text).collect();
    identity::hash(texts.as_bytes())
}

fn printed(recording: &FileRecording) -> Vec<u8> {
    let mut text = Vec::new();
    for call in recording.calls() {
        for effect in &call.effects {
            if let Effect::Output {
                stream: Stream::Stdout,
                bytes,
            } = effect
            {
                text.extend(*bytes);
            }
        }
    }
    text
}

/// A model that is built in, or a file.
pub fn file_system_model(name: &str) -> Result<Model, FilesError> {
    if let Some(model) = Model::builtin(name) {
        return Ok(model);
    }
    let path = Path::new(name);
    if !name.ends_with(".toml") {
        return Err(FilesError::NoModel {
            name: name.to_owned(),
        });
    }
    let text = std::fs::read_to_string(path).map_err(io_error(path))?;
    Model::parse(&text).map_err(|source| FilesError::Model {
        path: path.to_owned(),
        source,
    })
}

/// The command that prints a model.
fn shown_by(name: &str) -> String {
    match Model::builtin(name) {
        Some(_) => format!("crashpoint models show {name}"),
        None => format!("cat {name}"),
    }
}

/// The checker on what the workload left, with nothing lost: twice, and content both times. How
/// long it took.
fn without_crash<'a>(
    files: &FileMedium<'a>,
    checker: &mut FileChecker<'_, 'a>,
) -> Result<Duration, TestError> {
    let layout = files.after();
    let phase = match files.outputs() {
        0 => Phase::InFlight(0),
        outputs => Phase::Returned(outputs as u32 - 1),
    };
    let mut slowest = Duration::ZERO;
    for _ in 0..2 {
        let ended = checker.run(&layout, phase, false)?;
        if files.observe(phase, &ended).fails(phase) {
            let what = findings::verdict(files, phase, &ended);
            return Err(FilesError::Checker { what }.into());
        }
        slowest = slowest.max(ended.time.wall);
    }
    Ok(slowest)
}
