//! Runs the programs of the corpus that keep persistent memory: builds, records and lints them, or
//! crashes them by `crashpoint test`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::cases::{Case, ProgramKind};
use crate::crash::CrashOutcome;
use crate::lint::LintOutcome;
use crate::step::{run_step, text};
use crate::tools::Tools;
use crate::{Error, io_error};

/// How a case is tested.
#[derive(Clone, Copy, Debug)]
pub struct Way<'a> {
    pub strategy: &'a str,
    /// So many generated operations instead of the case's own few.
    pub operations: Option<usize>,
    /// More arguments of `crashpoint test`.
    pub more: &'a [&'a str],
}

impl<'a> Way<'a> {
    /// With the operations of the case.
    pub fn by(strategy: &'a str) -> Way<'a> {
        Way {
            strategy,
            operations: None,
            more: &[],
        }
    }
}

/// Where cases are run; removed in the end.
pub struct CorpusRunner {
    tools: Tools,
    /// Paths in reports are relative to it.
    root: PathBuf,
    folder: TempDir,
    /// Pools are large and sparse; memory is the place for them.
    pools: TempDir,
}

impl CorpusRunner {
    pub fn new(tools: Tools, root: &Path) -> Result<CorpusRunner, Error> {
        let folder = TempDir::new().map_err(io_error(Path::new("a temporary folder")))?;
        let pools = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new());
        Ok(CorpusRunner {
            tools,
            root: root.to_owned(),
            folder,
            pools: pools.map_err(io_error(Path::new("a temporary folder")))?,
        })
    }

    /// Builds with the driver; `native` leaves out everything of ours.
    pub fn build(&self, case: &Case, native: bool) -> Result<PathBuf, Error> {
        let kind = if native { "native" } else { "hooked" };
        let program = self
            .folder
            .path()
            .join(format!("{}-{kind}", self.file_name(case)));
        let mut command = Command::new(self.tools.compiler(&case.source));
        command.args(["-O1", "-g", "-pthread", "-Wall", "-Wextra", "-Werror"]);
        if case.source.extension().is_some_and(|end| end == "cpp") {
            command.arg("-std=c++17");
        }
        command.args(case.variant.as_ref().map(|variant| format!("-D{variant}")));
        command.arg(&case.source).arg("-o").arg(&program);
        command.env("CRASHPOINT_CC_DISABLE", if native { "1" } else { "0" });
        run_step(&case.name, "building", command, &[0])?;
        Ok(program)
    }

    /// Runs a program on a new pool as it is, without recording; returns what it prints.
    pub fn run_plain(&self, case: &Case, program: &Path) -> Result<String, Error> {
        let pools = run_folder(&self.pools)?;
        let mut command = Command::new(program);
        command.args(arguments(case, &pool_in(&pools), None));
        let output = run_step(&case.name, "running", command, &[0])?;
        Ok(text(&output.stdout))
    }

    /// Builds the case, and takes its workload through record and lint.
    pub fn lint(&self, case: &Case) -> Result<LintOutcome, Error> {
        let program = self.build(case, false)?;
        self.lint_program(case, &program, None)
    }

    /// As [`CorpusRunner::lint`], with a program that is built and perhaps another workload.
    pub fn lint_program(
        &self,
        case: &Case,
        program: &Path,
        workload: Option<&str>,
    ) -> Result<LintOutcome, Error> {
        let (pools, out) = (run_folder(&self.pools)?, run_folder(&self.folder)?);
        let pool = pool_in(&pools);
        let mut record = self.crashpoint(case, "record");
        record
            .arg("--pm")
            .arg(&pool)
            .arg("--out")
            .arg(out.path())
            .arg("--exit-status");
        record.args(["--timeout", "5m"]).arg("--").arg(program);
        record.args(arguments(case, &pool, workload));
        let recorded = run_step(&case.name, "recording", record, &[0])?;
        // Pools take memory.
        drop(pools);
        let mut lint = self.crashpoint(case, "lint");
        lint.arg(out.path()).args(["--color", "never"]);
        let linted = run_step(&case.name, "linting", lint, &[0, 2])?;
        let (report, printed) = (text(&linted.stdout), text(&recorded.stdout));
        LintOutcome::read(&case.name, out.path(), report, printed)
    }

    /// Tests a built program by crashes, as the settings of the case say.
    pub fn crash_program(
        &self,
        case: &Case,
        program: &Path,
        way: &Way<'_>,
    ) -> Result<CrashOutcome, Error> {
        let out = run_folder(&self.folder)?;
        let mut test = self.crashpoint(case, "test");
        test.arg("--out")
            .arg(out.path())
            .args(["--strategy", way.strategy])
            // The settings of programs limit the states of a crash point.
            .arg("--accept-incomplete")
            .args(["--color", "never"]);
        if let Some(operations) = way.operations {
            test.arg("--operations").arg(operations.to_string());
        }
        test.args(way.more);
        // Callers run several cases at once.
        test.args(["--jobs", "1"]).arg("--").arg(program);
        test.arg("{pool}");
        if matches!(case.kind, ProgramKind::Store { .. }) {
            test.arg("{ops}");
        }
        let tested = run_step(&case.name, "testing", test, &[0, 2])?;
        CrashOutcome::read(&case.name, out.path(), text(&tested.stdout))
    }

    fn crashpoint(&self, case: &Case, what: &str) -> Command {
        let mut command = Command::new(self.tools.crashpoint());
        command.arg(what).current_dir(&self.root);
        match &case.config {
            Some(config) => command.arg("--config").arg(config),
            None => command.arg("--no-config"),
        };
        command
    }

    fn file_name(&self, case: &Case) -> String {
        case.name.replace(['/', ' '], "-")
    }
}

/// A folder for one run: a case may be run in several ways at once.
fn run_folder(parent: &TempDir) -> Result<TempDir, Error> {
    TempDir::new_in(parent.path()).map_err(io_error(parent.path()))
}

/// Reports name the pool by its last part, which must not change from run to run.
fn pool_in(folder: &TempDir) -> PathBuf {
    folder.path().join("pool")
}

fn arguments(case: &Case, pool: &Path, workload: Option<&str>) -> Vec<OsString> {
    let mut arguments = vec![pool.into()];
    match (&case.kind, workload) {
        (ProgramKind::Store { .. }, Some(workload)) => arguments.push(workload.into()),
        (ProgramKind::Store { workload }, None) => arguments.push(workload.into()),
        (ProgramKind::Small, _) => {}
    }
    arguments
}
