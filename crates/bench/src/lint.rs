//! How fast the rules read: PM events per second of `crashpoint lint` on one core, from opening
//! the recording to the findings.

use crate::programs::{Compiler, build, stores, tool};
use crate::timing::{rounded, seconds};
use crate::{Error, Options};
use serde_json::{Value, json};
use std::process::Command;

pub fn run(options: &Options) -> Result<Value, Error> {
    let work = tempfile::tempdir_in("target")?;
    let pools = tempfile::tempdir_in("/dev/shm")?;
    let out = work.path().join("out");
    let source = stores()?
        .into_iter()
        .find(|path| path.ends_with("two_level_hash.c"))
        .ok_or("corpus/stores/two_level_hash.c is missing")?;
    let binary = work.path().join("store");
    build(Compiler::Crashpoint, &source, &[], &binary)?;
    let pool = pools.path().join("pool");
    seconds(
        Command::new(tool("crashpoint")?)
            .args(["record", "--level", "pm", "--out"])
            .arg(&out)
            .arg("--pm")
            .arg(&pool)
            .arg("--")
            .arg(&binary)
            .arg(&pool)
            .arg(format!("random:1:{}", options.store_operations())),
    )?;
    let events = crashpoint_trace::Recording::open(&out)?
        .statistics()
        .events();
    let mut best_s = f64::INFINITY;
    for _ in 0..options.repeat {
        // Pinned to one core: the figure is per core.
        let mut command = Command::new("taskset");
        command
            .args(["-c", "0"])
            .arg(tool("crashpoint")?)
            .arg("lint")
            .arg(&out);
        best_s = best_s.min(seconds(&mut command)?);
    }
    let events_per_s = events as f64 / best_s;
    eprintln!("{events} events in {best_s:.2} s");
    Ok(json!({
        "benchmark": "lint",
        "events": events,
        "seconds": rounded(best_s),
        "events_per_s": events_per_s.round(),
    }))
}
