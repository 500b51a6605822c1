//! `crashpoint show`, `doctor`, `demo`, and the manners of the command line itself.

use crate::support::{Stage, account};

fn recorded() -> Stage {
    let stage = Stage::new();
    stage.record(account(), &[]).ended(0);
    stage
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

#[test]
fn events_are_shown_in_order_with_their_places() {
    let stage = recorded();
    let shown = stage.run(&["show", "out"]).ended(0);
    let lines = lines(&shown.out);
    assert!(
        lines[0].contains("map pool+0x0 (4.0 KiB) at 0x"),
        "{lines:#?}"
    );
    assert!(
        lines[1].contains("store pool+0x8 = 0x0000000000000064"),
        "{lines:#?}"
    );
    assert!(lines[1].contains("deposit at "), "{lines:#?}");
    assert!(lines[2].contains("clflush pool+0x8"), "{lines:#?}");
    assert!(lines[4].contains("sfence"), "{lines:#?}");
}

#[test]
fn events_are_filtered() {
    let stage = recorded();
    let count = |arguments: &[&str]| {
        let shown = stage.run(&[&["show", "out"], arguments].concat()).ended(0);
        lines(&shown.out).len()
    };
    assert_eq!(count(&["--kind", "flush"]), 3);
    assert_eq!(count(&["--kind", "flush", "--kind", "fence"]), 5);
    assert_eq!(count(&["--range", "pool:0x40..0x48", "--kind", "store"]), 2);
    assert_eq!(count(&["--range", "pool:0..0x40", "--kind", "flush"]), 2);
    assert_eq!(count(&["--range", "other:0..0x40"]), 0);
    assert_eq!(
        count(&["--range", "pool"]),
        count(&["--range", "pool:0..9999"])
    );
    assert_eq!(count(&["--function", "deposit"]), 4);
    assert_eq!(count(&["--function", "flush"]), 3);
    assert_eq!(count(&["--limit", "2"]), 2);
    assert_eq!(count(&["--thread", "0", "--kind", "fence"]), 2);
    assert_eq!(
        count(&["--function", "flush", "--limit", "1", "--stack"]),
        3
    );
    stage
        .run(&["show", "out", "--thread", "7"])
        .ended(1)
        .says("threads 0 to 0");
    stage
        .run(&["show", "out", "--range", "9..1"])
        .ended(1)
        .says("behind the start");
    stage
        .run(&["show", "out", "--kind", "write"])
        .ended(1)
        .says("a recording of memory has no entries of kind `write`");
}

#[test]
fn counts_are_shown() {
    let stage = recorded();
    stage
        .run(&["show", "out", "--stats"])
        .ended(0)
        .prints("bytes per store")
        .prints("process p");
}

#[test]
fn the_model_of_a_binary_is_shown() {
    let stage = Stage::new();
    let binary = account().to_str().unwrap();
    stage
        .run(&["show", "--ir", binary])
        .ended(0)
        .prints("@main")
        .prints("@deposit");
    let one = stage
        .run(&["show", "--ir", binary, "deposit"])
        .ended(0)
        .prints("@deposit");
    assert!(!one.out.contains("function @main"));
    stage
        .run(&["show", "--ir", binary, "depositt"])
        .ended(1)
        .says("there is no function `depositt`")
        .says("did you mean `deposit`?");
    stage
        .run(&["show", "--ir", "/bin/true"])
        .ended(1)
        .says("no program model in it");
    stage
        .run(&["show", "--ir", "/etc/passwd"])
        .ended(1)
        .says("not an ELF binary");
    stage
        .run(&["show", "--ir"])
        .ended(1)
        .says("name the binary");
}

#[test]
fn wrong_use_is_told_with_code_1_and_help_with_code_0() {
    let stage = Stage::new();
    stage.run(&[]).ended(1);
    stage.run(&["lnit"]).ended(1).says("lint");
    stage.run(&["record"]).ended(1).says("COMMAND");
    stage
        .run(&["record", "--level", "all", "--", "x"])
        .ended(1)
        .says("off, pm, flow, value");
    stage
        .run(&["--version"])
        .ended(0)
        .prints(env!("CARGO_PKG_VERSION"));
    stage
        .run(&["--help"])
        .ended(0)
        .prints("crashpoint record --pm")
        .prints("70  internal error");
    for command in ["record", "lint", "show"] {
        stage.run(&[command, "--help"]).ended(0).prints("Examples:");
    }
}

#[test]
fn the_demo_finds_what_it_should() {
    let stage = Stage::new();
    stage
        .run(&["demo", "--keep", "demo"])
        .ended(0)
        .prints("error[missing-fence]");
    assert!(stage.path("demo/seeded.out/trace").is_dir());
}

#[test]
fn the_doctor_finds_everything_here() {
    let stage = Stage::new();
    let run = stage
        .run(&["doctor"])
        .ended(0)
        .prints("compiler drivers: build a program");
    assert!(!run.out.contains("missing"));
}
