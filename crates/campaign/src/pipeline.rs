//! From strategies and checkers to findings: the same for memory, for files, and for recovery that
//! is crashed again.
//!
//! A medium prepares its recording and starts its checkers in its own way, and hands both over as an
//! [`Exploration`] with an [`Explainer`]. From there on there is one path: crash states are tried and
//! journaled, failing ones are minimised, causes with the same root become one, and each cause is
//! run once more and written down as a finding.

use std::ops::ControlFlow;
use std::path::Path;

use crashpoint_check::engine::explore::Budget;
use crashpoint_check::engine::explore::{self, Explored, Statistics};
use crashpoint_check::engine::journal::{self, Identity, Journal, ResultOrigin};
use crashpoint_check::engine::medium::{Checker, Medium};
use crashpoint_check::engine::minimise::{self, Causes};
use crashpoint_explain::picture::{self, Picture};
use crashpoint_explain::{Explainer, FailedAgain, merge};
use crashpoint_persist::graph::NodeId;
use crashpoint_report::Finding;
use crashpoint_states::Strategy;
use crashpoint_states::representative::Facts;

use crate::observer::{Progress, TestEvent};
use crate::test::{Run, TestError};

/// What is explored, and how far.
pub struct Exploration<'e, M, C> {
    pub medium: &'e M,
    /// Each holds what was there before the recorded program ran.
    pub checkers: &'e mut [C],
    pub strategies: &'e mut [Box<dyn Strategy>],
    pub budget: Budget,
    /// States that differ only in what was not read are tried once.
    pub prune: bool,
    /// Whether the places whose data was lost are counted.
    pub count_lost: bool,
    /// Where results are kept, so that a run can be resumed.
    pub journal: Option<JournalFile<'e>>,
    /// The number of the first finding, which names its folder.
    pub first_finding: usize,
}

pub struct JournalFile<'e> {
    pub path: &'e Path,
    /// What results depend on.
    pub identity: &'e Identity,
    pub resume: bool,
}

/// What came of an exploration.
pub struct Outcome {
    pub statistics: Statistics,
    pub causes: Causes,
    /// One finding for each cause, in the order of the causes.
    pub findings: Vec<Finding>,
    /// A check read something unseen, so that nothing was left out as unread.
    pub pruning_refuted: bool,
}

/// Tries crash states and explains those that fail.
pub fn run<M, C, E>(
    run: &Run<'_>,
    mut exploration: Exploration<'_, M, C>,
    explainer: &E,
) -> Result<Outcome, TestError>
where
    M: Medium,
    C: Checker<Patch = M::Patch>,
    E: Explainer<C>,
{
    run.observer.event(TestEvent::ExplorationBegins {
        crash_points: exploration.medium.points(),
    });
    let explored = exploration.explore(run);
    run.observer.event(TestEvent::ExplorationEnds);
    let (explored, pruning_refuted) = explored?;
    let statistics = explored.statistics.clone();
    let failing = explored.failing.len() as u64;
    let (causes, findings) = run.time("minimise", || -> Result<_, TestError> {
        let checker = &mut exploration.checkers[0];
        checker.rewind()?;
        let mut causes = minimise::minimise(exploration.medium, explored, checker)?;
        merge::merge(&mut causes, |cause, node| explainer.origin(cause, node));
        for cause in &mut causes.causes {
            explainer.simplify(cause);
        }
        let findings = exploration.findings(run, &mut causes, explainer)?;
        Ok((causes, findings))
    })?;
    let explained: u64 = causes.causes.iter().map(|cause| cause.states).sum();
    assert_eq!(
        explained + causes.unexplained,
        failing,
        "every failing state belongs to a finding, or is counted as not explained"
    );
    Ok(Outcome {
        statistics,
        causes,
        findings,
        pruning_refuted,
    })
}

