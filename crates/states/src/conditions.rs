//! Crash states that violate what the program's own behaviour says must hold.
//!
//! # Model
//!
//! After Witcher (§4.3). Going along the recording, a [`Planner`] is told at every crash point at which
//! power may fail which stores are pending. Where a condition says "X before Y" and both are
//! pending, two states violate it with as little as possible besides: the smallest that has Y
//! (nothing else is kept that need not be), and the largest that lacks X (nothing else is lost that
//! need not be). A pair is looked at once, when the second of the two is issued. For guardians, of
//! which any two belong together, the same states of each that is pending beside another one.
//!
//! Two kinds of state need no condition. That everything persisted in the order in which it was
//! stored, up to this crash point: it violates what ties it to stores still to come. And, where an
//! operation has returned, that one of its stores was not persisted, or none.
//!
//! # How many
//!
//! Programs do the same thing again and again. States are sorted into *kinds* by what they keep or
//! lose: the places in the program of the stores that are tied, and the operation. Of each kind
//! the first few are tried, and later ones the more rarely the more there were. What was left out
//! is counted.

use crate::{Choice, KindId, Strategy};
use crashpoint_infer::{Conditions, HintId, Rule};
use crashpoint_persist::graph::{Cut, Frontier, Node, NodeId};
use crashpoint_trace::{ContextId, SiteId, StoreKind};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const WORD_BYTES: u64 = 8;

/// What a state is tried for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChoiceReason {
    Condition(Rule),
    /// Everything persisted, up to here.
    InOrder,
    /// The operation had returned.
    Returned,
}

impl ChoiceReason {
    /// As in statistics.
    pub fn name(self) -> &'static str {
        match self {
            ChoiceReason::Condition(rule) => rule.name(),
            ChoiceReason::InOrder => "in order",
            ChoiceReason::Returned => "returned",
        }
    }
}

/// What a state keeps or loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Target {
    All,
    None,
    /// The smallest state with it.
    With(NodeId),
    /// The largest state without it.
    Without(NodeId),
}

/// A place in the program, and the calls that led there.
type Where = (SiteId, ContextId);

const NOWHERE: Where = (SiteId::NONE, ContextId::BOTTOM);

/// States that are taken to be alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Kind {
    target: u8,
    place: Where,
    tied_to: SiteId,
    /// Kind of the operation.
    operation: u32,
}

/// A crash point, as the planner sees it.
#[derive(Clone, Copy, Debug)]
pub struct ConditionPoint<'a> {
    /// Of the last event before it.
    pub order: u64,
    /// The operation that is under way or has just returned, by kind.
    pub operation: u32,
    /// Nodes issued before that operation began.
    pub begin: usize,
    pub returned: bool,
    pub issued: usize,
    /// Nodes that are durable, in the order in which they became so.
    pub durable: &'a [NodeId],
}

/// A state to try.
#[derive(Clone, Copy, Debug)]
struct Planned {
    target: Target,
    reason: ChoiceReason,
    kind: KindId,
}

/// How often something was met, and when it counts next.
#[derive(Clone, Copy, Debug, Default)]
struct Rarely {
    met: u64,
    next: u64,
}

impl Rarely {
    /// The first `most` are taken, later ones at growing distances.
    fn takes(&mut self, most: u64) -> bool {
        let met = self.met;
        self.met += 1;
        if most == 0 || met < most {
            return true;
        }
        if met >= self.next {
            self.next = met + met / 4 + 1;
            return true;
        }
        false
    }
}

/// Sorts out which states to try.
#[derive(Debug)]
pub struct Planner<'a> {
    conditions: &'a Conditions,
    nodes: &'a [Node],
    /// Pending stores that persist in their order lie in one unit of so many bytes.
    unit_bytes: u64,
    /// States of each kind that are taken before it is seldom.
    most: u64,
    issued: usize,
    durable: usize,
    pending: Vec<bool>,
    /// The last node of each word, and those that may be pending.
    last: FxHashMap<u64, NodeId>,
    recent: Vec<NodeId>,
    /// Guardians that may be pending.
    guardians: Vec<(NodeId, HintId)>,
    kinds: FxHashMap<Kind, (KindId, Rarely)>,
    targets: FxHashMap<u64, Vec<Planned>>,
    figures: Figures,
    given: Vec<Given>,
    /// Contexts that are taken to be the same, by number.
    alike: Vec<ContextId>,
    /// The last node of each place that is given.
    last_at: FxHashMap<SiteId, NodeId>,
}

