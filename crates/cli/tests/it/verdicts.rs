//! When nothing found is not clean: what was not looked at is said, and has an exit code.

use std::fs;

use crate::files::{compile, log_program, staged};
use crate::support::{Run, Stage};

/// A careful log, with a checker that is content with everything.
fn test(stage: &Stage, options: &[&str], workload: &[&str]) -> Run {
    let mut words = vec![
        "test",
        "--no-config",
        "--dir",
        "data",
        "--check",
        "true {dir}",
    ];
    words.extend(options);
    words.push("--");
    words.extend(workload);
    stage.run(&words)
}

fn staged_log() -> Stage {
    let stage = staged();
    compile(&stage, &log_program("        fsync(file);"), "log");
    stage
}

const LOG: [&str; 2] = ["./log", "data/log"];

#[test]
fn a_test_that_looked_at_all_is_clean_and_says_at_what() {
    let stage = staged_log();
    test(&stage, &[], &LOG)
        .ended(0)
        .prints("nothing found in")
        .prints("(ext4-ordered, representative)");
    let report = stage.json("crashpoint.out/findings.json");
    assert_eq!(report["verdict"], "clean");
    assert_eq!(report["left_out"], serde_json::json!([]));
}

#[test]
fn a_spent_budget_is_incomplete_everywhere() {
    let stage = staged_log();
    test(&stage, &["--states", "1"], &LOG)
        .ended(3)
        .prints("incomplete: nothing found in 1 crash state")
        .prints("as the budget was spent");
    let report = stage.json("crashpoint.out/findings.json");
    assert_eq!(report["verdict"], "incomplete");
    assert_eq!(report["left_out"][0]["reason"], "budget");
    let sarif = stage.json("crashpoint.out/findings.sarif");
    let invocation = &sarif["runs"][0]["invocations"][0];
    assert_eq!(invocation["executionSuccessful"], false);
    let junit = fs::read_to_string(stage.path("crashpoint.out/findings.junit.xml"));
    let junit = junit.expect("a report");
    assert!(junit.contains("<skipped"), "{junit}");
    assert!(!junit.contains("nothing found\" classname"), "{junit}");
}

#[test]
fn who_accepts_an_incomplete_test_gets_0_and_is_told_all_the_same() {
    let stage = staged_log();
    test(&stage, &["--states", "1", "--accept-incomplete"], &LOG)
        .ended(0)
        .prints("incomplete: nothing found");
}

#[test]
fn a_folder_in_which_nothing_changes_is_not_clean() {
    let stage = staged();
    test(&stage, &[], &["true"])
        .ended(3)
        .prints("the program stored nothing that can be lost");
}

#[test]
fn what_a_target_prints_does_nothing_to_the_terminal() {
    let stage = staged();
    compile(&stage, &log_program(""), "log");
    let checker = stage.write(
        "check.sh",
        "#!/bin/sh\nprintf 'lost \\033]0;title\\007 \\342\\200\\256 it\\n' >&2\n\
         [ $(wc -l < $1/log) -ge $(wc -l < $2) ]\n",
    );
    let check = format!("sh {} {{dir}} {{printed}}", checker.display());
    let words = ["test", "--no-config", "--dir", "data", "--check", &check];
    let run = stage.run(&[&words[..], &["--"], &LOG].concat());
    assert!(!run.out.contains(['\x1b', '\x07', '\u{202e}']), "{run:?}");
    run.ended(2)
        .prints("lost \\u{1b}]0;title\\u{7} \\u{202e} it");
}
