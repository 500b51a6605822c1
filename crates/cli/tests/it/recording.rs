//! `crashpoint record`: how programs end, and what is left of them.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use crate::support::{ACCOUNT, Run, Stage, account, run, succeed, tool};

/// Records the account program with a second argument.
fn record_ending(stage: &Stage, how: &str, options: &[&str]) -> Run {
    let mut command = stage.crashpoint(&["record", "--out", "out", "--pm"]);
    command
        .arg(stage.pool())
        .args(options)
        .arg("--")
        .arg(account())
        .arg(stage.pool())
        .arg(how);
    run(&mut command)
}

fn assert_findings(stage: &Stage) {
    stage
        .run(&["lint", "out"])
        .ended(2)
        .prints("missing-flush")
        .prints("extra-flush");
}

#[test]
fn a_recording_is_summed_up() {
    let stage = Stage::new();
    stage
        .record(account(), &[])
        .ended(0)
        .says("the program ended well")
        .says("recorded out: ")
        .says("(3 stores, 3 flushes, 2 fences) of 1 thread in 1 process")
        .says(&format!(
            "persistent memory: {} (4.0 KiB)",
            stage.pool().display()
        ));
    assert!(stage.path("out/models").read_dir().unwrap().count() > 0);
}

#[test]
fn the_targets_status_is_passed_on_when_asked_for() {
    let stage = Stage::new();
    record_ending(&stage, "fail", &[])
        .ended(0)
        .says("ended with exit status 3");
    record_ending(&stage, "fail", &["--exit-status"]).ended(3);
    record_ending(&stage, "kill", &["--exit-status"]).ended(137);
    record_ending(&stage, "", &["--exit-status"]).ended(0);
}

#[test]
fn a_killed_program_leaves_what_it_recorded() {
    let stage = Stage::new();
    record_ending(&stage, "kill", &[])
        .ended(0)
        .says("was killed by SIGKILL");
    stage.run(&["lint", "out"]).ended(2).prints("extra-flush");
}

#[test]
fn a_program_that_closes_all_files_is_recorded() {
    let stage = Stage::new();
    record_ending(&stage, "close", &[]).ended(0);
    assert_findings(&stage);
}

#[test]
fn a_program_that_hangs_is_killed_with_all_it_started() {
    let stage = Stage::new();
    record_ending(&stage, "hang", &["--timeout", "1s"])
        .ended(0)
        .says("was killed after its time of 1 s");
    stage
        .run(&["show", "out", "--stats"])
        .ended(0)
        .prints("killed, or still running");
    let name = stage.pool().display().to_string();
    let listed = run(Command::new("ps").args(["-eo", "args"]));
    assert!(!listed.out.contains(&name), "still running: {}", listed.out);
    record_ending(&stage, "hang", &["--timeout", "200ms", "--exit-status"]).ended(124);
}

#[test]
fn signals_reach_the_program() {
    let stage = Stage::new();
    let mut command = stage.crashpoint(&["record", "--out", "out", "--exit-status", "--pm"]);
    command
        .arg(stage.pool())
        .arg("--")
        .arg(account())
        .arg(stage.pool())
        .arg("wait");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "waiting");
    succeed(Command::new("kill").args(["-TERM", &child.id().to_string()]));
    assert_eq!(child.wait().unwrap().code(), Some(5));
    assert_findings(&stage);
}

#[test]
fn an_old_recording_is_replaced_and_nothing_else_is() {
    let stage = Stage::new();
    stage.record(account(), &[]).ended(0);
    stage.write("out/findings.json", "old");
    stage.record(account(), &[]).ended(0);
    assert!(!stage.path("out/findings.json").exists());

    let before = fs::read_dir(stage.path("out/trace")).unwrap().count();
    let missing = stage.path("no-such-program");
    stage
        .record(&missing, &[])
        .ended(1)
        .says("could not start")
        .says("No such file");
    assert_eq!(
        fs::read_dir(stage.path("out/trace")).unwrap().count(),
        before
    );

    stage.write("out/thesis.tex", "");
    stage
        .record(account(), &[])
        .ended(1)
        .says("`thesis.tex`, which is not part of a recording");
    assert!(stage.path("out/thesis.tex").exists());
    assert_eq!(fs::read_dir(stage.folder.path()).unwrap().count(), 1);
}

#[test]
fn nothing_recorded_is_explained() {
    let stage = Stage::new();
    let mut other = stage.crashpoint(&["record", "--out", "out", "--pm", "/nowhere/*"]);
    run(other.arg("--").arg(account()).arg(stage.pool()))
        .ended(1)
        .says("mapped no persistent memory; none of its mapped files fits --pm /nowhere/*");
    let mut none = stage.crashpoint(&["record", "--out", "out"]);
    run(none.arg("--").arg(account()).arg(stage.pool()))
        .ended(1)
        .says("no --pm was given");
    stage
        .run(&["record", "--out", "out", "--", "/bin/true"])
        .ended(1)
        .says("no part of the program was built with crashpoint-cc");
    stage.record(account(), &["--level", "off"]).ended(0);
}

#[test]
fn a_pattern_with_a_colon_is_refused() {
    let stage = Stage::new();
    stage
        .run(&["record", "--pm", "/a:b", "--", "/bin/true"])
        .ended(1)
        .says("has a colon");
}

#[test]
fn a_limit_is_kept_and_told() {
    let stage = Stage::new();
    let many = ACCOUNT.replace(
        "deposit(a, 100);",
        "for (int i = 0; i < 100000; i++) deposit(a, 1);",
    );
    let program = stage.build(&many, &[], "many");
    stage
        .record(&program, &["--limit", "1M"])
        .ended(0)
        .says("stopped at the byte limit");
    stage
        .run(&["lint", "out"])
        .ended(2)
        .prints("record again with a higher --limit");
}

#[test]
fn a_static_program_is_recorded() {
    let stage = Stage::new();
    let program = stage.build(ACCOUNT, &["-static"], "account-static");
    stage.record(&program, &[]).ended(0);
    assert_findings(&stage);
}

#[test]
fn a_plain_program_with_an_instrumented_library_is_recorded() {
    let stage = Stage::new();
    let library = ACCOUNT.replace("int main(", "int library_main(");
    stage.build(&library, &["-shared", "-fPIC"], "libaccount.so");
    let main = "int library_main(int, char **);\n\
                int main(int c, char **v) { return library_main(c, v); }\n";
    let source = stage.write("main.c", main);
    let program = stage.path("plain");
    let mut clang = Command::new("clang-19");
    clang
        .arg(source)
        .arg(stage.path("libaccount.so"))
        .arg("-o")
        .arg(&program);
    succeed(clang.arg(format!("-Wl,-rpath,{}", stage.folder.path().display())));
    stage.record(&program, &[]).ended(0);
    assert_findings(&stage);
}

#[test]
fn objects_of_a_plain_compiler_link_with_ours() {
    let stage = Stage::new();
    let source = stage.write("account.c", ACCOUNT);
    let object = stage.path("account.o");
    let mut compile = Command::new(tool("crashpoint-cc"));
    succeed(
        compile
            .args(["-c", "-O1"])
            .arg(source)
            .arg("-o")
            .arg(&object),
    );
    let program = stage.path("account");
    succeed(
        Command::new("clang-19")
            .arg(&object)
            .arg("-o")
            .arg(&program),
    );
    // Without the runtime the hooks are off; `record` brings it along.
    succeed(Command::new(&program).arg(stage.pool()));
    stage.record(&program, &[]).ended(0);
    assert_findings(&stage);
}
