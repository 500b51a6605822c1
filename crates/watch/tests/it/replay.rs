//! The strongest test of a recording: what it says, done again to what was there before, gives what
//! is there now.

use crashpoint_trace::files::{Allocation, Effect, FileRecording, InodeId, InodeKind};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    kind: String,
    mode: u32,
    bytes: Vec<u8>,
    entries: BTreeMap<Vec<u8>, InodeId>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

fn kind(kind: InodeKind<'_>) -> String {
    match kind {
        InodeKind::Symlink { target } => format!("link to {}", String::from_utf8_lossy(target)),
        InodeKind::File => "file".into(),
        InodeKind::Directory => "directory".into(),
        InodeKind::Other => "other".into(),
    }
}

/// Panics with the difference.
pub fn check(recording: &FileRecording, data: &Path) {
    let mut nodes: HashMap<InodeId, Node> = HashMap::new();
    let before = recording.before();
    for initial in &before.inodes {
        let node = Node {
            kind: kind(initial.kind),
            mode: initial.mode,
            bytes: initial.bytes.to_vec(),
            entries: BTreeMap::new(),
            xattrs: initial
                .xattrs
                .iter()
                .map(|(n, v)| (n.to_vec(), v.to_vec()))
                .collect(),
        };
        nodes.insert(initial.inode, node);
    }
    for (slot, inode) in &before.entries {
        nodes
            .get_mut(&slot.directory)
            .unwrap()
            .entries
            .insert(slot.name.to_vec(), *inode);
    }
    for call in recording.calls() {
        for effect in &call.effects {
            apply(&mut nodes, effect, call.text);
        }
    }
    let mut seen = BTreeSet::new();
    compare(&nodes, InodeId::ROOT, data, &mut seen);
}

fn apply(nodes: &mut HashMap<InodeId, Node>, effect: &Effect<'_>, text: &str) {
    macro_rules! at {
        ($inode:expr) => {
            nodes
                .get_mut($inode)
                .unwrap_or_else(|| panic!("{text}: {:?} is not known", $inode))
        };
    }
    match effect {
        Effect::New {
            inode,
            kind: of,
            mode,
        } => {
            let node = Node {
                kind: kind(*of),
                mode: *mode,
                ..Node::default()
            };
            assert!(
                nodes.insert(*inode, node).is_none(),
                "{text}: {inode:?} is new twice"
            );
        }
        Effect::Link { slot, inode } => {
            let old = at!(&slot.directory)
                .entries
                .insert(slot.name.to_vec(), *inode);
            assert_eq!(old, None, "{text}: the name is free");
        }
        Effect::Unlink { slot, inode } => {
            let old = at!(&slot.directory).entries.remove(slot.name);
            assert_eq!(old, Some(*inode), "{text}: the name is there");
        }
        Effect::Rename {
            from,
            to,
            inode,
            victim,
        } => {
            let old = at!(&from.directory).entries.remove(from.name);
            assert_eq!(old, Some(*inode), "{text}: the name is there");
            let old = at!(&to.directory).entries.insert(to.name.to_vec(), *inode);
            assert_eq!(old, *victim, "{text}: the victim is named");
        }
        Effect::Exchange {
            first,
            first_inode,
            second,
            second_inode,
        } => {
            at!(&first.directory)
                .entries
                .insert(first.name.to_vec(), *second_inode);
            at!(&second.directory)
                .entries
                .insert(second.name.to_vec(), *first_inode);
        }
        Effect::Write {
            inode,
            offset,
            bytes,
            ..
        } => {
            let content = &mut at!(inode).bytes;
            let end = *offset as usize + bytes.len();
            content.resize(content.len().max(end), 0);
            content[*offset as usize..end].copy_from_slice(bytes);
        }
        Effect::Resize { inode, from, to } => {
            let content = &mut at!(inode).bytes;
            assert_eq!(content.len() as u64, *from, "{text}: the size is known");
            content.resize(*to as usize, 0);
        }
        Effect::Allocate {
            inode,
            offset,
            length,
            what,
        } => {
            allocate(
                &mut at!(inode).bytes,
                *offset as usize,
                *length as usize,
                *what,
            );
        }
        Effect::SetXattr { inode, name, value } => {
            let xattrs = &mut at!(inode).xattrs;
            match value {
                Some(value) => drop(xattrs.insert(name.to_vec(), value.to_vec())),
                None => drop(xattrs.remove(*name)),
            }
        }
        Effect::SetMode { inode, mode } => at!(inode).mode = *mode,
        Effect::Sync(_) | Effect::LastClose { .. } | Effect::Output { .. } => {}
    }
}

fn allocate(content: &mut Vec<u8>, offset: usize, length: usize, what: Allocation) {
    let end = offset + length;
    let inside = offset.min(content.len())..end.min(content.len());
    match what {
        Allocation::Reserve => content.resize(content.len().max(end), 0),
        Allocation::ReserveKeepSize => {}
        Allocation::PunchHole | Allocation::ZeroKeepSize => content[inside].fill(0),
        Allocation::Zero => {
            content[inside].fill(0);
            content.resize(content.len().max(end), 0);
        }
        Allocation::Collapse => drop(content.drain(inside)),
        Allocation::Insert => drop(content.splice(offset..offset, vec![0; length])),
    }
}

fn compare(nodes: &HashMap<InodeId, Node>, id: InodeId, path: &Path, seen: &mut BTreeSet<InodeId>) {
    let node = &nodes[&id];
    let metadata = path
        .symlink_metadata()
        .unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let at = path.display();
    if metadata.is_symlink() {
        let target = std::fs::read_link(path).unwrap();
        assert_eq!(node.kind, format!("link to {}", target.display()), "{at}");
        return;
    }
    assert_eq!(
        node.mode,
        metadata.permissions().mode() & 0o7777,
        "{at}: mode"
    );
    if metadata.is_file() {
        assert_eq!(node.kind, "file", "{at}");
        let bytes = std::fs::read(path).unwrap();
        assert_eq!(node.bytes.len(), bytes.len(), "{at}: length");
        let different = node.bytes.iter().zip(&bytes).position(|(a, b)| a != b);
        assert_eq!(different, None, "{at}: first byte that differs");
    } else if metadata.is_dir() {
        assert!(seen.insert(id), "{at}: a directory has one name");
        let names = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.unwrap().file_name().as_bytes().to_vec()
        };
        let there: BTreeSet<Vec<u8>> = std::fs::read_dir(path).unwrap().map(names).collect();
        let recorded: BTreeSet<Vec<u8>> = node.entries.keys().cloned().collect();
        assert_eq!(recorded, there, "{at}: names");
        for (name, inode) in &node.entries {
            let child = path.join(std::ffi::OsStr::from_bytes(name));
            compare(nodes, *inode, &child, seen);
        }
    }
}
