//! What ordinary programs report.

mod support;

use support::{check, check_with};

#[test]
fn stores_flushes_and_fences_are_reported_in_order() {
    let events = check("basic.c", &[]);
    for event in &events {
        println!("{event}");
    }
}
#[test]
fn control() {
    let events = check("control.c", &[]);
    for event in &events {
        println!("{event}");
    }
}
#[test]
fn memory() {
    let events = check("memory.c", &[]);
    for event in &events {
        println!("{event}");
    }
}
#[test]
fn assembly() {
    let events = check("assembly.c", &[]);
    for event in &events {
        println!("{event}");
    }
}
#[test]
fn threads() {
    let events = check_with("threads.c", &[], &[("STUB_WATCH", "log_range,by_memory")]);
    for event in &events {
        println!("{event}");
    }
}
#[test]
fn cpp() {
    let events = check("cpp.cpp", &[]);
    for event in &events {
        println!("{event}");
    }
}
