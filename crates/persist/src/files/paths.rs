//! How files are called at the moment, for people.

use crashpoint_trace::files::{InodeId, Slot};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// One name of every file: the latest, also when it is gone.
#[derive(Clone, Debug, Default)]
pub(super) struct Paths<'a> {
    names: FxHashMap<InodeId, Slot<'a>>,
    known: FxHashMap<InodeId, Arc<str>>,
}

/// Directories within each other; a tree of names is never this deep.
const MAX_DEEP: usize = 512;

impl<'a> Paths<'a> {
    pub fn name(&mut self, inode: InodeId, slot: Slot<'a>, is_directory: bool) {
        self.names.insert(inode, slot);
        if is_directory {
            self.known.clear()
        } else {
            self.known.remove(&inode);
        }
    }

    pub fn parent(&self, inode: InodeId) -> Option<InodeId> {
        self.names.get(&inode).map(|slot| slot.directory)
    }

    pub fn of(&mut self, inode: InodeId) -> Arc<str> {
        if let Some(known) = self.known.get(&inode) {
            return known.clone();
        }
        let path: Arc<str> = match self.names.get(&inode) {
            Some(slot) => self.of_slot(*slot),
            None if inode == InodeId::ROOT => Arc::from("."),
            None => Arc::from("a file without a name"),
        };
        self.known.insert(inode, path.clone());
        path
    }

    pub fn of_slot(&self, slot: Slot<'a>) -> Arc<str> {
        let mut parts = vec![slot.name];
        let mut directory = slot.directory;
        while let Some(slot) = self.names.get(&directory)
            && parts.len() < MAX_DEEP
        {
            parts.push(slot.name);
            directory = slot.directory;
        }
        parts.reverse();
        Arc::from(String::from_utf8_lossy(&parts.join(&b"/"[..])).as_ref())
    }
}
