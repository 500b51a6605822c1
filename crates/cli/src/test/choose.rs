//! Which crash states are tried: from settings to a strategy.

use std::collections::BTreeMap;

use crashpoint_check::plan::Plan;
use crashpoint_check::timeline::{ListId, Phase, Timeline, Walk};
use crashpoint_flow::Unfollowed;
use crashpoint_infer::{Inferred, Rule, infer};
use crashpoint_persist::graph::Model;
use crashpoint_report::ConditionFigures;
use crashpoint_states::conditions::{At, Planner, Reason};
use crashpoint_states::{self as states, ByConditions};

use rustc_hash::FxHashSet;

use super::{Clock, Prepared, conditions};
use crate::config::{self, Settings};

/// What is meant where nothing is said.
pub fn kind(settings: &Settings) -> config::Strategy {
    let by_default = match settings.target.dir {
        // The states of a folder are costly, and most that goes wrong there is one thing.
        Some(_) => config::Strategy::Bounded,
        None => config::Strategy::Conditions,
    };
    settings.test.strategy.unwrap_or(by_default)
}

/// As in settings and reports.
pub fn name(settings: &Settings) -> &'static str {
    match kind(settings) {
        config::Strategy::Conditions => "conditions",
        config::Strategy::Exhaustive => "exhaustive",
        config::Strategy::Bounded => "bounded",
        config::Strategy::Random => "random",
    }
}

/// Whether the recording must say what depends on what.
pub fn needs_flow(settings: &Settings) -> bool {
    settings.target.dir.is_none() && kind(settings) == config::Strategy::Conditions
}

/// A strategy that needs no recording. For `conditions`, where there is nothing to infer from, what
/// comes nearest to it.
pub fn plain(settings: &Settings) -> Box<dyn states::Strategy> {
    let test = &settings.test;
    let few = match settings.target.dir {
        Some(_) => 1,
        None => 2,
    };
    let bound = test.bound.unwrap_or(few) as usize;
    match kind(settings) {
        config::Strategy::Exhaustive => Box::new(states::Exhaustive::default()),
        config::Strategy::Bounded => Box::new(states::Bounded::new(bound)),
        config::Strategy::Conditions => Box::new(states::Bounded::new(1)),
        config::Strategy::Random => {
            Box::new(states::Random::new(test.seed, test.random_states as usize))
        }
    }
}

/// The strategy of a test of memory.
pub enum Chosen {
    Plain(Box<dyn states::Strategy>),
    Conditions {
        strategy: Box<ByConditions>,
        /// Lists of operations that run after one of its states.
        lists: FxHashSet<ListId>,
        inferred: Box<Inferred>,
    },
}

impl Chosen {
    pub fn new(
        settings: &Settings,
        prepared: &Prepared,
        plan: &Plan<'_>,
        timeline: &Timeline,
        clock: &mut Clock,
    ) -> Chosen {
        if !needs_flow(settings) {
            return Chosen::Plain(plain(settings));
        }
        let mut inferred = clock.time("infer", || infer(&prepared.recording, &prepared.program));
        conditions::apply(settings, prepared, &mut inferred.conditions);
        let (strategy, lists) = clock.time("violations", || {
            violations(settings, prepared, plan, timeline, &inferred)
        });
        Chosen::Conditions {
            strategy: Box::new(strategy),
            lists,
            inferred: Box::new(inferred),
        }
    }

    /// Whether states are tried after which this list runs.
    pub fn wants(&self, list: ListId) -> bool {
        match self {
            Chosen::Plain(_) => true,
            Chosen::Conditions { lists, .. } => lists.contains(&list),
        }
    }

    pub fn strategy(&mut self) -> &mut dyn states::Strategy {
        match self {
            Chosen::Plain(strategy) => strategy.as_mut(),
            Chosen::Conditions { strategy, .. } => strategy.as_mut(),
        }
    }
}

