//! A run that is killed at any moment goes on where it was, tries nothing twice, finds the same,
//! and leaves nothing behind.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Stage, essence};

const KILLS: usize = 20;
/// For anything that must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A generator of Lehmer's, so that a failure can be had again.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0 * 48_271 % 0x7fff_ffff;
        self.0 % end
    }
}

/// Waits for a condition.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what} did not happen");
        std::thread::yield_now();
    }
}

/// Whole lines of the journal.
fn lines(journal: &Path) -> usize {
    let text = fs::read(journal).unwrap_or_default();
    text.iter().filter(|byte| **byte == b'\n').count()
}

/// Processes that run a program of this folder.
fn processes_of(folder: &Path) -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").expect("/proc");
    let programs = processes.filter_map(|entry| fs::read_link(entry.ok()?.path().join("exe")).ok());
    programs.filter(|exe| exe.starts_with(folder)).collect()
}

/// Every state in the journal, once each.
fn keys(journal: &Path) -> HashSet<(u64, String)> {
    let text = fs::read_to_string(journal).expect("a journal");
    let mut keys = HashSet::new();
    for line in text.lines().skip(1) {
        let result: serde_json::Value = serde_json::from_str(line).expect("a result");
        let list = result["list"].as_u64().expect("a number");
        let image = result["image"].as_str().expect("a hash").to_owned();
        assert!(keys.insert((list, image)), "tried twice: {line}");
    }
    keys
}

/// How often one kill is tried.
const ATTEMPTS: usize = 20;

/// A run that is killed again and again.
struct Killed<'s> {
    stage: &'s Stage,
    out: PathBuf,
    journal: PathBuf,
    folder: PathBuf,
    /// What a run finds in the end.
    expected: Vec<String>,
}

