//! How to turn one tree into another: what materialising costs is what changed.
//!
//! Directories are known by their paths, everything else by inode: a file that is in both trees
//! stays the same file, under whatever name, and is patched where its content differs.

use super::content::{ByteSource, Content, Extent};
use super::tree::{Object, Tree};
use crashpoint_trace::files::{InodeId, InodeKind};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A step from one tree to another, to be done in order. Paths are seen from the watched folder;
/// the empty one is the folder itself.
#[derive(Clone, Debug)]
pub enum Change<'a> {
    /// Removes a file, a link or an empty directory.
    Remove {
        path: Vec<u8>,
        is_directory: bool,
    },
    /// Moves a file out of the tree, to come back under another name.
    Park {
        path: Vec<u8>,
        inode: InodeId,
    },
    Unpark {
        inode: InodeId,
        path: Vec<u8>,
    },
    /// Makes a file, directory or link that is not there, with everything in it.
    Make {
        path: Vec<u8>,
        object: Arc<Object<'a>>,
    },
    /// Gives a file one more name.
    Link {
        existing: Vec<u8>,
        path: Vec<u8>,
    },
    /// Makes what is there look like this.
    Update {
        path: Vec<u8>,
        from: Arc<Object<'a>>,
        to: Arc<Object<'a>>,
    },
}

/// What to do to a part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch<'a> {
    pub offset: u64,
    pub length: u64,
    pub source: PatchSource<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchSource<'a> {
    Bytes(&'a [u8]),
    Filler(u8),
    /// Zeros, as a hole if that is cheaper.
    Hole,
}

impl<'a> Tree<'a> {
    /// What to do to turn `other`, of the same recording, into this one.
    pub fn changes_from(&self, other: &Tree<'a>) -> Vec<Change<'a>> {
        let mut changes = Vec::new();
        let mut kept: FxHashMap<InodeId, Vec<u8>> = FxHashMap::default();
        let mut gone: Vec<(&[u8], InodeId, bool)> = Vec::new();
        for (path, inode, object) in other.entries() {
            let is_directory = object.kind == InodeKind::Directory;
            let stays = self.get(path).is_some_and(|(new, after)| {
                let directory = after.kind == InodeKind::Directory;
                is_directory && directory || !is_directory && !directory && new == inode
            });
            if !stays {
                gone.push((path, inode, is_directory));
            } else if !is_directory {
                kept.entry(inode).or_insert_with(|| path.to_vec());
            }
        }
        let alive: BTreeSet<InodeId> = self.entries().map(|(_, inode, _)| inode).collect();
        let mut parked: BTreeSet<InodeId> = BTreeSet::new();
        // Children come behind their directories, so backwards is from the inside outwards.
        for (path, inode, is_directory) in gone.into_iter().rev() {
            let path = path.to_vec();
            let moves = !is_directory && alive.contains(&inode) && !kept.contains_key(&inode);
            if moves && parked.insert(inode) {
                changes.push(Change::Park { path, inode });
            } else {
                changes.push(Change::Remove { path, is_directory });
            }
        }
        let update = |path: &[u8], from: &Arc<Object<'a>>, to: &Arc<Object<'a>>| {
            (from.hash() != to.hash()).then(|| Change::Update {
                path: path.to_vec(),
                from: from.clone(),
                to: to.clone(),
            })
        };
        if let (Some(from), Some(to)) = (other.root(), self.root()) {
            changes.extend(update(b"", from, to));
        }
        let mut updated: BTreeSet<InodeId> = BTreeSet::new();
        for (path, inode, object) in self.entries() {
            let before = other.get(path);
            if object.kind == InodeKind::Directory {
                match before.filter(|(_, before)| before.kind == InodeKind::Directory) {
                    Some((_, before)) => changes.extend(update(path, before, object)),
                    None => changes.push(Change::Make {
                        path: path.to_vec(),
                        object: object.clone(),
                    }),
                }
                continue;
            }
            if before.is_none_or(|(before, _)| before != inode) {
                if parked.remove(&inode) {
                    let path = path.to_vec();
                    changes.push(Change::Unpark { inode, path });
                } else if let Some(existing) = kept.get(&inode) {
                    changes.push(Change::Link {
                        existing: existing.clone(),
                        path: path.to_vec(),
                    });
                } else {
                    changes.push(Change::Make {
                        path: path.to_vec(),
                        object: object.clone(),
                    });
                    updated.insert(inode);
                }
                kept.entry(inode).or_insert_with(|| path.to_vec());
            }
            if updated.insert(inode)
                && let Some(before) = other.object(inode)
            {
                changes.extend(update(path, before, object));
            }
        }
        changes
    }
}

impl<'a> Content<'a> {
    /// What to write to a file that holds `other`, once it has been cut or extended to this size.
    pub fn patches_from(&self, other: &Content<'a>) -> Vec<Patch<'a>> {
        let size = self.size();
        let mut borders: BTreeSet<u64> = BTreeSet::from([0, size]);
        for extent in self.extents().chain(other.extents()) {
            borders.insert(extent.offset.min(size));
            borders.insert(extent.end().min(size));
        }
        let borders: Vec<u64> = borders.into_iter().collect();
        let part = |content: &Content<'a>, from: u64, to: u64| -> Option<Extent<'a>> {
            content.extents_in(from, to).next()
        };
        let mut patches = Vec::new();
        for pair in borders.windows(2) {
            let (offset, end) = (pair[0], pair[1]);
            let new = part(self, offset, end).map(|extent| extent.source);
            let old = part(other, offset, end).map(|extent| extent.source);
            if new == old || old.is_none() && new == Some(ByteSource::Filler(0)) {
                continue;
            }
            let source = match new {
                Some(ByteSource::Bytes(bytes)) => PatchSource::Bytes(bytes),
                Some(ByteSource::Filler(0)) | None => PatchSource::Hole,
                Some(ByteSource::Filler(byte)) => PatchSource::Filler(byte),
            };
            patches.push(Patch {
                offset,
                length: end - offset,
                source,
            });
        }
        patches
    }
}