/// What is stored at some places of the program persists before what is stored at others.
#[derive(Clone, Debug, Default)]
pub struct Given {
    pub first: FxHashSet<SiteId>,
    pub later: FxHashSet<SiteId>,
}

/// What was planned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Violations that can happen, and those whose states are tried, by reason.
    pub met: BTreeMap<ChoiceReason, u64>,
    pub taken: BTreeMap<ChoiceReason, u64>,
    pub kinds: u64,
}

impl<'a> Planner<'a> {
    pub fn new(
        conditions: &'a Conditions,
        nodes: &'a [Node],
        unit_bytes: u64,
        most: u64,
    ) -> Planner<'a> {
        Planner {
            conditions,
            nodes,
            unit_bytes,
            most,
            issued: 0,
            durable: 0,
            pending: vec![false; nodes.len()],
            last: FxHashMap::default(),
            recent: Vec::new(),
            guardians: Vec::new(),
            kinds: FxHashMap::default(),
            targets: FxHashMap::default(),
            figures: Figures::default(),
            given: Vec::new(),
            alike: Vec::new(),
            last_at: FxHashMap::default(),
        }
    }

    /// One more condition.
    pub fn give(&mut self, given: Given) {
        self.given.push(given);
    }

    /// For each context, by its number, the one that it is taken to be the same as.
    pub fn take_as_alike(&mut self, contexts: Vec<ContextId>) {
        self.alike = contexts;
    }

    /// The next crash point. Says whether states of it are to be tried.
    pub fn crash_point(&mut self, at: &ConditionPoint<'_>) -> bool {
        let new = self.issued..at.issued;
        self.issued = at.issued;
        self.pending[new.clone()].fill(true);
        for id in &at.durable[self.durable..] {
            self.pending[id.index()] = false;
        }
        self.durable = at.durable.len();
        self.guardians
            .retain(|(node, _)| self.pending[node.index()]);
        self.recent.retain(|node| self.pending[node.index()]);
        // First, since from these it is learnt what is taken to be durable from here on.
        if at.returned {
            self.returned(at);
        }
        let last = new.clone().next_back().map(|node| NodeId(node as u32));
        for id in new.map(|node| NodeId(node as u32)) {
            let word = self.nodes[id.index()].address.0 / WORD_BYTES;
            if self.is_pending(id) {
                self.tied(at, id);
                self.guarding(at, id);
                self.given(at, id);
            }
            self.last.insert(word, id);
            self.recent.push(id);
        }
        let place = last.map_or(NOWHERE, |id| self.place(id));
        self.offer(at, Target::All, ChoiceReason::InOrder, place, SiteId::NONE);
        self.targets.contains_key(&at.order)
    }

    fn is_pending(&self, id: NodeId) -> bool {
        self.pending[id.index()]
    }

    fn place(&self, id: NodeId) -> Where {
        let node = &self.nodes[id.index()];
        let alike = self.alike.get(node.context.index());
        (node.site, alike.copied().unwrap_or(node.context))
    }

    /// Whether the second cannot persist without the first.
    fn in_order(&self, first: NodeId, second: NodeId) -> bool {
        let (one, two) = (&self.nodes[first.index()], &self.nodes[second.index()]);
        let unit = if one.kind == StoreKind::NonTemporal || two.kind == StoreKind::NonTemporal {
            WORD_BYTES
        } else {
            self.unit_bytes
        };
        first < second && one.address.0 / unit == two.address.0 / unit
    }

    /// Conditions between a new node and others that are pending.
    fn tied(&mut self, at: &ConditionPoint<'_>, id: NodeId) {
        let node = &self.nodes[id.index()];
        let (start, length) = (node.address, u64::from(node.length));
        let conditions = self.conditions;
        // A place that much is tied to has more conditions than there are stores pending.
        if conditions.bounds(start, length) > self.recent.len() {
            self.tied_to_recent(at, id);
            return;
        }
        for bound in conditions.earlier(start, length) {
            for word in conditions.get(bound.to).words() {
                if let Some(first) = self.last.get(&word).copied() {
                    self.violation(at, first, id, bound.hint);
                }
            }
        }
        for bound in conditions.later(start, length) {
            for word in conditions.get(bound.to).words() {
                if let Some(later) = self.last.get(&word).copied() {
                    self.violation(at, id, later, bound.hint);
                }
            }
        }
    }

    /// The same, by what is pending.
    fn tied_to_recent(&mut self, at: &ConditionPoint<'_>, id: NodeId) {
        let bytes = |node: &Node| (node.address, u64::from(node.length));
        let this = bytes(&self.nodes[id.index()]);
        let mut found = Vec::new();
        for other in &self.recent {
            let node = &self.nodes[other.index()];
            if self.last.get(&(node.address.0 / WORD_BYTES)) != Some(other) {
                continue;
            }
            let that = bytes(node);
            if let Some(hint) = self.conditions.between(that, this) {
                found.push((*other, id, hint));
            }
            if let Some(hint) = self.conditions.between(this, that) {
                found.push((id, *other, hint));
            }
        }
        for (first, later, hint) in found {
            self.violation(at, first, later, hint);
        }
    }

    /// `first` should persist before `later`.
    fn violation(&mut self, at: &ConditionPoint<'_>, first: NodeId, later: NodeId, hint: HintId) {
        let rule = self.conditions.hints()[hint.0 as usize].rule;
        self.violates(at, first, later, rule);
    }

    fn violates(&mut self, at: &ConditionPoint<'_>, first: NodeId, later: NodeId, rule: Rule) {
        if first == later
            || !self.is_pending(first)
            || !self.is_pending(later)
            || self.in_order(first, later)
        {
            return;
        }
        let reason = ChoiceReason::Condition(rule);
        let (first_at, later_at) = (self.place(first), self.place(later));
        self.offer(at, Target::With(later), reason, later_at, first_at.0);
        self.offer(at, Target::Without(first), reason, first_at, later_at.0);
    }

    /// Conditions that the user gave.
    fn given(&mut self, at: &ConditionPoint<'_>, id: NodeId) {
        let site = self.nodes[id.index()].site;
        let mut pairs = Vec::new();
        let mut is_named = false;
        for given in &self.given {
            let last = |sites: &FxHashSet<SiteId>| {
                let nodes = sites.iter().filter_map(|site| self.last_at.get(site));
                nodes.copied().collect::<Vec<NodeId>>()
            };
            if given.later.contains(&site) {
                is_named = true;
                pairs.extend(last(&given.first).into_iter().map(|first| (first, id)));
            }
            if given.first.contains(&site) {
                is_named = true;
                pairs.extend(last(&given.later).into_iter().map(|later| (id, later)));
            }
        }
        for (first, later) in pairs {
            self.violates(at, first, later, Rule::Given);
        }
        if is_named {
            self.last_at.insert(site, id);
        }
    }

    /// A guardian that others are pending beside.
    fn guarding(&mut self, at: &ConditionPoint<'_>, id: NodeId) {
        let address = self.nodes[id.index()].address;
        let Some(hint) = self.conditions.guardian(address) else {
            return;
        };
        let apart = |other: &(NodeId, HintId)| !self.in_order(other.0, id);
        let beside = self.guardians.iter().rev().find(|other| apart(other));
        let beside = beside.map(|(other, _)| *other);
        self.guardians.push((id, hint));
        let Some(other) = beside else { return };
        let reason = ChoiceReason::Condition(Rule::Pa1);
        for (one, two) in [(id, other), (other, id)] {
            let (place, tied_to) = (self.place(one), self.place(two).0);
            self.offer(at, Target::With(one), reason, place, tied_to);
            self.offer(at, Target::Without(one), reason, place, tied_to);
        }
    }

    /// Whatever an operation that has returned left pending.
    fn returned(&mut self, at: &ConditionPoint<'_>) {
        let mut any = false;
        for id in (at.begin..at.issued).map(|node| NodeId(node as u32)) {
            if self.is_pending(id) {
                any = true;
                let (place, target) = (self.place(id), Target::Without(id));
                self.offer(at, target, ChoiceReason::Returned, place, SiteId::NONE);
            }
        }
        if any {
            let target = Target::None;
            self.offer(at, target, ChoiceReason::Returned, NOWHERE, SiteId::NONE);
        }
    }

    fn offer(
        &mut self,
        at: &ConditionPoint<'_>,
        target: Target,
        reason: ChoiceReason,
        place: Where,
        tied_to: SiteId,
    ) {
        let kind = Kind {
            target: match target {
                Target::All => 0,
                Target::None => 1,
                Target::With(_) => 2,
                Target::Without(_) => 3,
            } + 4 * u8::from(at.returned),
            place,
            tied_to,
            operation: at.operation,
        };
        *self.figures.met.entry(reason).or_default() += 1;
        let next = KindId(self.kinds.len() as u32);
        let (kind, met) = self.kinds.entry(kind).or_insert((next, Rarely::default()));
        if !met.takes(self.most) {
            return;
        }
        *self.figures.taken.entry(reason).or_default() += 1;
        let targets = self.targets.entry(at.order).or_default();
        if !targets.iter().any(|known| known.target == target) {
            let kind = *kind;
            targets.push(Planned {
                target,
                reason,
                kind,
            });
        }
    }

    pub fn end(mut self) -> ByConditions {
        self.figures.kinds = self.kinds.len() as u64;
        ByConditions {
            targets: self.targets,
            figures: self.figures,
            cuts: Arc::default(),
        }
    }
}

