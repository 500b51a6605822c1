//! The programs of the corpus that persist by files, each variant under each file-system model,
//! against the expectations in its comments.

use crate::corpus::{found_word, on_all};
use crate::{Error, Options};
use crashpoint_harness::{
    FileCase, FileTotals, FileWorkshop, MODELS, Target, Tools, file_cases, judge_files,
};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Instant;

pub fn run(options: &Options) -> Result<Value, Error> {
    let beside = std::env::current_exe()?;
    let tools = Tools::in_folder(beside.parent().unwrap_or(Path::new(".")))?;
    let root = Path::new("corpus")
        .canonicalize()
        .map_err(|error| format!("corpus: {error}; run this from the repository"))?;
    let workshop = FileWorkshop::new(tools)?;
    let mut cases = file_cases(&root)?;
    if let Some(only) = &options.only {
        cases.retain(|case| case.name.contains(only.as_str()));
    }
    let targets = on_all(&cases, |case| workshop.prepare(case));
    let targets: Vec<Target> = targets.into_iter().collect::<Result<_, _>>()?;
    let of_case = |(case, target)| MODELS.into_iter().map(move |model| (case, target, model));
    let work: Vec<(&FileCase, &Target, &str)> =
        cases.iter().zip(&targets).flat_map(of_case).collect();
    let begin = Instant::now();
    let outcomes = on_all(&work, |(_, target, model)| workshop.crash(target, model));
    let seconds = begin.elapsed().as_secs_f64();
    let mut totals = FileTotals::default();
    let mut failed = 0;
    for ((case, _, model), outcome) in work.iter().zip(outcomes) {
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                eprintln!("{} on {model}: {error}", case.name);
                failed += 1;
                continue;
            }
        };
        let verdict = judge_files(case, model, &outcome);
        let found = found_word(verdict.seeded, verdict.found);
        eprintln!(
            "{} on {model}: {found}, {} findings, {} states, {:.1} s",
            case.name, verdict.findings, outcome.states, outcome.seconds
        );
        for said in verdict.complaints().iter().chain(&outcome.problems) {
            eprintln!("  {said}");
        }
        totals.add(&outcome, &verdict);
    }
    Ok(json!({
        "benchmark": "corpus",
        "strategy": "files",
        "programs": cases.len(),
        "runs": totals.runs,
        "failed": failed,
        "seeded": totals.seeded,
        "found": totals.found,
        "findings": totals.findings,
        "false_alarms": totals.false_alarms,
        "states": totals.states,
        "seconds": seconds,
    }))
}
