//! What a checked crash state costs, beside what it cannot do without: a process that is forked and
//! ends, and the operations that run after the crash.
//!
//! The two are measured by a program that is the tested store with another main: forks of the
//! instrumented build, operations of the native one.

use crate::programs::{Compiler, build, tool};
use crate::timing::rounded;
use crate::{Error, Options};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

const OPERATIONS: usize = 400;
const SUFFIX: usize = 20;
const JOBS: usize = 2;
const POOL: &str = "-DPM_POOL_SIZE=0x100000ull";

pub fn run(options: &Options) -> Result<Value, Error> {
    let work = tempfile::tempdir_in("target")?;
    let pools = tempfile::tempdir_in("/dev/shm")?;
    let stores = Path::new("corpus/stores").canonicalize()?;
    let store = work.path().join("store");
    let flags = [POOL.to_owned(), format!("-I{}", stores.display())];
    build(
        Compiler::Crashpoint,
        &stores.join("two_level_hash.c"),
        &flags,
        &store,
    )?;
    let source = work.path().join("check.c");
    std::fs::write(&source, include_str!("check.c"))?;
    let (native, hooked) = (work.path().join("native"), work.path().join("hooked"));
    build(Compiler::Clang, &source, &flags, &native)?;
    build(Compiler::Crashpoint, &source, &flags, &hooked)?;

    // Operations of its own: the store's are few, chosen to show its bugs.
    let settings = std::fs::read_to_string(stores.join("two_level_hash.toml"))?;
    let lines = settings
        .lines()
        .filter(|line| !line.starts_with("ops-file"));
    let settings = work.path().join("check.toml");
    std::fs::write(&settings, lines.collect::<Vec<_>>().join("\n"))?;

    let out = work.path().join("out");
    let mut best: Option<(f64, f64)> = None;
    let (mut fork_us, mut operations_us) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..options.repeat {
        let (states, seconds) = tested(&store, &settings, &out)?;
        eprintln!("{states} states in {seconds:.3} s");
        if best.is_none_or(|(most, least)| states / seconds > most / least) {
            best = Some((states, seconds));
        }
        let pool = pools.path().join("pool");
        fork_us = fork_us.min(parts(&hooked, &pool, &out)?.0);
        operations_us = operations_us.min(parts(&native, &pool, &out)?.1);
    }
    let (states, seconds) = best.ok_or("nothing was measured")?;
    let operations_us = operations_us / OPERATIONS as f64 * SUFFIX as f64;
    let state_us = seconds * 1e6 * JOBS as f64 / states;
    Ok(json!({
        "benchmark": "check",
        "states_per_s": (states / seconds).round(),
        "cost_ratio": rounded(state_us / (fork_us + operations_us)),
        "us_per_state": rounded(state_us),
        "us_fork_exit": rounded(fork_us),
        "us_operations": rounded(operations_us),
    }))
}

/// States that were tried, and the seconds that took.
fn tested(store: &Path, settings: &Path, out: &Path) -> Result<(f64, f64), Error> {
    let mut command = Command::new(tool("crashpoint")?);
    command.arg("test").arg("--config").arg(settings);
    command.arg("--out").arg(out);
    for (option, number) in [
        ("--operations", OPERATIONS),
        ("--suffix", SUFFIX),
        ("--jobs", JOBS),
    ] {
        command.arg(option).arg(number.to_string());
    }
    command.args(["--strategy", "exhaustive", "--no-probe", "--no-prune"]);
    command.args(["--format", "json", "--"]);
    let output = command.arg(store).args(["{pool}", "{ops}"]).output()?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?}: {}\n{stderr}", output.status).into());
    }
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let test = &report["test"];
    let states = test["tried_states"].as_f64();
    let seconds = test["seconds"]["explore"].as_f64();
    states
        .zip(seconds)
        .ok_or_else(|| "a report without figures".into())
}

/// Microseconds of one fork, and of all operations.
fn parts(program: &Path, pool: &Path, out: &Path) -> Result<(f64, f64), Error> {
    let mut command = Command::new(program);
    command.arg(pool).arg(out.join("ops")).arg("10");
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut numbers = said.split_whitespace().map(str::parse::<f64>);
    match (output.status.success(), numbers.next(), numbers.next()) {
        (true, Some(Ok(fork)), Some(Ok(all))) => Ok((fork / 1e3, all / 1e3)),
        _ => Err(format!("{command:?}: {} {said}", output.status).into()),
    }
}
