//! What `crashpoint test` and `crashpoint replay` say when something is wrong, and their exit
//! codes.

use std::fs::{self, File};
use std::process::Command;

use rustix::fs::FlockOperation;

use crate::support::{LOG, LOG_SETTINGS, Stage, succeed, tool};

/// The log store with other settings.
fn with_settings(from: &str, to: &str) -> Stage {
    assert!(LOG_SETTINGS.contains(from));
    let stage = Stage::with_log(&["-DFIXED"]);
    stage.write("crashpoint.toml", &LOG_SETTINGS.replace(from, to));
    stage
}

#[test]
fn an_unknown_key_is_told_with_its_line_and_the_nearest_one() {
    with_settings("operations = 8", "operatoins = 8")
        .run(&["test"])
        .ended(1)
        .says("crashpoint.toml:9")
        .says("operatoins")
        .says("did you mean `operations`?");
    with_settings("driver =", "drivr =")
        .run(&["test"])
        .ended(1)
        .says("crashpoint.toml:2")
        .says("did you mean `driver`?");
    with_settings("read-only", "readonly")
        .run(&["test"])
        .ended(1)
        .says("crashpoint.toml:6")
        .says("did you mean `read-only`?");
}

#[test]
fn a_value_of_the_wrong_type_is_told_with_its_line() {
    with_settings("operations = 8", "operations = 'eight'")
        .run(&["test"])
        .ended(1)
        .says("crashpoint.toml:9")
        .says("'eight'");
    with_settings("operations = 8", "operations = 8\nstrategy = 'exhaustiv'")
        .run(&["test"])
        .ended(1)
        .says("crashpoint.toml:10")
        .says("did you mean `exhaustive`?");
    with_settings("'new-key'", "'newkey'")
        .run(&["test"])
        .ended(1)
        .says("crashpoint.toml:5")
        .says("did you mean `new-key`?");
}

#[test]
fn a_placeholder_that_does_not_exist_is_told() {
    with_settings("driver = './log'", "run = './log {pol} {ops}'")
        .run(&["test"])
        .ended(1)
        .says("crashpoint.toml:2")
        .says("did you mean `{pool}`?");
}

#[test]
fn without_a_target_or_operations_there_is_nothing_to_test() {
    with_settings("driver = './log'", "")
        .run(&["test"])
        .ended(1)
        .says("nothing says how the target is started");
    let stage = Stage::with_log(&["-DFIXED"]);
    stage.write("crashpoint.toml", "[target]\ndriver = './log'\n");
    stage
        .run(&["test"])
        .ended(1)
        .says("there are no operations");
    stage.write("list", "# none\n");
    stage
        .run(&["test", "--ops-file", "list"])
        .ended(1)
        .says("list holds no operations");
    stage
        .run(&["test", "--ops-file", "missing"])
        .ended(1)
        .says("cannot read the operations in missing");
}

#[test]
fn a_target_that_is_not_there_is_told() {
    with_settings("./log", "./other")
        .run(&["test"])
        .ended(1)
        .says("could not start `./other`");
}

#[test]
fn a_target_of_another_compiler_is_refused() {
    let stage = Stage::with_log(&[]);
    let mut command = Command::new("clang-19");
    command.arg("-I").arg(tool("include")).args(["-g", "-o"]);
    command.arg(stage.path("log")).arg(stage.path("log.c"));
    succeed(&mut command);
    stage
        .run(&["test"])
        .ended(1)
        .says("build it with crashpoint-cc");
}

#[test]
fn a_target_that_never_maps_the_pool_is_refused() {
    let stage = Stage::with_log(&["-DNEVER_MAPS"]);
    stage
        .run(&["test"])
        .ended(1)
        .says("never mapped persistent memory");
}

#[test]
fn a_pattern_that_matches_nothing_is_shown() {
    with_settings("[ops]", "pm = ['/nowhere/*']\n[ops]")
        .run(&["test"])
        .ended(1)
        .says("never mapped persistent memory that matches /nowhere/*");
}

