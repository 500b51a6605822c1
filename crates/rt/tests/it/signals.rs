//! Signal handlers record beside what they interrupt.

use crate::support::{Bench, Link, Recording, expect_success};
use crashpoint_abi::record::StoreKind;

fn run(bench: &Bench, how: &str) -> std::process::Output {
    let program = bench.compile("signals.c", Link::Shared, &[]);
    bench
        .command(&program)
        .args(["pool", how])
        .output()
        .unwrap()
}

/// What a run that succeeds leaves.
fn recorded(how: &str) -> Recording {
    let bench = Bench::new();
    expect_success(&run(&bench, how));
    bench.recording()
}

#[test]
fn a_storm_of_signals_leaves_both_streams_whole() {
    let recording = recorded("storm");
    let run = recording.run();
    assert_eq!(run.streams.len(), 2);
    let [main, handler] = [&run.streams[&0], &run.streams[&1]];
    assert_eq!(main.system_thread, handler.system_thread);
    let values = run.values(21);
    assert!(values.len() >= 300);
    assert_eq!(values, (1..=values.len() as u64).collect::<Vec<_>>());
    assert!(
        handler
            .events
            .iter()
            .all(|event| [21, 22].contains(&event.site))
    );
    // All that the interrupted code did is there, in order.
    let own = run.values(2);
    assert_eq!(own, (0..own.len() as u64).collect::<Vec<_>>());
    assert_eq!(run.stores(StoreKind::Foreign), []);
}

#[test]
fn handlers_nest() {
    let recording = recorded("nested");
    let run = recording.run();
    let sites = run.sites(StoreKind::Plain);
    assert_eq!(sites, [3, 31, 31, 4]);
    assert_eq!(run.streams.len(), 3);
}

#[test]
fn a_handler_that_is_left_by_a_jump_does_not_spoil_the_stream() {
    let recording = recorded("jump");
    let run = recording.run();
    let stores = run.stores(StoreKind::Plain);
    assert_eq!(stores.iter().filter(|store| store.0 == 41).count(), 20);
    assert_eq!(stores.last().unwrap().0, 7);
    for (site, offset, _) in &stores {
        let expected = match site {
            6 => 800..1200,
            7 => 0..1,
            _ => 192..193,
        };
        assert!(expected.contains(offset), "site {site} at {offset}");
    }
}

#[test]
fn the_program_sees_its_own_handlers() {
    let recording = recorded("faces");
    let sites = recording.run().sites(StoreKind::Plain);
    assert_eq!(sites, [21, 21]);
}

#[test]
fn a_handler_on_a_small_stack_survives_a_stack_overflow() {
    let bench = Bench::new();
    let output = run(&bench, "overflow");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let recording = bench.recording();
    let run = recording.run();
    assert_eq!(run.stores(StoreKind::Plain)[0].0, 61);
    assert_eq!(run.end(), Some(("_exit", 3)));
}
