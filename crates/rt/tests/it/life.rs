//! However a process lives and ends, what it did is on record.

use crate::support::{Bench, Link, Recording, What};
use crashpoint_abi::record::{StoreKind, ThreadSync};
use std::os::unix::process::ExitStatusExt;
use std::process::Output;

fn live(bench: &Bench, arguments: &[&str]) -> (Output, Recording) {
    let program = bench.compile("life.c", Link::Shared, &[]);
    let mut command = bench.command(&program);
    let output = command
        .env("POOL", "pool")
        .args(arguments)
        .output()
        .unwrap();
    (output, bench.recording())
}

/// The same in a folder of its own, which is gone then: what is in memory is all that is left.
fn recorded(arguments: &[&str]) -> (Output, Recording) {
    live(&Bench::new(), arguments)
}

#[test]
fn constructors_exit_handlers_and_destructors_are_recorded() {
    let (output, recording) = recorded(&["exit"]);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let run = recording.run();
    assert_eq!(run.sites(StoreKind::Plain), [2, 8, 9]);
    assert_eq!(run.end(), Some(("exit", 5)));
    assert_eq!(run.syncs(ThreadSync::ProcessExit), [0]);
    assert_eq!(run.streams[&0].in_window, 0);
}

#[test]
fn quick_ends_are_recorded() {
    for (how, code, line) in [
        ("_exit", 6, ("_exit", 6)),
        ("quick_exit", 7, ("quick_exit", 0)),
    ] {
        let (output, recording) = recorded(&[how]);
        assert_eq!(output.status.code(), Some(code));
        let run = recording.run();
        assert_eq!(run.sites(StoreKind::Plain), [2]);
        assert_eq!(run.end(), Some(line));
        assert_eq!(run.streams[&0].in_window, 0);
    }
}

#[test]
fn an_aborted_process_leaves_a_readable_trace() {
    let (output, recording) = recorded(&["abort"]);
    assert_eq!(output.status.signal(), Some(6));
    assert_eq!(recording.run().sites(StoreKind::Plain), [2]);
    assert_eq!(recording.run().end(), None);
}

#[test]
fn a_killed_process_loses_nothing() {
    let (output, recording) = recorded(&["kill"]);
    assert_eq!(output.status.signal(), Some(9));
    let run = recording.run();
    let stores = run.stores(StoreKind::Plain);
    assert_eq!(stores.len(), 20_001);
    let (site, offset, bytes) = stores.last().unwrap();
    assert_eq!((*site, *offset), (41, 8 * (100 + 999)));
    assert_eq!(*bytes, 19_999u64.to_le_bytes());
    assert_eq!(run.end(), None);
    let stream = &run.streams[&0];
    assert!(stream.in_window > 0);
    assert!(stream.length < 14 * stores.len(), "{} bytes", stream.length);
}

#[test]
fn a_stack_overflow_leaves_a_readable_trace() {
    let (output, recording) = recorded(&["overflow"]);
    assert_eq!(output.status.signal(), Some(11));
    assert_eq!(recording.run().sites(StoreKind::Plain), [2, 31, 31, 31]);
}

#[test]
fn closing_all_descriptors_changes_nothing() {
    let (output, recording) = recorded(&["descriptors"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(recording.run().stores(StoreKind::Plain).len(), 20_003);
}

#[test]
fn exec_begins_a_second_run_of_the_process() {
    // The folder is read below.
    let bench = Bench::new();
    let (output, recording) = live(&bench, &["exec"]);
    assert_eq!(output.status.code(), Some(5));
    let [first, second] = &recording.runs[..] else {
        panic!("{:?}", recording.runs);
    };
    assert_eq!(first.meta[0]["pid"], second.meta[0]["pid"]);
    assert_eq!(
        (&first.meta[0]["run"], &second.meta[0]["run"]),
        (&0.into(), &1.into())
    );
    assert_eq!(first.end(), Some(("exec", 0)));
    assert_eq!(first.sites(StoreKind::Plain), [2]);
    assert_eq!(second.end(), Some(("exit", 5)));
    assert!(first.events().last().unwrap().order < second.events()[0].order);
    // The second one finds what the first one left, at the same place.
    assert_eq!(first.base(), second.base());
    let image = second.lines("file")[0]["image"].as_str().unwrap();
    assert_eq!(recording.file(image)[..8], 1u64.to_le_bytes());
}

#[test]
fn argument_lists_reach_the_next_program() {
    for (how, code, text) in [("execl", 5, "bcdefg"), ("execlp", 5, ""), ("execle", 1, "")] {
        let (output, recording) = recorded(&[how]);
        assert_eq!(output.status.code(), Some(code), "{how}: {output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), text);
        assert_eq!(recording.runs[0].end(), Some(("exec", 0)), "{how}");
        // Without our variables, the next program is not recorded.
        assert_eq!(recording.runs.len(), if how == "execle" { 1 } else { 2 });
    }
}

#[test]
fn a_failed_exec_is_no_end() {
    let (output, recording) = recorded(&["exec_fails"]);
    assert_eq!(output.status.code(), Some(5));
    let run = recording.run();
    assert_eq!(run.end(), Some(("exit", 5)));
    let stores = run.stores(StoreKind::Plain);
    assert_eq!(stores[1], (3, 8, 2u64.to_le_bytes().to_vec()));
}

#[test]
fn a_forked_child_records_under_its_own_name() {
    let (output, recording) = recorded(&["fork"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let [parent, child] = &recording.runs[..] else {
        panic!("{:?}", recording.runs);
    };
    assert_eq!(child.meta[0]["parent"], parent.name.as_str());
    assert_eq!(parent.sites(StoreKind::Plain), [2, 54, 8, 9]);
    assert_eq!(child.sites(StoreKind::Plain), [52, 53]);
    assert_eq!(child.end(), Some(("_exit", 4)));
    assert_eq!(child.base(), parent.base());
    assert_eq!(child.lines("module"), parent.lines("module"));
    assert_eq!(child.lines("file"), parent.lines("file"));
    assert_eq!(
        parent.syncs(ThreadSync::Fork),
        [child.meta[0]["pid"].as_u64().unwrap()]
    );
    let fork = parent
        .events()
        .into_iter()
        .find(|event| matches!(event.what, What::Sync(ThreadSync::Fork, _)))
        .unwrap();
    assert_eq!(fork.site, 51);
    let events = child.events();
    assert!(events.iter().all(|event| event.order > fork.order));
    // The child's second function was called by the activation that forked.
    assert_eq!(
        events.iter().find(|event| event.site == 53).unwrap().stack,
        [51]
    );
    assert!(parent.events().iter().any(|event| event.site == 54));
    // Nothing that one of them stored looks foreign to the other.
    assert_eq!(parent.stores(StoreKind::Foreign), []);
    assert_eq!(child.stores(StoreKind::Foreign), []);
}

#[test]
fn children_in_borrowed_memory_do_no_harm() {
    let bench = Bench::new();
    let (output, recording) = live(&bench, &["vfork"]);
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(recording.run().end(), Some(("exit", 4)));
    let bench = Bench::new();
    let (output, recording) = live(&bench, &["spawn"]);
    assert_eq!(output.status.code(), Some(5));
    assert_eq!(recording.runs.len(), 2);
    for run in &recording.runs {
        assert_eq!(run.end(), Some(("exit", 5)));
        assert_eq!(run.sites(StoreKind::Plain), [2, 8, 9]);
    }
}
