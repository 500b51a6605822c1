//! The corpus is the specification: what its comments mark is reported, nothing else is.
//!
//! Needs everything to be built: `make test`, or `cargo build --workspace` in the same profile.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crashpoint_harness::{
    Case, Error, Golden, Kind, LINT_RULES, Outcome, Purpose, Tools, Workshop, cases, compare, judge,
};

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    root.canonicalize().expect("the corpus")
}

fn workshop() -> Workshop {
    let folder = Path::new(env!("CARGO_BIN_EXE_crashpoint"))
        .parent()
        .expect("a folder");
    let tools = Tools::in_folder(folder).unwrap_or_else(|error| panic!("{error}"));
    Workshop::new(tools, &root()).expect("a workshop")
}

fn all_cases() -> Vec<Case> {
    cases(&root()).unwrap_or_else(|error| panic!("{error}"))
}

/// Does something with each item, on all processors; results in the order of the items.
fn on_all<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { return };
                    let result = work(item);
                    *results[index].lock().expect("no panic") = Some(result);
                }
            });
        }
    });
    let done = |slot: Mutex<Option<R>>| slot.into_inner().expect("no panic").expect("done");
    results.into_iter().map(done).collect()
}

fn assert_no(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn every_program_is_reported_as_its_comments_say() {
    let workshop = workshop();
    let cases = all_cases();
    let outcomes: Vec<Result<Outcome, Error>> = on_all(&cases, |case| workshop.check(case));
    let mut complaints = Vec::new();
    let mut goldens: BTreeMap<&Path, Golden> = BTreeMap::new();
    for (case, outcome) in cases.iter().zip(&outcomes) {
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                complaints.push(error.to_string());
                continue;
            }
        };
        let problems = outcome
            .problems
            .iter()
            .map(|problem| format!("{}: {problem}", case.name));
        complaints.extend(problems);
        let wrong = judge(case, outcome).complaints(case);
        complaints.extend(
            wrong
                .iter()
                .map(|complaint| format!("{}: {complaint}", case.name)),
        );
        let golden = goldens
            .entry(&case.source)
            .or_insert_with(|| Golden::of(&case.source));
        golden.add(&case.name, &outcome.report);
    }
    assert_no(complaints);
    let differences = goldens
        .values()
        .map(|golden| compare(golden).expect("a readable file"));
    assert_no(differences.flatten().collect());
}

#[test]
fn correct_stores_are_silent_on_random_work_too() {
    let workshop = workshop();
    let correct: Vec<Case> = all_cases()
        .into_iter()
        .filter(|case| matches!(case.kind, Kind::Store { .. }) && case.variant.is_none())
        .collect();
    assert!(!correct.is_empty());
    let complaints = on_all(&correct, |case| {
        let program = workshop.build(case, false).expect("it builds");
        let outcome = workshop.check_program(case, &program, Some("random:7:20000"));
        let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
        judge(case, &outcome).complaints(case)
    });
    assert_no(complaints.into_iter().flatten().collect());
}

#[test]
fn programs_print_what_their_native_builds_print() {
    let workshop = workshop();
    let stores: Vec<Case> = all_cases()
        .into_iter()
        .filter(|case| matches!(case.kind, Kind::Store { .. }) && case.variant.is_none())
        .collect();
    on_all(&stores, |case| {
        let native = workshop.build(case, true).expect("it builds");
        let hooked = workshop.build(case, false).expect("it builds");
        let expected = workshop.run_plain(case, &native).expect("it runs");
        let off = workshop.run_plain(case, &hooked).expect("it runs");
        assert_eq!(off, expected, "{} at level off", case.name);
        let recorded = workshop
            .check_program(case, &hooked, None)
            .expect("it is recorded");
        assert_eq!(recorded.printed, expected, "{} at level pm", case.name);
    });
}

#[test]
fn every_rule_has_a_failing_and_a_silent_program() {
    let cases = all_cases();
    let under_rules = |case: &&Case| case.name.starts_with("rules/");
    let failing: BTreeSet<&str> = cases
        .iter()
        .filter(under_rules)
        .flat_map(|case| &case.expected)
        .map(|mark| mark.rule.as_str())
        .collect();
    assert_eq!(failing, BTreeSet::from(LINT_RULES));
    for rule in LINT_RULES {
        let name = format!("rules/{rule}/fixed");
        let silent = cases.iter().find(|case| case.name == name);
        assert!(
            silent.is_some_and(|case| case.expected.is_empty()),
            "{name}"
        );
    }
}

#[test]
fn the_canary_is_heard() {
    let cases = all_cases();
    let canary = cases
        .iter()
        .find(|case| case.purpose == Purpose::Canary)
        .expect("a canary");
    assert_eq!(canary.expected.len(), 1);
    let outcome = workshop()
        .check(canary)
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(judge(canary, &outcome).found, canary.expected);
}