impl<M: Medium, C: Checker<Patch = M::Patch>> Exploration<'_, M, C> {
    /// What was found, and whether leaving out what was not read turned out to be wrong: then
    /// nothing was left out.
    fn explore(&mut self, run: &Run<'_>) -> Result<(Explored, bool), TestError> {
        let (journal, known) = match &self.journal {
            None => (None, Vec::new()),
            Some(file) if file.resume => {
                let (journal, known) = Journal::resume(file.path, file.identity)?;
                (Some(journal), known)
            }
            Some(file) => {
                let journal = Journal::create(file.path, file.identity)?;
                (Some(journal), Vec::new())
            }
        };
        // The run that is resumed may have been killed after it had found this out.
        let refuted = known
            .iter()
            .any(|result| result.how == ResultOrigin::Refutes);
        if !refuted {
            let explored = run.time("explore", || {
                self.explore_once(run, self.prune, journal.as_ref(), &known)
            })?;
            if !explored.pruning_is_wrong {
                return Ok((explored, false));
            }
        }
        let mut known = match &self.journal {
            Some(file) => Journal::resume(file.path, file.identity)?.1,
            None => Vec::new(),
        };
        // What was seen, and not inferred.
        known.retain(|result| result.how != ResultOrigin::Pruned);
        let explored = run.time("explore again", || {
            self.explore_once(run, false, journal.as_ref(), &known)
        })?;
        Ok((explored, true))
    }

    fn explore_once(
        &mut self,
        run: &Run<'_>,
        prune: bool,
        journal: Option<&Journal>,
        known: &[journal::JournalEntry],
    ) -> Result<Explored, TestError> {
        for checker in self.checkers.iter_mut() {
            checker.rewind()?;
        }
        let exploration = explore::Exploration {
            medium: self.medium,
            limits: self.budget,
            prune,
            count_lost: self.count_lost,
            journal,
            known,
            watcher: &Progress(run.observer),
        };
        let explored = explore::explore(&exploration, self.strategies, self.checkers)?;
        Ok(explored)
    }

    /// Runs each cause's state once more for what is said about it, and writes the folder of its
    /// finding. A cause whose state no longer fails is dropped, and counts as not explained.
    fn findings(
        &mut self,
        run: &Run<'_>,
        causes: &mut Causes,
        explainer: &impl Explainer<C>,
    ) -> Result<Vec<Finding>, TestError> {
        let facts = if causes.causes.is_empty() {
            Facts::default()
        } else {
            explainer.facts()
        };
        let orders = self.orders(causes);
        let checker = &mut self.checkers[0];
        checker.rewind()?;
        let mut durable = 0;
        let mut findings = Vec::new();
        // By crash point, since a checker only goes forward.
        let all = std::mem::take(&mut causes.causes);
        assert!(all.is_sorted_by_key(|cause| cause.state.point));
        for (cause, order) in all.into_iter().zip(orders) {
            checker.advance(&causes.durable[durable..cause.state.durable], order)?;
            durable = cause.state.durable;
            let kept: Vec<NodeId> = cause.state.kept.iter().map(|id| NodeId(*id)).collect();
            let variants = checker.variants(&kept);
            let patch = checker.patch(&kept, cause.state.variant.min(variants - 1));
            let phase = cause.state.phase;
            let ended = checker.run(&patch, phase, false)?;
            if !self.medium.observe(phase, &ended).fails(phase) {
                causes.unexplained += cause.states;
                continue;
            }
            let mut failed = FailedAgain {
                cause: &cause,
                order,
                patch: &patch,
                ended: &ended,
                checker,
            };
            let mut finding = explainer.finding(&mut failed)?;
            let number = self.first_finding + findings.len();
            let folder = run.output.file("findings").join(number.to_string());
            if let Some(crash) = &mut finding.crash {
                crash.replay = format!("crashpoint replay {}", run.shown(&folder));
            }
            let graph = Picture {
                title: format!("{}: {}", finding.rule, finding.message),
                facts: &facts,
                nodes: picture::fates(&cause.state.kept, &cause.state.lost),
                tell: &|node| explainer.describe(node),
            };
            let written = explainer
                .write_replay(&failed, &finding, &folder)
                .and_then(|()| picture::write(&folder, &graph.graph()));
            written.map_err(|source| run.output.error(&folder, source))?;
            findings.push(finding);
            causes.causes.push(cause);
        }
        Ok(findings)
    }

    /// The last event before each cause's crash point.
    fn orders(&self, causes: &Causes) -> Vec<u64> {
        let points: Vec<usize> = causes.causes.iter().map(|one| one.state.point).collect();
        let mut orders = vec![0; points.len()];
        let Some(last) = points.iter().max() else {
            return orders;
        };
        self.medium.crash_points(&mut |crash_point, _| {
            for (point, order) in points.iter().zip(&mut orders) {
                if *point == crash_point.index {
                    *order = crash_point.order;
                }
            }
            if crash_point.index < *last {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        orders
    }
}
