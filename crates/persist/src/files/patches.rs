//! How to turn one content of a file into another: what materialising costs is what changed.

use super::content::{ByteSource, Content, Extent};
use std::collections::BTreeSet;

/// What to do to a part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentPatch<'a> {
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

impl<'a> Content<'a> {
    /// What to write to a file that holds `other`, once it has been cut or extended to this size.
    pub fn patches_from(&self, other: &Content<'a>) -> Vec<ContentPatch<'a>> {
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
            patches.push(ContentPatch {
                offset,
                length: end - offset,
                source,
            });
        }
        patches
    }
}
