//! What a system call did, in one line, and which files it touched.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops;

use crashpoint_trace::files::{
    Before, Effect, InodeId, InodeKind, Slot, Stream, SyncKind, Through,
};

/// What an effect touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Touched {
    /// Directory entries or attributes: the paths that they have before or afterwards.
    Names(Vec<String>),
    /// Bytes of the file at a path.
    Bytes(String, ops::Range<u64>),
    /// All files.
    Everything,
}

/// The names of inodes, as the recording goes on.
pub struct Names(HashMap<InodeId, (InodeId, Vec<u8>)>);

impl Names {
    pub fn new(before: &Before<'_>) -> Names {
        let entry =
            |(slot, inode): &(Slot<'_>, InodeId)| (*inode, (slot.directory, slot.name.to_vec()));
        Names(before.entries.iter().map(entry).collect())
    }

    fn set(&mut self, inode: InodeId, slot: &Slot<'_>) {
        self.0.insert(inode, (slot.directory, slot.name.to_vec()));
    }

    fn path(&self, inode: InodeId) -> String {
        match self.0.get(&inode) {
            // A directory never lies below itself, but what is read may be wrong.
            _ if inode == InodeId::ROOT => ".".to_owned(),
            Some((directory, name)) => self.slot_path(*directory, name),
            None => format!("a file without a name ({})", inode.0),
        }
    }

    fn slot_path(&self, directory: InodeId, name: &[u8]) -> String {
        let mut path = String::from_utf8_lossy(name).into_owned();
        let mut at = directory;
        for _ in 0..256 {
            match self.0.get(&at) {
                Some((parent, name)) if at != InodeId::ROOT => {
                    path = format!("{}/{path}", String::from_utf8_lossy(name));
                    at = *parent;
                }
                _ => break,
            }
        }
        path
    }

    fn slot(&self, slot: &Slot<'_>) -> String {
        self.slot_path(slot.directory, slot.name)
    }

    /// What an effect touches, with the names as they are once it happened.
    pub fn touched(&self, effect: &Effect<'_>) -> Touched {
        let bytes = |inode: &InodeId, offset: u64, length: u64| {
            Touched::Bytes(self.path(*inode), offset..offset.saturating_add(length))
        };
        match effect {
            Effect::New { inode, .. }
            | Effect::SetXattr { inode, .. }
            | Effect::SetMode { inode, .. }
            | Effect::LastClose { inode } => Touched::Names(vec![self.path(*inode)]),
            Effect::Link { slot, .. } | Effect::Unlink { slot, .. } => {
                Touched::Names(vec![self.slot(slot)])
            }
            Effect::Rename { from, to, .. } => Touched::Names(vec![self.slot(from), self.slot(to)]),
            Effect::Exchange { first, second, .. } => {
                Touched::Names(vec![self.slot(first), self.slot(second)])
            }
            Effect::Write {
                inode,
                offset,
                bytes: written,
                ..
            } => bytes(inode, *offset, written.len() as u64),
            Effect::Resize { inode, from, to } => bytes(inode, *from.min(to), from.abs_diff(*to)),
            Effect::Allocate {
                inode,
                offset,
                length,
                ..
            } => bytes(inode, *offset, *length),
            Effect::Sync(kind) => match kind {
                SyncKind::Full(inode) | SyncKind::Data(inode) => bytes(inode, 0, u64::MAX),
                SyncKind::DataRange {
                    inode,
                    offset,
                    length,
                }
                | SyncKind::FullRange {
                    inode,
                    offset,
                    length,
                }
                | SyncKind::WriteOut {
                    inode,
                    offset,
                    length,
                } => bytes(inode, *offset, *length),
                SyncKind::Everything => Touched::Everything,
            },
            Effect::Output { .. } => Touched::Names(Vec::new()),
        }
    }

    /// An effect in words, with the names as they are once it happened.
    pub fn tell(&mut self, effect: &Effect<'_>) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(effect, &mut text);
        text
    }

    fn write(&mut self, effect: &Effect<'_>, to: &mut String) -> std::fmt::Result {
        match effect {
            Effect::New { inode, kind, mode } => match kind {
                InodeKind::File => write!(to, "new file {}, mode {mode:o}", inode.0),
                InodeKind::Directory => write!(to, "new directory {}, mode {mode:o}", inode.0),
                InodeKind::Symlink { target } => {
                    write!(
                        to,
                        "new link {} to {}",
                        inode.0,
                        String::from_utf8_lossy(target)
                    )
                }
                InodeKind::Other => write!(to, "new special file {}", inode.0),
            },
            Effect::Link { slot, inode } => {
                self.set(*inode, slot);
                write!(to, "name {} for {}", self.slot(slot), inode.0)
            }
            Effect::Unlink { slot, inode } => {
                write!(to, "no name {} for {}", self.slot(slot), inode.0)
            }
            Effect::Rename {
                from,
                to: slot,
                inode,
                victim,
            } => {
                let from = self.slot(from);
                self.set(*inode, slot);
                write!(to, "{from} becomes {} ({})", self.slot(slot), inode.0)?;
                match victim {
                    Some(victim) => write!(to, " in place of {}", victim.0),
                    None => Ok(()),
                }
            }
            Effect::Exchange {
                first,
                first_inode,
                second,
                second_inode,
            } => {
                self.set(*first_inode, second);
                self.set(*second_inode, first);
                write!(
                    to,
                    "{} and {} change places",
                    self.slot(first),
                    self.slot(second)
                )
            }
            Effect::Write {
                inode,
                offset,
                bytes,
                through,
            } => {
                let way = match through {
                    Through::Cache => "",
                    Through::Direct => ", direct",
                    Through::Mapping => ", through a mapping",
                    Through::Copy => ", copied",
                };
                let end = offset + bytes.len() as u64;
                write!(
                    to,
                    "{} [{offset}..{end}]{way}: {}",
                    self.path(*inode),
                    preview(bytes)
                )
            }
            Effect::Resize {
                inode,
                from,
                to: size,
            } => {
                write!(to, "{} from {from} to {size} bytes", self.path(*inode))
            }
            Effect::Allocate {
                inode,
                offset,
                length,
                what,
            } => {
                let end = offset.saturating_add(*length);
                write!(to, "{} [{offset}..{end}] {what:?}", self.path(*inode))
            }
            Effect::SetXattr { inode, name, value } => {
                let name = String::from_utf8_lossy(name);
                match value {
                    Some(value) => {
                        write!(to, "{} has {name} = {}", self.path(*inode), preview(value))
                    }
                    None => write!(to, "{} has no {name}", self.path(*inode)),
                }
            }
            Effect::SetMode { inode, mode } => {
                write!(to, "{} has mode {mode:o}", self.path(*inode))
            }
            Effect::Sync(kind) => to.write_str(&self.sync(kind)),
            Effect::LastClose { inode } => {
                write!(to, "{} is open for writing no more", self.path(*inode))
            }
            Effect::Output { stream, bytes } => {
                let stream = match stream {
                    Stream::Stdout => "stdout",
                    Stream::Stderr => "stderr",
                    Stream::Socket => "socket",
                };
                write!(to, "{stream}: {}", preview(bytes))
            }
        }
    }

    fn sync(&self, kind: &SyncKind) -> String {
        let range = |inode: &InodeId, offset: &u64, length: &u64| {
            let end = match offset.saturating_add(*length) {
                u64::MAX => String::new(),
                end => end.to_string(),
            };
            format!("{} [{offset}..{end}]", self.path(*inode))
        };
        match kind {
            SyncKind::Full(inode) => format!("{} is durable", self.path(*inode)),
            SyncKind::Data(inode) => format!("data of {} is durable", self.path(*inode)),
            SyncKind::DataRange {
                inode,
                offset,
                length,
            } => {
                format!("data of {} is durable", range(inode, offset, length))
            }
            SyncKind::FullRange {
                inode,
                offset,
                length,
            } => {
                format!("{} is durable", range(inode, offset, length))
            }
            SyncKind::WriteOut {
                inode,
                offset,
                length,
            } => {
                format!(
                    "{} is on its way, with no promise",
                    range(inode, offset, length)
                )
            }
            SyncKind::Everything => "everything is durable".to_owned(),
        }
    }
}

/// The beginning of some bytes, as text where it is any.
fn preview(bytes: &[u8]) -> String {
    const SHOWN: usize = 40;
    let shown = &bytes[..bytes.len().min(SHOWN)];
    let more = if bytes.len() > SHOWN { "…" } else { "" };
    format!("\"{}\"{more}", shown.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_are_told_with_names() {
        let root = InodeId::ROOT;
        let file = InodeId(1);
        let tmp = Slot {
            directory: root,
            name: b"a.tmp",
        };
        let done = Slot {
            directory: root,
            name: b"a",
        };
        let mut names = Names::new(&Before::default());
        let linked = Effect::Link {
            slot: tmp,
            inode: file,
        };
        assert_eq!(names.tell(&linked), "name a.tmp for 1");
        let rename = Effect::Rename {
            from: tmp,
            to: done,
            inode: file,
            victim: None,
        };
        assert_eq!(names.tell(&rename), "a.tmp becomes a (1)");
        let sync = Effect::Sync(SyncKind::Full(file));
        assert_eq!(names.tell(&sync), "a is durable");
        let root_sync = Effect::Sync(SyncKind::Full(root));
        assert_eq!(names.tell(&root_sync), ". is durable");
    }
}
