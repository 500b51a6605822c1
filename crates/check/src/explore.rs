//! Goes through the moments of a recording, asks a strategy for crash states, and has each distinct
//! one checked.
//!
//! One thread walks and asks; workers take states from a short queue. What a state's verdict is
//! does not depend on which worker tries it or when, so neither do the findings.
//!
//! A budget is spread over the moments: each gets as much as each of those behind it. What they do
//! not need is for those that were cut short, in another round.

use crate::image::{Image, Patch, WordId};
use crate::journal::{How, Journal, JournalError, Result as JournalResult};
use crate::judge::{Observed, References};
use crate::plan::Plan;
use crate::server::{End, Ended};
use crate::table::{Failing, Key, Met, Sighting, Table};
use crate::timeline::{Assumption, ListId, Moment, Phase, Timeline, Walk};
use crate::worker::{Worker, WorkerError};
use crashpoint_abi::serve::notes;
use crashpoint_persist::graph::{Cut, Frontier, NodeId};
use crashpoint_states::Strategy;
use num_bigint::BigUint;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, RwLock};
use std::time::Instant;

#[derive(Debug, thiserror::Error)]
pub enum ExploreError {
    #[error(transparent)]
    Worker(#[from] WorkerError),
    #[error(transparent)]
    Journal(#[from] JournalError),
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
    pub tried: u64,
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
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Explored {
    pub statistics: Statistics,
    pub failing: Vec<Failing>,
    pub table: Table,
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
struct Job {
    durable: usize,
    patch: Patch,
    key: Key,
    phase: Phase,
    /// Words that may differ between states of this list.
    varying: Arc<Vec<WordId>>,
}

/// What the walking thread and the workers share.
struct Shared<'a> {
    plan: &'a Plan<'a>,
    timeline: &'a Timeline,
    references: &'a [References],
    table: Mutex<Table>,
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
    pruned: AtomicU64,
    audited: AtomicU64,
    unstable: AtomicU64,
    inconsistent: AtomicU64,
    /// A hang was confirmed with patience: the program does hang.
    hangs: AtomicBool,
}

/// How much longer a run may take that is to confirm a hang.
const PATIENCE: u32 = 4;

/// Nodes of a chain that are looked at, one by one from its end.
const LONG_CHAIN: usize = 64;

/// Every so many pruned states one is tried, to see that pruning is right.
const AUDIT: u64 = 64;

/// What an exploration needs beside its plan.
pub struct Exploration<'a> {
    pub plan: &'a Plan<'a>,
    pub timeline: &'a Timeline,
    pub references: &'a [References],
    pub journal: Option<&'a Journal>,
    /// Results of an earlier run.
    pub known: &'a [JournalResult],
    pub watcher: &'a dyn Watcher,
}

/// Tries what the strategy chooses. The workers' pools must hold what was there before.
pub fn explore(
    exploration: &Exploration<'_>,
    strategy: &mut dyn Strategy,
    workers: &mut [Worker<'_>],
) -> Result<Explored, ExploreError> {
    let plan = exploration.plan;
    let mut table = Table::default();
    for result in exploration.known {
        if let Some(key) = result.key() {
            table.resolve(key, result.observed);
        }
    }
    let shared = Shared {
        plan,
        timeline: exploration.timeline,
        references: exploration.references,
        table: Mutex::new(table),
        durable: RwLock::default(),
        open: Mutex::new(0),
        done: Condvar::new(),
        journal: exploration.journal,
        pruning: AtomicBool::new(plan.prune),
        stop: AtomicBool::new(false),
        error: Mutex::new(None),
        tried: AtomicU64::new(0),
        pruned: AtomicU64::new(0),
        audited: AtomicU64::new(0),
        unstable: AtomicU64::new(0),
        inconsistent: AtomicU64::new(0),
        hangs: AtomicBool::new(false),
    };
    let restarts_before: u32 = workers.iter().map(|worker| worker.restarts).sum();
    let mut progress = Progress::new(exploration);
    for _ in 0..ROUNDS {
        shared.durable.write().expect("no panic").clear();
        let (to_workers, jobs) = sync_channel::<Job>(4 * workers.len());
        let jobs = Mutex::new(jobs);
        progress = std::thread::scope(|scope| {
            for worker in workers.iter_mut() {
                let (shared, jobs) = (&shared, &jobs);
                scope.spawn(move || shared.work(worker, jobs));
            }
            let producer = Producer::new(&shared, to_workers, progress);
            producer.walk(strategy, exploration.watcher)
        });
        if !progress.wants_more(&shared) {
            break;
        }
        for worker in workers.iter_mut() {
            worker.rewind()?;
        }
    }
    let (statistics, assumptions) = progress.end();
    if let Some(error) = shared.error.into_inner().expect("no panic") {
        return Err(error);
    }
    let pruning_is_wrong = plan.prune && !shared.pruning.into_inner();
    let table = shared.table.into_inner().expect("no panic");
    let failing = table.failing();
    let restarts: u32 = workers.iter().map(|worker| worker.restarts).sum();
    Ok(Explored {
        statistics: Statistics {
            tried: shared.tried.into_inner(),
            pruned: shared.pruned.into_inner(),
            audited: shared.audited.into_inner(),
            unstable: shared.unstable.into_inner(),
            inconsistent: failing.len() as u64,
            restarts: u64::from(restarts - restarts_before),
            ..statistics
        },
        failing,
        table,
        assumptions,
        pruning_is_wrong,
    })
}

impl Shared<'_> {
    fn fail(&self, error: ExploreError) {
        self.stop.store(true, Ordering::Relaxed);
        self.error.lock().expect("no panic").get_or_insert(error);
    }

    fn work(&self, worker: &mut Worker<'_>, jobs: &Mutex<Receiver<Job>>) {
        let _pinned = worker.stay();
        let mut durable = 0;
        loop {
            let next = jobs.lock().expect("no panic").recv();
            let Ok(job) = next else { return };
            // After an error the queue is emptied, so that nobody waits for it.
            if !self.stop.load(Ordering::Relaxed)
                && let Err(error) = self.check(worker, &job, &mut durable)
            {
                self.fail(error);
            }
            *self.open.lock().expect("no panic") -= 1;
            self.done.notify_all();
        }
    }

    fn check(
        &self,
        worker: &mut Worker<'_>,
        job: &Job,
        durable: &mut usize,
    ) -> Result<(), ExploreError> {
        let new = self.durable.read().expect("no panic")[*durable..job.durable].to_vec();
        worker.advance(new.iter().map(|id| &self.timeline.nodes[id.index()]))?;
        *durable = job.durable;
        let word = |at: WordId| {
            let patched = job.patch.get(&at).copied();
            patched.unwrap_or_else(|| worker.image().word(at))
        };
        let pruning = self.pruning.load(Ordering::Relaxed);
        let mut expected = None;
        if pruning {
            let table = self.table.lock().expect("no panic");
            expected = table.equivalent(job.key.list, word);
        }
        if let Some(observed) = expected {
            let pruned = self.pruned.fetch_add(1, Ordering::Relaxed);
            if !pruned.is_multiple_of(AUDIT) {
                return self.conclude(job, How::Pruned, observed);
            }
            self.audited.fetch_add(1, Ordering::Relaxed);
        }
        let observed = self.run(worker, job, pruning)?;
        let mut how = How::Tried;
        if expected.is_some_and(|expected| expected != observed) {
            // Something reads persistent memory unseen: from here on nothing is pruned. What was
            // pruned so far is tried again by the caller, who looks at this.
            self.pruning.store(false, Ordering::Relaxed);
            how = How::Refutes;
        }
        self.conclude(job, how, observed)
    }

    fn run(
        &self,
        worker: &mut Worker<'_>,
        job: &Job,
        pruning: bool,
    ) -> Result<Observed, ExploreError> {
        let acknowledged = matches!(job.phase, Phase::After(_));
        let list = self.plan.list(job.key.list, acknowledged);
        let observe = |ended: &Ended| self.plan.observe(job.key.list, ended, self.references);
        let ended = worker.run(&job.patch, &list, pruning)?;
        self.tried.fetch_add(1, Ordering::Relaxed);
        let observed = observe(&ended);
        if pruning && ended.notes & notes::UNMARKED_READS == 0 {
            self.learn(worker, job, observed)?;
        }
        if !observed.fails(job.phase) {
            return Ok(observed);
        }
        // A finding must show again; what looks like a hang gets more time for it, until one has
        // turned out to be one.
        let limits = worker.limits;
        if observed.end == End::TimedOut && !self.hangs.load(Ordering::Relaxed) {
            worker.limits.time *= PATIENCE;
        }
        let again = worker.run(&job.patch, &list, false);
        worker.limits = limits;
        let again = observe(&again?);
        if again.fails(job.phase) {
            let hangs = observed.end == End::TimedOut && again.end == End::TimedOut;
            self.hangs.fetch_or(hangs, Ordering::Relaxed);
            self.inconsistent.fetch_add(1, Ordering::Relaxed);
            return Ok(observed);
        }
        self.unstable.fetch_add(1, Ordering::Relaxed);
        Ok(again)
    }

    fn learn(
        &self,
        worker: &Worker<'_>,
        job: &Job,
        observed: Observed,
    ) -> Result<(), ExploreError> {
        let read = worker.reads().among(job.varying.iter().copied());
        let read = read.map_err(|source| WorkerError::Files {
            folder: self.plan.scratch.clone(),
            source,
        })?;
        let value = |at: &WordId| {
            let patched = job.patch.get(at).copied();
            patched.unwrap_or_else(|| worker.image().word(*at))
        };
        let found = read.iter().map(value).collect();
        let mut table = self.table.lock().expect("no panic");
        table.learn(job.key.list, read, found, observed);
        Ok(())
    }

    fn conclude(&self, job: &Job, how: How, observed: Observed) -> Result<(), ExploreError> {
        if let Some(journal) = self.journal {
            journal.write(&JournalResult::new(job.key, how, observed))?;
        }
        let mut table = self.table.lock().expect("no panic");
        table.resolve(job.key, observed);
        Ok(())
    }
}

/// How often what was cut short is gone on with.
const ROUNDS: u32 = 32;

/// Of the states that a strategy has for a moment, how many were looked at.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    cuts: u64,
    /// There are no more, or no more are wanted.
    is_done: bool,
}

/// What a round leaves to the next one.
struct Progress {
    round: u32,
    began: Instant,
    statistics: Statistics,
    assumptions: Vec<Assumption>,
    /// By moment, as far as the walk got.
    taken: Vec<Taken>,
    /// By the run that is resumed: the budget is for both.
    tried_before: u64,
    /// Distinct states so far, whether they were tried or turned out not to need it: which ones a
    /// moment gets depends on this, and so not on who was faster.
    offered: u64,
}

impl Progress {
    fn new(exploration: &Exploration<'_>) -> Progress {
        let known = exploration.known;
        let was_tried = |result: &&JournalResult| result.how == How::Tried;
        Progress {
            round: 0,
            began: Instant::now(),
            statistics: Statistics {
                exact: true,
                resumed: known.len() as u64,
                ..Statistics::default()
            },
            assumptions: Vec::new(),
            taken: Vec::new(),
            tried_before: known.iter().filter(was_tried).count() as u64,
            offered: 0,
        }
    }

