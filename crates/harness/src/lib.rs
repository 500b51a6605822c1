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
mod expected;
mod files;
mod lint;
mod normalise;
mod packages;
mod parallel;
mod runner;
mod step;
mod tools;

pub use cases::{Case, ProgramKind, Purpose, cases, recovery_cases};
pub use crash::{CrashFinding, CrashOutcome, CrashPlace, CrashTotals, CrashVerdict, judge_crash};
pub use expectations::{CrashMark, Expectation, LINT_RULES, Side, is_lint_rule};
pub use expected::{ActualReport, ExpectedReports, expected_reports};
pub use files::{
    FileCase, FileCorpusRunner, FileMark, Language, MODELS, Spot, Target, file_cases, judge_files,
};
pub use lint::{LintFinding, LintOutcome, LintTotals, LintVerdict, judge_lint};
pub use packages::{Bug, Package, PackageSet, PackageVerdict, judge_package};
pub use parallel::on_all;
pub use runner::{CorpusRunner, Way};
pub use tools::{Interpreters, Tools};

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
