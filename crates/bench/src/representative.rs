//! How the time of `crashpoint test` grows with the operations of the workload, all phases counted,
//! by representatives: what one operation takes should stay as it is. For a program that keeps
//! files, and for one that keeps persistent memory, with ten million words stored in the end.

use crate::programs::{tool, two_level_hash};
use crate::timing::{report_and_mib, rounded, seconds};
use crate::{Error, Options};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The first and the last of these are compared.
const OPERATIONS: [u64; 3] = [1_000, 10_000, 100_000];

/// Of the store.
const STORE_OPERATIONS: [u64; 3] = [30_000, 300_000, 3_000_000];

pub fn run(options: &Options) -> Result<Value, Error> {
    let mut result = files(options)?;
    result["memory"] = memory(options)?;
    Ok(result)
}

fn files(options: &Options) -> Result<Value, Error> {
    let folder = tempfile::tempdir_in("/dev/shm")?;
    let binary = folder.path().join("journal");
    let built = Command::new("cc")
        .args(["-O1", "-g", "bench/programs/journal.c", "-o"])
        .arg(&binary)
        .status()
        .map_err(|error| format!("cc: {error}"))?;
    if !built.success() {
        return Err("bench/programs/journal.c does not compile".into());
    }
    let crashpoint = tool("crashpoint")?;
    let mut results = Vec::new();
    for operations in OPERATIONS.map(|count| count.min(options.operations.unwrap_or(count))) {
        let repeat = if operations < 100_000 {
            options.repeat
        } else {
            1
        };
        let mut best = f64::INFINITY;
        let mut document = Value::Null;
        for _ in 0..repeat {
            let out = fresh(folder.path(), "out")?;
            let data = fresh(folder.path(), "data")?;
            std::fs::create_dir(&data)?;
            let mut test = Command::new(&crashpoint);
            test.args(["test", "--no-config", "--format", "json"]);
            test.args(["--strategy", "representative", "--dir"])
                .arg(&data);
            test.arg("--out").arg(&out).arg("--check");
            test.arg(format!("{} verify {{dir}} {{printed}}", binary.display()));
            test.arg("--").arg(&binary).arg("run").arg(&data);
            test.arg(operations.to_string());
            best = best.min(seconds(&mut test)?);
            document = serde_json::from_slice(&std::fs::read(out.join("findings.json"))?)?;
        }
        let test = &document["test"];
        let findings = document["findings"].as_array().map_or(0, Vec::len);
        eprintln!(
            "{operations} operations: {best:.2} s, {} behaviours, {} representatives, {} states, \
             {findings} findings; {}",
            test["behaviours"], test["representatives"], test["tried_states"], test["seconds"]
        );
        results.push((operations, best, test.clone(), findings));
    }
    let per_operation = |(count, time, ..): &(u64, f64, Value, usize)| time / *count as f64;
    let (first, last) = (&results[0], &results[results.len() - 1]);
    Ok(json!({
        "benchmark": "representative",
        "operations": results.iter().map(|one| one.0).collect::<Vec<_>>(),
        "seconds": results.iter().map(|one| rounded(one.1)).collect::<Vec<_>>(),
        "states": results.iter().map(|one| one.2["tried_states"].clone()).collect::<Vec<_>>(),
        "behaviours": last.2["behaviours"],
        "representatives": last.2["representatives"],
        "findings": last.3,
        "growth": rounded(per_operation(last) / per_operation(first)),
    }))
}

fn memory(options: &Options) -> Result<Value, Error> {
    let work = tempfile::tempdir_in("target")?;
    let (store, settings) = two_level_hash(work.path())?;
    let mut results = Vec::new();
    for operations in STORE_OPERATIONS.map(|count| count.min(options.operations.unwrap_or(count))) {
        let mut test = Command::new(tool("crashpoint")?);
        test.arg("test").arg("--config").arg(&settings);
        test.arg("--out").arg(work.path().join("out"));
        test.arg("--operations").arg(operations.to_string());
        test.args(["--strategy", "representative", "--format", "json", "--"]);
        test.arg(&store).args(["{pool}", "{ops}"]);
        let begin = Instant::now();
        let (report, mib) = report_and_mib(&mut test)?;
        let took = begin.elapsed().as_secs_f64();
        let test = &report["test"];
        eprintln!(
            "{operations} operations of a store: {took:.2} s, {mib:.0} MiB, {} behaviours, {} \
             representatives, {} states; {}",
            test["behaviours"], test["representatives"], test["tried_states"], test["seconds"]
        );
        results.push((operations, took, mib));
    }
    let each = |(operations, took, _): &(u64, f64, f64)| took / *operations as f64;
    let (first, last) = (&results[0], &results[results.len() - 1]);
    Ok(json!({
        "operations": results.iter().map(|one| one.0).collect::<Vec<_>>(),
        "seconds": results.iter().map(|one| rounded(one.1)).collect::<Vec<_>>(),
        "mib": results.iter().map(|one| one.2.round()).collect::<Vec<_>>(),
        "growth": rounded(each(last) / each(first)),
    }))
}

fn fresh(folder: &Path, name: &str) -> Result<PathBuf, Error> {
    let path = folder.join(name);
    if path.exists() {
        std::fs::remove_dir_all(&path)?;
    }
    Ok(path)
}
