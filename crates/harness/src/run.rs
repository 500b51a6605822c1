//! Builds, records and lints one case.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde::Deserialize;
use tempfile::TempDir;

use crate::cases::{Case, Kind};
use crate::{Error, io_error};

/// Our programs.
#[derive(Clone, Debug)]
pub struct Tools {
    folder: PathBuf,
}

impl Tools {
    /// From the folder that cargo builds into.
    pub fn in_folder(folder: &Path) -> Result<Tools, Error> {
        for name in ["crashpoint", "crashpoint-cc", "crashpoint-c++"] {
            let path = folder.join(name);
            if !path.exists() {
                return Err(Error::NotBuilt { path });
            }
        }
        Ok(Tools {
            folder: folder.to_owned(),
        })
    }

    pub fn crashpoint(&self) -> PathBuf {
        self.folder.join("crashpoint")
    }

    /// The driver for a source, by its language.
    pub fn compiler(&self, source: &Path) -> PathBuf {
        let cxx = source.extension().is_some_and(|end| end == "cpp");
        self.folder.join(if cxx {
            "crashpoint-c++"
        } else {
            "crashpoint-cc"
        })
    }
}

/// What lint says about one case.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub findings: Vec<Finding>,
    /// What limits the result.
    pub problems: Vec<String>,
    /// The report for people.
    pub report: String,
    /// What the program printed.
    pub printed: String,
}

/// The part of a finding that is compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub rule: String,
    /// Empty without debug information.
    pub file: String,
    pub line: u32,
    pub message: String,
}

/// Where cases are run; removed in the end.
pub struct Workshop {
    tools: Tools,
    /// Paths in reports are relative to it.
    root: PathBuf,
    folder: TempDir,
    /// Pools are large and sparse; memory is the place for them.
    pools: TempDir,
}

impl Workshop {
    pub fn new(tools: Tools, root: &Path) -> Result<Workshop, Error> {
        let folder = TempDir::new().map_err(io_error(Path::new("a temporary folder")))?;
        let pools = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new());
        Ok(Workshop {
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
        self.step(case, "building", command, &[0])?;
        Ok(program)
    }

    /// Runs a program on a new pool as it is, without recording; returns what it prints.
    pub fn run_plain(&self, case: &Case, program: &Path) -> Result<String, Error> {
        let pool = self.pool(case)?;
        let mut command = Command::new(program);
        command.args(arguments(case, &pool, None));
        let output = self.step(case, "running", command, &[0]);
        remove(&pool);
        Ok(text(&output?.stdout))
    }

    /// The workload of the case through record and lint.
    pub fn check(&self, case: &Case) -> Result<Outcome, Error> {
        let program = self.build(case, false)?;
        self.check_program(case, &program, None)
    }

    /// As [`Workshop::check`], with a program that is built and another workload.
    pub fn check_program(
        &self,
        case: &Case,
        program: &Path,
        workload: Option<&str>,
    ) -> Result<Outcome, Error> {
        let pool = self.pool(case)?;
        let out = self
            .folder
            .path()
            .join(format!("{}.out", self.file_name(case)));
        let mut record = self.crashpoint(case, "record");
        record
            .arg("--pm")
            .arg(&pool)
            .arg("--out")
            .arg(&out)
            .arg("--exit-status");
        record.args(["--timeout", "5m"]).arg("--").arg(program);
        record.args(arguments(case, &pool, workload));
        let recorded = self.step(case, "recording", record, &[0]);
        remove(&pool);
        let recorded = recorded?;
        let mut lint = self.crashpoint(case, "lint");
        lint.arg(&out).args(["--color", "never"]);
        let linted = self.step(case, "linting", lint, &[0, 2])?;
        let path = out.join("findings.json");
        let json = std::fs::read(&path).map_err(io_error(&path))?;
        let _ = std::fs::remove_dir_all(&out);
        let document: Document = serde_json::from_slice(&json).map_err(|source| Error::Json {
            case: case.name.clone(),
            source,
        })?;
        Ok(Outcome {
            findings: document.findings.into_iter().map(Finding::from).collect(),
            problems: document.problems,
            report: text(&linted.stdout),
            printed: text(&recorded.stdout),
        })
    }

    pub(crate) fn crashpoint(&self, case: &Case, what: &str) -> Command {
        let mut command = Command::new(self.tools.crashpoint());
        command.arg(what).current_dir(&self.root);
        match &case.config {
            Some(config) => command.arg("--config").arg(config),
            None => command.arg("--no-config"),
        };
        command
    }

    pub(crate) fn file_name(&self, case: &Case) -> String {
        case.name.replace(['/', ' '], "-")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Reports name the pool by its last part, which must not change from run to run.
    fn pool(&self, case: &Case) -> Result<PathBuf, Error> {
        let folder = self.pools.path().join(self.file_name(case));
        std::fs::create_dir_all(&folder).map_err(io_error(&folder))?;
        Ok(folder.join("pool"))
    }

    pub(crate) fn step(
        &self,
        case: &Case,
        step: &'static str,
        mut command: Command,
        good: &[i32],
    ) -> Result<Output, Error> {
        let output = command
            .output()
            .map_err(io_error(Path::new(command.get_program())))?;
        match output.status.code() {
            Some(code) if good.contains(&code) => Ok(output),
            _ => Err(Error::Step {
                case: case.name.clone(),
                step,
                status: output.status.to_string(),
                output: text(&output.stderr),
            }),
        }
    }
}

fn arguments(case: &Case, pool: &Path, workload: Option<&str>) -> Vec<OsString> {
    let mut arguments = vec![pool.into()];
    match (&case.kind, workload) {
        (Kind::Store { .. }, Some(workload)) => arguments.push(workload.into()),
        (Kind::Store { workload }, None) => arguments.push(workload.into()),
        (Kind::Small, _) => {}
    }
    arguments
}

fn remove(pool: &Path) {
    if let Some(folder) = pool.parent() {
        let _ = std::fs::remove_dir_all(folder);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[derive(Deserialize)]
struct Document {
    findings: Vec<WireFinding>,
    problems: Vec<String>,
}

#[derive(Deserialize)]
struct WireFinding {
    rule: String,
    message: String,
    location: Option<WireLocation>,
}

#[derive(Deserialize)]
struct WireLocation {
    file: String,
    line: u32,
}

impl From<WireFinding> for Finding {
    fn from(wire: WireFinding) -> Finding {
        let (file, line) = wire
            .location
            .map_or_else(Default::default, |at| (at.file, at.line));
        Finding {
            rule: wire.rule,
            file,
            line,
            message: wire.message,
        }
    }
}
