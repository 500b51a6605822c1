//! However the runtime gets into a process, it records; where it should not, it stays silent.

use crate::support::{Bench, Link, expect_success, runtime};
use crashpoint_abi::record::StoreKind;
use std::path::{Path, PathBuf};
use std::process::Command;

fn plain(bench: &Bench, options: &[&str]) -> PathBuf {
    bench.compile("plain.c", Link::Plain, options)
}

fn library(bench: &Bench) {
    let program = bench.compile("library.c", Link::Shared, &["-shared", "-fPIC"]);
    std::fs::rename(program, bench.path("liblibrary.so")).unwrap();
}

fn record(bench: &Bench, program: &Path, preload: bool) {
    let mut command = bench.command(program);
    if preload {
        command.env("LD_PRELOAD", runtime("libcrashpoint_rt.so"));
    }
    expect_success(&command.arg("pool").output().unwrap());
}

#[test]
fn a_library_that_is_loaded_late_finds_the_pool() {
    for preload in [false, true] {
        let bench = Bench::new();
        library(&bench);
        let program = plain(&bench, &[]);
        record(&bench, &program, preload);
        let recording = bench.recording();
        let run = recording.run();
        let sites = run.sites(StoreKind::Plain);
        assert_eq!(sites, [101, 1101], "preload {preload}");
        let modules = run.lines("module");
        assert_eq!(modules.len(), 2);
        assert_eq!(modules[1]["site_base"], 1001);
        let binary = bench.path("liblibrary.so").canonicalize().unwrap();
        assert_eq!(modules[0]["binary"], binary.to_str().unwrap());
        let foreign = run.stores(StoreKind::Foreign);
        // What was there when recording began is in the image.
        let expected = if preload { vec![800, 1600] } else { vec![800] };
        let offsets: Vec<_> = foreign.iter().map(|store| store.1).collect();
        assert_eq!(offsets, expected, "preload {preload}: {foreign:?}");
        assert_eq!(run.end(), Some(("exit", 0)));
    }
}

#[test]
fn a_plain_program_with_an_instrumented_library_is_recorded() {
    let bench = Bench::new();
    library(&bench);
    let folder = bench.folder.path().to_str().unwrap();
    let options = ["-DLINKED", "-L", folder, "-llibrary", "-Wl,-rpath,."];
    let program = plain(&bench, &options);
    record(&bench, &program, true);
    let recording = bench.recording();
    let run = recording.run();
    assert_eq!(run.stores(StoreKind::Plain).len(), 1);
    assert_eq!(run.base(), 0x1000_0000_0000);
    assert_eq!(run.stores(StoreKind::Foreign).len(), 1);
}

#[test]
fn a_static_program_is_recorded() {
    let bench = Bench::new();
    let program = bench.compile("life.c", Link::Static, &[]);
    let mut command = bench.command(&program);
    let output = command.env("POOL", "pool").arg("fork").output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let recording = bench.recording();
    assert_eq!(recording.runs.len(), 2);
    assert_eq!(recording.runs[0].end(), Some(("exit", 4)));
    assert_eq!(recording.runs[1].end(), Some(("_exit", 4)));
    let sites = recording.runs[0].sites(StoreKind::Plain);
    assert_eq!(sites, [2, 54, 8, 9]);
}

#[test]
fn without_a_runtime_or_a_folder_programs_run_as_they_are() {
    let bench = Bench::new();
    for link in [Link::Plain, Link::Shared, Link::Static] {
        let program = bench.compile("life.c", link, &[]);
        let mut command = Command::new(&program);
        command
            .current_dir(bench.folder.path())
            .env("POOL", "pool")
            .env_remove("LD_LIBRARY_PATH");
        let output = command.arg("exit").output().unwrap();
        assert_eq!(output.status.code(), Some(5), "{link:?}");
        assert!(output.stderr.is_empty() && output.stdout.is_empty());
    }
    let program = bench.compile("life.c", Link::Shared, &[]);
    let mut command = bench.command(&program);
    command
        .env("CRASHPOINT_LEVEL", "off")
        .env("POOL", "pool")
        .arg("exit");
    assert_eq!(command.output().unwrap().status.code(), Some(5));
    assert!(!bench.path("out").exists());
}

#[test]
fn a_process_without_persistent_memory_or_hooks_leaves_nothing() {
    let bench = Bench::new();
    let mut command = bench.command(Path::new("/bin/true"));
    command.env("LD_PRELOAD", runtime("libcrashpoint_rt.so"));
    expect_success(&command.output().unwrap());
    assert!(!bench.path("out").exists());
}

#[test]
fn an_object_of_another_version_is_refused() {
    let bench = Bench::new();
    let program = bench.compile("basic.c", Link::Shared, &["-DABI_VERSION=77"]);
    let output = bench.command(&program).arg("pool").output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "watched 0 0 0\n");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("version 77"), "{text}");
}
