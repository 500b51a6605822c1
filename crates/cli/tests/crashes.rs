//! The corpus is the specification of crash tests too: each variant that a crash harms is found, at
//! the lines that its comments mark, and everything else is silent.
//!
//! Needs everything to be built: `make test`, or `cargo build --workspace` in the same profile.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crashpoint_harness::{Case, Error, Kind, Tools, Way, Workshop, cases, judge_crash};

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    root.canonicalize().expect("the corpus")
}

fn stores() -> Vec<Case> {
    let all = cases(&root()).unwrap_or_else(|error| panic!("{error}"));
    all.into_iter()
        .filter(|case| matches!(case.kind, Kind::Store { .. }))
        .collect()
}

fn check(workshop: &Workshop, case: &Case) -> Result<Vec<String>, Error> {
    let outcome = workshop.crash_check(case, &Way::by("exhaustive"))?;
    let mut complaints = judge_crash(case, &outcome).complaints();
    complaints.extend(outcome.problems);
    Ok(complaints)
}

#[test]
fn every_crash_bug_is_found_and_nothing_else() {
    let folder = Path::new(env!("CARGO_BIN_EXE_crashpoint"))
        .parent()
        .expect("a folder");
    let tools = Tools::in_folder(folder).unwrap_or_else(|error| panic!("{error}"));
    let workshop = Workshop::new(tools, &root()).expect("a workshop");
    let cases = stores();
    let next = AtomicUsize::new(0);
    let complaints = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found =
                        check(&workshop, case).unwrap_or_else(|error| vec![error.to_string()]);
                    let named = found.iter().map(|said| format!("{}: {said}", case.name));
                    complaints.lock().expect("no panic").extend(named);
                }
            });
        }
    });
    let complaints = complaints.into_inner().expect("no panic");
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn every_store_has_bugs_of_more_than_one_kind_and_a_correct_form() {
    let cases = stores();
    let correct = cases.iter().filter(|case| case.variant.is_none());
    for correct in correct {
        assert!(correct.crash.is_empty(), "{}", correct.name);
        let of_store = cases.iter().filter(|case| case.source == correct.source);
        let marks = of_store.flat_map(|case| &case.crash);
        let mut rules: Vec<&str> = marks.map(|mark| mark.rule.as_str()).collect();
        rules.sort_unstable();
        rules.dedup();
        assert!(rules.len() > 1, "{}: {rules:?}", correct.name);
    }
}