    fn is_spent(&self, shared: &Shared<'_>) -> bool {
        let limits = &shared.plan.limits;
        let tried = shared.tried.load(Ordering::Relaxed) + self.tried_before;
        (limits.states > 0 && tried >= limits.states)
            || limits.time.is_some_and(|time| self.began.elapsed() >= time)
    }

    fn wants_more(&self, shared: &Shared<'_>) -> bool {
        let cut = self.taken.iter().any(|taken| !taken.is_done);
        cut && !self.is_spent(shared) && !shared.stop.load(Ordering::Relaxed)
    }

    fn end(mut self) -> (Statistics, Vec<Assumption>) {
        let cut = self.taken.iter().filter(|taken| !taken.is_done);
        self.statistics.points_cut += cut.count() as u64;
        (self.statistics, self.assumptions)
    }
}

/// The walking thread.
struct Producer<'s, 'a> {
    shared: &'s Shared<'a>,
    to_workers: SyncSender<Job>,
    /// What is durable.
    image: Image,
    durable: usize,
    list: Option<ListId>,
    varying: Arc<Vec<WordId>>,
    progress: Progress,
}

/// Where a moment's part of the budget ends.
struct Share {
    offered: Option<u64>,
    time: Option<Instant>,
    at_least: u64,
}

impl Share {
    fn is_spent(&self, offered: u64) -> bool {
        offered >= self.at_least
            && (self.offered.is_some_and(|most| offered >= most)
                || self.time.is_some_and(|time| Instant::now() >= time))
    }
}

impl<'s, 'a> Producer<'s, 'a> {
    fn new(shared: &'s Shared<'a>, to_workers: SyncSender<Job>, progress: Progress) -> Self {
        Producer {
            shared,
            to_workers,
            image: shared.plan.setup.before.clone(),
            durable: 0,
            list: None,
            varying: Arc::default(),
            progress,
        }
    }

