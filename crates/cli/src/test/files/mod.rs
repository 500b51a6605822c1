//! `crashpoint test --dir`: programs that persist by files.
//!
//! The phases are those of [`super`]: the workload runs twice without a crash, watched; what the
//! folder holds afterwards must be what the recording says, or nothing is concluded from it; the
//! checker must be content with that; then crash states are laid out and checked, and those that
//! fail are explained.

mod confirm;
mod disk;
mod functions;
mod ground;
mod remarks;
mod tell;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crashpoint_blocks::LabError;
use crashpoint_cc::locate;
use crashpoint_check::engine::crash_points::Phase;
use crashpoint_check::engine::explore::Budget;
use crashpoint_check::engine::journal::Identity;
use crashpoint_check::engine::medium::{Checker as _, Medium as _};
use crashpoint_check::engine::minimise;
use crashpoint_check::files::{CheckSetup, FileChecker, FileMedium, FileOracle, behaviours};
use crashpoint_check::process::output::first_difference;
use crashpoint_check::process::run::Limits;
use crashpoint_persist::files::{Model, ModelError};
use crashpoint_persist::graph::NodeId;
use crashpoint_report::{Figures, Report, TestFigures};
use crashpoint_states::representative::Behaviour;
use crashpoint_trace::files::{Call, FileRecording, OpenError};
use crashpoint_watch::WatchError;

use super::progress::Progress;
use super::search::Search;
use super::{Clock, TestError, choose, plan, target};
use crate::config::{self, ConfigError, Settings};
use crate::output::Output;
use crate::record;
use crashpoint_campaign::output_dir::OutputDir;
use crashpoint_explain::files::describe as words;
use crashpoint_explain::picture;
use functions::Functions;
use ground::Ground;

#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    #[error(transparent)]
    Watch(#[from] WatchError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Locate(#[from] locate::Error),
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
/// Output of one check, and what it may write.
const OUTPUT_BYTES: usize = 16 << 20;
const FILE_BYTES: u64 = 1 << 30;

/// One test.
pub struct Test<'t> {
    pub settings: &'t Settings,
    pub held: &'t OutputDir,
    pub scratch: &'t Path,
    pub resume: bool,
}

/// What is known before any crash.
struct Prepared {
    recording: FileRecording,
    problems: Vec<String>,
}