/// The strategy.
#[derive(Debug, Default)]
pub struct ByConditions {
    /// By the order of the last event before the crash point.
    targets: FxHashMap<u64, Vec<Planned>>,
    pub figures: Figures,
    /// States that were handed out, by reason.
    pub cuts: Arc<Mutex<BTreeMap<ChoiceReason, u64>>>,
}

impl Strategy for ByConditions {
    fn name(&self) -> &'static str {
        "conditions"
    }

    fn cuts<'a>(&'a mut self, frontier: &'a Frontier) -> Box<dyn Iterator<Item = Cut> + 'a> {
        Box::new(self.choices(frontier).map(|choice| choice.cut))
    }

    fn choices<'a>(&'a mut self, frontier: &'a Frontier) -> Box<dyn Iterator<Item = Choice> + 'a> {
        let Some(targets) = self.targets.get(&frontier.order) else {
            return Box::new(std::iter::empty());
        };
        let pending: FxHashSet<NodeId> = if targets.is_empty() {
            FxHashSet::default()
        } else {
            let chains = frontier.chains.iter();
            chains
                .flat_map(|chain| chain.nodes.iter().copied())
                .collect()
        };
        let mut tried: FxHashSet<Cut> = FxHashSet::default();
        let counts = &self.cuts;
        Box::new(targets.iter().filter_map(move |planned| {
            let cut = match planned.target {
                Target::All => frontier.all(),
                Target::None => frontier.none(),
                // What is taken to be durable meanwhile is no longer pending.
                Target::With(node) if pending.contains(&node) => frontier.with(&[node]),
                Target::Without(node) if pending.contains(&node) => frontier.without(&[node]),
                Target::With(_) | Target::Without(_) => return None,
            };
            if !tried.insert(cut.clone()) {
                return None;
            }
            let mut counts = counts.lock().expect("no panic");
            *counts.entry(planned.reason).or_default() += 1;
            let kind = Some(planned.kind);
            Some(Choice { cut, kind })
        }))
    }
}

#[cfg(test)]
mod tests;
