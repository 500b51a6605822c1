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
