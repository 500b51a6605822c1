//! Must fail within seconds: if it does not, the fuzzers are not looking.
#![no_main]

use crashpoint_fuzz::{Shape, files};
use crashpoint_trace::EventKind;
use crashpoint_trace::writer::from_files;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let shape = Shape {
        meta: b"",
        streams: [input, b""],
        flow: b"",
        damage: 0,
    };
    if let Ok(recording) = from_files(files(&shape)) {
        let fence =
            |event: crashpoint_trace::Event<'_>| matches!(event.kind, EventKind::Fence { .. });
        assert!(!recording.events().any(fence), "the canary sings");
    }
});
