//! What watching costs: LevelDB's puts, recorded with call stacks, over the same natively, and
//! against strace with call stacks on the same calls.
//!
//! Everything lies in shared memory, where system calls are cheapest and so the ratio is worst.

use crate::programs::tool;
use crate::timing::{rounded, seconds};
use crate::{Error, Options};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

const PUTS: u64 = 10_000;
/// strace takes many times as long: it is run on fewer puts, and its time for all of them is what
/// it takes beyond what none take.
const STRACED_PUTS: u64 = 1_000;

const INSTALL: &str = "install what it needs: apt-get install g++ libleveldb-dev strace";

struct Bench {
    folder: tempfile::TempDir,
    binary: PathBuf,
}

pub fn run(options: &Options) -> Result<Value, Error> {
    let bench = Bench::new()?;
    let crashpoint = tool("crashpoint")?;
    let puts = options.operations.unwrap_or(PUTS).min(PUTS);
    let (mut native_s, mut recorded_s) = (f64::INFINITY, f64::INFINITY);
    let (mut plain_s, mut straced_s) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..options.repeat.max(5) {
        native_s = native_s.min(seconds(&mut bench.native(puts)?)?);
        recorded_s = recorded_s.min(seconds(&mut bench.recorded(&crashpoint, puts)?)?);
    }
    for _ in 0..options.repeat.min(2) {
        let fewer = puts.min(STRACED_PUTS);
        plain_s = plain_s.min(seconds(&mut bench.straced(0)?)?);
        straced_s = straced_s.min(seconds(&mut bench.straced(fewer)?)?);
    }
    let per_put = (straced_s - plain_s) / puts.min(STRACED_PUTS) as f64;
    let strace_s = plain_s + per_put * puts as f64;
    let calls = bench.calls()?;
    eprintln!(
        "native {native_s:.4} s, recorded {recorded_s:.4} s, strace -f -k {strace_s:.2} s (reckoned from \
         {} puts), {calls} calls",
        puts.min(STRACED_PUTS),
    );
    Ok(json!({
        "benchmark": "watch",
        "puts": puts,
        "calls": calls,
        "native_s": rounded(native_s),
        "recorded_s": rounded(recorded_s),
        "strace_s": rounded(strace_s),
        "strace_puts": puts.min(STRACED_PUTS),
        "record_ratio": rounded(recorded_s / native_s),
        "vs_strace": rounded(strace_s / recorded_s),
    }))
}

impl Bench {
    fn new() -> Result<Bench, Error> {
        let folder = tempfile::tempdir_in("/dev/shm")?;
        let binary = folder.path().join("puts");
        let built = Command::new("g++")
            .args([
                "-O2",
                "-g",
                "-std=c++17",
                "bench/programs/leveldb_puts.cc",
                "-lleveldb",
                "-o",
            ])
            .arg(&binary)
            .status();
        match built {
            Ok(status) if status.success() => Ok(Bench { folder, binary }),
            Ok(_) => Err(format!("the program does not compile; {INSTALL}").into()),
            Err(error) => Err(format!("g++: {error}; {INSTALL}").into()),
        }
    }

    /// An empty folder for the store.
    fn fresh(&self) -> Result<PathBuf, Error> {
        let data = self.folder.path().join("data");
        if data.exists() {
            std::fs::remove_dir_all(&data)?;
        }
        std::fs::create_dir(&data)?;
        Ok(data)
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    fn native(&self, puts: u64) -> Result<Command, Error> {
        let mut command = Command::new(&self.binary);
        command.arg(self.fresh()?).arg(puts.to_string());
        Ok(command)
    }

    fn recorded(&self, crashpoint: &Path, puts: u64) -> Result<Command, Error> {
        let data = self.fresh()?;
        let out = self.out();
        if out.exists() {
            std::fs::remove_dir_all(&out)?;
        }
        let mut command = Command::new(crashpoint);
        command.args(["record", "--no-config", "--dir"]).arg(&data);
        command.arg("--out").arg(&out).arg("--").arg(&self.binary);
        command.arg(&data).arg(puts.to_string());
        Ok(command)
    }

    fn straced(&self, puts: u64) -> Result<Command, Error> {
        let version = Command::new("strace").arg("-V").output();
        version.map_err(|error| format!("strace: {error}; {INSTALL}"))?;
        let data = self.fresh()?;
        // With a question mark, for strace may be older than a call.
        let calls = format!("trace=?{}", crashpoint_watch::watched_calls().join(",?"));
        let mut command = Command::new("strace");
        command.args(["-f", "-k", "-s", "65536", "-e", &calls, "-o"]);
        command.arg(self.folder.path().join("strace.out"));
        command.arg(&self.binary).arg(&data).arg(puts.to_string());
        Ok(command)
    }

    fn calls(&self) -> Result<u64, Error> {
        Ok(crashpoint_trace::files::FileRecording::open(&self.out())?.count())
    }
}
