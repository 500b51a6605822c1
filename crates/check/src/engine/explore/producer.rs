//! The thread that walks: it asks the strategy for the states of each crash point, and hands those that
//! were not met before to the workers.

use super::learn::Unexplained;
use super::progress::{Progress, Taken};
use super::{Job, Shared, Watcher};
use crate::engine::crash_points::{Assumption, CrashPoint, Phase, SuffixId};
use crate::engine::medium::{CheckError, DurableState as _, Medium, ReadLocation};
use crate::engine::result_table::{Key, Met, Sighting};
use crate::process::run::RunEnd;
use crashpoint_persist::graph::{Cut, Frontier, NodeId};
use crashpoint_states::{Choice, KindId, Strategy};
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::time::Instant;

/// States that a crash point at which an operation has returned gets whatever is left of the budget.
const MAX_CHAINS: usize = 64;

/// Failing states of a kind after which no more of it are tried.
const ENOUGH_FAILED: usize = 3;

/// The walking thread.
pub struct Producer<'s, 'a, S: Medium> {
    pub(super) shared: &'s Shared<'a, S>,
    to_workers: SyncSender<Job<S::Patch>>,
    /// What is durable.
    pub(super) durable_state: S::DurableState,
    durable: usize,
    suffix: Option<SuffixId>,
    /// The list that was asked about last, and what may differ there.
    varying: Option<(SuffixId, Arc<Vec<ReadLocation>>)>,
    pub(super) progress: Progress,
    /// Its name, and its number among those that are used.
    strategy: &'static str,
    pub(super) number: usize,
    /// No other strategy comes back to a list of operations.
    is_last: bool,
    pub(super) unexplained: Unexplained,
    /// Of the crash point, chains of which alone something was lost, and what was kept of them.
    single_losses: Vec<(usize, usize)>,
    /// The strategy is content with causes.
    is_learning: bool,
}

/// Where a crash point's part of the budget ends.
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

