//! Power fails again, while the program recovers; other models; checkers of the user's own.

use crate::support::Stage;

const TWINS: &str = include_str!("../../demo/twins.c");

const SETTINGS: &str = include_str!("../../demo/twins.toml");

fn stage(options: &[&str]) -> Stage {
    let stage = Stage::new();
    stage.build(TWINS, options, "twins");
    stage.write("crashpoint.toml", SETTINGS);
    stage
}

#[test]
fn a_recovery_that_cannot_be_crashed_is_found_by_a_second_crash_only() {
    let stage = stage(&["-DBUG_RECOVERY"]);
    stage.run(&["test"]).ended(0).prints("nothing found");
    let found = stage.run(&["test", "--recovery", "crash"]).ended(2);
    let found = found.prints("in recovery, when power fails again").out;
    assert_eq!(found.matches("error[").count(), 1, "{found}");
    stage.run(&["replay", "crashpoint.out/findings/1"]).ended(2);
}

#[test]
fn a_program_that_recovers_from_its_recovery_is_left_alone() {
    let stage = stage(&[]);
    let tested = stage.run(&["test", "--recovery", "crash"]).ended(0);
    tested
        .prints("nothing found")
        .says("recovery was crashed too");
}

#[test]
fn a_finding_names_both_stores_and_the_fix() {
    let stage = stage(&["-DBUG_LOG"]);
    let found = stage.run(&["test"]).ended(2).prints("error[ordering]");
    let found = found.prints("this store, which it needs, is lost");
    found.prints("makes every failing state of this finding impossible");
}

#[test]
fn eadr_forgives_what_x86_does_not() {
    let stage = stage(&["-DBUG_LOG"]);
    stage.run(&["test", "--model", "eadr"]).ended(0);
}

#[test]
fn msync_needs_more_than_flushes() {
    let stage = stage(&[]);
    let found = stage.run(&["test", "--model", "msync"]).ended(2);
    found.prints("error[durability]");
}

/// Reads the words as any program may, and says no if they differ and no log explains it.
const CHECKER: &str = "\
#!/bin/sh
word() { od -An -tu8 -j $1 -N 8 \"$pool\"; }
pool=$1
if [ $(word 192) -eq 0 ] && [ $(word 0) -ne $(word 64) ]; then
    echo the twins differ >&2
    exit 1
fi
";

#[test]
fn a_checker_in_any_language_judges_the_crashed_pool() {
    for (options, code) in [(&["-DBUG_RECOVERY"][..], 0), (&["-DBUG_UNLOGGED"][..], 2)] {
        let stage = Stage::new();
        let unlogged = TWINS.replace("store(&pool->valid, 1);", "store(&pool->valid, LOGGED);");
        let logged = if code == 0 {
            "-DLOGGED=1"
        } else {
            "-DLOGGED=0"
        };
        let options: Vec<&str> = options.iter().copied().chain([logged]).collect();
        stage.build(&unlogged, &options, "twins");
        stage.write("crashpoint.toml", SETTINGS);
        stage.write("check", CHECKER);
        let check = "sh check {pool} {printed}";
        let tested = stage
            .run(&["test", "--operations", "8", "--check", check])
            .ended(code);
        if code == 2 {
            tested.prints("the twins differ");
        }
    }
}

#[test]
fn a_checker_that_fails_without_a_crash_is_the_suspect() {
    let stage = stage(&[]);
    let check = "false {pool}";
    let tested = stage.run(&["test", "--check", check]).ended(4);
    tested.says("without any crash, the checker ended with exit status 1");
}
