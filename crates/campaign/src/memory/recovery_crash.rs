//! A second crash: recovery is recorded on a crashed pool, and crashed too.
//!
//! One level deep, and for a sample: recoveries of crashes spread over the whole workload, each in
//! a state that the program survived. What comes before the first operation of the recording is
//! recovery. After the second crash the program must be where it might have been after the first:
//! the interrupted operation happened or did not, and nothing that was acknowledged is lost.

use std::ops::ControlFlow;
use std::path::Path;
use std::process::Stdio;

use crashpoint_check::engine::crash_points::Phase;
use crashpoint_check::engine::explore::Statistics;
use crashpoint_check::memory::behaviours;
use crashpoint_check::memory::image::{self, Image};
use crashpoint_check::memory::judge::References;
use crashpoint_check::memory::plan::{Recovery, SuffixText, Suffixes, TestPlan};
use crashpoint_check::memory::pool::Pool;
use crashpoint_check::memory::references::AllReferences;
use crashpoint_check::memory::timeline::{Operations, Timeline, Walk};
use crashpoint_check::memory::worker::Setup;
use crashpoint_check::process::launch::Paths;
use crashpoint_report::resolve::Resolver;
use crashpoint_report::{Finding, LeftOut, LeftOutReason};
use crashpoint_trace::Recording;
use crashpoint_trace::program::Program;

use super::types::Types;
use super::{MemoryExploration, Prepared, plan, tighten};
use crate::left_out;
use crate::pipeline::Outcome;
use crate::record;
use crate::strategies;
use crate::target::{self, TargetError};
use crate::test::{Run, TestError};
use crate::workload::Workload;

/// Recoveries that are recorded.
const RECOVERIES: usize = 64;

pub struct RecoveryCrash<'a> {
    pub run: &'a Run<'a>,
    /// What was known before the first crash, and came of it.
    pub prepared: &'a Prepared,
    pub timeline: &'a Timeline,
    pub references: &'a AllReferences,
}

/// What came of second crashes.
#[derive(Default)]
pub struct SecondCrashes {
    pub findings: Vec<Finding>,
    pub recoveries: u64,
    pub states: u64,
    /// What was done, of each recovery.
    explorations: Vec<Statistics>,
    unexplained: u64,
}

impl SecondCrashes {
    fn count(&mut self, outcome: &Outcome) {
        self.states += outcome.statistics.tried;
        self.unexplained += outcome.causes.unexplained;
        self.explorations.push(outcome.statistics.clone());
    }

    /// What was not looked at. Recoveries that store nothing cannot lose anything.
    pub fn left_out(&self) -> Vec<LeftOut> {
        let sum = |of: fn(&Statistics) -> u64| self.explorations.iter().map(of).sum();
        let all = Statistics {
            tried: self.states,
            points: sum(|one| one.points),
            points_left: sum(|one| one.points_left),
            points_cut: sum(|one| one.points_cut),
            unstable: sum(|one| one.unstable),
            ..Statistics::default()
        };
        let mut left_out = left_out::of_exploration(&all, self.unexplained);
        left_out.retain(|one| one.reason != LeftOutReason::NothingToLose);
        for one in &mut left_out {
            one.text = format!("of crashes in recovery, {}", one.text);
        }
        left_out
    }
}

/// A pool after the first crash.
struct Crashed {
    phase: Phase,
    image: Image,
}

