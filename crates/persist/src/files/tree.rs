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
    /// By path from the watched folder, which has none itself; parents come before children.
    paths: BTreeMap<Vec<u8>, InodeId>,
}

impl<'a> Tree<'a> {
    /// A directory may have two names while a rename is torn: it is then seen in both places. One
    /// that is inside of itself is left out.
    pub(super) fn build(
        entries: impl Fn(InodeId) -> Vec<(&'a [u8], InodeId)>,
        mut object: impl FnMut(InodeId) -> Option<Arc<Object<'a>>>,
    ) -> Tree<'a> {
        let mut tree = Tree {
            objects: FxHashMap::default(),
            paths: BTreeMap::new(),
        };
        if let Some(root) = object(InodeId::ROOT) {
            tree.objects.insert(InodeId::ROOT, root);
        }
        let mut open: Vec<(Vec<u8>, InodeId, Vec<InodeId>)> =
            vec![(Vec::new(), InodeId::ROOT, vec![InodeId::ROOT])];
        while let Some((path, directory, above)) = open.pop() {
            for (name, inode) in entries(directory) {
                let mut inner = path.clone();
                if !inner.is_empty() {
                    inner.push(b'/');
                }
                inner.extend(name);
                let known = match tree.objects.get(&inode) {
                    Some(known) => known.clone(),
                    None => match object(inode) {
                        Some(new) => new,
                        None => continue,
                    },
                };
                if above.contains(&inode) {
                    continue;
                }
                if known.kind == InodeKind::Directory {
                    let mut above = above.clone();
                    above.push(inode);
                    open.push((inner.clone(), inode, above));
                }
                tree.objects.insert(inode, known);
                tree.paths.insert(inner, inode);
            }
        }
        tree
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

    pub(super) fn object(&self, inode: InodeId) -> Option<&Arc<Object<'a>>> {
        self.objects.get(&inode)
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