#[test]
fn each_operation_is_one_call_of_the_function_that_is_named() {
    with_settings("[ops]", "operation = ['no_such_function']\n[ops]")
        .run(&["test"])
        .ended(1)
        .says("no call of no_such_function was recorded");
    // The mutating half of them.
    with_settings("[ops]", "operation = ['puts']\n[ops]")
        .run(&["test"])
        .ended(1)
        .says("calls of puts were recorded for 8 operations");
}

#[test]
fn output_that_differs_from_run_to_run_cannot_be_judged() {
    Stage::with_log(&["-DRANDOM"])
        .run(&["test"])
        .ended(4)
        .says("print different things, line 1");
}

#[test]
fn a_workload_that_fails_by_itself_has_an_exit_code_of_its_own() {
    Stage::with_log(&["-DFAILS"])
        .run(&["test"])
        .ended(4)
        .says("without any crash, `./log` ended with exit status 3");
    let stage = Stage::with_log(&[]);
    stage.write("list", "put 1 2\nfrobnicate\n");
    stage
        .run(&["test", "--ops-file", "list"])
        .ended(4)
        .says("not an operation");
}

#[test]
fn two_runs_in_one_folder_refuse_each_other() {
    let stage = Stage::with_log(&["-DFIXED"]);
    fs::create_dir(stage.path("crashpoint.out")).unwrap();
    let lock = File::create(stage.path("crashpoint.out/lock")).unwrap();
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    for arguments in [["test"].as_slice(), &["test", "--resume"]] {
        stage
            .run(arguments)
            .ended(1)
            .says("another run works in")
            .says("--out");
    }
    stage.run(&["test", "--out", "other"]).ended(0);
    drop(lock);
    stage.run(&["test"]).ended(0);
}

#[test]
fn nothing_is_resumed_where_nothing_is() {
    let stage = Stage::with_log(&["-DFIXED"]);
    stage
        .run(&["test", "--resume"])
        .ended(1)
        .says("there is nothing to resume in");
}

#[test]
fn other_settings_do_not_resume_a_run() {
    let stage = Stage::with_log(&["-DFIXED"]);
    stage.run(&["test"]).ended(0);
    stage.run(&["test", "--resume"]).ended(0);
    for other in [
        ["--suffix", "1"],
        ["--model", "eadr"],
        ["--operations", "3"],
        ["--seed", "5"],
        ["--operation", "crashpoint_appl?"],
    ] {
        let mut arguments = vec!["test", "--resume"];
        arguments.extend(other);
        stage
            .run(&arguments)
            .ended(1)
            .says("belongs to a run with other settings");
    }
    // It was left as it is.
    stage.run(&["test", "--resume"]).ended(0);
}

#[test]
fn a_damaged_journal_is_told_with_its_line() {
    let stage = Stage::with_log(&["-DFIXED"]);
    stage.run(&["test"]).ended(0);
    let path = stage.path("crashpoint.out/journal");
    let text = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines[2] = "{\"list\": 1, nonsense";
    fs::write(&path, lines.join("\n") + "\n").unwrap();
    stage
        .run(&["test", "--resume"])
        .ended(1)
        .says("journal:3: ")
        .says("start anew, without --resume");
    fs::write(&path, "").unwrap();
    stage
        .run(&["test", "--resume"])
        .ended(1)
        .says("it is empty");
    stage.run(&["test"]).ended(0);
}

#[test]
fn only_the_folder_of_a_finding_is_replayed() {
    let stage = Stage::with_log(&[]);
    stage
        .run(&["replay", "crashpoint.out/findings/1"])
        .ended(1)
        .says("is not the folder of a finding");
    stage.run(&["test"]).ended(2);
    stage
        .run(&["replay", "crashpoint.out"])
        .ended(1)
        .says("is not the folder of a finding");
    let files = fs::read_dir(stage.path("crashpoint.out/findings/1")).unwrap();
    let names: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    let description = names
        .iter()
        .find(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .expect("a description");
    fs::write(description, "{}").unwrap();
    stage
        .run(&["replay", "crashpoint.out/findings/1"])
        .ended(1)
        .says("test again");
    assert!(LOG.contains("// ahead"));
}
