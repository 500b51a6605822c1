//! Runs the corpus: builds each program and variant with the compiler driver, records and lints its
//! workload, or crashes it, and compares the findings with the `//~` comments. Programs that persist
//! by files, and real packages, are crashed as they come, under each file-system model. The test
//! suite, `bench/run corpus` and `bench/run packages` share it.
//!
//! It uses the programs as a user does, by their command lines and their `findings.json`, so that
//! what it says holds for the whole tool.
//!
//! **Architecture invariant:** depends on no other crate of the project.
#![forbid(unsafe_code)]

mod cases;
mod crash;
mod expectations;
mod files;
mod golden;
mod judge;
mod packages;
mod run;

pub use cases::{Case, Kind, Purpose, cases};
pub use crash::{CrashFinding, CrashOutcome, CrashTotals, CrashVerdict, Place, Way, judge_crash};
pub use expectations::{CrashMark, Expectation, LINT_RULES, Side, is_lint_rule};
pub use files::{
    FileCase, FileFinding, FileMark, FileOutcome, FilePlace, FileTotals, FileVerdict, FileWorkshop,
    Interpreters, Language, MODELS, Spot, Target, file_cases, judge_files,
};
pub use golden::{Golden, compare, normalise};
pub use judge::{Totals, Verdict, judge};
pub use packages::{Bug, Package, PackageVerdict, Shelf, judge_package};
pub use run::{Finding, Outcome, Tools, Workshop};

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}:{line}: {reason}", path.display())]
    Expectation {
        path: PathBuf,
        line: usize,
        reason: String,
    },
    #[error("{} is not built; `cargo build --workspace` first", path.display())]
    NotBuilt { path: PathBuf },
    #[error("{case}: {step} ended with {status}:\n{output}")]
    Step {
        case: String,
        step: &'static str,
        status: String,
        output: String,
    },
    #[error("{name} is not there, and the corpus needs it: install {package}")]
    Missing {
        name: &'static str,
        package: &'static str,
    },
    #[error("{case}: findings.json: {source}")]
    Json {
        case: String,
        source: serde_json::Error,
    },
}

pub(crate) fn io_error(path: &std::path::Path) -> impl FnOnce(io::Error) -> Error + '_ {
    move |source| Error::Io {
        path: path.to_owned(),
        source,
    }
}
