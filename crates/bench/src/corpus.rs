//! The corpus against the expectations in its comments: what was seeded, what of it was found, and
//! what else was said. By `lint`, or by crashes.

use crate::{Error, Options};
use crashpoint_harness::{
    Case, CrashOutcome, CrashTotals, Kind, Tools, Totals, Way, Workshop, cases, judge, judge_crash,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

pub fn run(options: &Options) -> Result<Value, Error> {
    let strategy = options.strategy.as_deref().unwrap_or("lint");
    if strategy == "files" {
        return crate::files::run(options);
    }
    if strategy == "representative" {
        return crate::compare::run(options, strategy);
    }
    if !["lint", "exhaustive", "bounded", "random", "conditions"].contains(&strategy) {
        let known = "`lint`, `exhaustive`, `bounded`, `random`, `conditions`, `representative` and \
                     `files`";
        return Err(format!("no strategy `{strategy}`; there are {known}").into());
    }
    let beside = std::env::current_exe()?;
    let tools = Tools::in_folder(beside.parent().unwrap_or(Path::new(".")))?;
    let root = Path::new("corpus")
        .canonicalize()
        .map_err(|error| format!("corpus: {error}; run this from the repository"))?;
    let workshop = Workshop::new(tools, &root)?;
    let mut cases = cases(&root)?;
    if let Some(only) = &options.only {
        cases.retain(|case| case.name.contains(only.as_str()));
    }
    if strategy != "lint" {
        cases.retain(|case| matches!(case.kind, Kind::Store { .. }));
        return crash(&workshop, &cases, strategy, options.versus_random);
    }
    let mut totals = Totals::default();
    for case in cases {
        let verdict = judge(&case, &workshop.check(&case)?);
        eprintln!(
            "{}: {} of {} found, {} false alarms",
            case.name,
            verdict.found.len(),
            case.expected.len(),
            verdict.false_alarms.len()
        );
        for complaint in verdict.complaints(&case) {
            eprintln!("  {complaint}");
        }
        totals.add(&case, &verdict);
    }
    Ok(json!({
        "benchmark": "corpus",
        "strategy": "lint",
        "programs": totals.programs,
        "seeded": totals.seeded,
        "found": totals.found,
        "findings": totals.findings,
        "false_alarms": totals.false_alarms,
        "gaps": totals.gaps,
    }))
}

/// How many times as many states random testing gets.
const TIMES: u64 = 50;

/// What random states find on the same programs and operations, with many times as many states as
/// conditions took. Prints a table.
fn against_random(
    workshop: &Workshop,
    work: &[(&Case, &PathBuf)],
    outcomes: &[CrashOutcome],
) -> Result<Value, Error> {
    let pairs: Vec<(&Case, &PathBuf, &CrashOutcome)> = work
        .iter()
        .zip(outcomes)
        .filter(|((case, _), _)| !case.crash.is_empty())
        .map(|((case, program), outcome)| (*case, *program, outcome))
        .collect();
    let random = on_all(&pairs, |(case, program, outcome)| {
        let states = (TIMES * outcome.states).to_string();
        let each = (TIMES * outcome.states).div_ceil(outcome.crash_points.max(1));
        let each = each.to_string();
        let more = ["--states-per-point", "0", "--time", "180s"];
        let more = [&more[..], &["--states", &states, "--random-states", &each]].concat();
        let way = Way {
            strategy: "random",
            operations: Some(OPERATIONS_VERSUS_RANDOM),
            more: &more,
        };
        workshop.crash_program(case, program, &way)
    });
    let random: Vec<CrashOutcome> = random.into_iter().collect::<Result<_, _>>()?;
    let (mut by_conditions, mut by_random, mut states) = (0, 0, (0, 0));
    eprintln!("program: conditions found/states, random found/states");
    for ((case, _, conditions), random) in pairs.iter().zip(&random) {
        let found = [conditions, random].map(|outcome| judge_crash(case, outcome).found);
        eprintln!(
            "{}: {}/{}, {}/{}",
            case.name, found[0], conditions.states, found[1], random.states
        );
        by_conditions += u32::from(found[0]);
        by_random += u32::from(found[1]);
        states = (states.0 + conditions.states, states.1 + random.states);
    }
    Ok(json!({
        "found": by_conditions,
        "states": states.0,
        "random_found": by_random,
        "random_states": states.1,
    }))
}

/// Operations of a test that tries few states of each.
const OPERATIONS: usize = 2000;

/// With fewer, since random testing gets so many times the states: as many as `crashpoint test`
/// makes up unless it is told otherwise.
const OPERATIONS_VERSUS_RANDOM: usize = 200;

/// Few chosen operations, where every state is tried, and many random ones where few are.
fn way(strategy: &str, versus_random: bool) -> Way<'_> {
    match strategy {
        "conditions" => Way {
            strategy,
            operations: Some(match versus_random {
                true => OPERATIONS_VERSUS_RANDOM,
                false => OPERATIONS,
            }),
            more: &["--states-per-point", "0", "--time", "120s"],
        },
        _ => Way::by(strategy),
    }
}

