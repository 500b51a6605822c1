//! Operations that run at once: any of them may have happened, in any order that may have been.

use crate::support::Stage;

const SHELF: &str = include_str!("support/shelf.c");

const SETTINGS: &str = "\
[target]
driver = './shelf'

[ops]
add = { args = ['any-key', 'value'], weight = 3 }
set = { args = ['any-key', 'value'] }
get = { args = ['any-key'], read-only = true }

[test]
keys = '0..7'
ops-file = 'ops'
";

/// The same number twice and three times, different ones, and one alone.
const OPERATIONS: &str = "\
add 1 10
add 1 3 || add 1 5
add 2 7 || add 3 9 || add 4 1
set 1 8 || add 1 4 || add 1 6
get 1 || add 5 2
add 5 1
";

fn stage(options: &[&str]) -> Stage {
    let stage = Stage::new();
    stage.build(SHELF, options, "shelf");
    stage.write("crashpoint.toml", SETTINGS);
    stage.write("ops", OPERATIONS);
    stage
}

const EXHAUSTIVE: [&str; 3] = ["test", "--strategy", "exhaustive"];

#[test]
fn whatever_order_they_happen_in_is_fine() {
    // What is printed before and after them has to be told from what they print.
    for options in [&[][..], &["-DGREETS"]] {
        let run = stage(options).run(&EXHAUSTIVE).ended(0);
        let run = run.prints("nothing found");
        assert!(!run.out.contains("visible failures only"), "{run:#?}");
    }
}

#[test]
fn what_has_returned_must_be_there_though_others_still_run() {
    let stage = stage(&["-DFORGETS"]);
    stage.run(&EXHAUSTIVE).ended(2).prints("error[durability]");
    let report = stage.json("crashpoint.out/findings.json");
    assert_eq!(report["findings"].as_array().unwrap().len(), 1);
    let replay = ["replay", "crashpoint.out/findings/1"];
    stage.run(&replay).ended(2);
}

#[test]
fn operations_can_be_generated_to_run_at_once() {
    let stage = stage(&[]);
    let generate = ["test", "--operations", "30", "--threads", "3"];
    stage.run(&generate).ended(0).prints("nothing found");
    let operations = std::fs::read_to_string(stage.path("crashpoint.out/ops")).unwrap();
    let lines: Vec<&str> = operations
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    assert_eq!(lines.len(), 10);
    assert!(lines.iter().all(|line| line.matches(" || ").count() == 2));
    stage.build(SHELF, &["-DFORGETS"], "shelf");
    stage.run(&generate).ended(2).prints("error[durability]");
}

#[test]
fn what_no_order_leads_to_even_without_a_crash_is_said_and_not_judged() {
    let stage = stage(&["-DRACES"]);
    stage.write("ops", "add 1 10\nadd 1 3 || add 1 5\nadd 2 7 || add 3 9\n");
    let run = stage.run(&EXHAUSTIVE).ended(3).prints("nothing found");
    run.prints("1 of the lines with operations at once")
        .prints("`add 1 3 || add 1 5`: without any crash they leave what no order of them leaves");
}

#[test]
fn what_cannot_run_at_once_is_refused() {
    let stage = stage(&["-DALONE"]);
    stage
        .run(&EXHAUSTIVE)
        .says("ops:2: this program does not run operations at once");
    stage.write("ops", "get 1 || get 1 || get 1 || get 1 || get 1\n");
    let refused = stage.run(&EXHAUSTIVE).ended(1);
    refused.says("`get 1 || get 1 || get 1 || get 1 || get 1`: 4 operations at once");
    stage
        .run(&["test", "--threads", "5"])
        .says("write a number from 1 to 4");
}
