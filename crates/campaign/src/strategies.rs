//! Which crash states are tried: from settings to a strategy.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use crashpoint_check::engine::crash_points::SuffixId;
use crashpoint_check::memory::plan::TestPlan;
use crashpoint_check::memory::timeline::{Timeline, Walk};
use crashpoint_flow::Unfollowed;
use crashpoint_infer::{Inferred, Rule, infer};
use crashpoint_persist::graph::Model;
use crashpoint_program::paths;
use crashpoint_report::ConditionFigures;
use crashpoint_states::conditions::{ChoiceReason, ConditionPoint, Figures, Planner};
use crashpoint_states::{self as states, ByConditions, representative};
use num_bigint::BigUint;
use rustc_hash::FxHashSet;

use crate::memory::{Prepared, conditions};
use crate::settings::{self, NamedChoice as _, Settings};
use crate::test::Run;

/// What is meant where nothing is said.
pub fn kind(settings: &Settings) -> settings::Strategy {
    let by_default = match settings.target.dir {
        Some(_) => settings::Strategy::Representative,
        None => settings::Strategy::Conditions,
    };
    settings.test.strategies.strategy.unwrap_or(by_default)
}

/// Whether the recording must say what depends on what.
pub fn needs_flow(settings: &Settings) -> bool {
    let kind = kind(settings);
    let conditions = matches!(
        kind,
        settings::Strategy::Conditions | settings::Strategy::Auto
    );
    settings.target.dir.is_none() && conditions
}

/// Strategies, to be used one after the other.
#[derive(Default)]
pub struct Strategies {
    pub all: Vec<Box<dyn states::Strategy>>,
    /// What representatives were found, if that was asked for.
    pub plan: Option<Arc<representative::RepresentativePlan>>,
    conditions: Option<ByInference>,
    /// Lists of operations that run after one of the states; None: any may be.
    lists: Option<FxHashSet<SuffixId>>,
}

/// What there is to tell of conditions.
struct ByInference {
    inferred: Inferred,
    planned: Figures,
    cuts: Arc<Mutex<BTreeMap<ChoiceReason, u64>>>,
}

/// Strategies that need no inference. `representatives` is asked for if they are wanted. For
/// `conditions`, where there is nothing to infer from, what comes nearest to it.
pub fn strategies(
    settings: &Settings,
    representatives: impl FnOnce() -> representative::RepresentativePlan,
) -> Strategies {
    let test = &settings.test;
    let chosen = &test.strategies;
    // The states of a folder are costly, and most that goes wrong there is one thing.
    let few = match settings.target.dir {
        Some(_) => 1,
        None => 2,
    };
    let bound = chosen.bound.unwrap_or(few) as usize;
    match kind(settings) {
        settings::Strategy::Exhaustive => Strategies::one(states::Exhaustive::default()),
        settings::Strategy::Bounded => Strategies::one(states::Bounded::new(bound)),
        settings::Strategy::Conditions => Strategies::one(states::Bounded::new(1)),
        settings::Strategy::Random => {
            let states = chosen.random_states as usize;
            Strategies::one(states::Random::new(test.workload.generated.seed, states))
        }
        settings::Strategy::Representative | settings::Strategy::Auto => {
            let plan = Arc::new(representatives());
            let sets = chosen.representative.sets as usize;
            let sized = representative::Representative::by_size(&plan, sets);
            let boxed = |one| -> Box<dyn states::Strategy> { Box::new(one) };
            Strategies {
                all: sized.into_iter().map(boxed).collect(),
                plan: Some(plan),
                ..Strategies::default()
            }
        }
    }
}

/// The strategies of a test of memory.
pub fn for_memory(
    run: &Run<'_>,
    prepared: &Prepared,
    plan: &TestPlan<'_>,
    timeline: &Timeline,
    representatives: impl FnOnce() -> representative::RepresentativePlan,
) -> Strategies {
    let settings = run.settings;
    if !needs_flow(settings) {
        let mut chosen = strategies(settings, representatives);
        chosen.lists = Some(lists_after(&chosen.all, prepared, plan));
        return chosen;
    }
    if settings.test.strategies.strategy.is_none() && are_few(prepared, plan) {
        return Strategies::one(states::Exhaustive::default());
    }
    let mut inferred = run.time("infer", || infer(&prepared.recording, &prepared.program));
    conditions::apply(settings, prepared, &mut inferred.conditions);
    let (strategy, mut lists) = run.time("violations", || {
        violations(settings, prepared, plan, timeline, &inferred)
    });
    let conditions = Some(ByInference {
        planned: strategy.figures.clone(),
        cuts: Arc::clone(&strategy.cuts),
        inferred,
    });
    let mut chosen = match kind(settings) {
        settings::Strategy::Auto => strategies(settings, representatives),
        settings::Strategy::Conditions
        | settings::Strategy::Exhaustive
        | settings::Strategy::Bounded
        | settings::Strategy::Random
        | settings::Strategy::Representative => Strategies::default(),
    };
    lists.extend(lists_after(&chosen.all, prepared, plan));
    chosen.lists = Some(lists);
    chosen.all.insert(0, Box::new(strategy));
    chosen.conditions = conditions;
    chosen
}

