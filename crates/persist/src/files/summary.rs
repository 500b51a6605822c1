//! Trees as short texts, for expectations and for people.

use super::STALE_BYTE;
use super::content::{ByteSource, Content};
use super::tree::{Object, Tree};
use crashpoint_trace::files::{InodeId, InodeKind};
use rustc_hash::FxHashMap;
use std::fmt::Write;

/// Modes that go without saying.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

impl Tree<'_> {
    /// The tree in one line, its entries by path: `d/ f=A*4096,0*100 g=>f s->target`. Runs of equal
    /// bytes are counted; `0` is a zero byte and `?` one that nobody knows. A second name of a file
    /// shows its first one. Modes other than 644, and 755 of directories, and extended attributes
    /// stand behind the name: `f:600{user.k=v}=A*3`. An empty tree is `-`.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        if let Some(root) = self.root() {
            let about = attributes(root);
            if !about.is_empty() {
                write!(text, ".{about}").expect("a string takes all");
            }
        }
        let mut first: FxHashMap<InodeId, &[u8]> = FxHashMap::default();
        for (path, inode, object) in self.entries() {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(&String::from_utf8_lossy(path));
            if object.kind == InodeKind::Directory {
                text.push('/');
                text.push_str(&attributes(object));
                continue;
            }
            if let Some(other) = first.insert(inode, path) {
                write!(text, "=>{}", String::from_utf8_lossy(other)).expect("a string takes all");
                first.insert(inode, other);
                continue;
            }
            text.push_str(&attributes(object));
            match object.kind {
                InodeKind::Symlink { target } => {
                    write!(text, "->{}", String::from_utf8_lossy(target))
                        .expect("a string takes all");
                }
                InodeKind::Other => text.push('!'),
                InodeKind::File | InodeKind::Directory => {
                    text.push('=');
                    text.push_str(&object.content.summary());
                }
            }
        }
        if text.is_empty() {
            "-".to_owned()
        } else {
            text
        }
    }
}

fn attributes(object: &Object<'_>) -> String {
    let usual = match object.kind {
        InodeKind::File | InodeKind::Other => FILE_MODE,
        InodeKind::Directory => DIRECTORY_MODE,
        InodeKind::Symlink { .. } => object.mode,
    };
    let mode = object.mode & 0o7777;
    let xattrs = object.xattrs.iter().map(|(name, value)| (*name, *value));
    attributes_text((mode != usual & 0o7777).then_some(mode), xattrs)
}

/// A mode that is not the usual one, and extended attributes, as summaries have them.
pub(super) fn attributes_text<'x>(
    mode: Option<u32>,
    xattrs: impl Iterator<Item = (&'x [u8], &'x [u8])>,
) -> String {
    let mode = mode.map(|mode| format!(":{mode:o}")).unwrap_or_default();
    let lossy = String::from_utf8_lossy;
    let xattrs = xattrs.map(|(name, value)| format!("{}={}", lossy(name), lossy(value)));
    let xattrs = xattrs.collect::<Vec<_>>().join(",");
    if xattrs.is_empty() {
        mode
    } else {
        format!("{mode}{{{xattrs}}}")
    }
}

/// How a byte is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Byte(u8),
    Unknown,
}

impl Content<'_> {
    /// Its bytes as runs of equal ones: `A*4096,0*100`.
    pub fn summary(&self) -> String {
        let mut runs: Vec<(Shown, u64)> = Vec::new();
        let mut add = |shown: Shown, length: u64| match runs.last_mut() {
            Some((last, count)) if *last == shown => *count += length,
            Some(_) | None if length != 0 => runs.push((shown, length)),
            Some(_) | None => {}
        };
        let mut next = 0;
        for extent in self.extents() {
            add(Shown::Byte(0), extent.offset - next);
            match extent.source {
                ByteSource::Bytes(bytes) => {
                    bytes.iter().for_each(|byte| add(Shown::Byte(*byte), 1))
                }
                ByteSource::Filler(STALE_BYTE) => add(Shown::Unknown, extent.length),
                ByteSource::Filler(byte) => add(Shown::Byte(byte), extent.length),
            }
            next = extent.end();
        }
        add(Shown::Byte(0), self.size() - next);
        let texts = runs.iter().map(|(shown, length)| match shown {
            Shown::Unknown => format!("?*{length}"),
            Shown::Byte(0) => format!("0*{length}"),
            Shown::Byte(byte) if byte.is_ascii_alphabetic() => {
                format!("{}*{length}", char::from(*byte))
            }
            Shown::Byte(byte) => format!("x{byte:02x}*{length}"),
        });
        texts.collect::<Vec<_>>().join(",")
    }
}
