//! What a failing state comes from: the fewest stores that have to be lost, then the earliest
//! crash point, and from these the two stores that matter.
//!
//! Of a failing cut, everything is kept that can be kept while it still fails. Then what was kept
//! is taken away from the end, as if power had failed earlier, as long as it still fails. The last
//! store that is still there is the one that *went ahead*. What was issued before it and is lost
//! was *needed*:
//!
//! - **ordering**: with the needed stores in place the state is consistent. They should have been
//!   durable before the other one was issued. Also where the needed store comes later, but would do
//!   alone: then the two are issued in the wrong order.
//! - **atomicity**: nothing issued before it is lost, and still the state fails. The store that
//!   makes it consistent again comes later, so no order helps: both belong together.
//! - **durability**: the operation had returned. As long as it had not, the state would be fine. If
//!   nothing is lost, what it needs is a store that was made later still, by another thread.
//!
//! Every step is a check of a state that can exist; nothing is concluded from structure alone.
//! Chains are shortened from their ends only, so what is found is small, not provably smallest.
//!
//! **Invariant.** Each failing state belongs to a cause that is contained in it (what was needed is
//! not there, what went ahead is) and that has a failure like its own, or it is counted as not
//! explained. Steps therefore go only to states whose failure looks like that of the state to be
//! explained. Where the cause that comes of it is not one of the state (there was a consistent
//! state in between, or a second bug), the search is made again with fewer liberties ([`ATTEMPTS`]).

mod contained;
mod known;
mod least;
mod probe;

use crate::engine::crash_points::{Assumption, CrashPoint, Phase};
use crate::engine::explore::Explored;
use crate::engine::medium::{CheckError, Checker, Medium};
use crate::engine::outcome::Observed;
use crate::engine::result_table::Failing;
use crashpoint_persist::graph::{Cut, NodeId};
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use known::{Places, begin_of, end_of};
pub(crate) use probe::StateProbe;

#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum CauseKind {
    Ordering,
    Atomicity,
    Durability,
}

/// A crash state in full: what is durable at a point, and what more was kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrashState {
    pub point: usize,
    pub phase: Phase,
    /// How many nodes are durable, in the order of [`Causes::durable`].
    pub durable: usize,
    /// Pending nodes that were kept, and those issued before the crash that were lost; ascending.
    pub kept: Vec<u32>,
    pub lost: Vec<u32>,
    /// Which of the ways in which this may show.
    #[serde(default)]
    pub variant: u8,
}

/// Why a state fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub kind: CauseKind,
    /// Stores that were needed: lost, or in the case of atomicity the one that would have made it
    /// whole, if there is one.
    pub needed: Vec<NodeId>,
    /// The store that went ahead; none for durability.
    pub ahead: Option<NodeId>,
    /// What was needed and what went ahead are parts of one store or one call, which tore.
    pub torn: bool,
    /// The smallest failing state.
    pub state: CrashState,
    /// Failures that states of this cause show; first that of the smallest state.
    pub observed: Vec<Observed>,
    /// States that this cause explains.
    pub states: u64,
    /// Of these, whether each becomes impossible if the needed stores are flushed and fenced at
    /// once.
    pub fixed_by_persisting: bool,
    /// The strategy that chose the state.
    pub found_by: &'static str,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Causes {
    pub causes: Vec<Cause>,
    /// Failing states that belong to no cause: the budget was spent, or they failed no more.
    pub unexplained: u64,
    /// Checks that it took.
    pub checks: u64,
    /// What is durable, in the order in which it became so; [`CrashState::durable`] is a length of it.
    pub durable: Vec<NodeId>,
    /// Where the operation stores that was asked for last.
    operation: Places,
}

/// Failing states looked at in vain at each point: they came down to a cause that was known. And all
/// that are looked at.
const MAX_IN_VAIN_PER_POINT: usize = 64;
const MAX_EXPLAINED_STATES: usize = 2000;
/// So long, once there is something to tell. Where a program hangs, each step waits for that.
const MAX_EXPLAINING_TIME: Duration = Duration::from_secs(120);
/// Steps of a search that goes one by one; longer ones go by halves.
const MAX_LINEAR_STEPS: usize = 48;

