//! What compiling costs: a project of twenty files by `crashpoint-cc`, as a ratio to clang.

use crate::programs::{Compiler, stores, variants};
use crate::timing::{rounded, seconds};
use crate::{Error, Options};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const FILES: usize = 20;

pub fn run(options: &Options) -> Result<Value, Error> {
    let work = tempfile::tempdir_in("target")?;
    let units = units()?;
    let (mut clang_s, mut ours_s) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..options.repeat {
        clang_s = clang_s.min(compile(Compiler::Clang, &units, work.path())?);
        ours_s = ours_s.min(compile(Compiler::Crashpoint, &units, work.path())?);
    }
    eprintln!(
        "{} files: clang {clang_s:.2} s, crashpoint-cc {ours_s:.2} s",
        units.len()
    );
    Ok(json!({
        "benchmark": "build",
        "files": units.len(),
        "clang_s": rounded(clang_s),
        "crashpoint_s": rounded(ours_s),
        "ratio": rounded(ours_s / clang_s),
    }))
}

/// One object to be compiled: a store in one of its variants.
struct Unit {
    source: PathBuf,
    variant: Option<String>,
}

/// Twenty different files: the stores as they are, then variants of each in turn.
fn units() -> Result<Vec<Unit>, Error> {
    let sources = stores()?;
    let mut queues = Vec::new();
    for source in &sources {
        let mut queue: Vec<Option<String>> = vec![None];
        queue.extend(variants(source)?.into_iter().map(Some));
        queues.push(queue.into_iter());
    }
    let mut units = Vec::new();
    while units.len() < FILES {
        let before = units.len();
        for (source, queue) in sources.iter().zip(&mut queues) {
            if let Some(variant) = queue.next() {
                units.push(Unit {
                    source: source.clone(),
                    variant,
                });
            }
        }
        if units.len() == before {
            return Err(format!("the corpus has only {before} variants").into());
        }
    }
    units.truncate(FILES);
    Ok(units)
}

/// Compiles and links every unit, one after the other, and returns the seconds.
fn compile(compiler: Compiler, units: &[Unit], work: &Path) -> Result<f64, Error> {
    let mut total_s = 0.0;
    for unit in units {
        let mut command = compiler.command(&unit.source)?;
        command.args(["-O2", "-g", "-pthread"]).arg(&unit.source);
        command.args(unit.variant.iter().map(|name| format!("-D{name}")));
        command.arg("-o").arg(work.join("unit"));
        total_s += seconds(&mut command)?;
    }
    Ok(total_s)
}
