//! `crashpoint test --dir`: programs that persist by files, as a user meets them.

use std::fs;
use std::process::Command;

use crate::support::{Run, Stage, succeed};
use crashpoint_blockdev::{FileSystem, Lab};

/// Saves by renaming, without any sync; `saved` was there before.
const CARELESS: &str = "head -c 8192 /dev/zero | tr '\\0' n > data/new; mv data/new data/saved";
const CAREFUL: &str = "head -c 8192 /dev/zero | tr '\\0' n > data/new; sync data/new; \
                       mv data/new data/saved; sync data";

/// Appends lines and says so; `syncs` come after each write.
pub fn log_program(syncs: &str) -> String {
    format!(
        r#"#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#ifndef LINES
#define LINES 6
#endif
int main(int count, char **arguments) {{
    int file = open(arguments[1], O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (count < 2 || file < 0) return 1;
    for (int i = 1; i <= LINES; i++) {{
        char line[16];
        snprintf(line, sizeof line, "line %d\n", i);
        if (write(file, line, strlen(line)) < 0) return 1;
{syncs}
        printf("%s", line);
        fflush(stdout);
    }}
    return 0;
}}
"#
    )
}

pub fn staged() -> Stage {
    let stage = Stage::new();
    fs::create_dir(stage.path("data")).expect("a folder");
    stage
}

/// A program that any compiler built.
pub fn compile(stage: &Stage, source: &str, name: &str) {
    let source = stage.write(&format!("{name}.c"), source);
    let mut compiler = Command::new("cc");
    compiler.args(["-g", "-O1", "-o"]).arg(stage.path(name));
    succeed(compiler.arg(source));
}

fn save(stage: &Stage, script: &str, options: &[&str]) -> Run {
    fs::write(stage.path("data/saved"), vec![b'o'; 8192]).expect("a file");
    let mut words = vec!["test", "--no-config", "--dir", "data"];
    words.extend(options);
    words.extend(["--", "sh", "-c", script]);
    stage.run(&words)
}

/// With a checker that lists the whole lines of the log.
fn log(stage: &Stage, options: &[&str]) -> Run {
    let mut words = vec!["test", "--no-config", "--dir", "data"];
    words.extend(["--oracle", "acknowledged", "--check"]);
    words.push("sh -c 'grep -a -x \"line [0-9]*\" \"$0\" || true' {dir}/log");
    words.extend(options);
    words.extend(["--", "./log", "data/log"]);
    stage.run(&words)
}

#[test]
fn a_recording_takes_the_place_of_a_test() {
    let stage = staged();
    save(&stage, CARELESS, &["--stats"]).ended(2);
    let record = [
        "record",
        "--dir",
        "data",
        "--",
        "sh",
        "-c",
        "echo > data/new",
    ];
    stage.run(&record).ended(0);
    assert!(!stage.path("crashpoint.out/findings").exists());
}

#[test]
fn a_saved_file_is_judged_without_any_checker() {
    let stage = staged();
    let found = save(&stage, CARELESS, &[]).ended(2);
    let found = found
        .prints("saved is neither what it was before nor what was saved")
        .prints("possible on:");
    found.prints("`crashpoint models show ext4-ordered` says what that means");
    stage.run(&["models", "show", "ext4-ordered"]).ended(0);
    save(&stage, CAREFUL, &[]).ended(0);
}

#[test]
fn what_was_acknowledged_must_be_there() {
    let stage = staged();
    compile(&stage, &log_program(""), "log");
    let found = log(&stage, &[]).ended(2);
    found.prints("was acknowledged and is not there");
    let report = stage.json("crashpoint.out/findings.json");
    assert_eq!(
        report["findings"][0]["crash"]["confirmed"],
        serde_json::Value::Null
    );
    compile(&stage, &log_program("        fsync(file);"), "log");
    log(&stage, &[]).ended(0);
}

#[test]
fn syncs_that_could_go_are_told_when_asked_for() {
    let stage = staged();
    compile(
        &stage,
        &log_program("        fsync(file);\n        fdatasync(file);"),
        "log",
    );
    log(&stage, &[]).ended(0);
    let report = stage.json("crashpoint.out/findings.json");
    assert_eq!(report["counts"]["findings"], 0);
    // A remark is no finding: the exit status stays.
    log(&stage, &["--remarks"]).ended(0).prints("extra-sync");
    let report = stage.json("crashpoint.out/findings.json");
    assert_eq!(report["counts"]["findings"], 1, "{report:#}");
    let remark = &report["findings"][0];
    assert_eq!(remark["severity"], "note");
    assert_eq!(remark["rule"], "extra-sync");
    assert_eq!(remark["location"]["line"], 16);
    assert_eq!(remark["count"], 6);
    let junit = fs::read_to_string(stage.path("crashpoint.out/findings.junit.xml"));
    assert!(junit.is_ok_and(|text| text.contains("nothing found")));
}

#[test]
fn syncs_that_are_all_needed_get_no_remark() {
    let stage = staged();
    compile(&stage, &log_program("        fsync(file);"), "log");
    log(&stage, &["--remarks"]).ended(0);
    let report = stage.json("crashpoint.out/findings.json");
    assert_eq!(report["counts"]["findings"], 0, "{report:#}");
    // And where states fail, that comes first.
    compile(&stage, &log_program(""), "log");
    log(&stage, &["--remarks"])
        .ended(2)
        .prints("once no crash state fails");
}

#[test]
fn a_finding_is_looked_for_on_a_real_file_system() {
    let stage = staged();
    for file_system in [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs] {
        let name = file_system.name();
        let confirm = ["--fs", "posix", "--confirm", name];
        let lacks = Lab::lacks(&[file_system]);
        if !lacks.is_empty() {
            eprintln!("not run here: {lacks:?}");
            save(&stage, CARELESS, &confirm)
                .ended(1)
                .says("real file systems need");
            continue;
        }
        let found = save(&stage, CARELESS, &confirm).ended(2);
        let found = found.prints(&format!("seen on {name}, Linux "));
        let report = stage.json("crashpoint.out/findings.json");
        let all = report["findings"].as_array().expect("a list").iter();
        let confirmed = all.map(|finding| &finding["crash"]["confirmed"]);
        let seen = confirmed.filter(|confirmed| confirmed["seen"].as_u64() > Some(0));
        assert!(seen.count() > 0, "{found:#?}");
    }
}