impl RecoveryCrash<'_> {
    /// Crashes recoveries. Findings get folders with numbers from `first` on.
    pub fn test(&self, first: usize) -> Result<SecondCrashes, TestError> {
        let mut second = SecondCrashes::default();
        let mut seen = Vec::new();
        let first_plan = plan::make(self.run.settings, self.prepared, self.run.scratch)?;
        for (number, crashed) in self.sample(&first_plan).into_iter().enumerate() {
            let folder = self.run.scratch.join(format!("second{number}"));
            let Some(recovery) = self.record(&first_plan, &crashed, &folder)? else {
                continue;
            };
            second.recoveries += 1;
            let number = first + second.findings.len();
            let outcome = self.crash(&first_plan, &crashed, &recovery, &folder, number)?;
            second.count(&outcome);
            for mut finding in outcome.findings {
                if seen.contains(&finding.fingerprint()) {
                    continue;
                }
                seen.push(finding.fingerprint());
                self.rephrase(&mut finding, crashed.phase);
                second.findings.push(finding);
            }
            let _ = std::fs::remove_dir_all(&folder);
        }
        Ok(second)
    }

    /// Crashed pools, spread over the workload: of each chosen point the state in which nothing
    /// more than what must be there has persisted.
    fn sample(&self, plan: &TestPlan<'_>) -> Vec<Crashed> {
        let points = self.timeline.points;
        let stride = points.div_ceil(RECOVERIES).max(1);
        let mut image = plan.setup.before.clone();
        let mut applied = 0;
        let mut sample = Vec::new();
        let walk = Walk::new(plan.recording, &plan.operations, plan.model);
        walk.crash_points(|point, _| {
            for id in &point.durable[applied..] {
                image.apply(&self.timeline.nodes[id.index()]);
            }
            applied = point.durable.len();
            if point.index % stride == 0 && point.phase != Phase::Opening {
                sample.push(Crashed {
                    phase: point.phase,
                    image: image.clone(),
                });
            }
            ControlFlow::Continue(())
        });
        sample
    }

    /// Records the target on a crashed pool; none if its recovery stores nothing, or fails.
    fn record(
        &self,
        plan: &TestPlan<'_>,
        crashed: &Crashed,
        folder: &Path,
    ) -> Result<Option<Prepared>, TestError> {
        let io_error = |source| TargetError::Io {
            path: folder.to_owned(),
            source,
        };
        std::fs::create_dir_all(folder).map_err(io_error)?;
        let paths = Paths {
            pool: folder.join("pool"),
            ops: folder.join("ops"),
            printed: folder.join("printed"),
        };
        let (setup, image) = (&plan.setup, crashed.image.clone());
        let pool = Pool::create(&setup.shapes, &setup.recorded_pool, &paths.pool, image);
        pool.map_err(io_error)?;
        let list = &phase_list(plan, crashed.phase).text;
        std::fs::write(&paths.ops, list).map_err(io_error)?;
        let target = &self.run.settings.target;
        let run = target.run.as_ref().ok_or(TestError::NoTarget)?;
        let command = target::command(run, &paths);
        let recorded = target::recording_settings(self.run.settings, &paths.pool);
        let out = folder.join("recorded");
        let recorded = record::record_into(&recorded, &out, command.to_std(), |target| {
            target
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
        });
        let recorded = recorded.map_err(TargetError::from)?;
        let Some(recording) = recorded
            .recording
            .filter(|_| recorded.ended.end.is_success())
        else {
            return Ok(None);
        };
        let (program, _) = Program::load_available(&recording);
        let recovery = Prepared {
            workload: Workload {
                operations: Vec::new(),
                text: list.clone(),
            },
            printed: Vec::new(),
            recording,
            program,
        };
        let operations = self.operations(&recovery);
        let walk = Walk::new(&recovery.recording, &operations, plan.model);
        let timeline = walk.survey();
        let stores = timeline
            .operations
            .first()
            .map_or(timeline.nodes.len(), |span| span.begin);
        Ok((stores > 0).then_some(recovery))
    }

    fn operations(&self, recovery: &Prepared) -> Operations {
        plan::operations(self.run.settings, recovery)
    }

    /// Crashes one recovery, through the pipeline of all tests.
    fn crash(
        &self,
        first: &TestPlan<'_>,
        crashed: &Crashed,
        recovery: &Prepared,
        folder: &Path,
        first_finding: usize,
    ) -> Result<Outcome, TestError> {
        let settings = self.run.settings;
        let recording: &Recording = &recovery.recording;
        let list = phase_list(first, crashed.phase);
        let plan = TestPlan {
            recording,
            operations: self.operations(recovery),
            model: first.model,
            setup: Setup {
                shapes: image::shapes(recording),
                recorded_pool: folder.join("pool"),
                mappings: plan::mappings(recording),
                before: crashed.image.clone(),
                ..first.setup.clone()
            },
            makes_pool: false,
            oracle: first.oracle,
            suffixes: Suffixes::new(1, move |_| list.clone()),
            limits: first.limits,
            prune: first.prune,
            jobs: first.jobs,
            scratch: folder.to_owned(),
            recovery: Some(Recovery(crashed.phase.allowed())),
        };
        let of_first = self
            .references
            .by_suffix
            .get(crashed.phase.suffix().0 as usize);
        let references: Vec<Option<References>> = of_first.cloned().into_iter().collect();
        let timeline = Walk::new(recording, &plan.operations, plan.model).survey();
        let mut workers = plan.workers()?;
        for worker in &mut workers {
            tighten(&mut worker.limits, settings, self.references);
        }
        let mut strategies = strategies::strategies(settings, || {
            let transactions = &settings.rules.transactions;
            let mut types = Types::new(recording, &recovery.program, transactions);
            behaviours::plan(recording, &plan.operations, plan.model, &mut types).plan
        });
        let exploration = MemoryExploration {
            plan: &plan,
            timeline: &timeline,
            references: &references,
            resolver: &Resolver::new(recording, &recovery.program),
            operation_line: &|_| String::new(),
            count_lost: false,
            journal: None,
            first_finding,
        };
        exploration.run(&self.run.quiet(), &mut workers, &mut strategies.all)
    }

    /// What is told as a crash is told as the second of two.
    fn rephrase(&self, finding: &mut Finding, phase: Phase) {
        finding.message = format!("in recovery, when power fails again: {}", finding.message);
        if let (Some(crash), Some(operation)) = (&mut finding.crash, phase.operation()) {
            let line = self.prepared.workload.line(operation).to_owned();
            crash.operation = Some((u64::from(operation) + 1, line));
            crash.acknowledged = matches!(phase, Phase::Returned(_));
        }
    }
}

fn phase_list(plan: &TestPlan<'_>, phase: Phase) -> SuffixText {
    let mut list = SuffixText::clone(&plan.suffixes.get(phase.suffix()));
    // A recovery has one phase: what had been printed is what it was when power failed first.
    if matches!(phase, Phase::Returned(_)) {
        list.printed_before = list.printed_after;
    }
    list
}
