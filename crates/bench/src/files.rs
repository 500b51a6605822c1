//! The programs of the corpus that persist by files, each variant under each file-system model,
//! against the expectations in its comments.

use crate::corpus::figures;
use crate::{Error, Options};
use crashpoint_harness::{
    CrashTotals, FileCase, FileCorpusRunner, MODELS, Target, Tools, file_cases, judge_files, on_all,
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
    let runner = FileCorpusRunner::new(tools)?;
    let mut cases = file_cases(&root)?;
    if let Some(only) = &options.only {
        cases.retain(|case| case.name.contains(only.as_str()));
    }
    let targets = on_all(&cases, |case| runner.prepare(case));
    let targets: Vec<Target> = targets.into_iter().collect::<Result<_, _>>()?;
    let of_case = |(case, target)| MODELS.into_iter().map(move |model| (case, target, model));
    let work: Vec<(&FileCase, &Target, &str)> =
        cases.iter().zip(&targets).flat_map(of_case).collect();
    let begin = Instant::now();
    let outcomes = on_all(&work, |(_, target, model)| runner.crash(target, model));
    let seconds = begin.elapsed().as_secs_f64();
    let mut totals = CrashTotals::default();
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
        eprintln!(
            "{} on {model}: {}, {} findings, {} states, {:.1} s",
            case.name,
            verdict.word(),
            verdict.findings,
            outcome.states,
            outcome.seconds
        );
        for said in verdict.complaints().iter().chain(&outcome.problems) {
            eprintln!("  {said}");
        }
        totals.add(&CrashTotals::of(&outcome, &verdict));
    }
    let mut figures = figures("files", &totals, seconds);
    figures["programs"] = json!(cases.len());
    figures["runs"] = json!(totals.runs);
    figures["failed"] = json!(failed);
    Ok(figures)
}
