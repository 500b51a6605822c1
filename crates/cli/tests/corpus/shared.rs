//! What the trials share: where the corpus lies, what runs it, and what several of them need and only
//! the first makes.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crashpoint_harness::{
    ActualReport, CorpusRunner, CrashOutcome, CrashVerdict, Error, ExpectedReports,
    FileCorpusRunner, Tools,
};
use libtest_mimic::Failed;

/// Made by the first trial that needs it. The others wait, and fail as it failed.
#[derive(Debug)]
pub struct Shared<T>(OnceLock<Result<T, Failed>>);

impl<T> Shared<T> {
    pub fn new() -> Shared<T> {
        Shared(OnceLock::new())
    }

    pub fn get(&self, make: impl FnOnce() -> Result<T, Failed>) -> Result<&T, Failed> {
        self.0.get_or_init(make).as_ref().map_err(Failed::clone)
    }
}

/// The corpus and what runs it. Nothing is looked for before a trial needs it: a filter on some
/// programs, or `--list`, takes no interpreter.
pub struct Corpus {
    pub root: PathBuf,
    runner: Shared<CorpusRunner>,
    file_runner: Shared<FileCorpusRunner>,
}

impl Corpus {
    pub fn new() -> Corpus {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
        Corpus {
            root: root.canonicalize().expect("the corpus"),
            runner: Shared::new(),
            file_runner: Shared::new(),
        }
    }

    pub fn runner(&self) -> Result<&CorpusRunner, Failed> {
        self.runner
            .get(|| Ok(CorpusRunner::new(tools()?, &self.root)?))
    }

    pub fn file_runner(&self) -> Result<&FileCorpusRunner, Failed> {
        self.file_runner
            .get(|| Ok(FileCorpusRunner::new(tools()?)?))
    }
}

fn tools() -> Result<Tools, Error> {
    let crashpoint = Path::new(env!("CARGO_BIN_EXE_crashpoint"));
    Tools::in_folder(crashpoint.parent().expect("a folder"))
}

pub fn assert_no(complaints: &[String]) -> Result<(), Failed> {
    match complaints {
        [] => Ok(()),
        complaints => Err(complaints.join("\n").into()),
    }
}

/// The accepted crash report of a case, which only some have.
pub struct CrashReport {
    reports: ExpectedReports,
    case: String,
    /// Whether the program runs operations in several threads.
    threads: bool,
}

impl CrashReport {
    pub fn of(source: &Path, case: &str, threads: bool) -> Result<Option<CrashReport>, Error> {
        let reports = ExpectedReports::of_crashes(source);
        let is_kept = reports.cases()?.iter().any(|kept| kept == case);
        Ok(is_kept.then(|| CrashReport {
            reports,
            case: case.to_owned(),
            threads,
        }))
    }
}

/// Whether a crash test found what the marks say and reported it as was accepted.
pub fn judge(
    verdict: &CrashVerdict,
    outcome: &CrashOutcome,
    report: Option<&CrashReport>,
) -> Result<(), Failed> {
    let mut complaints = verdict.complaints();
    complaints.extend(outcome.problems.iter().cloned());
    if let Some(accepted) = report {
        let actual = ActualReport {
            case: &accepted.case,
            text: &outcome.report,
            threads: accepted.threads,
            is_right: complaints.is_empty(),
        };
        complaints.extend(accepted.reports.compare(&actual)?);
    }
    assert_no(&complaints)
}
