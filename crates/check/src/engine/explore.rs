//! Goes through the crash points of a recording, asks a strategy for crash states, and has each distinct
//! one checked.
//!
//! One thread walks and asks; workers take states from a short queue. What a state's verdict is
//! does not depend on which worker tries it or when, so neither do the findings.
//!
//! A budget is spread over the crash points: each gets as much as each of those behind it. What they do
//! not need is for those that were cut short, in another round.

mod learn;
mod producer;
mod progress;

use crate::engine::crash_points::{Assumption, Phase};
use crate::engine::journal::{Journal, JournalEntry, JournalError, ResultOrigin};
use crate::engine::medium::{CheckError, Checker, Medium, ReadLocation};
use crate::engine::outcome::Observed;
use crate::engine::result_table::{Failing, Key, ResultTable};
use crate::process::run::RunEnd;
use crashpoint_persist::graph::NodeId;
use crashpoint_states::Strategy;
use num_bigint::BigUint;
use producer::Producer;
use progress::Progress;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Condvar, Mutex, RwLock};
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum ExploreError {
    #[error(transparent)]
    Worker(#[from] CheckError),
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// How much may be tried; 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    pub states: u64,
    pub states_per_point: u64,
    pub time: Option<Duration>,
}

/// What was done, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    pub points: u64,
    /// States that can exist at those points, counted with repetition.
    pub possible: BigUint,
    /// Whether `possible` is exact, or at least that many.
    pub exact: bool,
    /// States that the strategy chose.
    pub chosen: u64,
    /// Of these, those with an image that was met before.
    pub duplicates: u64,
    /// Those that differ from a tried one only in words that it did not read.
    pub pruned: u64,
    /// Pruned states that were tried all the same, to see that pruning is right.
    pub audited: u64,
    /// States of a kind of which several had failed, not tried.
    pub known_to_fail: u64,
    pub tried: u64,
    /// Tried to explain failing ones, and chosen by no strategy.
    pub asked: u64,
    /// Known from an earlier run that was resumed.
    pub resumed: u64,
    /// Stores whose loss was found to do harm and that were kept in all later states.
    pub assumed: u64,
    /// Points at which a budget left something out.
    pub points_cut: u64,
    /// The budget ended the walk at a point; the rest was not looked at.
    pub points_left: u64,
    pub inconsistent: u64,
    /// States whose outcome differed between two runs: no verdict.
    pub unstable: u64,
    pub restarts: u64,
    /// Kinds of states of which some failed.
    pub clusters: u64,
    /// States that can exist, and those that were offered, by what runs after them.
    pub by_suffix: Vec<(BigUint, u64)>,
    /// What each strategy chose and had tried, in their order.
    pub by_strategy: Vec<Share>,
    /// In how many of the chosen states something from a place in the program was lost, if that was
    /// asked for.
    pub lost_by_site: FxHashMap<u64, u64>,
}

/// One strategy's part of the work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    pub strategy: &'static str,
    pub chosen: u64,
    pub tried: u64,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Explored {
    pub statistics: Statistics,
    pub failing: Vec<Failing>,
    pub table: ResultTable,
    /// What was taken to be durable, and from which point on.
    pub assumptions: Vec<Assumption>,
    /// A pruned state that was tried all the same came out otherwise: something reads persistent
    /// memory unseen, and what was pruned has to be tried.
    pub pruning_is_wrong: bool,
}

/// Watches from outside.
pub trait Watcher: Sync {
    /// Called now and then.
    fn progress(&self, point: usize, points: usize, tried: u64, inconsistent: u64);
}

/// One state to check.
struct Job<P> {
    durable: usize,
    /// Of its crash point.
    order: u64,
    patch: P,
    key: Key,
    phase: Phase,
    /// The number of the strategy that chose it.
    strategy: usize,
    /// What may differ between states of this list.
    varying: Arc<Vec<ReadLocation>>,
    /// It is to explain others, and was not chosen.
    is_asked: bool,
}

/// What the walking thread and the workers share.
struct Shared<'a, S> {
    medium: &'a S,
    limits: Budget,
    count_lost: bool,
    table: Mutex<ResultTable>,
    /// What is durable, in the order in which it became so; jobs name a length of it.
    durable: RwLock<Vec<NodeId>>,
    /// Jobs that are not done.
    open: Mutex<u64>,
    done: Condvar,
    journal: Option<&'a Journal>,
    pruning: AtomicBool,
    stop: AtomicBool,
    error: Mutex<Option<ExploreError>>,
    tried: AtomicU64,
    tried_by: Vec<AtomicU64>,
    pruned: AtomicU64,
    audited: AtomicU64,
    unstable: AtomicU64,
    inconsistent: AtomicU64,
    /// A hang was confirmed with patience: the program does hang.
    hangs: AtomicBool,
}

/// How much longer a run may take that is to confirm a hang.
const HANG_TIME_FACTOR: u32 = 4;

