//! Writes through shared mappings, found by comparison.
//!
//! Stores into a mapping make no system call. While a file of the folder is mapped shared and
//! writable, a copy of what it held is kept (its [`Shadow`]); whenever it matters, the file is read
//! and compared page by page, and what differs was written through a mapping since the last look.
//! What is written by calls is put into the shadow as it is recorded.
//!
//! *Misses* values that were overwritten between two looks, and the order of stores between them:
//! the model allows any of a page's bytes to be lost until they are synced.

use crate::inodes::Inodes;
use crashpoint_trace::files::InodeId;
use rustix::fd::OwnedFd;
use std::ops::Range;
use std::rc::Rc;

const PAGE_BYTES: usize = 4096;
/// How much is read at a time.
const STEP_BYTES: usize = 256 << 10;

/// Part of an address space that shows a file of the folder.
#[derive(Clone, Debug)]
pub struct FileMapping {
    pub addresses: Range<u64>,
    pub inode: InodeId,
    /// In the file, of the first byte.
    pub offset: u64,
    pub writable: bool,
    /// Ours, to read the file by.
    pub own: Rc<OwnedFd>,
}

/// The mappings of an address space.
#[derive(Clone, Debug, Default)]
pub struct Space {
    pub mappings: Vec<FileMapping>,
}

impl Space {
    pub fn touching(&self, addresses: &Range<u64>) -> impl Iterator<Item = &FileMapping> {
        self.mappings.iter().filter(move |mapping| {
            mapping.addresses.start < addresses.end && addresses.start < mapping.addresses.end
        })
    }

    /// These addresses show nothing any more.
    pub fn unmap(&mut self, gone: &Range<u64>) {
        let old = std::mem::take(&mut self.mappings);
        for mapping in old {
            let Range { start, end } = mapping.addresses;
            if end <= gone.start || gone.end <= start {
                self.mappings.push(mapping);
                continue;
            }
            let mut keep = |part: Range<u64>| {
                if !part.is_empty() {
                    self.mappings.push(FileMapping {
                        offset: mapping.offset + (part.start - start),
                        addresses: part,
                        ..mapping.clone()
                    });
                }
            };
            keep(start..gone.start.max(start));
            keep(gone.end.min(end)..end);
        }
    }
}

/// What a file held when it was last looked at.
#[derive(Debug)]
pub struct Shadow {
    own: Rc<OwnedFd>,
    bytes: Vec<u8>,
}

/// A difference.
#[derive(Debug, PartialEq, Eq)]
pub struct Change {
    pub offset: u64,
    pub bytes: Vec<u8>,
}

impl Shadow {
    /// `own` must be readable.
    pub fn new(own: Rc<OwnedFd>) -> Shadow {
        let mut shadow = Shadow {
            own,
            bytes: Vec::new(),
        };
        shadow.compare();
        shadow
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// What was written by calls.
    pub fn wrote(&mut self, offset: u64, bytes: &[u8]) {
        let start = offset as usize;
        let end = start + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[start..end].copy_from_slice(bytes);
    }

    pub fn resized(&mut self, length: u64) {
        self.bytes.resize(length as usize, 0);
    }

    /// Everything changed, in ways that are known already.
    pub fn refresh(&mut self) {
        drop(self.compare());
    }

    /// Looks at the file; what differs is returned and is the shadow from here on.
    pub fn compare(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        let length = rustix::fs::fstat(&self.own).map_or(0, |stat| stat.st_size as usize);
        self.bytes.resize(length, 0);
        let mut buffer = vec![0; STEP_BYTES.min(length)];
        let mut at = 0;
        while at < length {
            let wanted = buffer.len().min(length - at);
            let read = match rustix::io::pread(&self.own, &mut buffer[..wanted], at as u64) {
                Ok(0) | Err(_) => break,
                Ok(read) => read,
            };
            let (new, old) = (&buffer[..read], &mut self.bytes[at..at + read]);
            if new != old {
                differences(at, new, old, &mut changes);
                old.copy_from_slice(new);
            }
            at += read;
        }
        changes
    }
}

/// Page by page, from the first byte that differs to the last.
fn differences(base: usize, new: &[u8], old: &[u8], changes: &mut Vec<Change>) {
    let mut at = 0;
    while at < new.len() {
        let page = at..((base + at) / PAGE_BYTES * PAGE_BYTES + PAGE_BYTES - base).min(new.len());
        let (now, before) = (&new[page.clone()], &old[page.clone()]);
        let differs = |(a, b): (&u8, &u8)| a != b;
        if let Some(first) = now.iter().zip(before).position(differs) {
            let last = now.iter().zip(before).rposition(differs).unwrap_or(first);
            changes.push(Change {
                offset: (base + page.start + first) as u64,
                bytes: now[first..=last].to_owned(),
            });
        }
        at = page.end;
    }
}

/// The bytes of all shadows together.
pub fn shadow_bytes(inodes: &Inodes) -> usize {
    let shadows = inodes
        .mapped()
        .iter()
        .filter_map(|id| inodes.get(*id).shadow.as_ref());
    shadows.map(Shadow::len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_found_by_page() {
        let old = vec![0; 3 * PAGE_BYTES];
        let mut new = old.clone();
        new[10] = 1;
        new[20] = 2;
        new[PAGE_BYTES] = 3;
        let mut changes = Vec::new();
        differences(0, &new, &old, &mut changes);
        assert_eq!(changes.len(), 2);
        assert_eq!((changes[0].offset, changes[0].bytes.len()), (10, 11));
        assert_eq!(
            (changes[1].offset, &changes[1].bytes[..]),
            (PAGE_BYTES as u64, &[3][..])
        );
    }

    #[test]
    fn what_is_unmapped_in_the_middle_leaves_both_ends() {
        let mapping = FileMapping {
            addresses: 0x1000..0x5000,
            inode: InodeId(1),
            offset: 0x2000,
            writable: true,
            own: Rc::new(std::fs::File::open("/dev/null").unwrap().into()),
        };
        let mut space = Space {
            mappings: vec![mapping],
        };
        space.unmap(&(0x2000..0x3000));
        let left: Vec<_> = space
            .mappings
            .iter()
            .map(|mapping| (mapping.addresses.clone(), mapping.offset))
            .collect();
        assert_eq!(left, [(0x1000..0x2000, 0x2000), (0x3000..0x5000, 0x4000)]);
        space.unmap(&(0..u64::MAX));
        assert!(space.mappings.is_empty());
    }
}
