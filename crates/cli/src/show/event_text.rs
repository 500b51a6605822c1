//! One event in one line.

use std::fmt::Write as _;

use crashpoint_report::terminal::count;
use crashpoint_trace::{
    Event, EventKind, FenceKind, FlushKind, PmPlace, Recording, StoreKind, ThreadSync,
};

/// Bytes of a long value that are shown.
const SHOWN_BYTES: usize = 16;

/// Renders events of one recording.
pub struct EventText {
    /// The persistent files, as short as they can be told apart.
    files: Vec<String>,
}

impl EventText {
    pub fn new(recording: &Recording) -> EventText {
        let paths: Vec<String> = recording
            .files()
            .iter()
            .map(|file| file.path.display().to_string())
            .collect();
        let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let files = recording.files().iter().zip(&paths).map(|(file, path)| {
            let alone = paths
                .iter()
                .filter(|other| last(other) == last(path))
                .count()
                == 1;
            let mut name = if alone || file.private {
                last(path)
            } else {
                path.clone()
            };
            if file.private {
                name.push_str("(private)");
            }
            name
        });
        EventText {
            files: files.collect(),
        }
    }

    fn place(&self, place: PmPlace) -> String {
        format!(
            "{}+{:#x}",
            self.files[place.pm.file().index()],
            place.pm.offset()
        )
    }

    /// One event as a line, with a newline at the end.
    pub fn line(&self, event: &Event<'_>, callee: Option<&str>, source: &str) -> String {
        let what = self.what(&event.kind, callee);
        let head = format!("{:>10} t{:<3} {what}", event.order, event.thread.0);
        match source {
            "" => format!("{head}\n"),
            source => format!("{head:<72} {source}\n"),
        }
    }

    fn what(&self, kind: &EventKind<'_>, callee: Option<&str>) -> String {
        match *kind {
            EventKind::Store { kind, place, bytes } => {
                format!(
                    "{} {} = {}",
                    store_name(kind),
                    self.place(place),
                    value(bytes)
                )
            }
            EventKind::Fill {
                kind,
                place,
                length,
                byte,
            } => format!(
                "{} {} = {} of {byte:#04x}",
                store_name(kind),
                self.place(place),
                count(length, "byte")
            ),
            EventKind::Load { place, size } => {
                format!(
                    "load {} ({})",
                    self.place(place),
                    count(u64::from(size), "byte")
                )
            }
            EventKind::Flush { kind, place } => {
                let name = match kind {
                    FlushKind::Clflush => "clflush",
                    FlushKind::Clflushopt => "clflushopt",
                    FlushKind::Clwb => "clwb",
                };
                format!("{name} {}", self.place(place))
            }
            EventKind::Fence { kind } => match kind {
                FenceKind::Sfence => "sfence",
                FenceKind::Mfence => "mfence",
                FenceKind::Locked => "fence by a locked instruction",
            }
            .to_owned(),
            EventKind::Opaque => "assembly of unknown effect".to_owned(),
            EventKind::Call { arguments } => {
                let shown: Vec<String> =
                    arguments.iter().map(|word| format!("{word:#x}")).collect();
                format!("call {}({})", callee.unwrap_or("?"), shown.join(", "))
            }
            EventKind::Return { value } => {
                format!("return from {} = {value:#x}", callee.unwrap_or("?"))
            }
            EventKind::Sync { kind, object } => sync(kind, object),
            EventKind::Map {
                place,
                length,
                shared,
            } => {
                let how = if shared { "map" } else { "map private" };
                format!(
                    "{how} {} {} at {:#x}",
                    self.place(place),
                    size(length),
                    place.address
                )
            }
            EventKind::Unmap { place, length } => {
                format!("unmap {} {}", self.place(place), size(length))
            }
            EventKind::Msync { place, length } => {
                format!("msync {} {}", self.place(place), size(length))
            }
        }
    }
}

fn size(length: u64) -> String {
    format!("({})", crate::summary::bytes_text(length))
}

fn store_name(kind: StoreKind) -> &'static str {
    match kind {
        StoreKind::Plain => "store",
        StoreKind::NonTemporal => "store (non-temporal)",
        StoreKind::Atomic => "store (atomic)",
        StoreKind::Locked => "store (locked)",
        StoreKind::Memory => "store (memory function)",
        StoreKind::Assembly => "store (assembly)",
        StoreKind::Foreign => "store (by code without hooks, before here)",
    }
}

/// A number as the machine reads it, or the first bytes of something longer.
fn value(bytes: &[u8]) -> String {
    if let 1 | 2 | 4 | 8 = bytes.len() {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let width = 2 + 2 * bytes.len();
        return format!("{:#0width$x}", u64::from_le_bytes(word));
    }
    let mut text = String::new();
    for byte in &bytes[..bytes.len().min(SHOWN_BYTES)] {
        let _ = write!(text, "{byte:02x}");
    }
    if bytes.len() > SHOWN_BYTES {
        text.push('…');
    }
    format!("{text} ({})", count(bytes.len() as u64, "byte"))
}

fn sync(kind: ThreadSync, object: u64) -> String {
    match kind {
        ThreadSync::Acquire => format!("acquire {object:#x}"),
        ThreadSync::Release => format!("release {object:#x}"),
        ThreadSync::Create => format!("create thread {object} of the process"),
        ThreadSync::Start => "thread starts".to_owned(),
        ThreadSync::Join => format!("join thread {object} of the process"),
        ThreadSync::Wait => format!("wait {object:#x}"),
        ThreadSync::Signal => format!("signal {object:#x}"),
        ThreadSync::Barrier => format!("barrier {object:#x}"),
        ThreadSync::Fork => format!("fork process {object}"),
        ThreadSync::ThreadExit => "thread ends".to_owned(),
        ThreadSync::ProcessExit => "process ends".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbers_or_bytes() {
        assert_eq!(value(&[7]), "0x07");
        assert_eq!(value(&[1, 2, 0, 0]), "0x00000201");
        assert_eq!(value(&[0xff; 8]), "0xffffffffffffffff");
        assert_eq!(value(&[1, 2, 3]), "010203 (3 bytes)");
        assert_eq!(
            value(&[0xab; 20]),
            format!("{}… (20 bytes)", "ab".repeat(16))
        );
    }
}
