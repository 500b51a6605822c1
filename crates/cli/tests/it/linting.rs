//! `crashpoint lint`: findings in every form, settings, custom rules, damaged recordings.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::support::{ACCOUNT, Stage, account, run, succeed, tool};

fn recorded() -> Stage {
    let stage = Stage::new();
    stage.record(account(), &[]).ended(0);
    stage
}

#[test]
fn findings_are_printed_and_written() {
    let stage = recorded();
    stage
        .run(&["lint", "out"])
        .ended(2)
        .prints("error[missing-flush]")
        .prints("warning[extra-flush]")
        .prints("account.c:27:5")
        .prints("flush(&a->owner); // extra-flush")
        .prints("2 findings in ");
    let json = fs::read_to_string(stage.path("out/findings.json")).unwrap();
    assert!(json.contains("\"crashpoint_findings\": 1"));
    let sarif = fs::read_to_string(stage.path("out/findings.sarif")).unwrap();
    assert!(sarif.contains("\"version\": \"2.1.0\""));
    let printed = stage.run(&["lint", "out", "--format", "sarif"]).ended(2);
    assert_eq!(printed.out, sarif);
    let junit = fs::read_to_string(stage.path("out/findings.junit.xml")).unwrap();
    assert!(junit.contains("failures=\"2\""), "{junit}");
    stage
        .run(&["lint", "out", "--format", "json"])
        .ended(2)
        .prints("\"rule\": \"missing-flush\"");
}

#[test]
fn colours_are_for_terminals() {
    let stage = recorded();
    assert!(!stage.run(&["lint", "out"]).out.contains('\x1b'));
    assert!(
        stage
            .run(&["lint", "out", "--color", "always"])
            .out
            .contains('\x1b')
    );
}

#[test]
fn a_program_is_recorded_and_linted_in_one_go() {
    let stage = Stage::new();
    let lint = |how: &str, rule: &str| {
        let mut command = stage.crashpoint(&["lint", "--rule", rule, "--pm"]);
        command
            .arg(stage.pool())
            .arg("--")
            .arg(account())
            .arg(stage.pool())
            .arg(how);
        run(&mut command)
    };
    lint("", "missing-flush").ended(2).prints("missing-flush");
    lint("", "double-log").ended(0).prints("nothing found");
    // A workload that fails has not shown that nothing is wrong.
    lint("fail", "double-log")
        .ended(4)
        .says("ended with exit status 3");
    lint("fail", "missing-flush").ended(2);
    assert!(stage.path("crashpoint.out/findings.json").exists());
}

#[test]
fn rules_are_chosen_by_name() {
    let stage = recorded();
    let only = stage
        .run(&["lint", "out", "--rule", "extra-flush"])
        .ended(2);
    assert!(!only.out.contains("missing-flush"));
    let allowed = [
        "lint",
        "out",
        "--allow",
        "extra-flush",
        "--allow",
        "missing-flush",
    ];
    stage.run(&allowed).ended(0).prints("nothing found");
    stage
        .run(&["lint", "out", "--rule", "mising-flush"])
        .ended(1)
        .says("there is no rule `mising-flush`; did you mean `missing-flush`?");
}

#[test]
fn rules_explain_themselves() {
    let stage = Stage::new();
    stage
        .run(&["lint", "--explain", "extra-fence"])
        .ended(0)
        .prints("# extra-fence")
        .prints("What it can get wrong");
    stage
        .run(&["lint", "--explain", "all"])
        .ended(0)
        .prints("# unlogged-update");
    stage
        .run(&["lint", "--explain", "model"])
        .ended(0)
        .prints("What a verdict means");
    stage
        .run(&["lint", "--explain", "nonsense"])
        .ended(1)
        .says("the rules are");
}

#[test]
fn settings_come_from_a_file_and_from_the_command_line() {
    let stage = recorded();
    stage.write("crashpoint.toml", "[rules.extra-flush]\nenabled = false\n");
    let run = stage.run(&["lint", "out"]).ended(2);
    assert!(!run.out.contains("extra-flush]"));
    stage
        .run(&["lint", "out", "--no-config"])
        .ended(2)
        .prints("[extra-flush]");
    stage
        .run(&["lint", "out", "--set", "rules.extra-flush.enabled=true"])
        .prints("[extra-flush]");
    stage
        .run(&["lint", "out", "--set", "rules.missing-flush.severity=note"])
        .prints("note[missing-flush]");
}

