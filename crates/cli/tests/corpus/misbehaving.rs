//! Programs that misbehave, most of them only after a crash: `crashpoint test` says so, goes on
//! with the other states, and leaves nothing behind.

use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::{Failed, Trial};
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

/// Before, between and after the stores of two operations; opening is as before the first.
const STATES: u64 = 6;

/// What a program must be reported as.
#[derive(Clone, Copy)]
enum Expected {
    /// One finding: a crash between the two copies is found as what it is, and the states of all other
    /// crashes are tried as if nothing had happened.
    Found {
        category: &'static str,
        /// Part of what the program did.
        found: &'static str,
    },
    Consistent,
    /// Not judged at all, for this reason.
    Refused(&'static str),
}

const fn found(category: &'static str, found: &'static str) -> Expected {
    Expected::Found { category, found }
}

const PROGRAMS: [(&str, Expected); 11] = [
    // Recovery never ends.
    ("hangs", found("hang", "did not end in time")),
    ("ignores_signals", found("hang", "did not end in time")),
    (
        "prints_without_end",
        found("endless output", "printed without end"),
    ),
    ("writes_a_huge_file", found("crash in recovery", "SIGXFSZ")),
    ("aborts", found("crash in recovery", "SIGABRT")),
    // The exit status is told with the last words.
    (
        "exits",
        found("recovery refuses", "exit status 7: the pool is damaged"),
    ),
    // Closing our descriptors harms only the program itself.
    (
        "closes_descriptors",
        found("recovery refuses", "exit status 1"),
    ),
    // Stores through a second mapping are seen.
    ("maps_twice", found("crash in recovery", "SIGABRT")),
    // The daemon is stopped.
    ("leaves_a_daemon", Expected::Consistent),
    // Writing the pool through its descriptor disturbs nothing.
    ("writes_the_descriptor", Expected::Consistent),
    ("tells_the_time", Expected::Refused("not deterministic")),
];

pub fn trials() -> Vec<Trial> {
    let trial = |(name, expected): (&'static str, Expected)| {
        Trial::test(format!("misbehaving/{name}"), move || check(name, expected))
    };
    PROGRAMS.into_iter().map(trial).collect()
}

fn check(name: &str, expected: Expected) -> Result<(), Failed> {
    let tested = test(name);
    let said = &tested.stderr;
    match expected {
        Expected::Found { category, found } => {
            assert_eq!(tested.code, Some(2), "{said}");
            let categories = tested.categories();
            let is_so = |(known, did): &(&str, &str)| *known == category && did.contains(found);
            assert!(
                categories.len() == 1 && categories.iter().all(is_so),
                "{categories:?}"
            );
            assert_eq!(tested.states(), Some(STATES));
        }
        Expected::Consistent => {
            assert_eq!(tested.code, Some(0), "{said}");
            assert_eq!(tested.states(), Some(STATES));
        }
        Expected::Refused(reason) => {
            assert_eq!(tested.code, Some(4), "{said}");
            assert!(said.contains(reason), "{said}");
            assert!(tested.document.is_none());
        }
    }
    Ok(())
}