impl Test<'_> {
    pub fn run(
        &self,
        dir: &Path,
        clock: &mut Clock,
        output: &mut Output,
    ) -> Result<Report, TestError> {
        let model = model(&self.settings.target.fs)?;
        if let Some(file_system) = self.settings.test.confirm {
            confirm::is_possible(file_system)?;
        }
        let prepared = match self.resume {
            true => {
                self.held.read("journal")?;
                let recording = FileRecording::open(&self.held.path).map_err(FilesError::from)?;
                let problems = Vec::new();
                Prepared {
                    recording,
                    problems,
                }
            }
            false => self.prepare(dir, clock, output)?,
        };
        self.test(dir, &model, prepared, clock, output)
    }

    fn prepare(
        &self,
        dir: &Path,
        clock: &mut Clock,
        output: &mut Output,
    ) -> Result<Prepared, TestError> {
        let run = self.settings.target.run.as_ref();
        let run = run.ok_or(ConfigError::NoTarget)?;
        clock.time("build", || target::build(self.settings))?;
        for old in ["journal", "findings"] {
            let path = self.held.file(old);
            let _ = std::fs::remove_file(&path);
            let _ = std::fs::remove_dir_all(&path);
        }
        let ground = Ground::new(self.settings, run, dir, self.scratch, output)?;
        let again = clock.time("without a crash", || {
            ground.record(&self.scratch.join("again"), false)
        })?;
        let out = &self.held.path;
        let recording = clock.time("record", || ground.record(out, true))?;
        let mut problems: Vec<String> = Vec::new();
        for problem in recording.problems() {
            let text = problem.to_string();
            if !problems.contains(&text) {
                problems.push(text);
            }
        }
        let (first, second) = (printed(&recording), printed(&again));
        if let Some((line, _, _)) = first_difference(&second, &first) {
            problems.push(format!(
                "two runs of the workload printed different things, in line {} first: verdicts are \
                 about the one that was recorded",
                line + 1
            ));
        }
        clock.time("compare", || disk::explain(&recording, ground.folder()))?;
        Ok(Prepared {
            recording,
            problems,
        })
    }

    fn oracle(&self) -> Result<FileOracle, FilesError> {
        let test = &self.settings.test;
        match (&test.check, test.oracle) {
            (Some(_), config::Oracle::Acknowledged) => Ok(FileOracle::Acknowledged),
            (Some(_), config::Oracle::Output | config::Oracle::None) => Ok(FileOracle::Checker),
            (None, config::Oracle::Acknowledged) => Err(FilesError::NoChecker),
            (None, config::Oracle::Output | config::Oracle::None) => Ok(FileOracle::WholeFiles),
        }
    }

    fn setup(&self) -> Result<CheckSetup, FilesError> {
        let runtime = locate::library(locate::RUNTIME_SHARED)?;
        let test = &self.settings.test;
        Ok(CheckSetup {
            command: test.check.as_ref().map(target::launch),
            preload: record::preload(&runtime, std::env::var_os("LD_PRELOAD")),
            limits: Limits {
                time: test.timeout,
                memory_bytes: test.memory.unwrap_or(0),
                file_bytes: FILE_BYTES,
                processes: 0,
                output_bytes: OUTPUT_BYTES,
            },
        })
    }

    fn test(
        &self,
        dir: &Path,
        model: &Model,
        prepared: Prepared,
        clock: &mut Clock,
        output: &mut Output,
    ) -> Result<Report, TestError> {
        let Prepared {
            recording,
            mut problems,
        } = prepared;
        let before = recording.before();
        let calls: Vec<Call<'_>> = recording.calls().collect();
        let oracle = self.oracle()?;
        let files = clock.time("analyse", || {
            FileMedium::new(&before, &calls, model, oracle)
        });
        if oracle == FileOracle::WholeFiles && files.versions.is_empty() {
            return Err(FilesError::NothingToJudge.into());
        }
        if files.points() == 0 {
            problems.push(
                "the workload changed nothing in the folder, so that there is nothing to lose"
                    .to_owned(),
            );
        }
        let setup = self.setup()?;
        let jobs = self.settings.test.workers();
        let mut checkers = clock.time("start", || {
            let start = |number| FileChecker::start(&files, &setup, self.scratch, number, jobs);
            (0..jobs).map(start).collect::<Result<Vec<_>, _>>()
        })?;
        let slowest = clock.time("check without a crash", || {
            without_crash(&files, &mut checkers[0])
        })?;
        let hang = (slowest * 50).max(SHORTEST_HANG);
        for checker in &mut checkers {
            checker.limits().time = hang.min(self.settings.test.timeout);
        }
        let progress = Progress::new(files.points(), output);
        let search = Search {
            medium: &files,
            limits: Budget {
                states: self.settings.test.states.unwrap_or(0),
                states_per_point: self.settings.test.states_per_point.unwrap_or(0),
                time: self.settings.test.time,
            },
            prune: self.settings.test.prune,
            count_lost: false,
            journal: &self.held.file("journal"),
            identity: &self.identity(model, &recording),
            resume: self.resume,
            watcher: &progress,
        };
        let mut functions = Functions::new(&recording);
        let mut strategies = choose::strategies(self.settings, || {
            clock.time("behaviours", || functions.plan(&files, self.settings))
        });
        if let Some(plan) = &strategies.plan {
            let out = &self.held.path;
            let tell = |node: NodeId| {
                let call = &calls[files.nodes[node.index()].call as usize];
                words::told(&recording, call)
            };
            let name = |one: &Behaviour| functions.name(one.of).unwrap_or("all").to_owned();
            let facts = behaviours::facts(&files);
            picture::write_behaviours(out, plan, &facts, &name, &tell).map_err(io_error(out))?;
        }
        let (explored, refuted) = search.run(&mut strategies.all, &mut checkers, clock)?;
        if refuted {
            problems.push(
                "the checker read files unseen, so that nothing was left out as unread".to_owned(),
            );
        }
        progress.finish();
        let statistics = explored.statistics.clone();
        let checker = &mut checkers[0];
        checker.rewind()?;
        let teller = tell::Teller {
            test: self,
            recording: &recording,
            files: &files,
        };
        let others = tell::other_models(model);
        let (causes, mut findings) = clock.time("minimise", || -> Result<_, TestError> {
            let mut causes = minimise::minimise(&files, explored, checker)?;
            teller.merge(&mut causes);
            let findings = teller.findings(&mut causes, &others, checker)?;
            Ok((causes, findings))
        })?;
        let hang = *checker.limits();
        drop(checkers);
        if let Some(file_system) = self.settings.test.confirm
            && !findings.is_empty()
        {
            let run = self.settings.target.run.as_ref();
            let run = run.ok_or(ConfigError::NoTarget)?;
            let ground = Ground::new(self.settings, run, dir, self.scratch, output)?;
            let confirmation = confirm::Confirmation {
                files: &files,
                ground: &ground,
                setup: &setup,
                scratch: self.scratch,
            };
            problems
                .extend(clock.time("confirm", || confirmation.run(file_system, &mut findings))?);
        }
        let mut rules = super::tell::rules();
        if self.settings.test.remarks {
            rules.push(remarks::rule());
            if statistics.inconsistent == 0 {
                let remarks = remarks::Remarks {
                    test: self,
                    recording: &recording,
                    files: &files,
                    setup: &setup,
                    limits: hang,
                };
                let told = clock.time("remarks", || remarks.run())?;
                findings.extend(told.findings);
                if told.left > 0 {
                    problems.push(format!(
                        "there was no time to see whether syncs at {} further places could go",
                        told.left
                    ));
                }
            } else {
                problems.push("redundant syncs are reported once no crash state fails".to_owned());
            }
        }
        let seconds = std::mem::take(&mut clock.phases);
        let total: f64 = seconds.iter().map(|(_, time)| time).sum();
        Ok(Report {
            recording: self.held.path.clone(),
            command: recording
                .command()
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
            figures: Figures {
                events: calls.len() as u64,
                seconds: total,
                ..Figures::default()
            },
            rules,
            findings,
            problems,
            test: Some(TestFigures {
                model: model.name().to_owned(),
                model_shown_by: shown_by(&self.settings.target.fs),
                operations: files.outputs() as u64,
                unexplained_states: causes.unexplained,
                explaining_states: statistics.asked + causes.checks,
                behaviours: strategies.behaviours(),
                representatives: strategies.representatives(),
                ..super::tell::figures(self.settings, &statistics, seconds)
            }),
        })
    }

    /// What results depend on.
    fn identity(&self, model: &Model, recording: &FileRecording) -> Identity {
        let test = &self.settings.test;
        let decisive = format!(
            "{:?} {:?} {:?} {model:?} {:?}",
            self.settings.target.run, test.check, test.oracle, test.timeout
        );
        let recorded = format!("{}-{:016x}", recording.count(), recorded(recording));
        let settings = format!("{:016x}", plan::hash(decisive.as_bytes()));
        let programs = test.check.iter().flat_map(plan::files_of);
        Identity::new(settings, recorded, plan::contents(programs))
    }
}

/// What a recording is known by.
fn recorded(recording: &FileRecording) -> u64 {
    let texts: String = recording.calls().map(|call| call.text).collect();
    plan::hash(texts.as_bytes())
}

fn printed(recording: &FileRecording) -> Vec<u8> {
    use crashpoint_trace::files::{Effect, Stream};
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
pub fn model(name: &str) -> Result<Model, FilesError> {
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
            let what = tell::verdict(files, phase, &ended);
            return Err(FilesError::Checker { what }.into());
        }
        slowest = slowest.max(ended.wall);
    }
    Ok(slowest)
}
