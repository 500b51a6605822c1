//! Each way in which a folder is not a recording has its own error, which says what to do.

use crashpoint_abi::layout::STREAM_MAGIC;
use crashpoint_trace::writer::{POOL_ADDRESS, RecordingBuilder, from_files};
use crashpoint_trace::{ExitCall, OpenError, OpenErrorKind, ProblemKind, ProcessEnd, Recording};
use std::path::Path;

fn sample() -> RecordingBuilder {
    let mut builder = RecordingBuilder::new();
    let thread = builder.pool("/dev/shm/pool", 1 << 20);
    builder.store(thread, 1, POOL_ADDRESS, &[1; 8]);
    builder
}

fn refused(change: impl Fn(&str, &mut Vec<u8>)) -> OpenError {
    let mut files = sample().files();
    for (name, bytes) in &mut files {
        change(name, bytes);
    }
    from_files(files).expect_err("it is refused")
}

#[test]
fn a_written_folder_opens() {
    let folder = tempfile::tempdir().unwrap();
    let mut builder = RecordingBuilder::new();
    let thread = builder.pool("/dev/shm/pool", 1 << 20);
    builder.store(thread, 1, POOL_ADDRESS, &[1; 8]);
    builder.end(builder.process_of(thread), ExitCall::Exit, 3);
    builder.write(folder.path()).unwrap();
    let recording = Recording::open(folder.path()).unwrap();
    assert_eq!(recording.problems(), &[]);
    assert_eq!(recording.events().count(), 2);
    let process = &recording.processes()[0];
    assert_eq!((process.name.as_str(), process.pid), ("p100-0", 100));
    let how = ExitCall::Exit;
    assert_eq!(process.end, ProcessEnd::Seen { how, code: 3 });
    assert_eq!(recording.files()[0].path, Path::new("/dev/shm/pool"));
    assert_eq!(recording.statistics().stores, 1);
}

#[test]
fn a_folder_that_does_not_exist_is_missing() {
    let error = Recording::open(Path::new("/nonexistent/crashpoint.out")).unwrap_err();
    assert!(matches!(error.kind, OpenErrorKind::Missing), "{error}");
    assert!(error.to_string().contains("crashpoint record"));
}

#[test]
fn any_other_folder_is_not_a_recording() {
    let folder = tempfile::tempdir().unwrap();
    let error = Recording::open(folder.path()).unwrap_err();
    assert!(
        matches!(error.kind, OpenErrorKind::NotARecording),
        "{error}"
    );
    let file = folder.path().join("file");
    std::fs::write(&file, "text").unwrap();
    let error = Recording::open(&file).unwrap_err();
    assert!(
        matches!(error.kind, OpenErrorKind::NotARecording),
        "{error}"
    );
}

#[test]
fn a_recording_of_nothing_is_empty() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("trace")).unwrap();
    let error = Recording::open(folder.path()).unwrap_err();
    assert!(matches!(error.kind, OpenErrorKind::Empty), "{error}");
    assert!(error.to_string().contains("crashpoint-cc"));
}

#[test]
fn a_foreign_file_is_refused() {
    for suffix in [".pm", "order"] {
        let error = refused(|name, bytes| {
            if name.ends_with(suffix) {
                bytes[..8].copy_from_slice(b"SQLite f");
            }
        });
        assert!(
            matches!(error.kind, OpenErrorKind::Foreign { .. }),
            "{error}"
        );
        assert!(error.path.to_string_lossy().ends_with(suffix));
    }
}

#[test]
fn a_newer_version_is_refused() {
    let error = refused(|name, bytes| {
        if name.ends_with(".pm") {
            bytes[8] = 99;
        }
    });
    assert!(
        matches!(
            error.kind,
            OpenErrorKind::Version {
                found: 99,
                offset: 8
            }
        ),
        "{error}"
    );
    let replace = |from: &'static str, to: &'static str| {
        refused(move |name, bytes| {
            if name.ends_with(".meta") {
                let text = String::from_utf8(bytes.clone()).unwrap();
                *bytes = text.replacen(from, to, 1).into_bytes();
            }
        })
    };
    // A newer runtime may describe processes in another way altogether.
    let error = replace("{\"crashpoint\":1,", "{\"crashpoint\":2,\"pid\":\"new\",");
    assert!(
        matches!(
            error.kind,
            OpenErrorKind::Version {
                found: 2,
                offset: 0
            }
        ),
        "{error}"
    );
    let error = replace("\"abi\":1,", "\"abi\":7,");
    assert!(
        matches!(error.kind, OpenErrorKind::Abi { found: 7 }),
        "{error}"
    );
    let error = replace("\"level\":\"pm\"", "\"level\":\"none\"");
    assert!(
        matches!(error.kind, OpenErrorKind::BadMeta { .. }),
        "{error}"
    );
}

#[test]
fn streams_without_their_process_are_refused() {
    let mut files = sample().files();
    files.retain(|(name, _)| !name.ends_with(".meta"));
    let error = from_files(files).expect_err("it is refused");
    assert!(
        matches!(error.kind, OpenErrorKind::MissingMeta { .. }),
        "{error}"
    );
    assert!(error.path.ends_with("p100-0.meta"));
}

#[test]
fn other_files_in_the_folder_are_named() {
    let folder = tempfile::tempdir().unwrap();
    sample().write(folder.path()).unwrap();
    std::fs::write(folder.path().join("trace/notes.txt"), "text").unwrap();
    let recording = Recording::open(folder.path()).unwrap();
    let [problem] = recording.problems() else {
        panic!("one problem");
    };
    assert_eq!(problem.kind, ProblemKind::Unexpected);
    assert!(problem.file.ends_with("trace/notes.txt"));
}

#[test]
fn a_renamed_stream_is_noticed() {
    let mut files = sample().files();
    for (name, _) in &mut files {
        *name = name.replace(".t0.", ".t4.");
    }
    let recording = from_files(files).unwrap();
    assert_eq!(recording.problems()[0].kind, ProblemKind::Mislabelled);
}

#[test]
fn a_stream_that_was_never_begun_is_noticed() {
    let mut files = sample().files();
    for (name, bytes) in &mut files {
        if name.ends_with(".pm") {
            bytes[..STREAM_MAGIC.len()].fill(0);
        }
    }
    let recording = from_files(files).unwrap();
    assert_eq!(recording.problems()[0].kind, ProblemKind::NoHeader);
    assert_eq!(recording.events().count(), 0);
}

#[test]
fn the_byte_limit_is_told() {
    let mut builder = RecordingBuilder::new();
    let thread = builder.pool("/dev/shm/pool", 4096);
    builder.limit_reached(thread);
    let recording = builder.build().unwrap();
    assert!(recording.threads()[0].limit_reached);
    assert_eq!(recording.problems()[0].kind, ProblemKind::LimitReached);
}