impl Chosen {
    /// What was inferred, and what was made of it.
    pub fn figures(&self) -> Option<ConditionFigures> {
        let Chosen::Conditions {
            strategy, inferred, ..
        } = self
        else {
            return None;
        };
        let by_rule = |rule: Rule| {
            let hints = inferred.conditions.hints().iter();
            let of_rule = hints.filter(|hint| hint.rule == rule);
            let count = of_rule.map(|hint| hint.conditions).sum();
            (rule.name().to_owned(), count)
        };
        let named = |counts: &BTreeMap<Reason, u64>| {
            let counts = counts.iter();
            counts
                .map(|(reason, count)| (reason.name().to_owned(), *count))
                .collect()
        };
        Some(ConditionFigures {
            inferred: Rule::ALL.map(by_rule).into(),
            violations: named(&strategy.figures.met),
            chosen: named(&strategy.figures.taken),
            states: named(&strategy.cuts),
            kinds: strategy.figures.kinds,
            unfollowed: unfollowed(&inferred.followed.unfollowed),
        })
    }
}

/// What could not be followed, by what it is.
pub fn unfollowed(counts: &Unfollowed) -> Vec<(String, u64)> {
    let Unfollowed {
        lost,
        callbacks,
        landings,
        assembly,
        opaque,
        lengths,
        unmatched,
        models,
    } = *counts;
    let named = [
        ("places where the recording does not fit the program", lost),
        ("calls from code without hooks", callbacks),
        ("exceptions and long jumps", landings),
        ("pieces of assembly", assembly),
        ("opaque operations", opaque),
        ("copies of unknown length", lengths),
        ("accesses that only one stream has", unmatched),
        ("functions without a model", models),
    ];
    let named = named.into_iter().filter(|(_, count)| *count > 0);
    named
        .map(|(name, count)| (name.to_owned(), count))
        .collect()
}

/// Goes along the recording and sorts out which states violate what was inferred.
fn violations(
    settings: &Settings,
    prepared: &Prepared,
    plan: &Plan<'_>,
    timeline: &Timeline,
    inferred: &Inferred,
) -> (ByConditions, FxHashSet<ListId>) {
    let unit_bytes = match plan.model {
        Model::X86 | Model::Eadr => 64,
        Model::Msync => 4096,
    };
    let most = settings.test.per_kind;
    let nodes = &timeline.nodes;
    let mut planner = Planner::new(&inferred.conditions, nodes, unit_bytes, most);
    for given in conditions::given(settings, prepared) {
        planner.give(given);
    }
    let verbs = verbs(prepared);
    let mut lists = FxHashSet::default();
    let walk = Walk::new(&prepared.recording, &plan.operations, plan.model);
    walk.moments(|moment, _| {
        let operation = match moment.phase {
            Phase::Opening => None,
            Phase::In(operation) | Phase::After(operation) => Some(operation as usize),
        };
        let verb = operation.and_then(|index| verbs.get(index)).copied();
        let span = operation.map(|index| timeline.operations[index]);
        let wanted = planner.moment(&At {
            order: moment.order,
            operation: verb.unwrap_or(u32::MAX),
            begin: span.map_or(0, |span| span.begin),
            returned: moment.returned,
            issued: moment.issued,
            durable: moment.durable,
        });
        if wanted {
            lists.insert(moment.phase.list());
        }
        std::ops::ControlFlow::Continue(())
    });
    (planner.end(), lists)
}

/// For each operation a number for its first word.
fn verbs(prepared: &Prepared) -> Vec<u32> {
    let mut known: BTreeMap<&str, u32> = BTreeMap::new();
    let operations = prepared.workload.operations.iter();
    let verbs = operations.map(|operation| {
        let word = operation.line.split_whitespace().next().unwrap_or_default();
        let next = known.len() as u32;
        *known.entry(word).or_insert(next)
    });
    verbs.collect()
}