/// How a cause is looked for.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    /// From a state of which more is kept, if there is one that fails alike.
    climbs: bool,
    /// As if power had failed earlier, as long as that fails alike.
    drops: bool,
    /// A failure that looks different counts as none.
    other_failure_is_cure: bool,
}

/// The ways in which a cause is looked for, until one is a cause of the state. The last ones are for
/// states in which more than one thing is wrong.
const ATTEMPTS: [Attempt; 6] = [
    Attempt::new(true, true, false),
    Attempt::new(false, true, false),
    Attempt::new(false, false, false),
    Attempt::new(true, true, true),
    Attempt::new(false, true, true),
    Attempt::new(false, false, true),
];

impl Attempt {
    const fn new(climbs: bool, drops: bool, other_failure_is_cure: bool) -> Attempt {
        Attempt {
            climbs,
            drops,
            other_failure_is_cure,
        }
    }
}

/// Explains all failing states. The checker must hold what was there before.
pub fn minimise<S: Medium>(
    medium: &S,
    explored: Explored,
    checker: &mut impl Checker<Patch = S::Patch>,
) -> Result<Causes, CheckError> {
    let Explored {
        failing,
        table,
        assumptions,
        ..
    } = explored;
    let _pinned = checker.stay();
    let mut checker_probe = probe::CheckerProbe {
        medium,
        table,
        checker,
        checks: 0,
    };
    let mut causes = Causes::default();
    let mut minimiser = Minimiser::new(medium, &mut checker_probe, &mut causes);
    let mut rest = failing.as_slice();
    let mut result = Ok(());
    medium.crash_points(&mut |point, assumed| {
        let made = Assumption::made_at(&assumptions, point.index);
        assumed.extend(made.iter().map(|assumption| assumption.node));
        let here = rest
            .iter()
            .take_while(|state| state.sighting.point == point.index);
        let (here, later) = rest.split_at(here.count());
        rest = later;
        if !here.is_empty() {
            result = minimiser.point(point, here);
        }
        if rest.is_empty() || result.is_err() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    result?;
    causes.checks = checker_probe.checks;
    Ok(causes)
}

/// Looks for causes, and adds them to those that are known.
pub(crate) struct Minimiser<'m, S, P> {
    medium: &'m S,
    probe: &'m mut P,
    /// Of the state that is looked at.
    variant: u8,
    found_by: &'static str,
    failure: Option<Observed>,
    attempt: Attempt,
    causes: &'m mut Causes,
    looked: usize,
    began: Instant,
}

impl<'m, S: Medium, P: StateProbe> Minimiser<'m, S, P> {
    pub fn new(medium: &'m S, probe: &'m mut P, causes: &'m mut Causes) -> Self {
        Minimiser {
            medium,
            probe,
            variant: 0,
            found_by: "",
            failure: None,
            attempt: ATTEMPTS[0],
            causes,
            looked: 0,
            began: Instant::now(),
        }
    }

    fn point(&mut self, point: &CrashPoint<'_>, failing: &[Failing]) -> Result<(), CheckError> {
        let known = self.causes.durable.len();
        let new = &point.durable[known..];
        self.probe.advance(point, new)?;
        self.causes.durable.extend(new);
        self.states(point, failing)
    }

    /// Explains failing states of one point.
    pub fn states(
        &mut self,
        point: &CrashPoint<'_>,
        failing: &[Failing],
    ) -> Result<(), CheckError> {
        let frontier = point.frontier();
        let mut states: Vec<&Failing> = failing.iter().collect();
        states.sort_by_key(|state| frontier.lost(&state.sighting.cut).len());
        let mut in_vain = 0;
        for state in states {
            let cut = &state.sighting.cut;
            let failure = Some(&state.observed);
            if self.causes.explain(self.medium, point, cut, failure) {
                continue;
            }
            if in_vain == MAX_IN_VAIN_PER_POINT || self.is_spent() {
                self.causes.unexplained += 1;
                continue;
            }
            self.looked += 1;
            self.variant = state.sighting.variant;
            self.found_by = state.sighting.found_by;
            self.failure = Some(state.observed);
            match self.explain(point, cut)? {
                Some(cause) => in_vain += usize::from(!self.add(cause)),
                None => {
                    self.causes.unexplained += 1;
                    in_vain += 1;
                }
            }
        }
        Ok(())
    }

    fn is_spent(&self) -> bool {
        let late = self.began.elapsed() >= MAX_EXPLAINING_TIME && !self.causes.causes.is_empty();
        self.looked == MAX_EXPLAINED_STATES || late
    }

    /// Causes with the same stores are one, told by its smallest state. Says whether it is new.
    fn add(&mut self, cause: Cause) -> bool {
        let key = |this: &Self, cause: &Cause| {
            let site = |id: &NodeId| this.medium.site(*id);
            let mut needed: Vec<u64> = cause.needed.iter().map(site).collect();
            needed.sort_unstable();
            needed.dedup();
            (cause.kind, cause.ahead.as_ref().map(site), needed)
        };
        let new = key(self, &cause);
        let known = self
            .causes
            .causes
            .iter()
            .position(|known| key(self, known) == new);
        match known {
            Some(known) => {
                let known = &mut self.causes.causes[known];
                known.absorb_states(&cause);
            }
            None => self.causes.causes.push(cause),
        }
        known.is_none()
    }

    /// Checks a state: what is durable at the point and these nodes.
    fn observe(&mut self, phase: Phase, nodes: &[NodeId]) -> Result<Observed, CheckError> {
        self.probe.observe(phase, nodes, self.variant)
    }

    fn fails(&mut self, phase: Phase, nodes: &[NodeId]) -> Result<bool, CheckError> {
        Ok(self.observe(phase, nodes)?.fails(phase))
    }

    /// Whether a state fails, and the failure looks like the one that is to be explained.
    fn fails_alike(&mut self, phase: Phase, nodes: &[NodeId]) -> Result<bool, CheckError> {
        let observed = self.observe(phase, nodes)?;
        let is_like = self.failure.is_none_or(|one| one.is_like(&observed));
        Ok(is_like && observed.fails(phase))
    }

    /// Whether the failure that is to be explained is gone.
    fn is_cured(&mut self, phase: Phase, nodes: &[NodeId]) -> Result<bool, CheckError> {
        if self.attempt.other_failure_is_cure {
            Ok(!self.fails_alike(phase, nodes)?)
        } else {
            Ok(!self.fails(phase, nodes)?)
        }
    }

    /// The cause of a state; none if nothing that was found is a cause of it.
    fn explain(&mut self, point: &CrashPoint<'_>, cut: &Cut) -> Result<Option<Cause>, CheckError> {
        for attempt in ATTEMPTS {
            self.attempt = attempt;
            let cause = self.attempt(point, cut.clone())?;
            let is_like = self.failure.is_none_or(|failure| cause.shows(&failure));
            if is_like && cause.is_contained(point, cut) {
                return Ok(Some(cause));
            }
        }
        Ok(None)
    }

    fn attempt(&mut self, point: &CrashPoint<'_>, cut: Cut) -> Result<Cause, CheckError> {
        let cut = if self.attempt.climbs {
            self.fewest_lost(point, cut)?
        } else {
            cut
        };
        let kept = point.frontier().kept(&cut);
        if let Some(cause) = self.explain_by_earlier(point, &cut)? {
            return Ok(cause);
        }
        let flight = point.phase.in_flight();
        let acknowledged = flight != point.phase;
        if acknowledged && !self.fails_alike(flight, &kept)? {
            let lost = point.frontier().lost(&cut);
            let needed = if lost.is_empty() {
                // It returned before the store that makes it so was even made.
                let later = point.phase.or_committed();
                Vec::from_iter(self.counterpart(point, later, &kept, None)?)
            } else {
                self.first_of_chains(point, point.phase, &kept, &lost)?
            };
            return self.cause(point, CauseKind::Durability, needed, None, kept, lost);
        }
        self.explain_in_flight(point, flight, &cut)
    }

    /// A store of an operation that had returned before this one began should have been durable by
    /// then, whatever this one does.
    fn explain_by_earlier(
        &mut self,
        point: &CrashPoint<'_>,
        cut: &Cut,
    ) -> Result<Option<Cause>, CheckError> {
        let begin = begin_of(self.medium, point.phase);
        let lost = point.frontier().lost(cut);
        let is_earlier = |id: &NodeId| id.index() < begin;
        let earlier: Vec<NodeId> = lost.iter().filter(|id| is_earlier(id)).copied().collect();
        if earlier.is_empty() || point.phase == Phase::Opening {
            return Ok(None);
        }
        let kept = point.frontier().kept(cut);
        let with = |kept: &[NodeId]| {
            let mut whole: Vec<NodeId> = kept.iter().chain(&earlier).copied().collect();
            whole.sort_unstable();
            whole
        };
        if self.is_cured(point.phase, &with(&kept))? {
            let needed = self.first_of_chains(point, point.phase, &kept, &earlier)?;
            let cause = self.cause(point, CauseKind::Durability, needed, None, kept, lost)?;
            return Ok(Some(cause));
        }
        // What this operation did may do harm as well; the same without that.
        let (kept, own): (Vec<NodeId>, Vec<NodeId>) = kept.iter().partition(|id| is_earlier(id));
        if !self.fails_alike(point.phase, &kept)? || !self.is_cured(point.phase, &with(&kept))? {
            return Ok(None);
        }
        let mut lost: Vec<NodeId> = lost.into_iter().chain(own).collect();
        lost.sort_unstable();
        let needed = self.first_of_chains(point, point.phase, &kept, &earlier)?;
        let cause = self.cause(point, CauseKind::Durability, needed, None, kept, lost)?;
        Ok(Some(cause))
    }

    fn explain_in_flight(
        &mut self,
        point: &CrashPoint<'_>,
        phase: Phase,
        cut: &Cut,
    ) -> Result<Cause, CheckError> {
        let kept = point.frontier().kept(cut);
        let earliest = if self.attempt.drops {
            self.earliest(phase, &kept)?
        } else {
            kept.len()
        };
        let kept = &kept[..earliest];
        // What went ahead may be durable already.
        let ahead = match kept.last() {
            Some(last) => Some(*last),
            None => self.last_durable(point),
        };
        let lost: Vec<NodeId> = point
            .frontier()
            .lost(cut)
            .into_iter()
            .chain(point.frontier().kept(cut).into_iter().skip(earliest))
            .filter(|id| ahead.is_none_or(|ahead| *id < ahead))
            .collect();
        if !lost.is_empty() {
            let mut whole: Vec<NodeId> = kept.iter().chain(&lost).copied().collect();
            whole.sort_unstable();
            if self.is_cured(phase, &whole)? {
                let lost = self.least_needed(point, phase, kept, lost)?;
                let kept = without(&whole, &lost);
                let needed = self.first_of_chains(point, phase, &kept, &lost)?;
                // What an operation that had returned left behind was late already, whichever
                // store of this one shows it.
                let begin = begin_of(self.medium, phase);
                let (kind, ahead) = if needed.iter().all(|id| id.index() < begin) {
                    (CauseKind::Durability, None)
                } else if self.is_torn(ahead, &needed) {
                    (CauseKind::Atomicity, ahead)
                } else {
                    (CauseKind::Ordering, ahead)
                };
                return self.cause(point, kind, needed, ahead, kept, lost);
            }
        }
        let mut prefix: Vec<NodeId> = kept.iter().chain(&lost).copied().collect();
        prefix.sort_unstable();
        let whole = self.counterpart(point, phase, &prefix, ahead)?;
        let kind = if self.other_way_round(phase, &prefix, ahead, whole)? {
            CauseKind::Ordering
        } else {
            CauseKind::Atomicity
        };
        let needed = whole.into_iter().collect();
        self.cause(point, kind, needed, ahead, prefix, Vec::new())
    }

    /// Whether the two stores would do in the other order: the second one alone, in place of the
    /// first, leaves a consistent state. That is no crash state of the program as it is, but of
    /// the one with the two exchanged.
    fn other_way_round(
        &mut self,
        phase: Phase,
        prefix: &[NodeId],
        ahead: Option<NodeId>,
        whole: Option<NodeId>,
    ) -> Result<bool, CheckError> {
        let (Some(ahead), Some(whole)) = (ahead, whole) else {
            return Ok(false);
        };
        if self.medium.is_same_place(ahead, whole) {
            return Ok(false);
        }
        let mut exchanged = without(prefix, &[ahead]);
        exchanged.push(whole);
        if prefix.contains(&ahead) {
            return self.is_cured(phase, &exchanged);
        }
        // It is durable already.
        let observed = self.probe.observe_without(phase, &exchanged, ahead)?;
        Ok(observed.is_some_and(|observed| !observed.fails(phase)))
    }

    /// Whether what went ahead and something that it needs are parts of one store or call.
    fn is_torn(&self, ahead: Option<NodeId>, needed: &[NodeId]) -> bool {
        let is_one = |ahead| {
            let mut needed = needed.iter();
            needed.any(|needed| self.medium.is_one_write(ahead, *needed))
        };
        ahead.is_some_and(is_one)
    }

    /// The store that became durable last, in the order of issue.
    fn last_durable(&self, point: &CrashPoint<'_>) -> Option<NodeId> {
        let recent = point.durable.iter().rev().take(4096);
        recent.copied().max()
    }

    /// The store that makes a prefix of the program's stores consistent again.
    fn counterpart(
        &mut self,
        point: &CrashPoint<'_>,
        phase: Phase,
        prefix: &[NodeId],
        ahead: Option<NodeId>,
    ) -> Result<Option<NodeId>, CheckError> {
        let end = end_of(self.medium, phase);
        let first = ahead.map_or(0, |ahead| ahead.index() + 1);
        let pending: FxHashSet<NodeId> = point
            .frontier()
            .chains
            .iter()
            .flat_map(|chain| &chain.nodes)
            .copied()
            .collect();
        let is_open = |id: &NodeId| pending.contains(id) || id.index() >= point.issued;
        let later: Vec<NodeId> = (first..end.max(first))
            .map(|index| NodeId(index as u32))
            .filter(is_open)
            .collect();
        let with = |count: usize| {
            let mut nodes = prefix.to_vec();
            nodes.extend(later[..count].iter().filter(|id| !prefix.contains(id)));
            nodes
        };
        if later.len() <= MAX_LINEAR_STEPS {
            for count in 1..=later.len() {
                if self.is_cured(phase, &with(count))? {
                    return Ok(Some(later[count - 1]));
                }
            }
            return Ok(None);
        }
        if !self.is_cured(phase, &with(later.len()))? {
            return Ok(None);
        }
        let (mut fails, mut passes) = (0, later.len());
        while fails + 1 < passes {
            let middle = fails + (passes - fails) / 2;
            if self.is_cured(phase, &with(middle))? {
                passes = middle;
            } else {
                fails = middle;
            }
        }
        Ok(Some(later[passes - 1]))
    }

    fn cause(
        &mut self,
        point: &CrashPoint<'_>,
        kind: CauseKind,
        needed: Vec<NodeId>,
        ahead: Option<NodeId>,
        kept: Vec<NodeId>,
        lost: Vec<NodeId>,
    ) -> Result<Cause, CheckError> {
        let phase = match kind {
            CauseKind::Durability => point.phase,
            CauseKind::Ordering | CauseKind::Atomicity => point.phase.in_flight(),
        };
        let observed = self.observe(phase, &kept)?;
        // Flushed and fenced at once, a store is durable before the next one is issued.
        let fixed_by_persisting = match kind {
            CauseKind::Durability => !lost.is_empty(),
            CauseKind::Ordering => ahead.is_some_and(|ahead| needed.iter().all(|id| *id < ahead)),
            CauseKind::Atomicity => false,
        };
        let numbers = |nodes: &[NodeId]| nodes.iter().map(|id| id.0).collect();
        Ok(Cause {
            kind,
            torn: kind == CauseKind::Atomicity && self.is_torn(ahead, &needed),
            needed,
            ahead,
            state: CrashState {
                point: point.index,
                phase,
                durable: point.durable.len(),
                kept: numbers(&kept),
                lost: numbers(&lost),
                variant: self.variant,
            },
            observed: vec![observed],
            states: 1,
            fixed_by_persisting,
            found_by: self.found_by,
        })
    }
}

fn without(nodes: &[NodeId], gone: &[NodeId]) -> Vec<NodeId> {
    nodes
        .iter()
        .filter(|id| !gone.contains(id))
        .copied()
        .collect()
}

#[cfg(test)]
mod tests;