    /// Goes through all moments once.
    fn walk(mut self, strategy: &mut dyn Strategy, watcher: &dyn Watcher) -> Progress {
        let plan = self.shared.plan;
        let walk = Walk::new(plan.recording, &plan.operations, plan.model);
        let points = self.shared.timeline.points;
        walk.moments(|moment, assumed| {
            watcher.progress(
                moment.index,
                points,
                self.shared.tried.load(Ordering::Relaxed),
                self.shared.inconsistent.load(Ordering::Relaxed),
            );
            let beyond = plan.recovery.is_some() && moment.phase != Phase::Opening;
            if beyond || self.shared.stop.load(Ordering::Relaxed) {
                return ControlFlow::Break(());
            }
            if self.progress.is_spent(self.shared) {
                let looked_at = self.progress.taken.len().max(moment.index);
                self.progress.statistics.points_left = (points - looked_at) as u64;
                return ControlFlow::Break(());
            }
            let frontier = self.point(moment, strategy);
            if moment.returned && !frontier.chains.is_empty() {
                *assumed = self.assume(moment, &frontier);
            }
            ControlFlow::Continue(())
        });
        self.progress.round += 1;
        self.progress
    }

    /// What is taken to be durable after a moment: found out in the first round.
    fn assume(&mut self, moment: &Moment<'_>, frontier: &Frontier) -> Vec<NodeId> {
        let point = moment.index;
        let progress = &self.progress;
        if progress.round > 0 {
            let of_point = progress.assumptions.iter().filter(|one| one.point == point);
            return of_point.map(|one| one.node).collect();
        }
        self.wait();
        let nodes = self.harmful(moment, frontier);
        let new = nodes.iter().map(|node| Assumption { point, node: *node });
        self.progress.assumptions.extend(new);
        self.progress.statistics.assumed += nodes.len() as u64;
        nodes
    }

