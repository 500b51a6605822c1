//! Writes that do not stop the program are recorded as those that do.

use crate::support::{compile, effect, scratch, syscallbuf, watch_with};
use crashpoint_trace::files::{FileRecording, ProgramEnd};
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// Each call with its effects and its stack, as text.
fn told(recording: &FileRecording) -> Vec<String> {
    let told = recording.calls().map(|call| {
        let effects: Vec<_> = call.effects.iter().map(effect).collect();
        let frames = recording.frames(call.stack);
        format!(
            "{} {} {} {effects:?} {frames:?}",
            call.process, call.thread, call.text
        )
    });
    told.collect()
}

fn record(program: &str, library: Option<&Path>) -> (FileRecording, ProgramEnd) {
    let scratch = scratch();
    let binary = compile(Path::new(env!("CARGO_TARGET_TMPDIR")), program);
    let command: [OsString; 1] = [binary.into()];
    let watched = watch_with(scratch.path(), &command, Duration::from_secs(60), library);
    let (recorded, recording) = watched.unwrap_or_else(|error| panic!("{error}"));
    crate::replay::check(&recording, &scratch.path().join("data"));
    (recording, recorded.ended)
}

#[test]
fn a_recording_is_the_same_whether_writes_stop_or_not() {
    let (stopped, ended) = record("streak", None);
    let (passed, also_ended) = record("streak", Some(&syscallbuf()));
    assert_eq!(
        (ended, also_ended),
        (ProgramEnd::Exited(0), ProgramEnd::Exited(0)),
        "{:#?}",
        told(&passed)
    );
    let (stopped, passed) = (told(&stopped), told(&passed));
    for (stopped, passed) in stopped.iter().zip(&passed) {
        assert_eq!(stopped, passed);
    }
    assert_eq!(stopped.len(), passed.len());
}

#[test]
fn writes_that_interrupt_writes_are_recorded_in_their_order() {
    // What is recorded is replayed and compared with what is there.
    let (_, ended) = record("interrupted", Some(&syscallbuf()));
    assert_eq!(ended, ProgramEnd::Killed { signal: 9 });
}
