//! What a folder of a real file system holds, in the terms of the models.
//!
//! Read as a state of a model that nothing has happened to, so that the models themselves describe
//! it and both speak the same language.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crashpoint_trace::files::{Before, Initial, InodeId, InodeKind, Slot};
use rustix::fs::{lgetxattr, llistxattr};
use rustix::io::Errno;

/// Only what users set: security labels are the system's own.
const USER_XATTR: &[u8] = b"user.";
const PERMISSIONS: u32 = 0o7777;

#[derive(Debug, Default)]
pub struct FolderTree {
    /// The folder itself comes first.
    inodes: Vec<Node>,
    entries: Vec<(InodeId, OsString, InodeId)>,
}

#[derive(Debug)]
struct Node {
    kind: NodeKind,
    mode: u32,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

#[derive(Debug)]
enum NodeKind {
    File(Vec<u8>),
    Directory,
    Symlink(Vec<u8>),
    Other,
}

impl FolderTree {
    pub fn read(folder: &Path) -> io::Result<FolderTree> {
        let mut tree = FolderTree::default();
        let root = tree.add(folder, &fs::symlink_metadata(folder)?)?;
        tree.fill(folder, root, &mut BTreeMap::new())?;
        Ok(tree)
    }

    /// As a model takes it.
    pub fn before(&self) -> Before<'_> {
        let mut before = Before::default();
        for (index, node) in self.inodes.iter().enumerate() {
            let (kind, bytes): (InodeKind<'_>, &[u8]) = match &node.kind {
                NodeKind::File(bytes) => (InodeKind::File, bytes),
                NodeKind::Directory => (InodeKind::Directory, &[]),
                NodeKind::Symlink(target) => (InodeKind::Symlink { target }, &[]),
                NodeKind::Other => (InodeKind::Other, &[]),
            };
            let xattrs = node.xattrs.iter();
            before.inodes.push(Initial {
                inode: InodeId(index as u32),
                kind,
                mode: node.mode,
                xattrs: xattrs.map(|(name, value)| (&**name, &**value)).collect(),
                bytes,
            });
        }
        for (directory, name, inode) in &self.entries {
            let slot = Slot {
                directory: *directory,
                name: name.as_bytes(),
            };
            before.entries.push((slot, *inode));
        }
        before
    }

    fn add(&mut self, path: &Path, metadata: &fs::Metadata) -> io::Result<InodeId> {
        let kind = match metadata.file_type() {
            kind if kind.is_file() => NodeKind::File(fs::read(path)?),
            kind if kind.is_dir() => NodeKind::Directory,
            kind if kind.is_symlink() => {
                NodeKind::Symlink(fs::read_link(path)?.as_os_str().as_bytes().to_vec())
            }
            _ => NodeKind::Other,
        };
        let inode = InodeId(self.inodes.len() as u32);
        self.inodes.push(Node {
            kind,
            mode: metadata.mode() & PERMISSIONS,
            xattrs: xattrs(path)?,
        });
        Ok(inode)
    }

    /// `known` are the inodes met so far, by the numbers of the file system: hard links.
    fn fill(
        &mut self,
        folder: &Path,
        directory: InodeId,
        known: &mut BTreeMap<u64, InodeId>,
    ) -> io::Result<()> {
        let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            let metadata = entry.metadata()?;
            let inode = match known.get(&metadata.ino()) {
                Some(inode) => *inode,
                None => {
                    let inode = self.add(&path, &metadata)?;
                    known.insert(metadata.ino(), inode);
                    inode
                }
            };
            self.entries.push((directory, entry.file_name(), inode));
            if metadata.is_dir() {
                self.fill(&path, inode, known)?;
            }
        }
        Ok(())
    }
}

fn xattrs(path: &Path) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut names = vec![0; 64 << 10];
    let length = match llistxattr(path, &mut names[..]) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP) => 0,
        Err(error) => return Err(error.into()),
    };
    let names = names[..length].split(|byte| *byte == 0);
    let mut xattrs = Vec::new();
    for name in names.filter(|name| name.starts_with(USER_XATTR)) {
        let mut value = vec![0; 64 << 10];
        let length = lgetxattr(path, name, &mut value[..])?;
        value.truncate(length);
        xattrs.push((name.to_vec(), value));
    }
    xattrs.sort();
    Ok(xattrs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_read_with_its_links() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::create_dir(path.join("d")).unwrap();
        fs::write(path.join("d/f"), "text").unwrap();
        fs::hard_link(path.join("d/f"), path.join("g")).unwrap();
        std::os::unix::fs::symlink("g", path.join("s")).unwrap();
        let tree = FolderTree::read(path).unwrap();
        let before = tree.before();
        let name = |name: &[u8]| {
            let found = before.entries.iter().find(|(slot, _)| slot.name == name);
            found.unwrap().1
        };
        assert_eq!(before.inodes.len(), 4);
        assert_eq!(name(b"f"), name(b"g"));
        assert_eq!(before.inodes[name(b"f").index()].bytes, b"text");
        let symlink = before.inodes[name(b"s").index()].kind;
        assert_eq!(symlink, InodeKind::Symlink { target: b"g" });
        let f = before.entries.iter().find(|(slot, _)| slot.name == b"f");
        assert_eq!(f.unwrap().0.directory, name(b"d"));
    }
}