    /// Waits until all jobs are done, so that what follows depends on results and not on who was
    /// faster.
    fn wait(&self) {
        let open = self.shared.open.lock().expect("no panic");
        let done = self.shared.done.wait_while(open, |open| *open > 0);
        drop(done.expect("no panic"));
    }

    /// When an operation has returned: the last node of each chain without which, all else being
    /// kept, the state fails.
    ///
    /// The finding is made; were the node lost in later states too, they would all fail for the
    /// same reason and hide what else is wrong, and their number would double with each such node.
    fn harmful(&self, moment: &Moment<'_>, frontier: &Frontier) -> Vec<NodeId> {
        let table = self.shared.table.lock().expect("no panic");
        let mut harmful = Vec::new();
        for (index, chain) in frontier.chains.iter().enumerate() {
            let fails = |kept: &usize| {
                let mut cut = frontier.all();
                cut.0[index] = *kept as u32;
                let cut = frontier.floor(cut);
                let patch = self.patch(frontier, &cut);
                let image = self.image.hash_with(&patch);
                let key = self.shared.plan.key(moment.phase, image);
                let observed = table.observed(key);
                observed.is_some_and(|observed| observed.fails(moment.phase))
            };
            let last = (0..chain.nodes.len()).rev().take(LONG_CHAIN).find(fails);
            harmful.extend(last.map(|kept| chain.nodes[kept]));
        }
        harmful
    }

    fn patch(&self, frontier: &Frontier, cut: &Cut) -> Patch {
        let kept = frontier.kept(cut);
        let nodes = &self.shared.timeline.nodes;
        self.image.patch(kept.iter().map(|id| &nodes[id.index()]))
    }

    /// What a moment may use of the budget: as much as each of those that are left. What it does not
    /// need is for them.
    fn share(&self, moment: &Moment<'_>) -> Share {
        let limits = &self.shared.plan.limits;
        let progress = &self.progress;
        let left = match progress.round {
            0 => self.shared.timeline.points.saturating_sub(moment.index),
            _ => {
                let rest = progress.taken[moment.index..].iter();
                rest.filter(|taken| !taken.is_done).count()
            }
        };
        let left = left.max(1);
        let states = limits.states.saturating_sub(progress.offered) / left as u64;
        let time = limits.time.map(|time| {
            let rest = time.saturating_sub(progress.began.elapsed());
            Instant::now() + rest / left as u32
        });
        Share {
            offered: (limits.states > 0).then_some(progress.offered + states),
            time,
            at_least: progress.offered + 1,
        }
    }

