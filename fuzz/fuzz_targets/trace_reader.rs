//! Whatever stands in the files of a recording, the reader neither panics nor hangs, and what it
//! reads is in order.
//!
//! The input is cut at each byte 0xf5, which no text and few records contain, into the description
//! of the process and the records of two PM streams and a flow stream. Headers are made to fit:
//! they are exercised by the first byte, which damages one of their fields.
#![no_main]

use crashpoint_fuzz::{Shape, files};
use crashpoint_trace::writer::from_files;
use crashpoint_trace::{Recording, ThreadIndex};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&damage, rest)) = input.split_first() else {
        return;
    };
    let mut parts = rest.split(|byte| *byte == 0xf5);
    let mut part = || parts.next().unwrap_or_default();
    let shape = Shape {
        meta: part(),
        streams: [part(), part()],
        flow: part(),
        damage,
    };
    if let Ok(recording) = from_files(files(&shape)) {
        read(&recording);
    }
});

fn read(recording: &Recording) {
    let mut last = 0;
    let mut events = recording.events();
    for event in &mut events {
        assert!(event.order >= last, "events come in order");
        last = event.order;
        assert!(event.site.index() < recording.site_count());
        assert!(event.context.index() < recording.context_count());
        assert!(event.thread.index() < recording.threads().len());
        recording.locate(event.site);
    }
    for problem in recording.problems().iter().chain(events.problems()) {
        assert!(!problem.to_string().is_empty());
    }
    for index in 0..recording.context_count() as u32 {
        recording.stack(crashpoint_trace::ContextId(index));
    }
    for thread in 0..recording.threads().len() as u32 {
        if let Some(mut flow) = recording.flow(ThreadIndex(thread)) {
            flow.by_ref().for_each(drop);
            flow.problem();
        }
    }
}
