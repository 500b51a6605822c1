//! Whatever claims to be a recording of files is refused, or read up to what is wrong with it: no
//! panic, and nothing that the first look did not allow.
//!
//! The input is a list of records: two bytes of length, then content. They are wrapped as a writer
//! would, so that the fuzzer need not guess checksums; with the first bit set it is taken as it is.
#![no_main]

use crashpoint_fuzz::wrap_records;
use crashpoint_trace::files::FileRecording;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&how, rest)) = input.split_first() else {
        return;
    };
    let (calls, symbols) = rest.split_at(rest.len() / 2);
    let (calls, symbols) = match how & 1 {
        0 => (wrap_records(rest), wrap_records(symbols)),
        _ => (calls.to_vec(), symbols.to_vec()),
    };
    let Ok(recording) = FileRecording::from_bytes(calls, symbols) else {
        return;
    };
    let mut count = 0;
    for call in recording.calls() {
        let _ = recording.frames(call.stack);
        count += 1;
    }
    assert_eq!(count, recording.count());
    for problem in recording.problems() {
        assert!(!problem.to_string().is_empty());
    }
});
