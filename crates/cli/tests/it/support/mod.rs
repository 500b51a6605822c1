//! What the tests of the command line share: programs, folders, and a way to run things.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use tempfile::TempDir;

/// One store, flushed twice, and one that is not flushed.
pub const ACCOUNT: &str = include_str!("account.c");

/// A store for `crashpoint test`, with a bug unless it is built with `-DFIXED`.
pub const LOG: &str = include_str!("log.c");

/// How [`LOG`] is tested.
pub const LOG_SETTINGS: &str = "\
[target]
driver = './log'

[ops]
put = { args = ['new-key', 'value'], weight = 3 }
get = { args = ['used-key'], read-only = true }

[test]
operations = 8
";

/// A folder for one test, and a pool in memory.
pub struct Stage {
    pub folder: TempDir,
    pools: TempDir,
}

impl Stage {
    pub fn new() -> Stage {
        Stage {
            folder: TempDir::new().expect("a temporary folder"),
            pools: TempDir::new_in("/dev/shm")
                .or_else(|_| TempDir::new())
                .expect("a folder"),
        }
    }

    /// The log store, built with these definitions, and settings to test it.
    pub fn with_log(definitions: &[&str]) -> Stage {
        let stage = Stage::new();
        stage.build(LOG, definitions, "log");
        stage.write("crashpoint.toml", LOG_SETTINGS);
        stage
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn pool(&self) -> PathBuf {
        self.pools.path().join("pool")
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).expect("a writable folder");
        path
    }

    /// Compiles a source with a driver of ours.
    pub fn build(&self, source: &str, options: &[&str], program: &str) -> PathBuf {
        let source = self.write(&format!("{program}.c"), source);
        let program = self.path(program);
        let mut command = Command::new(tool("crashpoint-cc"));
        command
            .args(["-O1", "-g"])
            .arg(&source)
            .args(options)
            .arg("-o")
            .arg(&program);
        succeed(command.current_dir(self.folder.path()));
        program
    }

    /// `crashpoint` in the test's folder, without colours.
    pub fn crashpoint(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(tool("crashpoint"));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env("NO_COLOR", "1");
        command
    }

    /// Records a program on the pool into `out`.
    pub fn record(&self, program: &Path, options: &[&str]) -> Run {
        let mut command = self.crashpoint(&["record", "--out", "out", "--pm"]);
        command
            .arg(self.pool())
            .args(options)
            .arg("--")
            .arg(program)
            .arg(self.pool());
        run(&mut command)
    }

    /// A file of JSON in the test's folder.
    pub fn json(&self, name: &str) -> serde_json::Value {
        let text = std::fs::read_to_string(self.path(name)).expect("a file");
        serde_json::from_str(&text).expect("JSON")
    }

    pub fn run(&self, arguments: &[&str]) -> Run {
        run(&mut self.crashpoint(arguments))
    }
}

/// The account program, built once for all tests.
pub fn account() -> &'static Path {
    static BUILT: OnceLock<(Stage, PathBuf)> = OnceLock::new();
    let (_, program) = BUILT.get_or_init(|| {
        let stage = Stage::new();
        let program = stage.build(ACCOUNT, &[], "account");
        (stage, program)
    });
    program
}

/// A program that was built beside the one under test.
pub fn tool(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_crashpoint")).with_file_name(name);
    assert!(
        path.exists(),
        "{} is not built; `cargo build --workspace` first",
        path.display()
    );
    path
}

/// How a command ended.
#[derive(Debug)]
pub struct Run {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl From<Output> for Run {
    fn from(output: Output) -> Run {
        Run {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).expect("UTF-8"),
            err: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }
}

impl Run {
    pub fn ended(self, code: i32) -> Run {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    pub fn says(self, text: &str) -> Run {
        assert!(self.err.contains(text), "`{text}` is not in {self:#?}");
        self
    }

    pub fn prints(self, text: &str) -> Run {
        assert!(self.out.contains(text), "`{text}` is not in {self:#?}");
        self
    }
}

pub fn run(command: &mut Command) -> Run {
    command.output().expect("the command starts").into()
}

pub fn succeed(command: &mut Command) {
    run(command).ended(0);
}

/// What findings of crashes say, whatever their order: rule, category, needed and ahead.
pub fn essence(report: &serde_json::Value) -> Vec<String> {
    let place = |at: &serde_json::Value| format!("{}:{}", at["file"], at["line"]);
    let describe = |finding: &serde_json::Value| {
        let crash = &finding["crash"];
        let needed = crash["needed"].as_array().expect("a list").iter();
        let mut needed: Vec<String> = needed.map(place).collect();
        needed.sort();
        format!(
            "{} {} needs {needed:?} before {}",
            finding["rule"],
            crash["category"],
            place(&crash["ahead"]),
        )
    };
    let findings = report["findings"].as_array().expect("a list").iter();
    let mut findings: Vec<String> = findings.map(describe).collect();
    findings.sort();
    findings
}

/// The line of [`LOG`] that ends with a comment.
pub fn line_of(comment: &str) -> u64 {
    let ends = |line: &str| line.ends_with(comment);
    let index = LOG.lines().position(ends).expect("a marked line");
    index as u64 + 1
}
