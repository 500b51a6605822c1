//! A directory tree as a crash left it.

use super::content::Content;
use crashpoint_trace::files::{InodeId, InodeKind};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// A file, directory or link, with all that can be seen of it but its names.
#[derive(Clone, Debug)]
pub struct Object<'a> {
    pub kind: InodeKind<'a>,
    pub mode: u32,
    pub xattrs: BTreeMap<&'a [u8], &'a [u8]>,
    pub content: Content<'a>,
    /// Of all of it; 0 while it is not known.
    pub(super) hash: u128,
}

impl<'a> Object<'a> {
    pub(super) fn nothing() -> Object<'a> {
        Object {
            kind: InodeKind::Other,
            mode: 0,
            xattrs: BTreeMap::new(),
            content: Content::default(),
            hash: 0,
        }
    }

    pub(super) fn hashed(mut self) -> Object<'a> {
        let mut hasher = Xxh3::new();
        let part = |hasher: &mut Xxh3, bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        match self.kind {
            InodeKind::File => part(&mut hasher, b"file"),
            InodeKind::Directory => part(&mut hasher, b"directory"),
            InodeKind::Symlink { target } => {
                part(&mut hasher, b"symlink");
                part(&mut hasher, target);
            }
            InodeKind::Other => part(&mut hasher, b"other"),
        }
        hasher.update(&self.mode.to_le_bytes());
        for (name, value) in &self.xattrs {
            part(&mut hasher, name);
            part(&mut hasher, value);
        }
        hasher.update(&self.content.hash().to_le_bytes());
        self.hash = hasher.digest128();
        self
    }

    pub fn hash(&self) -> u128 {
        self.hash
    }
}

/// Everything that can be reached from the watched folder.
#[derive(Clone, Debug)]
pub struct Tree<'a> {
    objects: FxHashMap<InodeId, Arc<Object<'a>>>,
    paths: Arc<Paths>,
}

/// By path from the watched folder, which has none itself; parents come before children.
pub(super) type Paths = BTreeMap<Vec<u8>, InodeId>;

/// Everything that can be reached. A directory may have two names while a rename is torn: it is then
/// seen in both places. One that is inside of itself is left out.
pub(super) fn paths<'a>(
    entries: impl Fn(InodeId) -> Vec<(&'a [u8], InodeId)>,
    is_directory: impl Fn(InodeId) -> bool,
) -> Paths {
    let mut paths = Paths::new();
    let mut open: Vec<(Vec<u8>, Vec<InodeId>)> = vec![(Vec::new(), vec![InodeId::ROOT])];
    while let Some((path, above)) = open.pop() {
        for (name, inode) in entries(above[above.len() - 1]) {
            if above.contains(&inode) {
                continue;
            }
            let mut inner = path.clone();
            if !inner.is_empty() {
                inner.push(b'/');
            }
            inner.extend(name);
            if is_directory(inode) {
                let mut above = above.clone();
                above.push(inode);
                open.push((inner.clone(), above));
            }
            paths.insert(inner, inode);
        }
    }
    paths
}

impl<'a> Tree<'a> {
    pub(super) fn build(
        paths: Arc<Paths>,
        mut object: impl FnMut(InodeId) -> Arc<Object<'a>>,
    ) -> Tree<'a> {
        let mut objects = FxHashMap::default();
        objects.reserve(paths.len() + 1);
        objects.insert(InodeId::ROOT, object(InodeId::ROOT));
        for inode in paths.values() {
            objects.entry(*inode).or_insert_with(|| object(*inode));
        }
        Tree { objects, paths }
    }

    /// Paths as seen from the watched folder, in order, each with what it names.
    pub fn entries(&self) -> impl Iterator<Item = (&[u8], InodeId, &Arc<Object<'a>>)> {
        let paths = self.paths.iter();
        paths.map(|(path, inode)| (path.as_slice(), *inode, &self.objects[inode]))
    }

    /// The watched folder itself.
    pub fn root(&self) -> Option<&Arc<Object<'a>>> {
        self.objects.get(&InodeId::ROOT)
    }

    pub fn get(&self, path: &[u8]) -> Option<(InodeId, &Arc<Object<'a>>)> {
        let inode = self.paths.get(path)?;
        Some((*inode, &self.objects[inode]))
    }

    /// Equal for trees that look the same, whatever numbers their inodes have.
    pub fn hash(&self) -> u128 {
        let mut sum = self.root().map_or(0, |root| root.hash);
        let mut first: FxHashMap<InodeId, &[u8]> = FxHashMap::default();
        for (path, inode, object) in self.entries() {
            let shared = match object.kind {
                InodeKind::Directory => path,
                InodeKind::File | InodeKind::Symlink { .. } | InodeKind::Other => {
                    *first.entry(inode).or_insert(path)
                }
            };
            let mut hasher = Xxh3::new();
            hasher.update(&xxh3_128(path).to_le_bytes());
            hasher.update(&xxh3_128(shared).to_le_bytes());
            hasher.update(&object.hash.to_le_bytes());
            sum = sum.wrapping_add(hasher.digest128());
        }
        sum
    }
}
