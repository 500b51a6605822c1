//! `crashpoint test` and `crashpoint replay`: a bug is found, told and shown again; without it
//! nothing is.

use std::fs;

use crate::support::{LOG, Stage, line_of};

#[test]
fn a_store_that_goes_ahead_is_found_at_its_line() {
    let stage = Stage::with_log(&[]);
    stage
        .run(&["test", "--stats"])
        .ended(2)
        .prints("error[ordering]")
        .prints("pool->count++; // ahead")
        .prints("1 finding in ")
        .prints("strategy exhaustive");
    let report = stage.json("crashpoint.out/findings.json");
    let findings = report["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 1, "{report:#}");
    let crash = &findings[0]["crash"];
    assert_eq!(crash["category"], "wrong value");
    assert_eq!(crash["ahead"]["line"], line_of("// ahead"));
    let needed = crash["needed"].as_array().unwrap().iter();
    let mut needed: Vec<_> = needed.map(|at| at["line"].as_u64().unwrap()).collect();
    needed.sort_unstable();
    assert_eq!(needed, [line_of("// needed"), line_of("// copied")]);
    assert_eq!(crash["mended"], true);
    assert_eq!(
        crash["replay"],
        "crashpoint replay crashpoint.out/findings/1"
    );
    assert_eq!(report["test"]["operations"], 8);
    assert!(report["test"]["tried_states"].as_u64().unwrap() > 0);
    let sarif = stage.json("crashpoint.out/findings.sarif");
    assert_eq!(sarif["version"], "2.1.0");
    assert_eq!(sarif["runs"][0]["results"][0]["ruleId"], "ordering");
    let rules = &sarif["runs"][0]["tool"]["driver"]["rules"];
    for rule in rules.as_array().unwrap() {
        assert_ne!(rule["help"]["text"], "", "{rule:#}");
    }
}

#[test]
fn findings_are_printed_as_json_and_sarif_too() {
    let stage = Stage::with_log(&[]);
    for (format, file) in [
        ("json", "crashpoint.out/findings.json"),
        ("sarif", "crashpoint.out/findings.sarif"),
    ] {
        let printed = stage.run(&["test", "--format", format]).ended(2).out;
        assert_eq!(printed, fs::read_to_string(stage.path(file)).unwrap());
    }
}

#[test]
fn a_finding_is_replayed_with_the_difference_it_makes() {
    let stage = Stage::with_log(&[]);
    stage.run(&["test"]).ended(2);
    stage
        .run(&["replay", "crashpoint.out/findings/1"])
        .ended(2)
        .says("if the operation happened")
        .says("if it did not happen")
        .says("the crash leaves it inconsistent");
}

#[test]
fn what_a_crash_left_can_be_kept() {
    let stage = Stage::with_log(&[]);
    stage.run(&["test"]).ended(2);
    stage
        .run(&["replay", "crashpoint.out/findings/1", "--keep", "crashed"])
        .ended(2)
        .says("the crashed pool is ");
    let pool = fs::read(stage.path("crashed/pool")).unwrap();
    // The count went ahead.
    assert_eq!(pool[..8], 1_u64.to_le_bytes());
    assert!(stage.path("crashed/ops").exists());
}

#[test]
fn a_finding_of_a_program_that_was_mended_is_gone() {
    let stage = Stage::with_log(&[]);
    stage.run(&["test"]).ended(2);
    stage.build(LOG, &["-DFIXED"], "log");
    stage
        .run(&["test", "--out", "fixed"])
        .ended(0)
        .prints("nothing found");
    let report = stage.json("fixed/findings.json");
    assert_eq!(report["findings"], serde_json::json!([]));
    assert!(!stage.path("fixed/findings").exists());
}

#[test]
fn findings_of_an_earlier_run_do_not_stay() {
    let stage = Stage::with_log(&[]);
    stage.run(&["test"]).ended(2);
    assert!(stage.path("crashpoint.out/findings/1").exists());
    stage.build(LOG, &["-DFIXED"], "log");
    stage.run(&["test"]).ended(0);
    assert!(!stage.path("crashpoint.out/findings").exists());
}

#[test]
fn the_target_is_built_first_by_the_compiler_beside_us() {
    let stage = Stage::new();
    stage.write("log.c", LOG);
    let settings = crate::support::LOG_SETTINGS.replace(
        "[target]",
        "[target]\nbuild = 'crashpoint-cc -O1 -g -DFIXED log.c -o log'",
    );
    stage.write("crashpoint.toml", &settings);
    stage.run(&["test"]).ended(0).prints("nothing found");
    stage.write("log.c", "nonsense");
    stage.run(&["test"]).ended(1).says("the build failed");
}

#[test]
fn operations_come_from_a_file_and_strategies_by_name() {
    let stage = Stage::with_log(&[]);
    stage.write("list", "put 5 6\n# a comment\n\nget 5\n");
    for strategy in [
        "conditions",
        "auto",
        "exhaustive",
        "bounded",
        "random",
        "representative",
    ] {
        let arguments = ["test", "--ops-file", "list", "--strategy", strategy];
        stage.run(&arguments).ended(2).prints("put 5 6");
        let report = stage.json("crashpoint.out/findings.json");
        assert_eq!(report["test"]["operations"], 2);
        assert_eq!(report["test"]["strategy"], strategy);
    }
}

#[test]
fn a_program_with_its_own_main_names_its_operations() {
    let stage = Stage::with_log(&[]);
    let template = ["--", "./log", "{pool}", "{ops}"];
    let settings = crate::support::LOG_SETTINGS.replace("driver = './log'", "");
    stage.write("crashpoint.toml", &settings);
    let mut arguments = vec!["test", "--operation", "crashpoint_a*"];
    arguments.extend(template);
    stage.run(&arguments).ended(2).prints("error[ordering]");
}

#[test]
fn a_program_that_makes_its_pool_must_go_on_as_if_it_had_just_begun() {
    let stage = Stage::new();
    let founder = include_str!("support/founder.c");
    let settings = "\
[target]
run = './founder {pool} {ops}'
operation = ['add']

[ops]
add = { args = ['value'] }

[test]
operations = 3
";
    stage.write("crashpoint.toml", settings);
    for strategy in ["exhaustive", "representative"] {
        let test = ["test", "--strategy", strategy];
        // Without a crash there is no pool to begin with: that is no reason to refuse the program.
        stage.build(founder, &[], "founder");
        let found = stage.run(&test).ended(2).prints("recovery refuses");
        // What would make it whole is the end of making the pool, not of an operation.
        let found = found.prints("not a pool").prints("pool->made = 1");
        found.prints("this store would make it whole");
        stage.build(founder, &["-DFIXED"], "founder");
        stage.run(&test).ended(0).prints("nothing found");
    }
}