impl<'s, 'a, S: Medium> Producer<'s, 'a, S> {
    pub fn new(
        shared: &'s Shared<'a, S>,
        to_workers: SyncSender<Job<S::Patch>>,
        progress: Progress,
        strategy: (usize, &'static str),
    ) -> Self {
        Producer {
            shared,
            to_workers,
            durable_state: shared.medium.before(),
            durable: 0,
            suffix: None,
            varying: None,
            progress,
            strategy: strategy.1,
            number: strategy.0,
            is_last: strategy.0 + 1 == shared.tried_by.len(),
            unexplained: Unexplained::new(),
            single_losses: Vec::new(),
            is_learning: false,
        }
    }

    /// Goes through all crash points once.
    pub fn walk(mut self, strategy: &mut dyn Strategy, watcher: &dyn Watcher) -> Progress {
        let medium = self.shared.medium;
        let points = medium.points();
        self.is_learning = strategy.skips_explained_states();
        medium.crash_points(&mut |point, assumed| {
            watcher.progress(
                point.index,
                points,
                self.shared.tried.load(Ordering::Relaxed),
                self.shared.inconsistent.load(Ordering::Relaxed),
            );
            if self.shared.stop.load(Ordering::Relaxed) {
                return ControlFlow::Break(());
            }
            if self.progress.is_spent(self.shared) {
                let looked_at = self.progress.taken.len().max(point.index);
                self.progress.statistics.points_left = (points - looked_at) as u64;
                return ControlFlow::Break(());
            }
            let was_tried = match self.point(point, strategy) {
                Ok(was_tried) => was_tried,
                Err(error) => {
                    self.shared.fail(error.into());
                    return ControlFlow::Break(());
                }
            };
            if point.returned {
                *assumed = self.assume(point, was_tried);
            }
            ControlFlow::Continue(())
        });
        self.progress.round += 1;
        self.progress
    }

    /// What is taken to be durable after a crash point, at which an operation has returned: found out in
    /// the first round of the first strategy, and the same from then on, so that a cut means the
    /// same to all. Where no states were tried nothing new is found out.
    fn assume(&mut self, point: &CrashPoint<'_>, was_tried: bool) -> Vec<NodeId> {
        if self.progress.round > 0 || self.number > 0 {
            return self.assumed_before(point);
        }
        let mut harmful = Vec::new();
        if was_tried {
            self.wait();
            harmful = self.harmful(point);
        }
        let medium = self.shared.medium;
        let sites = harmful.iter().map(|node| medium.site(*node));
        self.progress.harmful.extend(sites);
        if self.progress.harmful.is_empty() {
            return Vec::new();
        }
        let nodes = self.left_by_harmful(point.frontier());
        let new = nodes.iter().map(|node| Assumption {
            point: point.index,
            node: *node,
        });
        self.progress.assumptions.extend(new);
        self.progress.statistics.assumed += nodes.len() as u64;
        nodes
    }

    /// What was taken to be durable after a crash point when it was looked at.
    fn assumed_before(&self, point: &CrashPoint<'_>) -> Vec<NodeId> {
        let made = Assumption::made_at(&self.progress.assumptions, point.index);
        made.iter().map(|one| one.node).collect()
    }

    /// Waits until all jobs are done, so that what follows depends on results and not on who was
    /// faster.
    pub(super) fn wait(&self) {
        let open = self.shared.open.lock().expect("no panic");
        let done = self.shared.done.wait_while(open, |open| *open > 0);
        drop(done.expect("no panic"));
    }

    /// When an operation has returned: the last node of each chain without which, all else being
    /// kept, the state fails, or would if somebody tried it.
    ///
    /// The finding is made; were the node lost in later states too, they would all fail for the
    /// same reason and hide what else is wrong, and their number would double with each such node.
    fn harmful(&mut self, point: &CrashPoint<'_>) -> Vec<NodeId> {
        let frontier = point.frontier();
        let mut last: BTreeMap<usize, usize> = BTreeMap::new();
        for (chain, kept) in std::mem::take(&mut self.single_losses) {
            if last.get(&chain).is_some_and(|known| *known >= kept) {
                continue;
            }
            let mut cut = frontier.all();
            cut.0[chain] = kept as u32;
            let cut = frontier.floor(cut);
            let causes = &self.progress.causes;
            let fails = causes.need(self.shared.medium, &frontier.lost(&cut)) || {
                let key = self.key(point.phase, &frontier.kept(&cut), 0).0;
                let table = self.shared.table.lock().expect("no panic");
                let observed = table.observed(key);
                observed.is_some_and(|observed| observed.fails(point.phase))
            };
            if fails {
                last.insert(chain, kept);
            }
        }
        let nodes = last.into_iter();
        nodes
            .map(|(chain, kept)| frontier.chains[chain].nodes[kept])
            .collect()
    }

    /// The last node of each chain that comes from a place in the program of which it is known that
    /// what is stored there and lost does harm. It is the same finding each time, and after a few of
    /// a kind no more are tried, so that most would stay in doubt, and be lost in every state that
    /// keeps as little as it can: whatever else is wrong with those, it would go by this name.
    fn left_by_harmful(&self, frontier: &Frontier) -> Vec<NodeId> {
        let medium = self.shared.medium;
        let is_harmful = |node: &&NodeId| self.progress.harmful.contains(&medium.site(**node));
        let chains = frontier.chains.iter();
        let last = chains.filter_map(|chain| chain.nodes.iter().rev().find(is_harmful));
        last.copied().collect()
    }

    /// What a state is known by, and what it has on top of what is durable.
    pub(super) fn key(&mut self, phase: Phase, kept: &[NodeId], variant: u8) -> (Key, S::Patch) {
        let patch = self.durable_state.patch(kept, variant);
        let image = self.durable_state.hash_with(&patch);
        (self.shared.medium.key(phase, image), patch)
    }

    /// What a crash point may use of the budget: as much as each of those that are left. What it does not
    /// need is for them. Where an operation has returned, it is at least one state for each chain:
    /// what these show is asked once, before the walk goes on ([`Self::assume`]).
    fn share(&self, point: &CrashPoint<'_>) -> Share {
        let limits = &self.shared.limits;
        let progress = &self.progress;
        let left = match progress.round {
            0 => self.shared.medium.points().saturating_sub(point.index),
            _ => {
                let rest = progress.taken[point.index..].iter();
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
            at_least: progress.offered
                + if point.returned {
                    point.frontier().chains.len().clamp(1, MAX_CHAINS) as u64
                } else {
                    1
                },
        }
    }

    /// Has states of a crash point tried; false if the strategy wants none there.
    fn point(
        &mut self,
        point: &CrashPoint<'_>,
        strategy: &mut dyn Strategy,
    ) -> Result<bool, CheckError> {
        let medium = self.shared.medium;
        let new = &point.durable[self.durable..];
        self.durable_state.advance(new, point.order)?;
        self.shared.durable.write().expect("no panic").extend(new);
        self.durable = point.durable.len();
        if self.progress.counted.len() == point.index {
            self.progress.counted.push(false);
        }
        if !strategy.wants(point.order) {
            if self.progress.taken.len() == point.index {
                self.progress.taken.push(Taken::NOTHING);
            }
            return Ok(false);
        }
        let suffix = medium.suffix(point.phase);
        if let Some(before) = self.suffix.replace(suffix)
            && before != suffix
            && self.is_last
        {
            let mut table = self.shared.table.lock().expect("no panic");
            table.forget_runs(before);
        }
        if !std::mem::replace(&mut self.progress.counted[point.index], true) {
            let count = point.frontier().count();
            let statistics = &mut self.progress.statistics;
            statistics.possible += &count.value;
            statistics.exact &= count.exact;
            self.progress.of_suffix(suffix).0 += &count.value;
        }
        if self.progress.taken.len() == point.index {
            self.progress.taken.push(Taken::default());
        }
        let before = self.progress.taken[point.index];
        if !before.is_done {
            let taken = self.offer_some(point, before, strategy);
            self.learn(point);
            self.progress.taken[point.index] = taken;
            let chosen = taken.cuts - before.cuts;
            self.progress.statistics.chosen += chosen;
            self.progress.statistics.by_strategy[self.number].chosen += chosen;
        }
        Ok(true)
    }

    /// Goes on with the states of a crash point.
    fn offer_some(
        &mut self,
        point: &CrashPoint<'_>,
        before: Taken,
        strategy: &mut dyn Strategy,
    ) -> Taken {
        let most = self.shared.limits.states_per_point;
        let frontier = point.frontier();
        let share = self.share(point);
        self.single_losses.clear();
        let mut taken = before;
        for choice in strategy.choices(frontier).skip(before.cuts as usize) {
            if most > 0 && taken.cuts == most {
                // It stays cut short, whatever is left of the rest.
                self.progress.statistics.points_cut += 1;
                break;
            }
            if share.is_spent(self.progress.offered) || self.progress.is_spent(self.shared) {
                return taken;
            }
            taken.cuts += 1;
            if point.returned {
                self.single_losses
                    .extend(single_loss(frontier, &choice.cut));
            }
            if self.is_learning && self.is_explained(point, &choice.cut) {
                self.progress.statistics.known_to_fail += 1;
                continue;
            }
            if choice.kind.is_some_and(|kind| self.is_known_to_fail(kind)) {
                self.progress.statistics.known_to_fail += 1;
                continue;
            }
            let kept = frontier.kept(&choice.cut);
            if self.shared.count_lost {
                self.count_lost(&frontier.lost(&choice.cut));
            }
            for variant in 0..self.durable_state.variants(&kept) {
                self.offer(point, &kept, &choice, variant);
            }
            if self.shared.stop.load(Ordering::Relaxed) {
                return taken;
            }
        }
        taken.is_done = true;
        taken
    }

    fn count_lost(&mut self, lost: &[NodeId]) {
        let medium = self.shared.medium;
        let sites: FxHashSet<u64> = lost.iter().map(|id| medium.site(*id)).collect();
        for site in sites {
            let counts = &mut self.progress.statistics.lost_by_site;
            *counts.entry(site).or_default() += 1;
        }
    }

    /// Whether enough states of a kind have failed. Asked when there are twice as many as the last
    /// time, and after all of them are done, so that the answer does not depend on who is faster.
    fn is_known_to_fail(&mut self, kind: KindId) -> bool {
        let Some(states) = self.progress.kinds.get_mut(&kind) else {
            return false;
        };
        if states.known_to_fail || states.offered.len() < states.ask_at {
            return states.known_to_fail;
        }
        states.ask_at = 2 * states.offered.len();
        let offered = states.offered.clone();
        self.wait();
        let table = self.shared.table.lock().expect("no panic");
        let failed = offered.iter().filter_map(|(key, phase)| {
            let observed = table.observed(*key)?;
            observed.fails(*phase).then_some(observed.end)
        });
        // Waiting for a hang costs as much as a hundred other states.
        let weight = |end: RunEnd| match end {
            RunEnd::TimedOut => ENOUGH_FAILED,
            _ => 1,
        };
        let known_to_fail = failed.map(weight).sum::<usize>() >= ENOUGH_FAILED;
        drop(table);
        if let Some(states) = self.progress.kinds.get_mut(&kind) {
            states.known_to_fail = known_to_fail;
        }
        known_to_fail
    }

    fn offer(&mut self, point: &CrashPoint<'_>, kept: &[NodeId], choice: &Choice, variant: u8) {
        let (key, patch) = self.key(point.phase, kept, variant);
        if let Some(kind) = choice.kind {
            let states = self.progress.kinds.entry(kind).or_default();
            states.offered.push((key, point.phase));
        }
        let sighting = Sighting {
            point: point.index,
            phase: point.phase,
            cut: choice.cut.clone(),
            variant,
            found_by: self.strategy,
        };
        if self.is_learning {
            self.unexplained.push((key, sighting.clone()));
        }
        let mut table = self.shared.table.lock().expect("no panic");
        let met = table.meet(key, sighting);
        drop(table);
        match met {
            Met::New => {
                self.progress.offered += 1;
                let suffix = self.shared.medium.suffix(point.phase);
                self.progress.of_suffix(suffix).1 += 1;
            }
            Met::Known if self.progress.asked.remove(&key) => {
                // It was tried already, to explain another one.
                self.progress.offered += 1;
                self.shared.tried.fetch_add(1, Ordering::Relaxed);
                self.shared.tried_by[self.number].fetch_add(1, Ordering::Relaxed);
                return;
            }
            Met::Known | Met::Again => {
                self.progress.statistics.duplicates += 1;
                self.progress.offered += u64::from(met == Met::Known);
                return;
            }
        }
        let varying = self.varying(self.shared.medium.suffix(point.phase));
        self.send(Job {
            durable: point.durable.len(),
            order: point.order,
            patch,
            key,
            phase: point.phase,
            strategy: self.number,
            varying,
            is_asked: false,
        });
    }

    /// Looked up when something is tried: it costs as much as was stored before.
    pub(super) fn varying(&mut self, suffix: SuffixId) -> Arc<Vec<ReadLocation>> {
        match &self.varying {
            Some((known, varying)) if *known == suffix => Arc::clone(varying),
            Some(_) | None => {
                let varying = Arc::new(self.shared.medium.varying(suffix));
                self.varying = Some((suffix, Arc::clone(&varying)));
                varying
            }
        }
    }

    pub(super) fn send(&self, job: Job<S::Patch>) {
        *self.shared.open.lock().expect("no panic") += 1;
        // Workers end only after the queue is closed.
        let _ = self.to_workers.send(job);
    }
}

/// The chain that has lost something, and how much of it was kept, if all else is kept that can be.
/// What needs a lost node is younger, so that it can only be the chain with the oldest one.
fn single_loss(frontier: &Frontier, cut: &Cut) -> Option<(usize, usize)> {
    let chains = frontier.chains.iter().zip(&cut.0).enumerate();
    let first_lost = chains.filter_map(|(index, (chain, kept))| {
        let kept = *kept as usize;
        Some((*chain.nodes.get(kept)?, index, kept))
    });
    let (_, chain, kept) = first_lost.min()?;
    let mut alone = frontier.all();
    alone.0[chain] = kept as u32;
    (frontier.floor(alone) == *cut).then_some((chain, kept))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crashpoint_persist::graph::{Chain, Implication};

    /// Two chains of two nodes; the second node of the other one needs the first of this one.
    fn frontier() -> Frontier {
        let chain = |nodes: [u32; 2]| Chain {
            nodes: nodes.map(NodeId).to_vec(),
        };
        let tie = Implication {
            if_chain: 1,
            if_more_than: 1,
            then_chain: 0,
            then_least: 1,
        };
        Frontier::new(4, vec![chain([0, 2]), chain([1, 3])], vec![tie])
    }

    #[test]
    fn a_single_loss_takes_with_it_what_needs_it_and_nothing_else() {
        let loss = |kept: [u32; 2]| single_loss(&frontier(), &Cut(kept.to_vec()));
        assert_eq!(loss([2, 2]), None);
        assert_eq!(loss([1, 2]), Some((0, 1)));
        assert_eq!(loss([2, 0]), Some((1, 0)));
        assert_eq!(loss([0, 1]), Some((0, 0)));
        for more in [[1, 1], [0, 0], [1, 0]] {
            assert_eq!(loss(more), None);
        }
    }
}