#[test]
fn a_wrong_key_shows_its_line_and_the_nearest_key() {
    let stage = recorded();
    stage.write("crashpoint.toml", "[record]\npm = []\nlevle = 'pm'\n");
    for command in [
        &["lint", "out"][..],
        &["record", "--out", "x", "--", "/bin/true"],
    ] {
        stage
            .run(command)
            .ended(1)
            .says("crashpoint.toml:3:1")
            .says("levle = 'pm'")
            .says("did you mean `level`?");
    }
    stage
        .run(&["lint", "out", "--config", "none.toml"])
        .ended(1)
        .says("none.toml");
}

#[test]
fn rules_of_the_user_run() {
    let stage = recorded();
    let script = "\
// Every flush is one too many.
fn on_flush(e) {
    finding(#{ event: e, message: \"a flush\", severity: \"note\" });
}

fn on_end() {
    print(\"done\");
}
";
    stage.write("no_flush.rhai", script);
    stage
        .run(&["lint", "out", "--custom", "no_flush.rhai"])
        .ended(2)
        .prints("note[no_flush]: a flush")
        .says("no_flush: done");
    stage.write("crashpoint.toml", "[rules]\ncustom = ['no_flush.rhai']\n");
    stage
        .run(&["lint", "out", "--rule", "no_flush"])
        .ended(2)
        .prints("note[no_flush]");
    let sarif = fs::read_to_string(stage.path("out/findings.sarif")).unwrap();
    assert!(sarif.contains("Every flush is one too many."));
}

#[test]
fn a_broken_script_is_shown_and_a_failing_one_is_told() {
    let stage = recorded();
    stage.write("broken.rhai", "fn on_flush(e) {\n    let = 1;\n}\n");
    stage
        .run(&["lint", "out", "--custom", "broken.rhai"])
        .ended(1)
        .says("broken.rhai:2")
        .says("let = 1;");
    stage.write("failing.rhai", "fn on_flush(e) {\n    throw \"no\";\n}\n");
    stage
        .run(&["lint", "out", "--custom", "failing.rhai"])
        .ended(2)
        .prints("a custom rule was stopped: failing.rhai:2");
    stage
        .run(&["lint", "out", "--custom", "none.rhai"])
        .ended(1)
        .says("cannot read the rule");
}

#[test]
fn what_is_no_recording_is_refused_with_advice() {
    let stage = Stage::new();
    stage
        .run(&["lint"])
        .ended(1)
        .says("crashpoint.out")
        .says("make a recording with");
    stage.run(&["lint", "nowhere"]).ended(1).says("nowhere");
    stage
        .run(&["lint", "."])
        .ended(1)
        .says("this is not a recording");
}

/// The stream of the program's one thread.
fn stream(stage: &Stage) -> PathBuf {
    let entries = fs::read_dir(stage.path("out/trace")).unwrap();
    let mut paths = entries.map(|entry| entry.unwrap().path());
    paths
        .find(|path| path.to_string_lossy().ends_with(".t0.pm"))
        .unwrap()
}

#[test]
fn a_damaged_stream_is_read_up_to_the_damage() {
    let stage = recorded();
    let path = stream(&stage);
    let mut bytes = fs::read(&path).unwrap();
    let records = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[records - 20..=records].fill(0xff);
    fs::write(&path, &bytes).unwrap();
    stage
        .run(&["lint", "out"])
        .ended(2)
        .prints("at offset")
        .prints("record again");

    // Nothing is left: silence would be a lie.
    bytes[4096..]
        .iter_mut()
        .filter(|byte| **byte != 0)
        .for_each(|byte| *byte = 0xff);
    fs::write(&path, &bytes).unwrap();
    stage
        .run(&["lint", "out"])
        .ended(1)
        .says("holds no events")
        .says("at offset");
    fs::write(&path, b"not a stream at all").unwrap();
    stage.run(&["lint", "out"]).ended(1);
}

#[test]
fn another_version_is_refused_with_advice() {
    let stage = recorded();
    let path = stream(&stage);
    let mut bytes = fs::read(&path).unwrap();
    bytes[8] = 99;
    fs::write(&path, &bytes).unwrap();
    stage
        .run(&["lint", "out"])
        .ended(1)
        .says("trace version 99");
}

#[test]
fn without_models_findings_have_no_lines_and_say_why() {
    let stage = Stage::new();
    let program = stage.build(ACCOUNT, &[], "account");
    stage.record(&program, &[]).ended(0);
    fs::remove_file(&program).unwrap();
    // The recording keeps its own copies.
    stage
        .run(&["lint", "out"])
        .ended(2)
        .prints("account.c:27:5");

    fs::remove_dir_all(stage.path("out/models")).unwrap();
    let bare = stage
        .run(&["lint", "out"])
        .ended(2)
        .prints("places have no source line");
    assert!(!bare.out.contains("account.c:27"));

    let changed = ACCOUNT.replace("deposit(a, 100);", "deposit(a, 100);\n    deposit(a, 7);");
    stage.build(&changed, &[], "account");
    stage
        .run(&["lint", "out"])
        .ended(2)
        .prints("built again since the recording was made");
}

#[test]
fn a_closed_pipe_is_quiet() {
    let stage = recorded();
    for arguments in [&["show", "out"][..], &["lint", "out"], &["--help"]] {
        let mut command = stage.crashpoint(arguments);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(
            output
                .status
                .code()
                .is_some_and(|code| code == 0 || code == 2),
            "{arguments:?}"
        );
        assert!(
            !err.contains("panic") && !err.contains("error"),
            "{arguments:?}: {err}"
        );
    }
}

#[test]
fn transactions_of_other_libraries_are_named_in_the_settings() {
    let stage = Stage::new();
    let source = "\
#include <emmintrin.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline))
NOINLINE void my_begin(void) { __asm__ volatile(\"\"); }
NOINLINE void my_log(void *p, size_t n) { __asm__ volatile(\"\" :: \"r\"(p), \"r\"(n)); }
NOINLINE void my_commit(void *p) { _mm_clflush(p); _mm_sfence(); }
int main(int argc, char **argv) {
    int fd = open(argv[argc - 1], O_RDWR | O_CREAT, 0644);
    if (fd < 0 || ftruncate(fd, 4096) != 0) return 1;
    long *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    my_begin();
    my_log(p, sizeof *p);
    p[0] = 1;
    p[1] = 2; // not logged
    my_commit(p);
    return 0;
}
";
    stage.write(
        "crashpoint.toml",
        "[transactions]\nbegin = ['my_begin']\ncommit = ['my_commit']\n\
         log = [{ name = 'my_log', address = 0, length = 1 }]\n",
    );
    let program = stage.build(source, &[], "transactions");
    stage.record(&program, &[]).ended(0);
    stage
        .run(&["lint", "out"])
        .ended(2)
        .prints("unlogged-update")
        .prints("transactions.c:17")
        .prints("1 finding in ");
}

#[test]
fn shipped_scripts_compile() {
    let stage = recorded();
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../../rules");
    let mut command = stage.crashpoint(&["lint", "out"]);
    let mut scripts = 0;
    for entry in fs::read_dir(rules).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "rhai") {
            command.arg("--custom").arg(path);
            scripts += 1;
        }
    }
    assert!(scripts >= 2);
    run(&mut command).ended(2);
}

const LIBRARY: &str = "\
#include <emmintrin.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>
static void copy_line(char *to, const char *from, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] = from[i];
    _mm_clflush(to);
    _mm_clflush(to);
}
__attribute__((noinline)) void pmem_memcpy_persist(char *to, const char *from, size_t n) {
    copy_line(to, from, n);
    _mm_sfence();
}
int main(int argc, char **argv) {
    int fd = open(argv[argc - 1], O_RDWR | O_CREAT, 0644);
    if (fd < 0 || ftruncate(fd, 4096) != 0) return 1;
    char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    pmem_memcpy_persist(p, argv[0], 2); // told here
    return 0;
}
";

#[test]
fn what_a_persistence_library_does_is_told_at_its_caller() {
    let stage = Stage::new();
    let program = stage.build(LIBRARY, &[], "library");
    stage.record(&program, &[]).ended(0);
    stage
        .run(&["lint", "out"])
        .ended(2)
        .prints("warning[extra-flush]")
        .prints("--> library.c:19:5")
        .prints("copy_line at library.c:9")
        .prints("1 finding in ");
}

#[test]
fn what_a_system_header_does_is_told_at_its_caller() {
    let stage = Stage::new();
    let source = "\
#include <atomic>
#include <emmintrin.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int fd = open(argv[argc - 1], O_RDWR | O_CREAT, 0644);
    if (fd < 0 || ftruncate(fd, 4096) != 0) return 1;
    void *p = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    auto *word = static_cast<std::atomic<long> *>(p);
    word->store(1, std::memory_order_release);
    _mm_clflush(word);
    _mm_sfence();
    word->store(2, std::memory_order_release);
    return 0;
}
";
    let source = stage.write("atomic.cc", source);
    let program = stage.path("atomic");
    let mut build = Command::new(tool("crashpoint-c++"));
    succeed(build.arg("-O1").arg(source).arg("-o").arg(&program));
    stage.record(&program, &[]).ended(0);
    stage
        .run(&["lint", "out"])
        .ended(2)
        .prints("error[missing-flush]")
        .prints("--> atomic.cc:14:11");
}
