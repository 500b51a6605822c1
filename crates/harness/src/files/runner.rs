//! Prepares programs that persist by files, and crashes them by `crashpoint test --dir`.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::cases::{FileCase, Language};
use crate::crash::CrashOutcome;
use crate::step::{run_step, text};
use crate::tools::{Interpreters, Tools};
use crate::{Error, io_error};

/// A program that is ready to be tested. `{dir}` and `{printed}` stand for paths in its commands.
#[derive(Clone, Debug)]
pub struct Target {
    pub name: String,
    /// What makes the folder as it is before the workload.
    pub init: Option<Vec<String>>,
    pub run: Vec<String>,
    pub verify: Vec<String>,
    /// How many operations it is told to do, alone on the machine; None: as few as it likes.
    pub operations: Option<u64>,
}

impl Target {
    fn tell(&self, mut command: Command) -> Command {
        if let Some(operations) = self.operations {
            command.env("CRASHPOINT_OPERATIONS", operations.to_string());
        }
        command
    }
}

/// Where targets are built and run; removed in the end.
pub struct FileCorpusRunner {
    tools: Tools,
    interpreters: Interpreters,
    folder: TempDir,
    /// Trees are many and small; memory is the place for them.
    trees: TempDir,
}

/// How a program begins a line that is to be built with `crashpoint-cc`.
const OWN_COMPILER: &str = "// Built with crashpoint-cc";

impl FileCorpusRunner {
    pub fn new(tools: Tools) -> Result<FileCorpusRunner, Error> {
        let here = Path::new("a temporary folder");
        Ok(FileCorpusRunner {
            tools,
            interpreters: Interpreters::find()?,
            folder: TempDir::new().map_err(io_error(here))?,
            trees: TempDir::new_in("/dev/shm")
                .or_else(|_| TempDir::new())
                .map_err(io_error(here))?,
        })
    }

    pub fn interpreters(&self) -> &Interpreters {
        &self.interpreters
    }

    /// A program says itself if its stores are to be recorded.
    fn compiler(&self, case: &FileCase) -> Result<PathBuf, Error> {
        let text = std::fs::read_to_string(&case.source).map_err(io_error(&case.source))?;
        Ok(
            match text.lines().any(|line| line.starts_with(OWN_COMPILER)) {
                true => self.tools.compiler(&case.source),
                false => self.interpreters.cc.clone(),
            },
        )
    }

    /// Builds the case, where its language is compiled.
    pub fn prepare(&self, case: &FileCase) -> Result<Target, Error> {
        let program = self.folder.path().join(file_name(&case.name));
        let source = case.source.display().to_string();
        let bug = case.variant.as_deref();
        let mut last = None;
        let begin: Vec<String> = match case.language {
            Language::C => {
                let mut command = Command::new(self.compiler(case)?);
                command.args(["-O1", "-g", "-Wall", "-Wextra", "-Werror"]);
                command.args(bug.map(|bug| format!("-D{bug}")));
                command.arg(&source).arg("-o").arg(&program);
                run_step(&case.name, "building", command, &[0])?;
                vec![program.display().to_string()]
            }
            Language::Rust => {
                let mut command = Command::new(&self.interpreters.rustc);
                command.args(["--edition", "2024", "-O", "-g", "-D", "warnings"]);
                // A lint about names that no build system has declared.
                command.args(["-A", "unexpected_cfgs"]);
                command.args(bug.iter().flat_map(|bug| ["--cfg", *bug]));
                command.arg(&source).arg("-o").arg(&program);
                run_step(&case.name, "building", command, &[0])?;
                vec![program.display().to_string()]
            }
            Language::Python => {
                last = bug.map(str::to_owned);
                let python = self.interpreters.python.display().to_string();
                // Neither caches beside the source nor what a site adds.
                vec![python, "-B".into(), "-S".into(), "-E".into(), source]
            }
            Language::JavaScript => {
                last = bug.map(str::to_owned);
                vec![self.interpreters.node.display().to_string(), source]
            }
        };
        let command = |words: &[&str]| -> Vec<String> {
            let words = words.iter().map(|word| (*word).to_owned());
            begin
                .iter()
                .cloned()
                .chain(words)
                .chain(last.clone())
                .collect()
        };
        Ok(Target {
            name: case.name.clone(),
            init: Some(command(&["init", "{dir}"])),
            run: command(&["run", "{dir}"]),
            verify: command(&["verify", "{dir}", "{printed}"]),
            operations: None,
        })
    }

    /// The workload and the checker without a crash; what the workload printed.
    pub fn run_plain(&self, target: &Target) -> Result<String, Error> {
        let (tree, folder) = self.tree(target)?;
        let run = run_step(
            &target.name,
            "running",
            target.tell(filled(&target.run, &folder, None)),
            &[0],
        )?;
        let printed = tree.path().join("printed");
        std::fs::write(&printed, &run.stdout).map_err(io_error(&printed))?;
        let verify = target.tell(filled(&target.verify, &folder, Some(&printed)));
        run_step(&target.name, "checking", verify, &[0])?;
        Ok(text(&run.stdout))
    }

    /// Crashes the target under a model, by the strategy that is the default for files.
    pub fn crash(&self, target: &Target, model: &str) -> Result<CrashOutcome, Error> {
        self.crash_by(target, model, None)
    }

    /// Crashes the target under a model.
    pub fn crash_by(
        &self,
        target: &Target,
        model: &str,
        strategy: Option<&str>,
    ) -> Result<CrashOutcome, Error> {
        let (tree, folder) = self.tree(target)?;
        let out = tree.path().join("out");
        let mut test = Command::new(self.tools.crashpoint());
        test.args(["test", "--no-config", "--color", "never", "--fs", model]);
        test.arg("--dir").arg(&folder).arg("--out").arg(&out);
        test.arg("--check").arg(target.verify.join(" "));
        test.args(strategy.iter().flat_map(|name| ["--strategy", *name]));
        let run = filled(&target.run, &folder, None);
        test.arg("--").arg(run.get_program()).args(run.get_args());
        if target.operations.is_none() {
            // Callers run several at once.
            test.env("RAYON_NUM_THREADS", "1");
        }
        let name = format!("{} on {model}", target.name);
        let tested = run_step(&name, "testing", target.tell(test), &[0, 2])?;
        CrashOutcome::read(&name, &out, text(&tested.stdout))
    }

    /// A folder as it is before the workload, and what it lies in.
    fn tree(&self, target: &Target) -> Result<(TempDir, PathBuf), Error> {
        let tree = TempDir::new_in(self.trees.path()).map_err(io_error(self.trees.path()))?;
        let folder = tree.path().join("data");
        std::fs::create_dir(&folder).map_err(io_error(&folder))?;
        if let Some(init) = &target.init {
            let init = target.tell(filled(init, &folder, None));
            run_step(&target.name, "preparing", init, &[0])?;
        }
        Ok((tree, folder))
    }
}

/// Without dots: a compiler names what it leaves beside a program by what comes before the last one.
fn file_name(name: &str) -> String {
    name.replace(['/', ' ', '.'], "-")
}

fn filled(words: &[String], folder: &Path, printed: Option<&Path>) -> Command {
    let fill = |word: &String| {
        let word = word.replace("{dir}", &folder.display().to_string());
        let printed = printed.map(|path| path.display().to_string());
        word.replace("{printed}", &printed.unwrap_or_default())
    };
    let mut words = words.iter().map(fill);
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    command
}
