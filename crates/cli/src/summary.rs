//! What a recording amounts to, for people; and if it is nothing, why.

use std::path::Path;

use crashpoint_abi::Level;
use crashpoint_report::terminal::count;
use crashpoint_trace::{Recording, StoreKind};

use crashpoint_campaign::supervise::{End, Ended};

/// What is known about the run besides the recording.
pub struct Facts<'a> {
    pub pm: &'a [String],
    pub level: Level,
    pub ended: Ended,
    pub out: &'a Path,
}

#[derive(Debug, Default)]
pub struct Told {
    pub lines: Vec<String>,
    pub warnings: Vec<String>,
    pub something_recorded: bool,
}

pub fn tell(facts: &Facts<'_>, recording: Option<&Recording>) -> Told {
    let mut told = Told::default();
    told.lines.push(format!("the program {}", facts.ended.end));
    if facts.ended.still_running > 0 {
        told.warnings.push(format!(
            "{} that the program started still run; what they do from now on is missing here",
            count(facts.ended.still_running as u64, "process")
        ));
    }
    let Some(recording) = recording else {
        told.warnings.extend(nothing_ran(facts));
        return told;
    };
    told.lines.extend(counts(facts, recording));
    let problems = recording.problems().iter();
    told.warnings.extend(problems.map(ToString::to_string));
    told.warnings.extend(foreign_writes(recording));
    match why_nothing(facts, recording) {
        Some(reason) => told.warnings.push(reason),
        None => told.something_recorded = true,
    }
    told
}

const NOT_INSTRUMENTED: &str = "nothing was recorded: no part of the program was built with \
crashpoint-cc or crashpoint-c++. Build it with CC=crashpoint-cc CXX=crashpoint-c++ and record \
again. (A static program must be linked by them too; programs with special privileges cannot be \
recorded.)";

fn nothing_ran(facts: &Facts<'_>) -> Option<String> {
    let failed_early = matches!(facts.ended.end, End::Exited(126 | 127));
    (facts.level != Level::Off).then(|| {
        if failed_early {
            "nothing was recorded: the command could not be run".to_owned()
        } else {
            NOT_INSTRUMENTED.to_owned()
        }
    })
}

fn counts(facts: &Facts<'_>, recording: &Recording) -> Vec<String> {
    let statistics = recording.statistics();
    let mut lines = vec![format!(
        "recorded {}: {} ({}, {}, {}) of {} in {}",
        facts.out.display(),
        count(statistics.events(), "event"),
        count(statistics.stores + statistics.fills, "store"),
        count(statistics.flushes, "flush"),
        count(statistics.fences, "fence"),
        count(recording.threads().len() as u64, "thread"),
        count(recording.processes().len() as u64, "process"),
    )];
    let bytes = statistics.pm_bytes + statistics.flow_bytes;
    let per_store = statistics.bytes_per_store();
    let per_store = per_store.map_or(String::new(), |b| format!(", {b:.1} bytes per store"));
    lines.push(format!("{} of records{per_store}", bytes_text(bytes)));
    for file in recording.files().iter().filter(|file| !file.private) {
        lines.push(format!(
            "persistent memory: {} ({})",
            file.path.display(),
            bytes_text(file.size_bytes)
        ));
    }
    lines
}

/// Writes by code that is not instrumented, by file.
fn foreign_writes(recording: &Recording) -> Vec<String> {
    let mut by_file = vec![(0u64, 0u64); recording.files().len()];
    for event in recording.events() {
        let Some(write) = event.kind.as_write() else {
            continue;
        };
        if write.kind == StoreKind::Foreign {
            let entry = &mut by_file[write.place.pm.file().index()];
            entry.0 += 1;
            entry.1 += write.length;
        }
    }
    let written = recording
        .files()
        .iter()
        .zip(by_file)
        .filter(|(_, (writes, _))| *writes > 0);
    written
        .map(|(file, (writes, bytes))| {
            format!(
                "code that was not built with crashpoint-cc wrote {bytes} bytes of {} ({}): build \
                 that library with crashpoint-cc too, if it should be judged; `crashpoint show \
                 --kind store` tells where",
                file.path.display(),
                count(writes, "write"),
            )
        })
        .collect()
}

/// Why there is nothing to analyse, and what to do.
fn why_nothing(facts: &Facts<'_>, recording: &Recording) -> Option<String> {
    let statistics = recording.statistics();
    let instrumented = recording
        .processes()
        .iter()
        .any(|process| !process.modules.is_empty());
    if facts.level == Level::Off {
        return None;
    }
    if !instrumented {
        return Some(NOT_INSTRUMENTED.to_owned());
    }
    if statistics.maps == 0 {
        let patterns = match facts.pm {
            [] => "no --pm was given, so that only mappings made with MAP_SYNC count".to_owned(),
            patterns => format!(
                "none of its mapped files fits --pm {}",
                patterns.join(" --pm ")
            ),
        };
        return Some(format!(
            "nothing was recorded: the program mapped no persistent memory; {patterns}. Name the \
             file that it maps, such as --pm '/dev/shm/pool*'"
        ));
    }
    let touched = statistics.stores + statistics.fills + statistics.flushes;
    (touched == 0).then(|| {
        "persistent memory was mapped, but no instrumented code stored to it or flushed it. Is the \
         library that does built with crashpoint-cc?"
            .to_owned()
    })
}

/// `1.5 MiB`.
pub fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return count(bytes, "byte");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_with_units() {
        assert_eq!(bytes_text(1), "1 byte");
        assert_eq!(bytes_text(1023), "1,023 bytes");
        assert_eq!(bytes_text(1536), "1.5 KiB");
        assert_eq!(bytes_text(1 << 30), "1.0 GiB");
        assert_eq!(bytes_text(u64::MAX), "16777216.0 TiB");
    }
}
