//! Threads have streams of their own in one order.

use crate::support::{Bench, Link, What, expect_success};
use crashpoint_abi::record::{StoreKind, ThreadSync};
use std::collections::BTreeSet;

#[test]
fn threads_record_side_by_side_in_one_order() {
    let bench = Bench::new();
    let recording = bench.record("threads.c", &["pool"]);
    let run = recording.run();
    assert_eq!(run.streams.len(), 8);
    let created = run.syncs(ThreadSync::Create);
    assert_eq!(created, [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(run.syncs(ThreadSync::Join), [1, 2, 3, 4]);
    for kind in [ThreadSync::Start, ThreadSync::ThreadExit] {
        let numbers: BTreeSet<u64> = run.syncs(kind).into_iter().collect();
        assert_eq!(numbers, (1..=7).collect(), "{kind:?}");
    }
    for (number, stream) in &run.streams {
        assert_eq!(stream.in_window, 0);
        if (1..=4).contains(number) {
            let own = stream
                .events
                .iter()
                .filter(|event| event.site == 11)
                .count();
            assert_eq!(own, 2000);
            let nested = stream.events.iter().find(|event| event.site == 21).unwrap();
            assert!(nested.stack.is_empty());
        }
    }
    // A thread that is cancelled cleans up first.
    assert_eq!(
        run.streams[&7]
            .events
            .iter()
            .filter(|event| event.site == 51)
            .count(),
        1
    );
    // Under the lock, values follow the order.
    let counts = run.values(21);
    assert_eq!(counts, (1..=800).collect::<Vec<_>>());
    let orders: BTreeSet<u64> = run.events().iter().map(|event| event.order).collect();
    assert_eq!(orders.len(), run.events().len());
    assert_eq!(run.stores(StoreKind::Foreign), []);
}

#[test]
fn a_thread_starts_after_it_was_created() {
    let bench = Bench::new();
    let recording = bench.record("threads.c", &["pool"]);
    let events = recording.run().events();
    let place = |kind, number| {
        let at = events
            .iter()
            .position(|event| event.what == What::Sync(kind, number));
        at.unwrap()
    };
    for number in 1..=7 {
        let create = place(ThreadSync::Create, number);
        assert!(create < place(ThreadSync::Start, number));
        assert!(place(ThreadSync::Start, number) < place(ThreadSync::ThreadExit, number));
        if number <= 4 {
            assert_eq!(events[create].site, 2);
        }
    }
}

#[test]
fn threads_work_in_a_static_program() {
    let bench = Bench::new();
    let program = bench.compile("threads.c", Link::Static, &[]);
    let output = bench.command(&program).arg("pool").output().unwrap();
    expect_success(&output);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "800\n");
    let recording = bench.recording();
    let run = recording.run();
    assert_eq!(run.syncs(ThreadSync::Create), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(run.syncs(ThreadSync::ThreadExit).len(), 7);
    assert_eq!(run.end(), Some(("exit", 0)));
}
