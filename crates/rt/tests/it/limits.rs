//! What cannot be recorded is said, and the target goes on.

use crate::support::{Bench, Link};
use crashpoint_abi::record::StoreKind;
use std::os::unix::process::CommandExt;
use std::process::Output;

fn many(bench: &Bench, environment: &[(&str, &str)], limit: Option<u64>) -> Output {
    let program = bench.compile("life.c", Link::Shared, &[]);
    let mut command = bench.command(&program);
    command.env("POOL", "pool").args(["many", "100000"]);
    command.envs(environment.iter().copied());
    if let Some(bytes) = limit {
        // SAFETY: between fork and exec, one system call.
        unsafe {
            command.pre_exec(move || {
                let limit = libc::rlimit {
                    rlim_cur: bytes,
                    rlim_max: bytes,
                };
                match libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            });
        }
    }
    command.output().unwrap()
}

fn expect_stop(bench: &Bench, output: &Output, count: std::ops::Range<usize>) {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(
        text.starts_with("crashpoint: recording of process"),
        "{text}"
    );
    let recording = bench.recording();
    let run = recording.run();
    let stream = &run.streams[&0];
    assert!(stream.limit_reached);
    assert_eq!(run.end(), Some(("exit", 0)));
    let stores = run.stores(StoreKind::Plain);
    assert!(count.contains(&stores.len()), "{}", stores.len());
    // What is there is a beginning of what happened.
    for (index, store) in stores.iter().skip(1).enumerate() {
        assert_eq!(store.2, (index as u64).to_le_bytes());
    }
}

#[test]
fn recording_stops_at_the_limit_of_bytes() {
    let bench = Bench::new();
    let output = many(&bench, &[("CRASHPOINT_LIMIT", "200000")], None);
    // Three windows are written, and the fourth is full.
    expect_stop(&bench, &output, 15_000..25_000);
}

#[test]
fn recording_stops_at_the_limit_of_file_size_without_a_signal() {
    let bench = Bench::new();
    let output = many(&bench, &[], Some(1 << 20));
    expect_stop(&bench, &output, 60_000..90_000);
}

#[test]
fn recording_stops_when_its_folder_is_gone() {
    let bench = Bench::new();
    let program = bench.compile("vanish.c", Link::Shared, &[]);
    let output = bench.command(&program).arg("pool").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(text.lines().count(), 1, "{text}");
    std::fs::rename(bench.path("gone"), bench.path("out")).unwrap();
    assert!(bench.recording().run().streams[&0].limit_reached);
}

#[test]
fn flow_ends_where_its_file_ends() {
    let bench = Bench::new();
    let program = bench.compile("flow.c", Link::Shared, &[]);
    let mut command = bench.command(&program);
    command
        .env("CRASHPOINT_LEVEL", "flow")
        .env("CRASHPOINT_LIMIT", "300000");
    let output = command.args(["pool", "1000000"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let recording = bench.recording();
    let stream = &recording.run().streams[&0];
    assert!(stream.limit_reached);
    let flow = stream.flow.as_ref().unwrap();
    assert!((200_000..=300_000).contains(&flow.len()), "{}", flow.len());
}

#[test]
fn an_impossible_recording_is_refused_at_the_start() {
    let bench = Bench::new();
    std::fs::write(bench.path("file"), "").unwrap();
    let file = bench.path("file");
    for (name, value, message) in [
        (
            "CRASHPOINT_LEVEL",
            "everything",
            "there are off, pm, flow and value",
        ),
        (
            "CRASHPOINT_LIMIT",
            "much",
            "CRASHPOINT_LIMIT is not a number",
        ),
        ("CRASHPOINT_OUT", file.to_str().unwrap(), "not a folder"),
        ("CRASHPOINT_OUT", "/nothing/here", "no such folder"),
    ] {
        let output = many(&bench, &[(name, value)], None);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains(message), "{text}");
    }
}

#[test]
fn a_folder_of_another_version_is_refused() {
    let bench = Bench::new();
    std::fs::create_dir_all(bench.path("out/trace")).unwrap();
    std::fs::write(bench.path("out/trace/order"), [7; 4096]).unwrap();
    let output = many(&bench, &[], None);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("another version"));
}