    fn point(&mut self, moment: &Moment<'_>, strategy: &mut dyn Strategy) -> Frontier {
        let timeline = self.shared.timeline;
        let new = &moment.durable[self.durable..];
        for id in new {
            self.image.apply(&timeline.nodes[id.index()]);
        }
        self.shared.durable.write().expect("no panic").extend(new);
        self.durable = moment.durable.len();
        let list = moment.phase.list();
        if self.list != Some(list) {
            if let Some(before) = self.list.replace(list) {
                let mut table = self.shared.table.lock().expect("no panic");
                table.forget_runs(before);
            }
            self.varying = Arc::new(varying(timeline, list));
        }
        let frontier = moment.frontier();
        if self.progress.taken.len() == moment.index {
            let count = frontier.count();
            let statistics = &mut self.progress.statistics;
            statistics.points += 1;
            statistics.possible += &count.value;
            statistics.exact &= count.exact;
            self.progress.taken.push(Taken::default());
        }
        let before = self.progress.taken[moment.index];
        if !before.is_done {
            let taken = self.offer_some(moment, &frontier, before, strategy);
            self.progress.taken[moment.index] = taken;
            self.progress.statistics.chosen += taken.cuts - before.cuts;
        }
        frontier
    }

    /// Goes on with the states of a moment.
    fn offer_some(
        &mut self,
        moment: &Moment<'_>,
        frontier: &Frontier,
        before: Taken,
        strategy: &mut dyn Strategy,
    ) -> Taken {
        let most = self.shared.plan.limits.states_per_point;
        let share = self.share(moment);
        let mut taken = before;
        for cut in strategy.cuts(frontier).skip(before.cuts as usize) {
            if most > 0 && taken.cuts == most {
                // It stays cut short, whatever is left of the rest.
                self.progress.statistics.points_cut += 1;
                break;
            }
            if share.is_spent(self.progress.offered) || self.progress.is_spent(self.shared) {
                return taken;
            }
            taken.cuts += 1;
            let patch = self.patch(frontier, &cut);
            self.offer(moment, patch, cut);
            if self.shared.stop.load(Ordering::Relaxed) {
                return taken;
            }
        }
        taken.is_done = true;
        taken
    }

    fn offer(&mut self, moment: &Moment<'_>, patch: Patch, cut: Cut) {
        let image = self.image.hash_with(&patch);
        let key = self.shared.plan.key(moment.phase, image);
        let sighting = Sighting {
            point: moment.index,
            phase: moment.phase,
            cut,
        };
        let mut table = self.shared.table.lock().expect("no panic");
        let met = table.meet(key, sighting);
        drop(table);
        match met {
            Met::New => self.progress.offered += 1,
            Met::Known | Met::Again => {
                self.progress.statistics.duplicates += 1;
                self.progress.offered += u64::from(met == Met::Known);
                return;
            }
        }
        let job = Job {
            durable: moment.durable.len(),
            patch,
            key,
            phase: moment.phase,
            varying: Arc::clone(&self.varying),
        };
        *self.shared.open.lock().expect("no panic") += 1;
        // Workers end only after the queue is closed.
        let _ = self.to_workers.send(job);
    }
}

/// Words that may differ between two states of a list: those of nodes that were pending when its
/// operation began, and of nodes issued from there until the next one begins.
fn varying(timeline: &Timeline, list: ListId) -> Vec<WordId> {
    let word = |node: usize| WordId::of(timeline.nodes[node].address);
    let operation = (list.0 as usize).checked_sub(1);
    let begin = operation.map_or(0, |index| timeline.operations[index].begin);
    let next = timeline.operations.get(list.0 as usize);
    let end = next.map_or(timeline.nodes.len(), |span| span.begin);
    let pending = operation.map_or(&[][..], |index| &timeline.pending_at_begin[index]);
    let mut words: Vec<WordId> = pending.iter().map(|id| word(id.0 as usize)).collect();
    words.extend((begin..end).map(word));
    words.sort_unstable();
    words.dedup();
    words
}
