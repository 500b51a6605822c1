//! What mapped files hold, as calls and stores go by.

use crate::files::{Allocation, Before, Effect, InodeId};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;

/// The bytes of all files that are ever mapped.
#[derive(Debug, Default)]
pub struct Contents {
    /// Also of files that are not there yet.
    files: FxHashMap<InodeId, Vec<u8>>,
    /// What the program stored since the last look.
    stored: FxHashMap<InodeId, Vec<Range<usize>>>,
}

impl Contents {
    pub fn new(before: &Before<'_>, shown: FxHashSet<InodeId>) -> Contents {
        let mut files: FxHashMap<_, _> = shown.into_iter().map(|id| (id, Vec::new())).collect();
        for initial in &before.inodes {
            if let Some(bytes) = files.get_mut(&initial.inode) {
                bytes.extend_from_slice(initial.bytes);
            }
        }
        Contents {
            files,
            stored: FxHashMap::default(),
        }
    }

    /// The length of the longest file.
    pub fn longest(&self) -> usize {
        self.files.values().map(Vec::len).max().unwrap_or(0)
    }

    /// The part of what is stored at an offset that lies in the file.
    pub fn within<'b>(&self, inode: InodeId, offset: u64, bytes: &'b [u8]) -> &'b [u8] {
        let length = self.files.get(&inode).map_or(0, Vec::len) as u64;
        let room = length.saturating_sub(offset).min(bytes.len() as u64);
        &bytes[..room as usize]
    }

    /// The program stored something in the file; false if that changes nothing.
    pub fn store(&mut self, inode: InodeId, offset: u64, bytes: &[u8]) -> bool {
        let Some(content) = self.files.get_mut(&inode) else {
            return false;
        };
        let range = offset as usize..offset as usize + bytes.len();
        let Some(there) = content.get_mut(range.clone()) else {
            return false;
        };
        self.stored.entry(inode).or_default().push(range);
        let changes = there != bytes;
        there.copy_from_slice(bytes);
        changes
    }

    pub fn forget_stored(&mut self) {
        self.stored.clear();
    }

    /// The part of a difference that stores do not explain. Where others may have stored while it
    /// was looked for, what was stored is believed.
    pub fn unexplained<'b>(&self, effect: Effect<'b>, races: bool) -> Option<Effect<'b>> {
        let Effect::Write {
            inode,
            offset,
            bytes,
            through,
        } = effect
        else {
            return Some(effect);
        };
        let content = self.files.get(&inode).map_or(&[][..], Vec::as_slice);
        let stored = if races {
            self.stored.get(&inode).map_or(&[][..], Vec::as_slice)
        } else {
            &[]
        };
        let differs = |at: &usize| {
            let place = offset as usize + at;
            content.get(place) != Some(&bytes[*at])
                && !stored.iter().any(|range| range.contains(&place))
        };
        let first = (0..bytes.len()).find(differs)?;
        let last = (0..bytes.len()).rev().find(differs)?;
        Some(Effect::Write {
            inode,
            offset: offset + first as u64,
            bytes: &bytes[first..=last],
            through,
        })
    }

    pub fn apply(&mut self, effect: &Effect<'_>) {
        match effect {
            Effect::Write {
                inode,
                offset,
                bytes,
                ..
            } => self.write(*inode, *offset as usize, bytes),
            Effect::Resize { inode, to, .. } => {
                if let Some(content) = self.files.get_mut(inode) {
                    content.resize(*to as usize, 0);
                }
            }
            Effect::Allocate {
                inode,
                offset,
                length,
                what,
            } => {
                if let Some(content) = self.files.get_mut(inode) {
                    allocate(content, *offset as usize, *length as usize, *what);
                }
            }
            other => assert!(!other.changes_data(), "what changes data is listed above"),
        }
    }

    fn write(&mut self, inode: InodeId, start: usize, bytes: &[u8]) {
        let Some(content) = self.files.get_mut(&inode) else {
            return;
        };
        let end = start + bytes.len();
        if content.len() < end {
            content.resize(end, 0);
        }
        content[start..end].copy_from_slice(bytes);
    }
}

fn allocate(content: &mut Vec<u8>, start: usize, length: usize, what: Allocation) {
    let end = start + length;
    match what {
        Allocation::ReserveKeepSize => {}
        Allocation::Reserve => content.resize(content.len().max(end), 0),
        Allocation::PunchHole | Allocation::ZeroKeepSize => {
            let end = end.min(content.len());
            content[start.min(end)..end].fill(0);
        }
        Allocation::Zero => {
            content.resize(content.len().max(end), 0);
            content[start..end].fill(0);
        }
        Allocation::Collapse => drop(content.drain(start..end.min(content.len()))),
        Allocation::Insert => {
            let zeros = std::iter::repeat_n(0, length);
            drop(content.splice(start..start, zeros));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Through;

    const FILE: InodeId = InodeId(1);

    fn holding(bytes: &[u8]) -> Contents {
        let mut contents = Contents::new(&Before::default(), [FILE].into_iter().collect());
        contents.apply(&difference(0, bytes));
        contents
    }

    fn difference(offset: u64, bytes: &[u8]) -> Effect<'_> {
        Effect::Write {
            inode: FILE,
            offset,
            bytes,
            through: Through::Mapping,
        }
    }

    #[test]
    fn a_difference_is_explained_by_stores_or_what_is_left_of_it_stays() {
        let mut contents = holding(b"........");
        assert!(contents.store(FILE, 1, b"ab"));
        assert!(!contents.store(FILE, 1, b"a"), "it changes nothing");
        let explained = contents.unexplained(difference(0, b".ab."), false);
        assert_eq!(explained, None);
        let rest = contents.unexplained(difference(0, b".ab.xy"), false);
        assert_eq!(rest, Some(difference(4, b"xy")));
    }

    #[test]
    fn what_was_stored_meanwhile_is_believed() {
        let mut contents = holding(b"....");
        assert!(contents.store(FILE, 0, b"1"));
        assert!(contents.store(FILE, 0, b"2"));
        let found = || difference(0, b"1..x");
        let alone = contents.unexplained(found(), false);
        assert_eq!(alone, Some(found()));
        let racing = contents.unexplained(found(), true);
        assert_eq!(racing, Some(difference(3, b"x")));
        contents.forget_stored();
        assert_eq!(contents.unexplained(found(), true), Some(found()));
    }

    #[test]
    fn stores_behind_the_end_are_nowhere() {
        let contents = holding(b"12345678");
        assert_eq!(contents.within(FILE, 6, b"abcd"), b"ab");
        assert_eq!(contents.within(FILE, 9, b"abcd"), b"");
        assert_eq!(contents.within(InodeId(2), 0, b"abcd"), b"");
    }

    #[test]
    fn content_follows_what_calls_do() {
        let mut contents = holding(b"12345678");
        let allocate = |what| Effect::Allocate {
            inode: FILE,
            offset: 2,
            length: 2,
            what,
        };
        let steps: [(Effect<'_>, &[u8]); 6] = [
            (allocate(Allocation::PunchHole), b"12\0\x005678"),
            (allocate(Allocation::Collapse), b"125678"),
            (allocate(Allocation::Insert), b"12\0\x005678"),
            (allocate(Allocation::ReserveKeepSize), b"12\0\x005678"),
            (
                Effect::Resize {
                    inode: FILE,
                    from: 8,
                    to: 3,
                },
                b"12\0",
            ),
            (allocate(Allocation::Zero), b"12\0\0"),
        ];
        for (step, expected) in steps {
            contents.apply(&step);
            assert_eq!(contents.files[&FILE], expected, "{step:?}");
        }
    }
}
