//! The corpus against the expectations in its comments: what was seeded, what of it was found, and
//! what else was said. By `lint`, or by crashes.

use crate::{Error, Options};
use crashpoint_harness::{
    Case, CorpusRunner, CrashOutcome, CrashTotals, LintTotals, ProgramKind, Tools, Way, cases,
    judge_crash, judge_lint, on_all,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
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
    let runner = CorpusRunner::new(tools, &root)?;
    let mut cases = cases(&root)?;
    if let Some(only) = &options.only {
        cases.retain(|case| case.name.contains(only.as_str()));
    }
    if strategy != "lint" {
        cases.retain(|case| matches!(case.kind, ProgramKind::Store { .. }));
        return crash(&runner, &cases, strategy, options.versus_random);
    }
    let mut totals = LintTotals::default();
    for case in cases {
        let verdict = judge_lint(&case, &runner.lint(&case)?);
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
    runner: &CorpusRunner,
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
        runner.crash_program(case, program, &way)
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
    runner: &CorpusRunner,
    cases: &[Case],
    strategy: &str,
    versus_random: bool,
) -> Result<Value, Error> {
    let judged = |case: &&Case| !case.crash.is_empty() || case.variant.is_none();
    let cases: Vec<&Case> = cases.iter().filter(judged).collect();
    let programs = on_all(&cases, |case| runner.build(case, false));
    let programs: Vec<PathBuf> = programs.into_iter().collect::<Result<_, _>>()?;
    let work: Vec<(&Case, &PathBuf)> = cases.iter().copied().zip(&programs).collect();
    let begin = Instant::now();
    let outcomes = on_all(&work, |(case, program)| {
        runner.crash_program(case, program, &way(strategy, versus_random))
    });
    let seconds = begin.elapsed().as_secs_f64();
    let outcomes: Vec<CrashOutcome> = outcomes.into_iter().collect::<Result<_, _>>()?;
    let mut totals = CrashTotals::default();
    for (case, outcome) in cases.iter().zip(&outcomes) {
        let verdict = judge_crash(case, outcome);
        eprintln!(
            "{}: {}, {} findings, {} false alarms, {} states, {:.1} s",
            case.name,
            verdict.word(),
            verdict.findings,
            verdict.false_alarms.len(),
            outcome.states,
            outcome.seconds
        );
        for complaint in verdict.complaints() {
            eprintln!("  {complaint}");
        }
        totals.add(&CrashTotals::of(outcome, &verdict));
    }
    let against = match versus_random {
        true => against_random(runner, &work, &outcomes)?,
        false => Value::Null,
    };
    let mut figures = figures(strategy, &totals, seconds);
    figures["programs"] = json!(totals.runs);
    figures["against_random"] = against;
    Ok(figures)
}

/// What crash tests of the corpus came to.
pub fn figures(strategy: &str, totals: &CrashTotals, seconds: f64) -> Value {
    json!({
        "benchmark": "corpus",
        "strategy": strategy,
        "seeded": totals.seeded,
        "found": totals.found,
        "findings": totals.findings,
        "false_alarms": totals.false_alarms,
        "states": totals.states,
        "seconds": seconds,
    })
}
