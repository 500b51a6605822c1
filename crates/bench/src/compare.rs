//! The whole corpus, memory and files, by one strategy and by trying every state: whether it finds
//! what that finds, and how many states it takes.

use crate::{Error, Options};
use crashpoint_harness::{
    Case, CorpusRunner, CrashTotals, FileCase, FileCorpusRunner, MODELS, ProgramKind, Target,
    Tools, Way, cases, file_cases, judge_crash, judge_files, on_all,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The cases' own settings keep `exhaustive` to a few dozen states of each crash point, so that the
/// tests are short; here it is what is compared with.
const EVERY_STATE: [&str; 4] = ["--states-per-point", "256", "--time", "60s"];

/// Generated operations of the longer runs.
const OPERATIONS: usize = 200;

/// One program, over all its models.
#[derive(Clone, Debug, Default)]
struct Row {
    name: String,
    ours: CrashTotals,
    all: CrashTotals,
    /// Runs in which only the other one found the bug.
    missed: usize,
    failed: usize,
}

pub fn run(options: &Options, strategy: &str) -> Result<Value, Error> {
    let beside = std::env::current_exe()?;
    let folder = beside.parent().unwrap_or(Path::new("."));
    let root = Path::new("corpus")
        .canonicalize()
        .map_err(|error| format!("corpus: {error}; run this from the repository"))?;
    let begin = Instant::now();
    let wanted = |name: &str| {
        options
            .only
            .as_ref()
            .is_none_or(|only| name.contains(only.as_str()))
    };
    let mut rows = memory(folder, &root, strategy, &wanted)?;
    rows.extend(files(folder, &root, strategy, &wanted)?);
    let mut total = Row::default();
    eprintln!(
        "{:50} {:>6} {:>6} {:>6} {:>8} {:>10}",
        "program", "seeded", "found", "missed", "states", "exhaustive"
    );
    for row in &rows {
        eprintln!(
            "{:50} {:>6} {:>6} {:>6} {:>8} {:>10}",
            row.name, row.ours.seeded, row.ours.found, row.missed, row.ours.states, row.all.states
        );
        total.ours.add(&row.ours);
        total.all.add(&row.all);
        total.missed += row.missed;
        total.failed += row.failed;
    }
    let fewer = 1.0 - total.ours.states as f64 / total.all.states.max(1) as f64;
    Ok(json!({
        "benchmark": "corpus",
        "strategy": strategy,
        "programs": rows.len(),
        "runs": total.ours.runs,
        "failed": total.failed,
        "seeded": total.ours.seeded,
        "found": total.ours.found,
        "found_exhaustive": total.all.found,
        "missed": total.missed,
        "findings": total.ours.findings,
        "false_alarms": total.ours.false_alarms,
        "states": total.ours.states,
        "states_exhaustive": total.all.states,
        "fewer": fewer,
        "seconds": begin.elapsed().as_secs_f64(),
    }))
}

fn complain(name: &str, by: &str, complaints: &[String]) {
    for complaint in complaints {
        eprintln!("{name} by {by}: {complaint}");
    }
}

fn memory(
    folder: &Path,
    root: &Path,
    strategy: &str,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<Row>, Error> {
    let runner = CorpusRunner::new(Tools::in_folder(folder)?, root)?;
    let mut cases = cases(root)?;
    let is_judged = |case: &Case| !case.crash.is_empty() || case.variant.is_none();
    let is_store = |case: &Case| matches!(case.kind, ProgramKind::Store { .. });
    cases.retain(|case| is_store(case) && is_judged(case) && wanted(&case.name));
    let programs = on_all(&cases, |case| runner.build(case, false));
    let programs: Vec<PathBuf> = programs.into_iter().collect::<Result<_, _>>()?;
    // Representatives stand for what happens again and again: the case's own few operations, chosen
    // so that each kind comes up, and as many that are like each other.
    let built = || cases.iter().zip(&programs);
    let own = built().map(|(case, program)| (case, program, None));
    let more = built().map(|(case, program)| (case, program, Some(OPERATIONS)));
    let work: Vec<(&Case, &PathBuf, Option<usize>)> = own.chain(more).collect();
    let rows = on_all(
        &work,
        |(case, program, operations)| -> Result<Row, crashpoint_harness::Error> {
            let name = match operations {
                Some(operations) => format!("{}, {operations} operations", case.name),
                None => case.name.clone(),
            };
            let ours = Way {
                operations: *operations,
                ..Way::by(strategy)
            };
            let every = Way {
                more: &EVERY_STATE,
                operations: *operations,
                ..Way::by("exhaustive")
            };
            let mut sums = [CrashTotals::default(); 2];
            for (sum, way) in sums.iter_mut().zip([ours, every]) {
                let outcome = runner.crash_program(case, program, &way)?;
                let verdict = judge_crash(case, &outcome);
                complain(&name, way.strategy, &verdict.complaints());
                *sum = CrashTotals::of(&outcome, &verdict);
            }
            let [ours, all] = sums;
            Ok(Row {
                name,
                missed: usize::from(all.found > ours.found),
                ours,
                all,
                failed: 0,
            })
        },
    );
    Ok(rows.into_iter().collect::<Result<_, _>>()?)
}

fn files(
    folder: &Path,
    root: &Path,
    strategy: &str,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<Row>, Error> {
    let runner = FileCorpusRunner::new(Tools::in_folder(folder)?)?;
    let mut cases = file_cases(root)?;
    cases.retain(|case| wanted(&case.name));
    let targets = on_all(&cases, |case| runner.prepare(case));
    let targets: Vec<Target> = targets.into_iter().collect::<Result<_, _>>()?;
    let work: Vec<(&FileCase, &Target)> = cases.iter().zip(&targets).collect();
    Ok(on_all(&work, |(case, target)| {
        let mut row = Row {
            name: case.name.clone(),
            ..Row::default()
        };
        for model in MODELS {
            let mut sums = [CrashTotals::default(); 2];
            let mut failed = false;
            for (sum, strategy) in sums.iter_mut().zip([strategy, "exhaustive"]) {
                match runner.crash_by(target, model, Some(strategy)) {
                    Ok(outcome) => {
                        let verdict = judge_files(case, model, &outcome);
                        complain(
                            &case.name,
                            &format!("{strategy} on {model}"),
                            &verdict.complaints(),
                        );
                        *sum = CrashTotals::of(&outcome, &verdict);
                    }
                    Err(error) => {
                        eprintln!("{} on {model} by {strategy}: {error}", case.name);
                        failed = true;
                    }
                }
            }
            row.failed += usize::from(failed);
            row.missed += usize::from(sums[1].found > sums[0].found);
            row.ours.add(&sums[0]);
            row.all.add(&sums[1]);
        }
        row
    }))
}
