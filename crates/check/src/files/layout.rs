//! A directory tree as a list of what lies where, for laying it out and for telling two apart.

use crate::engine::medium::{ReadLocation, StateHash};
use crashpoint_persist::files::{Content, Object, Tree};
use crashpoint_trace::files::{InodeId, InodeKind};
use rustc_hash::{FxHashMap, FxHasher};
use std::ffi::OsStr;
use std::hash::{Hash as _, Hasher as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Everything but the bytes of files.
pub const SHAPE: ReadLocation = ReadLocation(0);

/// The bytes of the file at a path.
pub fn place_of(path: &Path) -> ReadLocation {
    let mut hasher = FxHasher::default();
    path.hash(&mut hasher);
    ReadLocation(hasher.finish() | 1)
}

/// What lies at a path.
#[derive(Clone, Debug)]
pub struct Item<'a> {
    /// From the folder on; the folder itself is empty.
    pub path: PathBuf,
    pub object: Arc<Object<'a>>,
    /// It is a further name of the file at this path, which comes before.
    pub link_to: Option<PathBuf>,
}

impl Item<'_> {
    pub fn is_directory(&self) -> bool {
        matches!(self.object.kind, InodeKind::Directory)
    }

    pub fn is_file(&self) -> bool {
        matches!(self.object.kind, InodeKind::File)
    }

    /// Of a file.
    pub fn size(&self) -> Option<u64> {
        self.is_file().then(|| self.object.content.size())
    }

    /// Nothing has to be done to make one of the other.
    pub fn is_same(&self, other: &Item<'_>) -> bool {
        self.object.hash() == other.object.hash() && self.link_to == other.link_to
    }

    /// It need not be made anew.
    pub fn can_become(&self, other: &Item<'_>) -> bool {
        let alike = match (self.object.kind, other.object.kind) {
            (InodeKind::Directory, InodeKind::Directory)
            | (InodeKind::File, InodeKind::File)
            | (InodeKind::Other, InodeKind::Other) => true,
            (InodeKind::Symlink { target: one }, InodeKind::Symlink { target: two }) => one == two,
            (
                InodeKind::Directory
                | InodeKind::File
                | InodeKind::Other
                | InodeKind::Symlink { .. },
                _,
            ) => false,
        };
        alike && self.link_to == other.link_to
    }
}

/// A whole tree.
#[derive(Clone, Debug)]
pub struct Layout<'a> {
    /// A directory comes before what is in it, the folder itself first.
    pub items: Vec<Item<'a>>,
    index: FxHashMap<PathBuf, usize>,
    pub hash: StateHash,
    shape: u64,
}

impl<'a> Layout<'a> {
    pub fn of(tree: &Tree<'a>) -> Layout<'a> {
        let mut first: FxHashMap<InodeId, PathBuf> = FxHashMap::default();
        let root = tree.root().map(|object| Item {
            path: PathBuf::new(),
            object: Arc::clone(object),
            link_to: None,
        });
        let rest = tree.entries().map(|(path, inode, object)| {
            let path = PathBuf::from(OsStr::from_bytes(path));
            let link_to = match object.kind {
                InodeKind::File => first.get(&inode).cloned(),
                InodeKind::Directory | InodeKind::Symlink { .. } | InodeKind::Other => None,
            };
            if link_to.is_none() {
                first.insert(inode, path.clone());
            }
            Item {
                path,
                object: Arc::clone(object),
                link_to,
            }
        });
        let mut items: Vec<Item<'a>> = root.into_iter().collect();
        items.extend(rest);
        let paths = items.iter().enumerate();
        Layout {
            index: paths.map(|(at, item)| (item.path.clone(), at)).collect(),
            hash: StateHash(tree.hash()),
            shape: shape(&items),
            items,
        }
    }

    pub fn get(&self, path: &Path) -> Option<&Item<'a>> {
        Some(&self.items[*self.index.get(path)?])
    }

    pub fn content(&self, path: &Path) -> Option<&Content<'a>> {
        let item = self.get(path).filter(|item| item.is_file())?;
        Some(&item.object.content)
    }

    /// What a check may have found at a place; what is not there is nothing.
    pub fn value(&self, place: ReadLocation) -> u64 {
        if place == SHAPE {
            return self.shape;
        }
        let mut files = self.items.iter().filter(|item| item.is_file());
        let found = files.find(|item| place_of(&item.path) == place);
        found.map_or(0, |item| item.object.hash() as u64)
    }
}

fn shape(items: &[Item<'_>]) -> u64 {
    let mut hasher = FxHasher::default();
    for item in items {
        item.path.hash(&mut hasher);
        item.link_to.hash(&mut hasher);
        item.object.mode.hash(&mut hasher);
        item.object.xattrs.hash(&mut hasher);
        match item.object.kind {
            InodeKind::Directory => 0u8.hash(&mut hasher),
            InodeKind::File => (1u8, item.object.content.size()).hash(&mut hasher),
            InodeKind::Symlink { target } => (2u8, target).hash(&mut hasher),
            InodeKind::Other => 3u8.hash(&mut hasher),
        }
    }
    hasher.finish()
}
