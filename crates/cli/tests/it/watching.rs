//! `crashpoint record --dir` and `crashpoint show` of what it left.

use crate::support::Stage;

const SAVE: &str = "cd data && printf new > note.tmp && mv note.tmp note && echo saved";

fn staged() -> Stage {
    let stage = Stage::new();
    std::fs::create_dir(stage.path("data")).expect("a folder");
    stage
}

#[test]
fn a_script_is_recorded_and_shown() {
    let stage = staged();
    let record = ["record", "--dir", "data", "--", "sh", "-c", SAVE];
    let recorded = stage.run(&record).ended(0);
    assert_eq!(recorded.out, "saved\n");
    assert!(
        recorded.err.contains("the program ended well"),
        "{}",
        recorded.err
    );
    let shown = stage.run(&["show"]).ended(0);
    let told = [
        "openat(\"note.tmp\", O_WRONLY|O_CREAT|O_TRUNC, 0666)",
        "note.tmp [0..3]: \"new\"",
        "note.tmp becomes note (1)",
        "stdout: \"saved\\n\"",
    ];
    let mut rest = &shown.out[..];
    for text in told {
        let at = rest
            .find(text)
            .unwrap_or_else(|| panic!("{text} in its place in {}", shown.out));
        rest = &rest[at..];
    }
    let counted = stage.run(&["show", "--stats"]).ended(0);
    assert!(
        counted.out.contains("3 bytes written to files"),
        "{}",
        counted.out
    );
}

/// A call begins a line with its order; its effects and its stack are indented further.
fn calls(shown: &str) -> Vec<&str> {
    let is_call = |line: &&str| line.len() > 8 && !line[..8].trim().is_empty();
    shown.lines().filter(is_call).collect()
}

#[test]
fn calls_are_filtered_like_events() {
    let stage = staged();
    let record = ["record", "--dir", "data", "--", "sh", "-c", SAVE];
    stage.run(&record).ended(0);
    let show = |options: &str| {
        let options = options.split_whitespace();
        let arguments: Vec<&str> = std::iter::once("show").chain(options).collect();
        stage.run(&arguments).ended(0).out
    };
    let only = |options: &str, expected: &[&str]| {
        let shown = show(options);
        let calls = calls(&shown);
        assert_eq!(calls.len(), expected.len(), "{options}: {shown}");
        for (call, text) in calls.iter().zip(expected) {
            assert!(call.contains(text), "{options}: {text} in {shown}");
        }
    };
    let (create, write, rename) = ("openat(\"note.tmp\"", "write(\"note.tmp\"", "rename");
    only("--kind create", &[create]);
    only("--kind write", &[write]);
    only("--kind name", &[create, rename]);
    only("--kind write --kind output", &[write, "write(stdout"]);
    only("--range note.tmp --kind name", &[create, rename]);
    only("--range note --kind name", &[rename]);
    only("--range note.tmp:2..9", &[write]);
    only("--range note.tmp:3..9", &[]);
    only("--range other", &[]);
    only("--function no_such_function", &[]);
    only("--kind write --limit 1", &[write]);
    only("--limit 1 --kind name", &[create]);
    let stacked = show("--kind write --stack");
    assert_eq!(calls(&stacked).len(), 1, "{stacked}");
    assert!(stacked.contains("by "), "{stacked}");
}

#[test]
fn a_filter_that_no_entry_of_files_can_pass_is_refused() {
    let stage = staged();
    let record = ["record", "--dir", "data", "--", "sh", "-c", SAVE];
    stage.run(&record).ended(0);
    for (options, said) in [
        (
            "--kind flush",
            "has no entries of kind `flush`; the kinds are create, name,",
        ),
        (
            "--range 0x10..0x20",
            "a recording of files has no addresses",
        ),
        ("--thread 99", "there is no thread 99"),
        ("--stats --kind write", "cannot be used with"),
    ] {
        let options = options.split_whitespace();
        let arguments: Vec<&str> = std::iter::once("show").chain(options).collect();
        stage.run(&arguments).ended(1).says(said);
    }
}

#[test]
fn the_exit_status_is_the_programs_if_asked_for() {
    let stage = staged();
    let record = [
        "record",
        "--dir",
        "data",
        "--exit-status",
        "--",
        "sh",
        "-c",
        "exit 5",
    ];
    let recorded = stage.run(&record).ended(5);
    assert!(
        recorded.err.contains("nothing was recorded"),
        "{}",
        recorded.err
    );
}

#[test]
fn mistakes_are_told_and_leave_an_old_recording_alone() {
    let stage = staged();
    let record = |dir: &str, program: &str| {
        stage
            .run(&["record", "--dir", dir, "--", program])
            .ended(1)
            .err
    };
    stage
        .run(&["record", "--dir", "data", "--", "true"])
        .ended(0);
    assert!(record("none", "true").contains("the folder none cannot be watched"));
    assert!(record("data", "./no-such-program").contains("could not start `./no-such-program`"));
    assert!(record(".", "true").contains("lies in the watched folder"));
    stage.run(&["show"]).ended(0);
}

/// Stores into a mapped file, and calls between them.
const MIXED: &str = r#"
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    int file = open("data/mapped", O_RDWR | O_CREAT, 0644);
    if (file < 0 || ftruncate(file, 6000) < 0) return 1;
    volatile char *page = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    page[0] = 'a';
    page[0] = 'b';
    write(1, "one\n", 4);
    page[5000] = 'c';
    page[7000] = 'z';
    if (fork() == 0) {
        page[2] = 'd';
        _exit(0);
    }
    wait(0);
    memcpy((char *)page + 4096, "whole", 5);
    read(open("/dev/zero", O_RDONLY), (char *)page, 1);
    return fsync(file);
}
"#;

#[test]
fn stores_of_a_program_that_records_them_stand_between_its_calls() {
    let stage = staged();
    stage.build(MIXED, &[], "mixed");
    stage
        .run(&["record", "--dir", "data", "--", "./mixed"])
        .ended(0);
    let shown = stage.run(&["show"]).ended(0).out;
    let told = [
        "store(\"mapped\", 1 bytes at 0)   main at mixed.c:11",
        "mapped [0..1], through a mapping: \"a\"",
        "mapped [0..1], through a mapping: \"b\"",
        "stdout: \"one\\n\"",
        "store(\"mapped\", 1 bytes at 5000)   main at mixed.c:14",
        "store(\"mapped\", 1 bytes at 2)   main at mixed.c:17",
        "store(\"mapped\", 5 bytes at 4096)",
        "mapped [0..1], through a mapping: \"\\x00\"",
        "fsync(\"mapped\")   main at mixed.c:23",
    ];
    let mut rest = &shown[..];
    for text in told {
        let at = rest.find(text);
        let at = at.unwrap_or_else(|| panic!("{text} in its place in {shown}"));
        rest = &rest[at..];
    }
    assert!(!shown.contains("at 7000"), "behind the end: {shown}");
    assert!(
        !shown.contains("1 pages"),
        "nothing is left to find: {shown}"
    );
    assert_eq!(shown.matches("through a mapping").count(), 6, "{shown}");
}
