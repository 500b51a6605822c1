//! Which events `crashpoint show` prints.

use clap::ValueEnum;
use crashpoint_trace::{Event, EventKind, PmPlace, Recording};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    Store,
    Load,
    Flush,
    Fence,
    Opaque,
    Call,
    Return,
    Sync,
    Map,
    Unmap,
    Msync,
}

impl Kind {
    pub fn of(event: &EventKind<'_>) -> Kind {
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
}

/// A range of bytes, the end not included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Range {
    /// Of the files whose path ends with this.
    File { name: String, start: u64, end: u64 },
    /// Of addresses in the program.
    Addresses { start: u64, end: u64 },
}

impl Range {
    pub fn parse(text: &str) -> Result<Range, String> {
        let help = || "write FILE:OFFSET..OFFSET or ADDRESS..ADDRESS, such as pool:0x40..0x80";
        let (front, end) = text.rsplit_once("..").ok_or_else(help)?;
        let (name, start) = match front.rsplit_once(':') {
            Some((name, start)) => (Some(name), start),
            None => (None, front),
        };
        let (start, end) = number(start).zip(number(end)).ok_or_else(help)?;
        if start >= end {
            return Err("the end must lie behind the start".into());
        }
        Ok(match name {
            Some("") => return Err(help().into()),
            Some(name) => Range::File {
                name: name.to_owned(),
                start,
                end,
            },
            None => Range::Addresses { start, end },
        })
    }

    fn touches(&self, recording: &Recording, place: PmPlace, length: u64) -> bool {
        let (first, from, until) = match self {
            Range::File { name, start, end } => {
                let path = &recording.file(place.pm.file()).path;
                let named = path.ends_with(name) || path.to_string_lossy().ends_with(name.as_str());
                if !named {
                    return false;
                }
                (place.pm.offset(), *start, *end)
            }
            Range::Addresses { start, end } => (place.address, *start, *end),
        };
        first < until && from < first.saturating_add(length.max(1))
    }
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

/// All conditions; an empty one lets everything pass.
pub struct Filter<'a> {
    pub threads: &'a [u32],
    pub kinds: &'a [Kind],
    pub range: Option<&'a Range>,
}

impl Filter<'_> {
    pub fn passes(&self, recording: &Recording, event: &Event<'_>) -> bool {
        (self.threads.is_empty() || self.threads.contains(&event.thread.0))
            && (self.kinds.is_empty() || self.kinds.contains(&Kind::of(&event.kind)))
            && self.range.is_none_or(|range| {
                place(&event.kind)
                    .is_some_and(|(place, length)| range.touches(recording, place, length))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_name_a_file_or_addresses() {
        let file = Range::File {
            name: "pool".into(),
            start: 0x40,
            end: 128,
        };
        assert_eq!(Range::parse("pool:0x40..128"), Ok(file));
        let addresses = Range::Addresses {
            start: 0x1000_0000,
            end: 0x1000_0040,
        };
        assert_eq!(Range::parse("0x1000_0000..0x10000040"), Ok(addresses));
        for wrong in ["", "1..", "pool:1", ":1..2", "5..5", "6..5", "x..y"] {
            assert!(Range::parse(wrong).is_err(), "{wrong}");
        }
    }
}
