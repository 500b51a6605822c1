//! Folders that show one state after the other, whatever is done to them in between.

use super::{Folder, Layout};
use crashpoint_persist::files::{Filler, Model, Trees};
use crashpoint_trace::files::{Before, Initial, InodeId, InodeKind, Slot};
use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

/// What a tree is made of: paths and what lies there; equal numbers are names of one file.
type Plan = &'static [(&'static str, Thing)];

#[derive(Clone, Copy)]
enum Thing {
    Directory,
    File(u32, &'static [u8]),
    Symlink(&'static str),
}

use Thing::{Directory, File, Symlink};

fn layout(plan: Plan) -> Layout<'static> {
    let mut before = Before {
        inodes: vec![initial(InodeId::ROOT, InodeKind::Directory, &[])],
        entries: Vec::new(),
    };
    let mut directories = BTreeMap::from([("", InodeId::ROOT)]);
    for (number, (path, thing)) in plan.iter().enumerate() {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let (inode, kind, bytes): (_, _, &[u8]) = match *thing {
            Directory => (InodeId(1000 + number as u32), InodeKind::Directory, &[]),
            File(inode, bytes) => (InodeId(inode), InodeKind::File, bytes),
            Symlink(target) => {
                let target = target.as_bytes();
                (InodeId(1000 + number as u32), InodeKind::Symlink { target }, &[])
            }
        };
        if before.inodes.iter().all(|known| known.inode != inode) {
            before.inodes.push(initial(inode, kind, bytes));
        }
        let (directory, name) = (directories[parent], name.as_bytes());
        before.entries.push((Slot { directory, name }, inode));
        if let Directory = thing {
            directories.insert(path, inode);
        }
    }
    let model = Model::builtin(Model::DEFAULT).unwrap();
    Layout::of(&Trees::new(&model, &before).tree(&[], &[], Filler::Zeros))
}

fn initial<'a>(inode: InodeId, kind: InodeKind<'a>, bytes: &'a [u8]) -> Initial<'a> {
    let is_directory = matches!(kind, InodeKind::Directory);
    Initial {
        inode,
        kind,
        mode: if is_directory { 0o755 } else { 0o644 },
        xattrs: Vec::new(),
        bytes,
    }
}

/// Everything that can be seen of a folder, without its times.
fn seen(folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let status = std::fs::symlink_metadata(&path).unwrap();
            let what = match () {
                () if status.is_dir() => {
                    open.push(path.clone());
                    "directory".to_owned()
                }
                () if status.is_symlink() => format!("{:?}", std::fs::read_link(&path).unwrap()),
                () => format!("{} {:?}", status.nlink(), std::fs::read(&path).unwrap()),
            };
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            all.push(format!("{name} {:o} {what}", status.mode()));
        }
    }
    all.sort();
    all
}

const STATES: [Plan; 6] = [
    &[("a", File(1, b"one")), ("d", Directory), ("d/b", File(2, b"two"))],
    &[("a", File(1, b"other")), ("d", Directory), ("d/b", File(2, b""))],
    &[("d", File(1, b"now a file")), ("l", Symlink("d"))],
    &[("x", File(3, b"linked")), ("y", File(3, b"linked")), ("l", Symlink("x"))],
    &[("y", File(3, b"linked twice")), ("z", File(3, b"linked twice")), ("x", File(4, b"-"))],
    &[],
];

fn fresh(plan: Plan) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dir");
    Folder::create(&path).unwrap().lay(&layout(plan)).unwrap();
    seen(&path)
}

#[test]
fn from_any_state_to_any_other_it_looks_as_if_made_anew() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("dir");
    let mut folder = Folder::create(&path).unwrap();
    for from in STATES {
        for to in STATES {
            folder.lay(&layout(from)).unwrap();
            folder.lay(&layout(to)).unwrap();
            assert_eq!(seen(&path), fresh(to));
        }
    }
}

#[test]
fn what_a_check_does_to_the_folder_is_undone() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("dir");
    let mut folder = Folder::create(&path).unwrap();
    let (first, linked) = (STATES[0], STATES[3]);
    let tampering: [(Plan, &dyn Fn()); 8] = [
        (first, &|| std::fs::write(path.join("a"), "one").unwrap()),
        (first, &|| std::fs::write(path.join("d/new"), "x").unwrap()),
        (first, &|| std::fs::remove_file(path.join("d/b")).unwrap()),
        (first, &|| std::fs::remove_dir_all(path.join("d")).unwrap()),
        (first, &|| std::fs::rename(path.join("a"), path.join("d/b")).unwrap()),
        (first, &|| {
            let mode = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(path.join("a"), mode).unwrap();
        }),
        (linked, &|| {
            std::fs::write(path.join("new"), "linked").unwrap();
            std::fs::rename(path.join("new"), path.join("x")).unwrap();
        }),
        (linked, &|| {
            std::fs::remove_file(path.join("l")).unwrap();
            std::fs::create_dir(path.join("l")).unwrap();
        }),
    ];
    for (plan, tamper) in tampering {
        folder.lay(&layout(plan)).unwrap();
        tamper();
        folder.lay(&layout(plan)).unwrap();
        assert_eq!(seen(&path), fresh(plan));
    }
}

#[test]
fn only_what_differs_is_written_and_what_is_read_is_known() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("dir");
    let mut folder = Folder::create(&path).unwrap();
    let one = layout(STATES[0]);
    folder.lay(&one).unwrap();
    let written = folder.written;
    folder.lay(&one).unwrap();
    assert_eq!(folder.written, written);
    if super::folder::shows_reading(scratch.path()).unwrap() {
        assert!(folder.read_since().unwrap().is_empty());
        std::fs::read(path.join("d/b")).unwrap();
        assert_eq!(folder.read_since().unwrap(), [Path::new("d/b")]);
        folder.lay(&one).unwrap();
        assert!(folder.read_since().unwrap().is_empty());
    }
}

#[test]
fn equal_folders_have_equal_hashes_and_places() {
    let (one, same, other) = (layout(STATES[0]), layout(STATES[0]), layout(STATES[1]));
    assert_eq!(one.hash, same.hash);
    assert_ne!(one.hash, other.hash);
    let place = super::layout::place_of(Path::new("a"));
    assert_eq!(one.value(place), same.value(place));
    assert_ne!(one.value(place), other.value(place));
}
