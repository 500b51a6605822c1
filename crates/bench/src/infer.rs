//! What it takes to find out which crash states to try by conditions: recording at level flow,
//! inference, and the search for violations. And how that grows with the number of operations.

use crate::programs::{tool, two_level_hash};
use crate::timing::{report_and_mib, rounded};
use crate::{Error, Options};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

const FEW: usize = 500;
const OPERATIONS: usize = 2000;
const MANY: usize = 8000;

/// What one run took.
#[derive(Clone, Copy)]
struct Took {
    seconds: f64,
    mib: f64,
}

pub fn run(options: &Options) -> Result<Value, Error> {
    let work = tempfile::tempdir_in("target")?;
    let (store, settings) = two_level_hash(work.path())?;
    let mut best: [Option<Took>; 3] = [None; 3];
    for _ in 0..options.repeat {
        for (slot, operations) in best.iter_mut().zip([FEW, OPERATIONS, MANY]) {
            let took = one(&store, &settings, &work.path().join("out"), operations)?;
            eprintln!(
                "{operations} operations: {:.3} s, {:.0} MiB",
                took.seconds, took.mib
            );
            if slot.is_none_or(|before| took.seconds < before.seconds) {
                *slot = Some(took);
            }
        }
    }
    let [Some(few), Some(usual), Some(many)] = best else {
        return Err("nothing was measured".into());
    };
    let each = |took: Took, operations: usize| took.seconds / operations as f64;
    Ok(json!({
        "benchmark": "infer",
        "operations": OPERATIONS,
        "seconds": rounded(usual.seconds),
        "mib": usual.mib.round(),
        "growth": rounded(each(many, MANY) / each(few, FEW)),
    }))
}

/// Records and infers; of the states that would be tried, one is, since that is not the question.
fn one(store: &Path, settings: &Path, out: &Path, operations: usize) -> Result<Took, Error> {
    let mut command = Command::new(tool("crashpoint")?);
    command.arg("test").arg("--config").arg(settings);
    command.arg("--out").arg(out);
    command.arg("--operations").arg(operations.to_string());
    command.args(["--strategy", "conditions", "--states", "1", "--suffix", "0"]);
    command.args(["--no-probe", "--format", "json", "--"]);
    command.arg(store).args(["{pool}", "{ops}"]);
    let (report, mib) = report_and_mib(&mut command)?;
    let phases = &report["test"]["seconds"];
    let phase = |name: &str| phases[name].as_f64().ok_or(format!("no phase `{name}`"));
    Ok(Took {
        seconds: phase("record")? + phase("infer")? + phase("violations")?,
        mib,
    })
}
