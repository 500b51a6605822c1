//! One test, from settings to a report: record, crash, recover, judge, explain.
//!
//! The phases, in order: build the target; run it twice without a crash; record it; find out what
//! a consistent program does; try crash states; minimise those that fail; report. What each phase
//! leaves is in the output folder, so that a run that was killed goes on from the last of them.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};

use crashpoint_check::engine::explore::{ExploreError, Statistics};
use crashpoint_check::engine::journal::JournalError;
use crashpoint_check::engine::medium::CheckError;
use crashpoint_check::memory::references::ReferenceError;
use crashpoint_report::{Figures, Finding, LeftOut, Report, Rule, TestFigures};
use crashpoint_trace::OpenError;

use crate::files::{self, FilesError};
use crate::left_out;
use crate::memory;
use crate::observer::{Observer, Silent};
use crate::output_dir::{FolderError, OutputDir};
use crate::phases::Phases;
use crate::pipeline::Outcome;
use crate::settings::Settings;
use crate::strategies::Strategies;
use crate::target::TargetError;
use crate::workload::WorkloadError;

#[derive(Debug, thiserror::Error)]
pub enum TestError {
    #[error("nothing says how the target is started: `target.run` is not set")]
    NoTarget,
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
}

impl TestError {
    /// Whether the workload or the checker is to blame, which fails without any crash; everything
    /// else is wrong use or the environment.
    pub fn is_of_the_workload(&self) -> bool {
        matches!(
            self,
            TestError::Target(TargetError::Fails { .. } | TargetError::Nondeterministic { .. })
                | TestError::Reference(
                    ReferenceError::Fails { .. } | ReferenceError::Nondeterministic { .. },
                )
                | TestError::Files(FilesError::Fails { .. } | FilesError::Checker { .. })
        )
    }
}

/// What all parts of one run share.
pub struct Run<'r> {
    pub settings: &'r Settings,
    pub output: &'r OutputDir,
    /// For what only lives during the run.
    pub scratch: &'r Path,
    /// Whether the results of an earlier run in the output folder are used.
    pub resume: bool,
    pub observer: &'r dyn Observer,
    phases: RefCell<Phases>,
}

