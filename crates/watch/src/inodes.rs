//! Which files are known, and what they are called.
//!
//! The system knows an inode by device and number, and gives a number away again once nothing
//! refers to it. Here an inode has one [`InodeId`] for ever: a number means an inode only as long
//! as a name, a descriptor or a mapping keeps it alive.

use crate::mappings::Shadow;
use crashpoint_trace::files::InodeId;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::rc::Rc;

/// Device and inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Number {
    pub device: u64,
    pub inode: u64,
}

impl From<&rustix::fs::Stat> for Number {
    fn from(stat: &rustix::fs::Stat) -> Number {
        Number {
            device: stat.st_dev,
            inode: stat.st_ino,
        }
    }
}

/// What is known of an inode of the folder.
#[derive(Debug)]
pub struct InodeInfo {
    pub number: Number,
    /// One of its names, for reports; that of the folder is empty.
    pub parent: InodeId,
    pub name: Vec<u8>,
    /// Open file descriptions, and those among them that can write.
    pub open: u32,
    pub writers: u32,
    /// No name is left.
    pub unlinked: bool,
    /// What its pages held when they were last looked at, while it is mapped for writing.
    pub shadow: Option<Shadow>,
}

#[derive(Debug, Default)]
pub struct Inodes {
    by_number: FxHashMap<Number, InodeId>,
    known: Vec<InodeInfo>,
    /// Those with a shadow.
    mapped: Vec<InodeId>,
    /// The last path that was asked for, until a name changes.
    last_path: RefCell<Option<(InodeId, Rc<str>)>>,
}

impl Inodes {
    /// An inode that nobody has seen before, whatever had its number.
    pub fn add(&mut self, number: Number, parent: InodeId, name: &[u8]) -> InodeId {
        let id = InodeId(u32::try_from(self.known.len()).expect("fewer than 2^32 inodes"));
        self.known.push(InodeInfo {
            number,
            parent,
            name: name.to_owned(),
            open: 0,
            writers: 0,
            unlinked: false,
            shadow: None,
        });
        self.by_number.insert(number, id);
        id
    }

    pub fn find(&self, number: Number) -> Option<InodeId> {
        self.by_number.get(&number).copied()
    }

    pub fn get(&self, id: InodeId) -> &InodeInfo {
        &self.known[id.index()]
    }

    pub fn get_mut(&mut self, id: InodeId) -> &mut InodeInfo {
        &mut self.known[id.index()]
    }

    /// It has this name now.
    pub fn named(&mut self, id: InodeId, parent: InodeId, name: &[u8]) {
        self.last_path.take();
        let known = self.get_mut(id);
        known.parent = parent;
        known.name.clear();
        known.name.extend_from_slice(name);
        known.unlinked = false;
    }

    /// Its last name is gone.
    pub fn unlinked(&mut self, id: InodeId) {
        self.get_mut(id).unlinked = true;
        self.forget_if_dead(id);
    }

    pub fn opened(&mut self, id: InodeId, writable: bool) {
        let known = self.get_mut(id);
        known.open += 1;
        known.writers += u32::from(writable);
    }

    /// An open file description is gone; true if it was the last that could write.
    pub fn closed(&mut self, id: InodeId, writable: bool) -> bool {
        let known = self.get_mut(id);
        known.open = known.open.saturating_sub(1);
        known.writers = known.writers.saturating_sub(u32::from(writable));
        let last = writable && known.writers == 0;
        self.forget_if_dead(id);
        last
    }

    fn forget_if_dead(&mut self, id: InodeId) {
        let known = self.get(id);
        if known.unlinked && known.open == 0 && known.shadow.is_none() {
            self.leave(id);
        }
    }

    /// It left the folder: from here on its number is that of something else.
    pub fn leave(&mut self, id: InodeId) {
        let number = self.get(id).number;
        if self.by_number.get(&number) == Some(&id) {
            self.by_number.remove(&number);
        }
    }

    /// All that lie below a directory, itself included, by their last known names.
    pub fn below(&self, top: InodeId) -> Vec<InodeId> {
        let all = (0..self.known.len()).map(|index| InodeId(index as u32));
        all.filter(|id| self.is_below(*id, top)).collect()
    }

    fn is_below(&self, mut id: InodeId, top: InodeId) -> bool {
        // Bounded: a cycle cannot be, but names are only what was last known.
        for _ in 0..self.known.len() {
            if id == top {
                return true;
            }
            if id == InodeId::ROOT {
                return false;
            }
            id = self.get(id).parent;
        }
        false
    }

    /// Inodes with shadows.
    pub fn mapped(&self) -> &[InodeId] {
        &self.mapped
    }

    pub fn shade(&mut self, id: InodeId, shadow: Shadow) {
        self.get_mut(id).shadow = Some(shadow);
        self.mapped.push(id);
    }

    /// Nothing can write to it through a mapping any more.
    pub fn unshade(&mut self, id: InodeId) {
        self.get_mut(id).shadow = None;
        self.mapped.retain(|other| *other != id);
        self.forget_if_dead(id);
    }

    /// As seen from the folder, which is `.` itself.
    pub fn path(&self, id: InodeId) -> Rc<str> {
        if let Some((last, path)) = &*self.last_path.borrow()
            && *last == id
        {
            return Rc::clone(path);
        }
        let path: Rc<str> = self.make_path(id).into();
        *self.last_path.borrow_mut() = Some((id, Rc::clone(&path)));
        path
    }

    fn make_path(&self, id: InodeId) -> String {
        let mut names = Vec::new();
        let mut at = id;
        while at != InodeId::ROOT && names.len() < 256 {
            let known = self.get(at);
            names.push(&known.name[..]);
            at = known.parent;
        }
        if names.is_empty() {
            ".".to_owned()
        } else {
            names.reverse();
            String::from_utf8_lossy(&names.join(&b'/')).into_owned()
        }
    }

    /// The path of a name in a directory.
    pub fn path_of(&self, directory: InodeId, name: &[u8]) -> String {
        let name = String::from_utf8_lossy(name);
        match directory {
            InodeId::ROOT => name.into_owned(),
            other => format!("{}/{name}", self.path(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(inode: u64) -> Number {
        Number { device: 1, inode }
    }

    #[test]
    fn a_number_used_again_is_another_inode() {
        let mut inodes = Inodes::default();
        inodes.add(number(1), InodeId::ROOT, b"");
        let first = inodes.add(number(2), InodeId::ROOT, b"a");
        inodes.opened(first, true);
        inodes.unlinked(first);
        assert_eq!(
            inodes.find(number(2)),
            Some(first),
            "its descriptor keeps it"
        );
        assert!(inodes.closed(first, true));
        assert_eq!(inodes.find(number(2)), None);
        let second = inodes.add(number(2), InodeId::ROOT, b"a");
        assert_ne!(first, second);
        assert_eq!(inodes.find(number(2)), Some(second));
    }

    #[test]
    fn paths_are_seen_from_the_folder() {
        let mut inodes = Inodes::default();
        let root = inodes.add(number(1), InodeId::ROOT, b"");
        let folder = inodes.add(number(2), root, b"db");
        let file = inodes.add(number(3), folder, b"LOG");
        assert_eq!(&*inodes.path(root), ".");
        assert_eq!(&*inodes.path(file), "db/LOG");
        assert_eq!(inodes.path_of(folder, b"x"), "db/x");
        assert_eq!(inodes.below(folder), [folder, file]);
    }
}
