//! What recording costs: each store at each level, as a ratio to its native build, and how many
//! bytes a store takes.
//!
//! The time is that of the program itself, from start to exit, with the recording switched on by
//! its environment as `crashpoint record` does. Pools lie in shared memory, recordings on disk.

use crate::programs::{Compiler, build, name_of, stores};
use crate::timing::{geometric_mean, rounded, seconds};
use crate::{Error, Options};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

const LEVELS: [&str; 3] = ["off", "pm", "flow"];

pub fn run(options: &Options) -> Result<Value, Error> {
    let work = tempfile::tempdir_in("target")?;
    let pools = tempfile::tempdir_in("/dev/shm")?;
    let mut ratios: [Vec<f64>; 3] = Default::default();
    let (mut bytes, mut pm_stores) = (0, 0);
    let mut programs = Vec::new();
    for source in stores()? {
        let name = name_of(&source);
        if options.only.as_ref().is_some_and(|only| *only != name) {
            continue;
        }
        let store = Store {
            options,
            work: work.path(),
            pools: pools.path(),
            name: &name,
        };
        let measured = store.measure(&source)?;
        eprintln!(
            "{name}: native {:.2} s, off {:.2}x, pm {:.2}x, flow {:.2}x, {:.1} bytes a store",
            measured.native_s,
            measured.ratios[0],
            measured.ratios[1],
            measured.ratios[2],
            measured.bytes as f64 / measured.stores as f64,
        );
        for (all, ratio) in ratios.iter_mut().zip(measured.ratios) {
            all.push(ratio);
        }
        bytes += measured.bytes;
        pm_stores += measured.stores;
        programs.push(json!({
            "name": name,
            "native_s": rounded(measured.native_s),
            "off": rounded(measured.ratios[0]),
            "pm": rounded(measured.ratios[1]),
            "flow": rounded(measured.ratios[2]),
            "bytes_per_store": rounded(measured.bytes as f64 / measured.stores as f64),
        }));
    }
    if programs.is_empty() {
        return Err("no store of that name in corpus/stores".into());
    }
    Ok(json!({
        "benchmark": "record",
        "operations": options.store_operations(),
        "off": rounded(geometric_mean(&ratios[0])),
        "pm": rounded(geometric_mean(&ratios[1])),
        "flow": rounded(geometric_mean(&ratios[2])),
        "bytes_per_store": rounded(bytes as f64 / pm_stores as f64),
        "programs": programs,
    }))
}

struct Store<'a> {
    options: &'a Options,
    work: &'a Path,
    pools: &'a Path,
    name: &'a str,
}

struct Measured {
    native_s: f64,
    ratios: [f64; 3],
    bytes: u64,
    stores: u64,
}

impl Store<'_> {
    fn measure(&self, source: &Path) -> Result<Measured, Error> {
        let native = self.work.join(format!("{}-native", self.name));
        let hooked = self.work.join(format!("{}-hooked", self.name));
        build(Compiler::Clang, source, &[], &native)?;
        build(Compiler::Crashpoint, source, &[], &hooked)?;
        let mut native_s = f64::INFINITY;
        let mut level_s = [f64::INFINITY; 3];
        let (mut bytes, mut stores) = (0, 0);
        for _ in 0..self.options.repeat {
            native_s = native_s.min(self.once(&native, None)?);
            for (best, level) in level_s.iter_mut().zip(LEVELS) {
                *best = best.min(self.once(&hooked, Some(level))?);
                if level == "pm" {
                    (bytes, stores) = sizes(&self.work.join("out"))?;
                }
            }
        }
        Ok(Measured {
            native_s,
            ratios: level_s.map(|s| s / native_s),
            bytes,
            stores,
        })
    }

    fn once(&self, binary: &Path, level: Option<&str>) -> Result<f64, Error> {
        let pool = self.pools.join("pool");
        let out = self.work.join("out");
        for leftover in [&pool, &out] {
            let removed = if leftover.is_dir() {
                std::fs::remove_dir_all(leftover)
            } else {
                std::fs::remove_file(leftover)
            };
            match removed {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error.into());
                }
                _ => {}
            }
        }
        let mut command = Command::new(binary);
        command
            .arg(&pool)
            .arg(format!("random:1:{}", self.options.store_operations()));
        if let Some(level) = level {
            std::fs::create_dir_all(&out)?;
            command.env("CRASHPOINT_OUT", &out);
            command.env("CRASHPOINT_LEVEL", level);
            command.env("CRASHPOINT_PM", &pool);
        }
        seconds(&mut command)
    }
}

/// Bytes and PM stores of a recording.
fn sizes(out: &Path) -> Result<(u64, u64), Error> {
    let recording = crashpoint_trace::Recording::open(out)?;
    let statistics = recording.statistics();
    Ok((statistics.pm_bytes, statistics.stores + statistics.fills))
}
