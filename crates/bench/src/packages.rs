//! Real packages against what is documented about them: the bugs that are found, and whether the
//! controls are silent. With `--operations` each does as many, one after the other, so that each has
//! all processors.

use crate::{Error, Options};
use crashpoint_harness::{FileCorpusRunner, Package, PackageSet, Tools, judge_package, on_all};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

pub fn run(options: &Options) -> Result<Value, Error> {
    let beside = std::env::current_exe()?;
    let folder = beside.parent().unwrap_or(Path::new("."));
    let runner = FileCorpusRunner::new(Tools::in_folder(folder)?)?;
    let here = Path::new("corpus/packages")
        .canonicalize()
        .map_err(|error| format!("corpus/packages: {error}; run this from the repository"))?;
    let set = PackageSet {
        here,
        installed: folder.join("../packages"),
        operations: options.operations,
        interpreters: runner.interpreters(),
    };
    eprintln!("installing from the registries what is not there yet");
    set.install()?;
    let mut packages = set.packages()?;
    if let Some(only) = &options.only {
        packages.retain(|package| package.name.contains(only.as_str()));
    }
    let mut work: Vec<(&Package, &'static str)> = Vec::new();
    for package in &packages {
        work.extend(package.models.iter().map(|model| (package, *model)));
    }
    let begin = Instant::now();
    let crash = |(package, model): &(&Package, &'static str)| {
        let begin = Instant::now();
        let outcome = runner.crash(&package.target, model);
        (outcome, begin.elapsed().as_secs_f64())
    };
    let outcomes = match options.operations {
        Some(_) => work.iter().map(crash).collect(),
        None => on_all(&work, crash),
    };
    let seconds = begin.elapsed().as_secs_f64();
    let mut of_packages: BTreeMap<&str, BTreeMap<&'static str, _>> = BTreeMap::new();
    let mut failed = 0;
    let mut states = 0;
    let mut slowest = 0.0;
    for ((package, model), (outcome, took)) in work.iter().zip(outcomes) {
        slowest = f64::max(slowest, took);
        match outcome {
            Ok(outcome) => {
                eprintln!(
                    "{} on {model}: {} findings, {} behaviours, {} representatives, {} states, \
                     {:.0} per second, {:.1} s, {took:.1} s in all",
                    package.name,
                    outcome.findings.len(),
                    outcome.behaviours,
                    outcome.representatives,
                    outcome.states,
                    outcome.states as f64 / outcome.seconds.max(1e-9),
                    outcome.seconds
                );
                for problem in &outcome.problems {
                    eprintln!("  {problem}");
                }
                states += outcome.states;
                of_packages
                    .entry(&package.name)
                    .or_default()
                    .insert(model, outcome);
            }
            Err(error) => {
                eprintln!("{} on {model}: {error}", package.name);
                failed += 1;
            }
        }
    }
    let (mut documented, mut found, mut controls, mut false_alarms) = (0, 0, 0, 0);
    let (mut seeded, mut seeded_found) = (0, 0);
    for package in &packages {
        let outcomes = of_packages
            .remove(package.name.as_str())
            .unwrap_or_default();
        let verdict = judge_package(package, &outcomes);
        for (bug, is_found) in verdict.documented.iter().chain(&verdict.seeded) {
            let word = if *is_found { "found" } else { "MISSED" };
            eprintln!("{}: {word}: {bug}", package.title);
        }
        documented += verdict.documented.len();
        found += verdict.documented.iter().filter(|bug| bug.1).count();
        seeded += verdict.seeded.len();
        seeded_found += verdict.seeded.iter().filter(|bug| bug.1).count();
        if verdict.documented.is_empty() && verdict.seeded.is_empty() {
            let word = if verdict.false_alarms.is_empty() {
                "silent"
            } else {
                "NOT SILENT"
            };
            eprintln!("{}: control, {word}", package.title);
            controls += 1;
        }
        for (model, finding) in &verdict.false_alarms {
            eprintln!("  on {model}, unasked: {finding}");
        }
        false_alarms += verdict.false_alarms.len();
    }
    Ok(json!({
        "benchmark": "packages",
        "packages": packages.len(),
        "failed": failed,
        "documented": documented,
        "found": found,
        "seeded": seeded,
        "seeded_found": seeded_found,
        "controls": controls,
        "false_alarms": false_alarms,
        "states": states,
        "slowest_seconds": slowest,
        "seconds": seconds,
    }))
}