impl<'s> Killed<'s> {
    fn new(stage: &'s Stage, expected: Vec<String>) -> Killed<'s> {
        Killed {
            stage,
            out: stage.path("killed"),
            journal: stage.path("killed/journal"),
            folder: stage.folder.path().canonicalize().expect("a folder"),
            expected,
        }
    }

    fn start(&self) -> Child {
        let mut command = self.stage.crashpoint(&["test", "--out", "killed"]);
        command.args(self.out.join("lock").exists().then_some("--resume"));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("crashpoint starts")
    }

    /// Goes on, and kills once so many lines were added.
    fn once(&self, more: usize) {
        self.when("progress", |before| {
            lines(&self.journal) >= before.max(1) + more
        });
    }

    /// Goes on, and kills when it is time to, given how many lines there were. That may be missed on
    /// a busy machine: then the run has come to its end, and another one begins.
    fn when(&self, what: &str, is_time: impl Fn(usize) -> bool) {
        for _ in 0..ATTEMPTS {
            if self.tried(&is_time) {
                return;
            }
            assert_eq!(essence(&self.findings()), self.expected);
            fs::remove_dir_all(&self.out).expect("a folder");
        }
        panic!("no run was killed at {what}");
    }

    /// Whether it was killed before its end.
    fn tried(&self, is_time: impl Fn(usize) -> bool) -> bool {
        let before = lines(&self.journal);
        let mut child = self.start();
        let mut ended = false;
        wait_until("progress", || {
            ended = child.try_wait().expect("a child").is_some();
            ended || is_time(before)
        });
        child.kill().expect("a child");
        child.wait().expect("a child");
        wait_until("the end of what it started", || {
            processes_of(&self.folder).is_empty()
        });
        !ended
    }

    fn findings(&self) -> serde_json::Value {
        self.stage.json("killed/findings.json")
    }

    /// Goes on to the end.
    fn finish(&self) {
        let run = self.stage.run(&["test", "--out", "killed", "--resume"]);
        let run = run.ended(2);
        assert_eq!(essence(&self.findings()), self.expected, "{run:#?}");
    }
}

#[test]
fn killed_at_any_moment_a_run_resumes_and_finds_the_same() {
    let stage = Stage::with_log(&[]);
    let settings = crate::support::LOG_SETTINGS.replace("= 8", "= 40");
    stage.write("crashpoint.toml", &settings);
    stage.run(&["test", "--out", "undisturbed"]).ended(2);
    let expected = essence(&stage.json("undisturbed/findings.json"));
    assert!(!expected.is_empty());
    let all = keys(&stage.path("undisturbed/journal"));

    let killed = Killed::new(&stage, expected);
    // Before there is a journal: in what order things appear is no secret.
    for file in ["lock", "scratch", "recorded", "trace", "ops", "printed"] {
        killed.when(file, |_| killed.out.join(file).exists());
    }
    let mut random = Random(20_261_116);
    // So that all kills together stay before the end.
    let most = (all.len() / KILLS) as u64;
    for _ in 0..KILLS {
        killed.once(random.below(most) as usize);
    }
    // When everything was tried, causes are looked for.
    let done = all.len() + 1;
    for _ in 0..3 {
        killed.when("its causes", |_| lines(&killed.journal) >= done);
    }
    killed.finish();
    assert_eq!(keys(&killed.journal), all);
    let report = killed.findings();
    assert!(report["test"]["resumed_states"].as_u64().unwrap() > 0);
    // What a killed run kept in memory, the next one removed; and the last one its own.
    assert!(processes_of(&killed.folder).is_empty());
}

const FILES: &str = r#"
[target]
dir = "data"
run = "./log data/log"
[test]
oracle = "acknowledged"
check = "sh -c 'grep -a -x \"line [0-9]*\" \"$0\" || true' {dir}/log"
"#;

#[test]
fn a_run_about_files_that_is_killed_resumes_and_finds_the_same() {
    let stage = crate::files::staged();
    let program = crate::files::log_program("").replace("LINES 6", "LINES 60");
    crate::files::compile(&stage, &program, "log");
    stage.write("crashpoint.toml", FILES);
    stage.run(&["test", "--out", "undisturbed"]).ended(2);
    let expected = essence(&stage.json("undisturbed/findings.json"));
    assert!(!expected.is_empty());
    let all = keys(&stage.path("undisturbed/journal"));
    let killed = Killed::new(&stage, expected);
    // Before there is a journal, while the workload runs and after it.
    for file in ["lock", "files"] {
        killed.when(file, |_| killed.out.join(file).exists());
    }
    let mut random = Random(20_261_116);
    let most = (all.len() / KILLS).max(1) as u64;
    for _ in 0..KILLS {
        killed.once(random.below(most) as usize);
    }
    killed.finish();
    assert_eq!(keys(&killed.journal), all);
    // The folder itself was never touched.
    assert!(!stage.path("data/log").exists());
    assert!(processes_of(&killed.folder).is_empty());
}

#[test]
fn a_run_that_ended_resumes_without_trying_anything() {
    let stage = Stage::with_log(&[]);
    stage.run(&["test"]).ended(2);
    let first = stage.json("crashpoint.out/findings.json");
    stage.run(&["test", "--resume"]).ended(2);
    let second = stage.json("crashpoint.out/findings.json");
    assert_eq!(essence(&first), essence(&second));
    assert_eq!(second["test"]["tried_states"], 0);
    stage.run(&["replay", "crashpoint.out/findings/1"]).ended(2);
}

#[test]
fn a_line_that_was_cut_short_is_tried_again() {
    let stage = Stage::with_log(&[]);
    stage.run(&["test"]).ended(2);
    let first = stage.json("crashpoint.out/findings.json");
    let journal = stage.path("crashpoint.out/journal");
    let all = keys(&journal);
    let text = fs::read(&journal).unwrap();
    fs::write(&journal, &text[..text.len() - 5]).unwrap();
    stage.run(&["test", "--resume"]).ended(2);
    let second = stage.json("crashpoint.out/findings.json");
    assert_eq!(essence(&first), essence(&second));
    assert_eq!(keys(&journal), all);
}

#[test]
fn a_program_that_was_built_anew_is_not_resumed() {
    let stage = Stage::with_log(&[]);
    stage.run(&["test"]).ended(2);
    // The same program is the same, whenever it was built.
    stage.build(crate::support::LOG, &[], "log");
    stage.run(&["test", "--resume"]).ended(2);
    stage.build(crate::support::LOG, &["-DFIXED"], "log");
    let refused = stage.run(&["test", "--resume"]).ended(1);
    refused
        .says("/log: it has changed since")
        .says("without --resume");
}
