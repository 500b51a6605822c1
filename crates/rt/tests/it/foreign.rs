//! What uninstrumented code writes is noticed, once, and named.

use crate::support::{Bench, Link, Recording, Run, What, expect_success};
use crashpoint_abi::record::StoreKind;

fn write(bench: &Bench, how: &str, shadow: &str) {
    let program = bench.compile("foreign.c", Link::Shared, &[]);
    let mut command = bench.command(&program);
    command.env("CRASHPOINT_SHADOW", shadow).args(["pool", how]);
    expect_success(&command.output().unwrap());
}

/// What a run that succeeds leaves.
fn recorded(how: &str, shadow: &str) -> Recording {
    let bench = Bench::new();
    write(&bench, how, shadow);
    bench.recording()
}

/// Site and offset of plain and foreign stores and of flushes, in order.
fn stores(run: &Run) -> Vec<(&'static str, u32, u64)> {
    let base = run.base();
    run.events()
        .into_iter()
        .filter_map(|event| match event.what {
            What::Store(StoreKind::Plain, address, _) => {
                Some(("plain", event.site, address - base))
            }
            What::Store(StoreKind::Foreign, address, _)
            | What::Fill(StoreKind::Foreign, address, ..) => {
                Some(("foreign", event.site, address - base))
            }
            What::Flush(_, address) => Some(("flush", event.site, address - base)),
            _ => None,
        })
        .collect()
}

#[test]
fn a_flush_notices_what_its_line_holds() {
    let recording = recorded("flush", "1");
    let run = recording.run();
    let expected = [
        ("plain", 2, 0),
        ("foreign", 3, 100),
        ("flush", 4, 96),
        ("foreign", 5, 105),
        ("flush", 4, 96),
        ("flush", 4, 96),
        ("foreign", 5, 4096),
    ];
    assert_eq!(stores(run), expected);
    let foreign = run.stores(StoreKind::Foreign);
    assert_eq!(foreign[0].2, b"abcdef");
    assert_eq!(foreign[1].2, b"g");
    assert_eq!(foreign[2].2, [7; 1000]);
}

#[test]
fn synchronising_unmapping_and_forking_notice_too() {
    let both = [("foreign", 3, 100), ("foreign", 3, 4096)];
    for (how, early, late) in [
        ("msync", &both[..1], &both[1..]),
        ("unmap", &both[1..], &both[..1]),
        ("fork", &both[..], &both[..0]),
        ("exit", &both[..], &both[..0]),
    ] {
        let recording = recorded(how, "1");
        let mut expected = vec![("plain", 2, 0)];
        expected.extend(early);
        if how != "exit" {
            expected.push(("plain", 6, 0));
        }
        expected.extend(late);
        let run = recording
            .runs
            .iter()
            .find(|run| run.meta[0]["parent"].is_null())
            .unwrap();
        assert_eq!(stores(run), expected, "{how}");
    }
}

#[test]
fn a_file_that_is_mapped_again_is_compared() {
    let recording = recorded("again", "1");
    let run = recording.run();
    let expected = [
        ("plain", 2, 0),
        ("foreign", 3, 100),
        ("foreign", 3, 4096),
        ("foreign", 3, 100),
        ("foreign", 3, 8192),
        ("plain", 6, 0),
    ];
    assert_eq!(stores(run), expected);
    let foreign = run.stores(StoreKind::Foreign);
    assert_eq!(foreign[2].2, b"\0\0");
    assert_eq!(foreign[3].2, b"later");
}

#[test]
fn pages_that_cannot_be_read_are_passed_over() {
    let bench = Bench::new();
    write(&bench, "protected", "1");
    assert_eq!(stores(bench.recording().run()), [("plain", 2, 0)]);
}

#[test]
fn other_threads_do_not_hide_foreign_writes() {
    let bench = Bench::new();
    write(&bench, "threads", "1");
    let expected = [
        ("plain", 2, 0),
        ("foreign", 3, 100),
        ("flush", 4, 96),
        ("foreign", 3, 4096),
    ];
    assert_eq!(stores(bench.recording().run()), expected);
}

#[test]
fn without_a_shadow_nothing_is_noticed() {
    let bench = Bench::new();
    write(&bench, "exit", "0");
    assert_eq!(stores(bench.recording().run()), [("plain", 2, 0)]);
}
