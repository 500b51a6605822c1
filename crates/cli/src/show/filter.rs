//! Which entries of a recording `crashpoint show` prints: one filter for both media.

use std::path::Path;
use std::{fmt, ops};

use clap::{Args, ValueEnum};
use crashpoint_explain::files::effects::Touched;
use crashpoint_trace::files::{Call, Effect, StackFrame, Through};
use crashpoint_trace::{Event, EventKind, PmPlace, Recording};

/// The kind of an entry. Some kinds exist in recordings of one medium only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A store to persistent memory, or to a mapped file
    Store,
    /// A load from persistent memory
    Load,
    /// A flush of a cache line
    Flush,
    /// A fence
    Fence,
    /// Assembly of unknown effect
    Opaque,
    /// A call of a function that is recorded
    Call,
    /// A return from such a function
    Return,
    /// Memory: synchronisation of threads. Files: fsync and the like
    Sync,
    /// A mapping is made
    Map,
    /// A mapping ends
    Unmap,
    /// A range is synchronised by msync
    Msync,
    /// A file or directory is created
    Create,
    /// A directory entry is added, removed, renamed or exchanged
    Name,
    /// Bytes are written to a file
    Write,
    /// The size or the extents of a file change
    Resize,
    /// A mode or an extended attribute changes
    Attribute,
    /// The last descriptor that was open for writing is closed
    Close,
    /// Something is printed or sent
    Output,
}

impl fmt::Display for Kind {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("no kind is skipped");
        to.write_str(value.get_name())
    }
}

impl Kind {
    pub fn of_event(event: &EventKind<'_>) -> Kind {
        match event {
            EventKind::Store { .. } | EventKind::Fill { .. } => Kind::Store,
            EventKind::Load { .. } => Kind::Load,
            EventKind::Flush { .. } => Kind::Flush,
            EventKind::Fence { .. } => Kind::Fence,
            EventKind::Opaque => Kind::Opaque,
            EventKind::Call { .. } => Kind::Call,
            EventKind::Return { .. } => Kind::Return,
            EventKind::Sync { .. } => Kind::Sync,
            EventKind::Map { .. } => Kind::Map,
            EventKind::Unmap { .. } => Kind::Unmap,
            EventKind::Msync { .. } => Kind::Msync,
        }
    }

    pub fn of_effect(effect: &Effect<'_>) -> Kind {
        match effect {
            Effect::New { .. } => Kind::Create,
            Effect::Link { .. }
            | Effect::Unlink { .. }
            | Effect::Rename { .. }
            | Effect::Exchange { .. } => Kind::Name,
            Effect::Write { through, .. } => match through {
                Through::Mapping => Kind::Store,
                Through::Cache | Through::Direct | Through::Copy => Kind::Write,
            },
            Effect::Resize { .. } | Effect::Allocate { .. } => Kind::Resize,
            Effect::SetXattr { .. } | Effect::SetMode { .. } => Kind::Attribute,
            Effect::Sync(_) => Kind::Sync,
            Effect::LastClose { .. } => Kind::Close,
            Effect::Output { .. } => Kind::Output,
        }
    }
}

/// A range of bytes, the end not included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Range {
    /// A range in the files whose path ends with this name.
    File {
        name: String,
        bytes: ops::Range<u64>,
    },
    /// A range of addresses in the program.
    Addresses(ops::Range<u64>),
}

/// Every byte of a file, and its names.
const WHOLE: ops::Range<u64> = 0..u64::MAX;

impl Range {
    pub fn parse(text: &str) -> Result<Range, String> {
        let help = || {
            "write FILE, FILE:OFFSET..OFFSET or ADDRESS..ADDRESS, such as pool:0x40..0x80"
                .to_owned()
        };
        let Some((front, end)) = text.rsplit_once("..") else {
            let has_number = text
                .rsplit_once(':')
                .is_some_and(|(_, last)| number(last).is_some());
            let is_file = !text.is_empty() && !has_number;
            let whole = || Range::File {
                name: text.to_owned(),
                bytes: WHOLE,
            };
            return is_file.then(whole).ok_or_else(help);
        };
        let (name, start) = match front.rsplit_once(':') {
            Some((name, start)) => (Some(name), start),
            None => (None, front),
        };
        let (start, end) = number(start).zip(number(end)).ok_or_else(help)?;
        if start >= end {
            return Err("the end must lie behind the start".into());
        }
        let bytes = start..end;
        match name {
            Some("") => Err(help()),
            Some(name) => Ok(Range::File {
                name: name.to_owned(),
                bytes,
            }),
            None => Ok(Range::Addresses(bytes)),
        }
    }

    fn touches_memory(&self, recording: &Recording, place: PmPlace, length: u64) -> bool {
        let (first, wanted) = match self {
            Range::File { name, bytes } => {
                if !ends_with(&recording.file(place.pm.file()).path, name) {
                    return false;
                }
                (place.pm.offset(), bytes)
            }
            Range::Addresses(addresses) => (place.address, addresses),
        };
        overlap(wanted, &(first..first.saturating_add(length.max(1))))
    }

    /// Whether an effect on a file touches the range. An effect on names alone touches no bytes.
    fn touches_file(&self, touched: &Touched) -> bool {
        match (self, touched) {
            (Range::Addresses(_), _) => false,
            (Range::File { .. }, Touched::Everything) => true,
            (Range::File { name, bytes }, Touched::Names(paths)) => {
                *bytes == WHOLE && paths.iter().any(|path| ends_with(Path::new(path), name))
            }
            (Range::File { name, bytes }, Touched::Bytes(path, touched)) => {
                ends_with(Path::new(path), name) && overlap(bytes, touched)
            }
        }
    }
}

