//! What programs report, event by event, at every optimisation level alike.
//!
//! A line of an expected file is: kind of hook, function and line, fields, `<`, callers from the
//! outermost. Fields are offset, size, kind and value of a store; offset, length, kind and bytes of
//! a range; offset and size of a load; offset of an address that escapes; offset and kind of a
//! flush; kind of a fence and what waited for it; kind of a synchronisation. Kinds are the numbers
//! of `crashpoint_abi::record`.

mod support;

use support::{check, check_with, expect};

#[test]
fn stores_flushes_and_fences_are_reported_in_order() {
    expect("basic.events", &check("basic.c", &[]));
}

#[test]
fn loads_are_reported_where_they_are_asked_for() {
    let events = check_with("basic.c", &[], &[("STUB_LOADS", "1")]);
    expect("basic_loads.events", &events);
}

#[test]
fn what_is_read_by_other_means_than_loads_is_reported_with_them() {
    let events = check_with("reads.c", &[], &[("STUB_LOADS", "1")]);
    expect("reads.events", &events);
}

#[test]
fn control_that_is_no_plain_call_keeps_the_stack_right() {
    expect("control.events", &check("control.c", &[]));
}

#[test]
fn stores_of_every_kind_and_library_functions_are_reported() {
    expect("memory.events", &check("memory.c", &[]));
}

#[test]
fn inline_assembly_is_understood() {
    expect("assembly.events", &check("assembly.c", &[]));
}

#[test]
fn synchronisation_and_watched_calls_are_reported() {
    let watched = [("STUB_WATCH", "log_range,by_memory")];
    expect("threads.events", &check_with("threads.c", &[], &watched));
}

#[test]
fn exceptions_virtual_functions_and_templates_are_followed() {
    expect("cpp.events", &check("cpp.cpp", &[]));
}

#[test]
fn what_the_optimiser_would_remove_does_no_harm() {
    expect("optimised.events", &check("optimised.c", &["-Werror"]));
    check("optimised.c", &["-Werror", "-D_FORTIFY_SOURCE=2"]);
}