/// Every so many pruned states one is tried, to see that pruning is right.
const AUDIT_INTERVAL: u64 = 64;

/// What an exploration needs.
pub struct Exploration<'a, S> {
    pub medium: &'a S,
    pub limits: Budget,
    /// States that differ only in what was not read are tried once.
    pub prune: bool,
    /// Whether it is counted what was lost.
    pub count_lost: bool,
    pub journal: Option<&'a Journal>,
    /// Results of an earlier run.
    pub known: &'a [JournalEntry],
    pub watcher: &'a dyn Watcher,
}

/// Tries what the strategies choose, one after the other, within one budget; what one has tried is
/// known to the next. The checkers must hold what was there before.
pub fn explore<S: Medium>(
    exploration: &Exploration<'_, S>,
    strategies: &mut [Box<dyn Strategy>],
    checkers: &mut [impl Checker<Patch = S::Patch>],
) -> Result<Explored, ExploreError> {
    let mut table = ResultTable::default();
    for result in exploration.known {
        if let Some(key) = result.key() {
            table.resolve(key, result.observed);
        }
    }
    let shared = Shared {
        medium: exploration.medium,
        limits: exploration.limits,
        count_lost: exploration.count_lost,
        table: Mutex::new(table),
        durable: RwLock::default(),
        open: Mutex::new(0),
        done: Condvar::new(),
        journal: exploration.journal,
        pruning: AtomicBool::new(exploration.prune),
        stop: AtomicBool::new(false),
        error: Mutex::new(None),
        tried: AtomicU64::new(0),
        tried_by: strategies.iter().map(|_| AtomicU64::new(0)).collect(),
        pruned: AtomicU64::new(0),
        audited: AtomicU64::new(0),
        unstable: AtomicU64::new(0),
        inconsistent: AtomicU64::new(0),
        hangs: AtomicBool::new(false),
    };
    let restarts_before: u32 = checkers.iter().map(Checker::restarts).sum();
    let mut progress = Progress::new(exploration.known);
    let shares = strategies.iter().map(|strategy| Share {
        strategy: strategy.name(),
        ..Share::default()
    });
    progress.statistics.by_strategy = shares.collect();
    for (number, strategy) in strategies.iter_mut().enumerate() {
        if number > 0 {
            for checker in checkers.iter_mut() {
                checker.rewind()?;
            }
        }
        let strategy = (number, strategy.as_mut());
        progress = rounds(exploration, &shared, strategy, checkers, progress)?;
        progress.next_strategy();
        if progress.is_spent(&shared) || shared.stop.load(Ordering::Relaxed) {
            break;
        }
    }
    let tried_by = shared.tried_by.iter();
    for (share, tried) in progress.statistics.by_strategy.iter_mut().zip(tried_by) {
        share.tried = tried.load(Ordering::Relaxed);
    }
    let table = shared.table.lock().expect("no panic");
    let clusters = progress.clusters(&table);
    drop(table);
    let (statistics, assumptions) = progress.end();
    if let Some(error) = shared.error.into_inner().expect("no panic") {
        return Err(error);
    }
    let pruning_is_wrong = exploration.prune && !shared.pruning.into_inner();
    let table = shared.table.into_inner().expect("no panic");
    let failing = table.failing();
    let restarts: u32 = checkers.iter().map(Checker::restarts).sum();
    Ok(Explored {
        statistics: Statistics {
            tried: shared.tried.into_inner(),
            pruned: shared.pruned.into_inner(),
            audited: shared.audited.into_inner(),
            unstable: shared.unstable.into_inner(),
            inconsistent: failing.len() as u64,
            restarts: u64::from(restarts - restarts_before),
            clusters,
            ..statistics
        },
        failing,
        table,
        assumptions,
        pruning_is_wrong,
    })
}

