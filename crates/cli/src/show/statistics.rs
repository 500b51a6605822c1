//! `crashpoint show --stats`: counts of a recording.

use std::fmt::Write as _;

use crashpoint_trace::{ProcessEnd, Recording};

use crate::summary::bytes_text;

pub fn text(recording: &Recording) -> String {
    let mut text = String::new();
    let statistics = recording.statistics();
    for (name, number) in [
        ("events", statistics.events()),
        ("  stores", statistics.stores),
        ("  fills", statistics.fills),
        ("  loads", statistics.loads),
        ("  flushes", statistics.flushes),
        ("  fences", statistics.fences),
        ("  opaque", statistics.opaques),
        ("  calls", statistics.calls),
        ("  returns", statistics.returns),
        ("  synchronisation", statistics.synchronisations),
        ("  maps", statistics.maps),
        ("  unmaps", statistics.unmaps),
        ("  msyncs", statistics.msyncs),
        ("call stacks", recording.context_count() as u64),
        ("bytes of pm records", statistics.pm_bytes),
        ("bytes of stored values", statistics.value_bytes),
        ("bytes of flow records", statistics.flow_bytes),
    ] {
        let _ = writeln!(text, "{name:<24}{number:>16}");
    }
    if let Some(bytes) = statistics.bytes_per_store() {
        let _ = writeln!(text, "{:<24}{bytes:>16.1}", "bytes per store");
    }
    for file in recording.files() {
        let private = if file.private { ", private" } else { "" };
        let _ = writeln!(
            text,
            "file {} ({}{private})",
            file.path.display(),
            bytes_text(file.size_bytes)
        );
    }
    for process in recording.processes() {
        let end = match &process.end {
            ProcessEnd::Seen { how, code } => format!("ended by {how}, {code}"),
            ProcessEnd::Unseen => "killed, or still running".to_owned(),
        };
        let _ = writeln!(
            text,
            "process {} {}: {}, {end}",
            process.name,
            process.executable.display(),
            process.level.name(),
        );
    }
    for (number, thread) in recording.threads().iter().enumerate() {
        let _ = writeln!(
            text,
            "thread {number}: thread {} of {}, {}",
            thread.number,
            recording.process(thread.process).name,
            bytes_text(thread.bytes)
        );
    }
    text
}