/// Lists of operations that run after states at the crash points that strategies look at: what is not run
/// needs no reference, and a long recording has thousands of operations that none looks at.
fn lists_after(
    strategies: &[Box<dyn states::Strategy>],
    prepared: &Prepared,
    plan: &TestPlan<'_>,
) -> FxHashSet<SuffixId> {
    let mut lists = FxHashSet::default();
    let walk = Walk::new(&prepared.recording, &plan.operations, plan.model);
    walk.crash_points(|point, _| {
        if strategies
            .iter()
            .any(|strategy| strategy.wants(point.order))
        {
            lists.insert(point.phase.suffix());
        }
        ControlFlow::Continue(())
    });
    lists
}

impl Strategies {
    fn one(strategy: impl states::Strategy + 'static) -> Strategies {
        Strategies {
            all: vec![Box::new(strategy)],
            ..Strategies::default()
        }
    }

    /// What reports call it: what was asked for, or else what is tried first.
    pub fn name(&self, settings: &Settings) -> String {
        let first = self.all.first().map(|first| first.name());
        let asked = settings.test.strategies.strategy;
        let asked = asked.map(settings::Strategy::name);
        asked.or(first).unwrap_or_default().to_owned()
    }

    pub fn behaviours(&self) -> u64 {
        self.plan.as_ref().map_or(0, |plan| plan.behaviours)
    }

    pub fn representatives(&self) -> u64 {
        let count = self.plan.as_ref().map(|plan| plan.representatives.len());
        count.unwrap_or(0) as u64
    }

    /// Whether states may be tried after which this list runs.
    pub fn wants(&self, list: SuffixId) -> bool {
        let lists = self.lists.as_ref();
        lists.is_none_or(|lists| lists.contains(&list))
    }

    /// What was inferred, and what was made of it.
    pub fn condition_figures(&self) -> Option<ConditionFigures> {
        let conditions = self.conditions.as_ref()?;
        let inferred = &conditions.inferred;
        let by_rule = |rule: Rule| {
            let hints = inferred.conditions.hints().iter();
            let of_rule = hints.filter(|hint| hint.rule == rule);
            let count = of_rule.map(|hint| hint.conditions).sum();
            (rule.name().to_owned(), count)
        };
        let named = |counts: &BTreeMap<ChoiceReason, u64>| {
            let counts = counts.iter();
            counts
                .map(|(reason, count)| (reason.name().to_owned(), *count))
                .collect()
        };
        Some(ConditionFigures {
            inferred: Rule::ALL.map(by_rule).into(),
            violations: named(&conditions.planned.met),
            chosen: named(&conditions.planned.taken),
            states: named(&conditions.cuts.lock().expect("no panic")),
            kinds: conditions.planned.kinds,
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

/// If a recording has at most this many states and no strategy is named, all states are tried.
const FEW_STATES: u32 = 2000;

/// Whether trying every state is little work: then there is no need to choose, and nothing that a
/// short run may not have hinted at is missed.
fn are_few(prepared: &Prepared, plan: &TestPlan<'_>) -> bool {
    let mut left = BigUint::from(FEW_STATES);
    let mut are_few = true;
    let walk = Walk::new(&prepared.recording, &plan.operations, plan.model);
    walk.crash_points(|point, _| {
        let count = point.frontier().count();
        are_few = count.exact && count.value <= left;
        if !are_few {
            return ControlFlow::Break(());
        }
        left -= count.value;
        ControlFlow::Continue(())
    });
    are_few
}

/// Goes along the recording and sorts out which states violate what was inferred.
fn violations(
    settings: &Settings,
    prepared: &Prepared,
    plan: &TestPlan<'_>,
    timeline: &Timeline,
    inferred: &Inferred,
) -> (ByConditions, FxHashSet<SuffixId>) {
    let unit_bytes = match plan.model {
        Model::X86 | Model::Eadr => 64,
        Model::Msync => 4096,
    };
    let most = settings.test.strategies.per_kind;
    let nodes = &timeline.nodes;
    let mut planner = Planner::new(&inferred.conditions, nodes, unit_bytes, most);
    planner.take_as_alike(paths::alike(&prepared.recording, &prepared.program));
    for given in conditions::given(settings, prepared) {
        planner.give(given);
    }
    let verbs = verbs(prepared);
    let mut lists = FxHashSet::default();
    let walk = Walk::new(&prepared.recording, &plan.operations, plan.model);
    walk.crash_points(|point, _| {
        let operation = point.phase.operation().map(|operation| operation as usize);
        let verb = operation.and_then(|index| verbs.get(index)).copied();
        let span = operation.map(|index| timeline.operations[index]);
        let wanted = planner.crash_point(&ConditionPoint {
            order: point.order,
            operation: verb.unwrap_or(u32::MAX),
            begin: span.map_or(0, |span| span.begin),
            returned: point.returned,
            issued: point.issued,
            durable: point.durable,
        });
        if wanted {
            lists.insert(point.phase.suffix());
        }
        ControlFlow::Continue(())
    });
    (planner.end(), lists)
}

/// A number for the first word of each operation.
fn verbs(prepared: &Prepared) -> Vec<u32> {
    let mut known: BTreeMap<Vec<&str>, u32> = BTreeMap::new();
    let operations = prepared.workload.operations.iter();
    let verbs = operations.map(|operation| {
        let words = operation.parts().map(|part| {
            let word = part.split_whitespace().next();
            word.unwrap_or_default()
        });
        let next = known.len() as u32;
        *known.entry(words.collect()).or_insert(next)
    });
    verbs.collect()
}
