//! What a check is judged by: what the program had said, what of its output counts, and how it ends.

use crate::support::Stage;

/// Numbers that are never flushed, and a count of them that is.
const TALLY: &str = include_str!("support/tally.c");

const SETTINGS: &str = "\
[target]
driver = './tally'

[ops]
add = { args = ['value'] }

[test]
operations = 1
";

fn stage(options: &[&str]) -> Stage {
    let stage = Stage::new();
    stage.build(TALLY, options, "tally");
    stage.write("crashpoint.toml", SETTINGS);
    stage
}

/// Every number that the program said it had added must be there.
const ACKNOWLEDGED: &str = "\
count=$(wc -l < \"$2\")
for slot in $(seq 1 $count); do
    if [ $(od -An -tu8 -j $((64 * slot)) -N 8 \"$1\") -eq 0 ]; then
        echo number $slot of $count is gone >&2
        exit 1
    fi
done
";

#[test]
fn what_a_checker_is_told_was_printed_makes_another_state_of_the_same_image() {
    // The image with the count and without the number is met before the fence, where nothing was
    // acknowledged and all is well, and again after the operation has returned.
    let stage = stage(&[]);
    stage.write("check", ACKNOWLEDGED);
    let check = ["test", "--check", "sh check {pool} {printed}"];
    let found = stage.run(&check).ended(2).prints("error[durability]");
    found.prints("number 1 of 1 is gone");
    let again = ["replay", "crashpoint.out/findings/1"];
    stage.run(&again).ended(2).says("is gone");
    stage.build(TALLY, &["-DFIXED"], "tally");
    stage.run(&check).ended(0);
}

#[test]
fn whoever_waits_for_what_is_lost_hangs_and_whoever_says_so_prints_without_end() {
    for (what, category) in [
        ("-DSPINS", "hang"),
        ("-DSLEEPS", "hang"),
        ("-DPRINTS_WITHOUT_END", "endless output"),
    ] {
        let stage = stage(&[what]);
        // Long enough that the test would not end if every state were waited for that long.
        let run = stage.run(&["test", "--operations", "6", "--timeout", "60s"]);
        run.ended(2).prints(category);
        let report = stage.json("crashpoint.out/findings.json");
        let findings = report["findings"].as_array().unwrap();
        assert!(!findings.is_empty());
        for finding in findings {
            assert_eq!(finding["crash"]["category"], category, "{what}");
        }
    }
}

#[test]
fn lines_that_are_ignored_do_not_count() {
    let stage = stage(&["-DGREETS", "-DFIXED"]);
    let refused = stage.run(&["test", "--operations", "6"]).ended(4);
    refused.says("recovered by process");
    let ignoring = ["test", "--operations", "6", "--ignore", "recovered by *"];
    stage.run(&ignoring).ended(0).prints("nothing found");
    // What is acknowledged is what is left: one line for each operation.
    stage.build(TALLY, &["-DGREETS"], "tally");
    stage.write("check", ACKNOWLEDGED);
    let check = ["--check", "sh check {pool} {printed}"];
    let found = stage.run(&[&ignoring[..], &check[..]].concat());
    found.ended(2).prints("number 1 of 1 is gone");
}

/// The log, with something in its pool that is never flushed.
fn with_unflushed(from: &str, to: &str) -> crate::support::Run {
    let stage = Stage::new();
    let source = crate::support::LOG.replace(from, to);
    assert_ne!(source, crate::support::LOG);
    stage.build(&source, &["-DFIXED"], "log");
    stage.write("crashpoint.toml", crate::support::LOG_SETTINGS);
    stage.run(&["test", "--remarks"])
}

#[test]
fn what_is_never_persisted_is_a_remark_if_losing_it_does_no_harm() {
    let unused = "pool->entry[ENTRIES - 1].key = key; // unused\n    puts(\"ok\");";
    let run = with_unflushed("puts(\"ok\");", unused).ended(0);
    let run = run.prints("note[unpersisted]: this is never persisted, and losing it does no harm");
    run.prints("// unused").prints("keep it in DRAM");
}

#[test]
fn what_is_never_persisted_is_no_remark_if_losing_it_does_harm() {
    let run = with_unflushed("flush(&pool->count);", "").ended(2);
    let run = run.prints("error[durability]").prints("// ahead");
    assert!(!run.out.contains("note[unpersisted]"), "{}", run.out);
}
