//! Every litmus test under every model, and every rule by some test.

use super::*;
use crate::files::Model;

/// Every rule of `docs/file-models.md`.
const RULES: [&str; 46] = [
    "K1",
    "K2",
    "K3",
    "K4",
    "K5", // common to all models
    "E1",
    "E2",
    "E3",
    "E4",
    "E5",
    "E6",
    "E7",
    "E8", // ext4
    "X1",
    "X2",
    "X3",
    "X4",
    "X5", // XFS
    "B1",
    "B2",
    "B3",
    "B4",
    "B5", // btrfs
    // What persists whole.
    "A-sector",
    "A-block",
    "A-write",
    "A-append",
    "A-rename",
    "A-exchange",
    "A-entry",
    // What stands in place of lost data.
    "F-fresh",
    "F-tail", //
    // What a sync covers.
    "S-fsync",
    "S-fdatasync",
    "S-directory",
    "S-sync",
    "S-osync",
    "S-sync-file-range",
    "S-msync",
    "S-nothing",
    "S-direct",
    "S-failed", // What is tracked.
    "N-descriptor",
    "N-hard-link",
    "N-tmpfile",
    "N-directory",
];

fn compare(expected: &Option<BTreeSet<String>>, seen: &BTreeSet<String>, what: &str) -> String {
    let Some(expected) = expected else {
        return String::new();
    };
    let mut text = String::new();
    for state in expected.difference(seen) {
        text += &format!("\n{what}\n  - {state}   (expected, not allowed)");
    }
    for state in seen.difference(expected) {
        text += &format!("\n{what}\n  + {state}   (allowed, not expected)");
    }
    text
}

#[test]
fn every_model_allows_exactly_what_each_test_expects() {
    let mut problems = String::new();
    for litmus in all() {
        let (before, calls) = litmus.calls();
        for (model, expected) in &litmus.expected {
            let known = Model::builtin(model);
            let known = known.unwrap_or_else(|| panic!("{}: no model {model}", litmus.name));
            let seen = states(&known, &before, &calls);
            let what = format!("{} {model}", litmus.name);
            problems += &compare(
                &expected.any_time,
                &seen.any_time,
                &format!("{what} any time"),
            );
            problems += &compare(
                &expected.at_end,
                &seen.at_end,
                &format!("{what} at the end"),
            );
        }
    }
    assert!(problems.is_empty(), "{problems}");
}

#[test]
fn every_test_speaks_of_every_model() {
    for litmus in all() {
        for model in Model::MAIN_NAMES {
            let expected = litmus.expected.get(model);
            let says = expected
                .is_some_and(|expected| expected.any_time.is_some() || expected.at_end.is_some());
            assert!(says, "{} says nothing of {model}", litmus.name);
        }
    }
}

#[test]
fn operations_are_read_as_they_are_written() {
    for litmus in all() {
        for (op, text) in litmus.program.iter().zip(&litmus.texts) {
            assert_eq!(op.to_string(), *text);
        }
    }
}

#[test]
fn a_wrong_test_is_shown_with_its_line() {
    let error = |text: &str| Litmus::parse(text).expect_err("it is wrong").to_string();
    assert_eq!(
        error("litmus a\nprogram\n  crate f\n"),
        "line 3: `crate f` is no operation"
    );
    assert_eq!(
        error("litmus a\nprogram\n  unlink f\n"),
        "line 1: there is no `f`"
    );
    assert_eq!(
        error("rules K1\n"),
        "line 1: `rules` before any `litmus NAME`"
    );
    assert_eq!(
        error("litmus a\nallow xfs\n  -\n  -\n"),
        "line 4: this state was told before"
    );
}

#[test]
fn every_rule_has_a_test() {
    let named: BTreeSet<String> = all().into_iter().flat_map(|litmus| litmus.rules).collect();
    let missing: Vec<&&str> = RULES
        .iter()
        .filter(|rule| !named.contains(**rule))
        .collect();
    assert!(missing.is_empty(), "no litmus test names {missing:?}");
    let known: BTreeSet<String> = RULES.iter().map(|rule| rule.to_string()).collect();
    let unknown: Vec<&String> = named.difference(&known).collect();
    assert!(unknown.is_empty(), "there is no rule {unknown:?}");
}
