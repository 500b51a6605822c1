//! Programs that misbehave, most of them only after a crash: `crashpoint test` says so, goes on
//! with the other states, and leaves nothing behind.
//!
//! Needs everything to be built: `make test`, or `cargo build --workspace` in the same profile.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

struct Tested {
    code: Option<i32>,
    stderr: String,
    /// Nothing if the test did not come to that.
    document: Option<Value>,
}

impl Tested {
    fn findings(&self) -> &[Value] {
        let document = self.document.as_ref();
        let found = document.and_then(|document| document["findings"].as_array());
        found.unwrap_or_else(|| panic!("no findings: {}", self.stderr))
    }

    /// Categories of what was found, each with what the program did.
    fn categories(&self) -> Vec<(&str, &str)> {
        let findings = self.findings().iter().map(|finding| &finding["crash"]);
        findings
            .filter_map(|crash| Some((crash["category"].as_str()?, crash["found"].as_str()?)))
            .collect()
    }

    fn states(&self) -> Option<u64> {
        self.document.as_ref()?["test"]["tried_states"].as_u64()
    }
}

fn build(name: &str, folder: &Path) -> PathBuf {
    let crashpoint = Path::new(env!("CARGO_BIN_EXE_crashpoint"));
    let program = folder.join(name);
    let built = Command::new(crashpoint.with_file_name("crashpoint-cc"))
        .args(["-O1", "-g", "-Wall", "-Wextra", "-Werror"])
        .arg(corpus().join(name).with_extension("c"))
        .arg("-o")
        .arg(&program)
        .output()
        .expect("the driver runs; `cargo build --workspace` first");
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{name}: {said}");
    program
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/misbehaving")
}

/// Tests the program, and looks for what it may have left.
fn test(name: &str) -> Tested {
    let folder = tempfile::tempdir().expect("a folder");
    let program = build(name, folder.path());
    let out = folder.path().join("out");
    let output = Command::new(env!("CARGO_BIN_EXE_crashpoint"))
        .arg("test")
        .arg(corpus().join("store.toml"))
        .args(["--jobs", "1", "--out"])
        .arg(&out)
        .arg("--")
        .arg(&program)
        .args(["{pool}", "{ops}"])
        .current_dir(folder.path())
        .output()
        .expect("crashpoint runs");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(processes_of(&program), [0; 0], "{name} is still there");
    if let Ok(scratch) = std::fs::read_to_string(out.join("scratch")) {
        assert!(!Path::new(&scratch).exists(), "{name} left {scratch}");
    }
    let json = std::fs::read(out.join("findings.json")).ok();
    let document = json.map(|json| serde_json::from_slice(&json).expect("JSON"));
    Tested {
        code: output.status.code(),
        stderr,
        document,
    }
}

/// All that run the program, by number.
fn processes_of(program: &Path) -> Vec<u32> {
    let program = program.canonicalize().expect("a program");
    let running = std::fs::read_dir("/proc").expect("/proc");
    running
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|number: &u32| {
            let image = std::fs::read_link(format!("/proc/{number}/exe"));
            image.is_ok_and(|image| image == program)
        })
        .collect()
}

/// A crash between the two copies is found as what it is, and the states of all other crashes are
/// tried as if nothing had happened.
fn is_found(name: &str, category: &str, found: &str) {
    let tested = test(name);
    assert_eq!(tested.code, Some(2), "{name}: {}", tested.stderr);
    let categories = tested.categories();
    let is_so = |(known, said): &(&str, &str)| *known == category && said.contains(found);
    assert!(
        categories.len() == 1 && categories.iter().all(is_so),
        "{name}: {categories:?}"
    );
    assert_eq!(tested.states(), Some(STATES), "{name}");
}

/// Before, between and after the stores of two operations; opening is as before the first.
const STATES: u64 = 6;

#[test]
fn recovery_that_never_ends_is_a_hang() {
    is_found("hangs", "hang", "did not end in time");
}

#[test]
fn a_program_that_ignores_signals_is_stopped() {
    is_found("ignores_signals", "hang", "did not end in time");
}

#[test]
fn a_program_that_prints_without_end_is_stopped() {
    is_found(
        "prints_without_end",
        "endless output",
        "printed without end",
    );
}

#[test]
fn a_file_that_grows_without_end_is_stopped() {
    is_found("writes_a_huge_file", "crash in recovery", "SIGXFSZ");
}

#[test]
fn an_abort_in_recovery_is_a_crash() {
    is_found("aborts", "crash in recovery", "SIGABRT");
}

#[test]
fn an_exit_status_of_recovery_is_told_with_its_last_words() {
    is_found(
        "exits",
        "recovery refuses",
        "exit status 7: the pool is damaged",
    );
}

#[test]
fn closing_our_descriptors_harms_only_the_program_itself() {
    is_found("closes_descriptors", "recovery refuses", "exit status 1");
}

#[test]
fn stores_through_a_second_mapping_are_seen() {
    is_found("maps_twice", "crash in recovery", "SIGABRT");
}

#[test]
fn a_daemon_is_stopped_though_the_program_is_consistent() {
    let tested = test("leaves_a_daemon");
    assert_eq!(tested.code, Some(0), "{}", tested.stderr);
    assert_eq!(tested.states(), Some(STATES));
}

#[test]
fn writing_the_pool_through_its_descriptor_disturbs_nothing() {
    let tested = test("writes_the_descriptor");
    assert_eq!(tested.code, Some(0), "{}", tested.stderr);
    assert_eq!(tested.states(), Some(STATES));
}

#[test]
fn a_program_that_prints_the_time_is_not_judged() {
    let tested = test("tells_the_time");
    assert_eq!(tested.code, Some(4), "{}", tested.stderr);
    assert!(
        tested.stderr.contains("not deterministic"),
        "{}",
        tested.stderr
    );
    assert!(tested.document.is_none());
}
