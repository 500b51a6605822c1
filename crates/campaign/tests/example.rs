//! The example program calls the library as any program could; it must find the bug that it shows.

use std::path::PathBuf;
use std::process::Command;

/// Cargo puts examples beside the folder of test programs.
fn example(name: &str) -> PathBuf {
    let program = std::env::current_exe().expect("a test knows its program");
    let folder = program.parent().and_then(|deps| deps.parent());
    folder.expect("target/PROFILE").join("examples").join(name)
}

#[test]
fn the_example_finds_the_missing_sync() {
    let output = Command::new(example("test_a_program")).output();
    let output = output.expect("`cargo test` builds examples");
    let printed = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(printed.contains("ordering: "), "{printed}");
    assert!(printed.contains("`fsync` of `document.tmp`"), "{printed}");
}