fn ends_with(path: &Path, name: &str) -> bool {
    path.ends_with(name) || path.to_string_lossy().ends_with(name)
}

fn overlap(one: &ops::Range<u64>, other: &ops::Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

fn number(text: &str) -> Option<u64> {
    let text = text.replace('_', "");
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Where an event touches memory, and how many bytes.
pub fn place(event: &EventKind<'_>) -> Option<(PmPlace, u64)> {
    Some(match *event {
        EventKind::Store { place, bytes, .. } => (place, bytes.len() as u64),
        EventKind::Fill { place, length, .. }
        | EventKind::Map { place, length, .. }
        | EventKind::Unmap { place, length }
        | EventKind::Msync { place, length } => (place, length),
        EventKind::Load { place, size } => (place, u64::from(size)),
        EventKind::Flush { place, .. } => {
            let into = place.pm.offset() - place.pm.line().offset();
            let line = PmPlace {
                address: place.address - into,
                pm: place.pm.line(),
            };
            (line, crashpoint_abi::CACHE_LINE_BYTES)
        }
        EventKind::Fence { .. }
        | EventKind::Opaque
        | EventKind::Call { .. }
        | EventKind::Return { .. }
        | EventKind::Sync { .. } => return None,
    })
}

/// Which entries are shown. All conditions must hold; an empty one lets everything pass.
#[derive(Clone, Debug, Default, Args)]
pub struct Filter {
    /// Only entries of this kind; may be repeated
    #[arg(
        long = "kind",
        value_name = "KIND",
        value_enum,
        hide_possible_values = true
    )]
    pub kinds: Vec<Kind>,
    /// Only entries in this function, or in a function that it called; may be repeated
    #[arg(long = "function", value_name = "NAME")]
    pub functions: Vec<String>,
    /// Only entries that touch this file or range
    #[arg(long, value_name = "RANGE", value_parser = Range::parse)]
    pub range: Option<Range>,
    /// Only this thread, by its number in the recording; may be repeated
    #[arg(long = "thread", value_name = "N")]
    pub threads: Vec<u32>,
}

impl Filter {
    /// Whether an event passes; `functions` need its call stack and are left to the caller.
    pub fn passes_event(&self, recording: &Recording, event: &Event<'_>) -> bool {
        (self.threads.is_empty() || self.threads.contains(&event.thread.0))
            && (self.kinds.is_empty() || self.kinds.contains(&Kind::of_event(&event.kind)))
            && self.range.as_ref().is_none_or(|range| {
                place(&event.kind)
                    .is_some_and(|(place, length)| range.touches_memory(recording, place, length))
            })
    }

    /// Whether a call passes: one of its effects is of the kind, one touches the range, and one of
    /// the functions is on its stack.
    pub fn passes_call(&self, call: &Call<'_>, touched: &[Touched], frames: &[StackFrame]) -> bool {
        let mut effects = call.effects.iter();
        (self.threads.is_empty() || self.threads.contains(&call.thread))
            && (self.kinds.is_empty()
                || effects.any(|effect| self.kinds.contains(&Kind::of_effect(effect))))
            && self
                .range
                .as_ref()
                .is_none_or(|range| touched.iter().any(|touched| range.touches_file(touched)))
            && (self.functions.is_empty()
                || frames
                    .iter()
                    .any(|frame| named(&frame.function, &self.functions)))
    }
}

/// Whether a function has one of the names, as a whole or as its last part in C++.
pub fn named(function: &str, wanted: &[String]) -> bool {
    let last = function.rsplit("::").next().unwrap_or_default();
    wanted
        .iter()
        .any(|wanted| wanted == function || wanted == last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_name_a_file_or_addresses() {
        let file = Range::File {
            name: "pool".into(),
            bytes: 0x40..128,
        };
        assert_eq!(Range::parse("pool:0x40..128"), Ok(file));
        let addresses = Range::Addresses(0x1000_0000..0x1000_0040);
        assert_eq!(Range::parse("0x1000_0000..0x10000040"), Ok(addresses));
        let whole = Range::File {
            name: "data/log".into(),
            bytes: WHOLE,
        };
        assert_eq!(Range::parse("data/log"), Ok(whole));
        for wrong in ["", "1..", "pool:1", ":1..2", "5..5", "6..5", "x..y"] {
            assert!(Range::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_are_touched_by_whole_files_only() {
        let log = Range::parse("log").unwrap();
        let part = Range::parse("log:10..20").unwrap();
        let names = Touched::Names(vec!["d/new".to_owned(), "d/log".to_owned()]);
        assert!(log.touches_file(&names) && !part.touches_file(&names));
        let bytes = |range| Touched::Bytes("d/log".to_owned(), range);
        assert!(log.touches_file(&bytes(0..5)) && !part.touches_file(&bytes(0..10)));
        assert!(part.touches_file(&bytes(19..40)) && !part.touches_file(&bytes(20..40)));
        assert!(part.touches_file(&Touched::Everything));
        let other = Touched::Bytes("d/other".to_owned(), 0..100);
        assert!(!log.touches_file(&other));
    }

    #[test]
    fn functions_are_known_by_their_last_name_too() {
        let wanted = ["put".to_owned(), "tree::get".to_owned()];
        assert!(named("put", &wanted));
        assert!(named("hash::put", &wanted));
        assert!(named("tree::get", &wanted));
        assert!(!named("other::get", &wanted));
        assert!(!named("", &wanted));
    }
}