/// Tests the stores, as many at once as there are processors. What counts as correctness: all that
/// has marks for crashes, and all correct forms.
fn crash(
    workshop: &Workshop,
    cases: &[Case],
    strategy: &str,
    versus_random: bool,
) -> Result<Value, Error> {
    let judged = |case: &&Case| !case.crash.is_empty() || case.variant.is_none();
    let cases: Vec<&Case> = cases.iter().filter(judged).collect();
    let programs = on_all(&cases, |case| workshop.build(case, false));
    let programs: Vec<PathBuf> = programs.into_iter().collect::<Result<_, _>>()?;
    let work: Vec<(&Case, &PathBuf)> = cases.iter().copied().zip(&programs).collect();
    let begin = Instant::now();
    let outcomes = on_all(&work, |(case, program)| {
        workshop.crash_program(case, program, &way(strategy, versus_random))
    });
    let seconds = begin.elapsed().as_secs_f64();
    let outcomes: Vec<CrashOutcome> = outcomes.into_iter().collect::<Result<_, _>>()?;
    let mut totals = CrashTotals::default();
    for (case, outcome) in cases.iter().zip(&outcomes) {
        let verdict = judge_crash(case, outcome);
        let found = found_word(verdict.seeded, verdict.found);
        eprintln!(
            "{}: {found}, {} findings, {} false alarms, {} states, {:.1} s",
            case.name,
            verdict.findings,
            verdict.false_alarms.len(),
            outcome.states,
            outcome.seconds
        );
        for complaint in verdict.complaints() {
            eprintln!("  {complaint}");
        }
        totals.add(outcome, &verdict);
    }
    let against = match versus_random {
        true => against_random(workshop, &work, &outcomes)?,
        false => Value::Null,
    };
    Ok(json!({
        "benchmark": "corpus",
        "strategy": strategy,
        "programs": totals.programs,
        "seeded": totals.seeded,
        "found": totals.found,
        "findings": totals.findings,
        "false_alarms": totals.false_alarms,
        "states": totals.states,
        "seconds": seconds,
        "against_random": against,
    }))
}

/// What is printed of a program: whether its bug, if it has one, was found.
pub fn found_word(seeded: bool, found: bool) -> &'static str {
    match (seeded, found) {
        (true, true) => "found",
        (true, false) => "MISSED",
        (false, _) => "correct",
    }
}

/// Does something with each item, on all processors; results in the order of the items.
pub fn on_all<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { return };
                    let result = work(item);
                    *results[index].lock().expect("no panic") = Some(result);
                }
            });
        }
    });
    let done = |slot: Mutex<Option<R>>| slot.into_inner().expect("no panic").expect("done");
    results.into_iter().map(done).collect()
}