impl Run<'_> {
    /// Does one phase's work. Phases do not nest.
    pub fn time<R>(&self, phase: &str, work: impl FnOnce() -> R) -> R {
        let began = std::time::Instant::now();
        let result = work();
        self.phases.borrow_mut().add(phase, began.elapsed());
        result
    }

    /// The same run for a part of it whose progress is not shown.
    pub(crate) fn quiet(&self) -> Run<'_> {
        Run {
            observer: &Silent,
            phases: RefCell::default(),
            ..*self
        }
    }

    /// A path as it is shown: relative to the current folder, if that is shorter.
    pub fn shown(&self, path: &Path) -> String {
        let here = std::env::current_dir().unwrap_or_default();
        let relative = path.strip_prefix(&here).map(PathBuf::from);
        let shown = relative.unwrap_or_else(|_| path.to_owned());
        shown.display().to_string()
    }

    /// Removes what an earlier run left: a journal stands for everything else, so that none must lie
    /// beside another run's recording.
    pub(crate) fn forget_results(&self) -> Result<(), FolderError> {
        for old in ["journal", "findings"] {
            let path = self.output.file(old);
            let removed = if path.is_dir() {
                std::fs::remove_dir_all(&path)
            } else {
                std::fs::remove_file(&path)
            };
            match removed {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(self.output.error(&path, error));
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }
}

/// What a test came to.
pub struct Tested {
    /// Held until this is dropped, so that no other run works there meanwhile.
    pub output: OutputDir,
    pub report: Report,
    pub statistics: Statistics,
}

/// What a medium makes of a run.
pub(crate) struct Concluded {
    report: Report,
    statistics: Statistics,
}

/// Runs a test. Results, findings and what replays them go to the folder `out`; with `resume`, a run
/// that was stopped there goes on.
pub fn test(
    settings: &Settings,
    out: &Path,
    resume: bool,
    observer: &dyn Observer,
) -> Result<Tested, TestError> {
    let output = OutputDir::take(out)?;
    let has_results = resume && output.has_results()?;
    if resume && !has_results {
        observer.note("the run that was here had not tried anything: it begins anew".to_owned());
    }
    let scratch = output.scratch()?;
    let run = Run {
        settings,
        output: &output,
        scratch: scratch.path(),
        resume: has_results,
        observer,
        phases: RefCell::default(),
    };
    let concluded = match &settings.target.dir {
        Some(dir) => files::test(&run, dir)?,
        None => memory::test(&run)?,
    };
    drop(scratch);
    output.forget_scratch();
    Ok(Tested {
        output,
        report: concluded.report,
        statistics: concluded.statistics,
    })
}

/// What a medium says about a test, beside what came of the exploration.
pub(crate) struct Summary {
    pub command: Vec<String>,
    pub figures: Figures,
    pub rules: Vec<Rule>,
    pub model: String,
    /// The command that prints the model; empty where there is none.
    pub model_shown_by: String,
    pub operations: u64,
    pub problems: Vec<String>,
    /// In addition to what the exploration left out.
    pub left_out: Vec<LeftOut>,
    /// In addition to those of the exploration.
    pub findings: Vec<Finding>,
}

/// The report of a test.
pub(crate) fn report(
    run: &Run<'_>,
    outcome: Outcome,
    strategies: &Strategies,
    summary: Summary,
) -> Concluded {
    let phases = run.phases.borrow();
    let statistics = outcome.statistics;
    let explored = phases.total("explore").as_secs_f64();
    let mut findings = outcome.findings;
    findings.extend(summary.findings);
    let test = TestFigures {
        model: summary.model,
        model_shown_by: summary.model_shown_by,
        operations: summary.operations,
        strategy: strategies.name(run.settings),
        crash_points: statistics.points,
        possible_states: statistics.possible.to_string(),
        possible_exact: statistics.exact,
        chosen_states: statistics.chosen,
        settled_states: statistics.known_to_fail,
        clusters: statistics.clusters,
        duplicate_states: statistics.duplicates,
        pruned_states: statistics.pruned,
        audited_states: statistics.audited,
        tried_states: statistics.tried,
        resumed_states: statistics.resumed,
        inconsistent_states: statistics.inconsistent,
        unstable_states: statistics.unstable,
        unexplained_states: outcome.causes.unexplained,
        explaining_states: statistics.asked + outcome.causes.checks,
        points_cut: statistics.points_cut,
        points_left: statistics.points_left,
        states_per_second: statistics.tried as f64 / explored.max(1e-9),
        by_strategy: by_strategy(&statistics),
        conditions: strategies.condition_figures(),
        behaviours: strategies.behaviours(),
        representatives: strategies.representatives(),
        seconds: phases.seconds(),
    };
    Concluded {
        report: Report {
            recording: run.output.path.clone(),
            command: summary.command,
            figures: Figures {
                seconds: phases.total("").as_secs_f64(),
                ..summary.figures
            },
            rules: summary.rules,
            findings,
            problems: summary.problems,
            left_out: left_out::of_exploration(&statistics, outcome.causes.unexplained)
                .into_iter()
                .chain(summary.left_out)
                .collect(),
            test: Some(test),
        },
        statistics,
    }
}

/// Strategies of one name, one after the other, are one.
fn by_strategy(statistics: &Statistics) -> Vec<(String, u64, u64)> {
    let mut all: Vec<(String, u64, u64)> = Vec::new();
    for share in &statistics.by_strategy {
        match all.last_mut() {
            Some((name, chosen, tried)) if name == share.strategy => {
                *chosen += share.chosen;
                *tried += share.tried;
            }
            Some(_) | None => all.push((share.strategy.to_owned(), share.chosen, share.tried)),
        }
    }
    all
}