/// Tries what one strategy chooses.
fn rounds<S: Medium>(
    exploration: &Exploration<'_, S>,
    shared: &Shared<'_, S>,
    (number, strategy): (usize, &mut (dyn Strategy + 'static)),
    checkers: &mut [impl Checker<Patch = S::Patch>],
    mut progress: Progress,
) -> Result<Progress, ExploreError> {
    for _ in 0..MAX_ROUNDS {
        shared.durable.write().expect("no panic").clear();
        let (to_workers, jobs) = sync_channel(4 * checkers.len());
        let jobs = Mutex::new(jobs);
        progress = std::thread::scope(|scope| {
            for checker in checkers.iter_mut() {
                let jobs = &jobs;
                scope.spawn(move || shared.work(checker, jobs));
            }
            let turn = (number, strategy.name());
            let producer = Producer::new(shared, to_workers, progress, turn);
            producer.walk(strategy, exploration.watcher)
        });
        if !progress.wants_more(shared) {
            break;
        }
        for checker in checkers.iter_mut() {
            checker.rewind()?;
        }
    }
    Ok(progress)
}

impl<S: Medium> Shared<'_, S> {
    fn fail(&self, error: ExploreError) {
        self.stop.store(true, Ordering::Relaxed);
        self.error.lock().expect("no panic").get_or_insert(error);
    }

    fn work(
        &self,
        checker: &mut impl Checker<Patch = S::Patch>,
        jobs: &Mutex<Receiver<Job<S::Patch>>>,
    ) {
        let _pinned = checker.stay();
        let mut durable = 0;
        loop {
            let next = jobs.lock().expect("no panic").recv();
            let Ok(job) = next else { return };
            // After an error the queue is emptied, so that nobody waits for it.
            if !self.stop.load(Ordering::Relaxed)
                && let Err(error) = self.check(checker, &job, &mut durable)
            {
                self.fail(error);
            }
            *self.open.lock().expect("no panic") -= 1;
            self.done.notify_all();
        }
    }

    fn check(
        &self,
        checker: &mut impl Checker<Patch = S::Patch>,
        job: &Job<S::Patch>,
        durable: &mut usize,
    ) -> Result<(), ExploreError> {
        let new = self.durable.read().expect("no panic")[*durable..job.durable].to_vec();
        checker.advance(&new, job.order)?;
        *durable = job.durable;
        let pruning = self.pruning.load(Ordering::Relaxed);
        let mut expected = None;
        if pruning {
            let table = self.table.lock().expect("no panic");
            expected = table.equivalent(job.key.suffix, |at| checker.value(&job.patch, at));
        }
        if let Some(observed) = expected {
            let pruned = self.pruned.fetch_add(1, Ordering::Relaxed);
            if !pruned.is_multiple_of(AUDIT_INTERVAL) {
                return self.conclude(job, ResultOrigin::Pruned, observed);
            }
            self.audited.fetch_add(1, Ordering::Relaxed);
        }
        let observed = self.run(checker, job, pruning)?;
        let mut how = ResultOrigin::Tried;
        if let Some(expected) = expected
            && expected.outcomes != observed.outcomes
            && self.observe_again(checker, job)?.outcomes == observed.outcomes
        {
            // Something is read unseen: from here on nothing is pruned. What was pruned so far is
            // tried again by the caller, who looks at this.
            self.pruning.store(false, Ordering::Relaxed);
            how = ResultOrigin::Refutes;
        }
        self.conclude(job, how, observed)
    }

    fn run(
        &self,
        checker: &mut impl Checker<Patch = S::Patch>,
        job: &Job<S::Patch>,
        pruning: bool,
    ) -> Result<Observed, ExploreError> {
        let ended = checker.run(&job.patch, job.phase, pruning)?;
        if !job.is_asked {
            self.tried.fetch_add(1, Ordering::Relaxed);
            self.tried_by[job.strategy].fetch_add(1, Ordering::Relaxed);
        }
        let observed = self.medium.observe(job.phase, &ended);
        if pruning && let Some(read) = checker.reads(&job.varying)? {
            let found = read.iter().map(|at| checker.value(&job.patch, *at));
            let found = found.collect();
            let mut table = self.table.lock().expect("no panic");
            table.learn(job.key.suffix, read, found, observed);
        }
        if !observed.fails(job.phase) {
            return Ok(observed);
        }
        // A finding must show again; what looks like a hang gets more time for it, until one has
        // turned out to be one.
        let limits = *checker.limits();
        if observed.end == RunEnd::TimedOut && !self.hangs.load(Ordering::Relaxed) {
            checker.limits().time *= HANG_TIME_FACTOR;
        }
        let again = self.observe_again(checker, job);
        *checker.limits() = limits;
        let again = again?;
        if again.fails(job.phase) {
            let hangs = observed.end == RunEnd::TimedOut && again.end == RunEnd::TimedOut;
            self.hangs.fetch_or(hangs, Ordering::Relaxed);
            self.inconsistent.fetch_add(1, Ordering::Relaxed);
            return Ok(observed);
        }
        self.unstable.fetch_add(1, Ordering::Relaxed);
        Ok(again)
    }

    /// What another run of a state shows. A program that goes astray may do so in one way or the
    /// other, by what lies about in memory that is not persistent.
    fn observe_again(
        &self,
        checker: &mut impl Checker<Patch = S::Patch>,
        job: &Job<S::Patch>,
    ) -> Result<Observed, ExploreError> {
        let ended = checker.run(&job.patch, job.phase, false)?;
        Ok(self.medium.observe(job.phase, &ended))
    }

    fn conclude(
        &self,
        job: &Job<S::Patch>,
        how: ResultOrigin,
        observed: Observed,
    ) -> Result<(), ExploreError> {
        if let Some(journal) = self.journal {
            journal.write(&JournalEntry::new(job.key, how, observed))?;
        }
        let mut table = self.table.lock().expect("no panic");
        table.resolve(job.key, observed);
        Ok(())
    }
}

/// How often what was cut short is gone on with.
const MAX_ROUNDS: u32 = 32;

#[cfg(test)]
mod tests;
