//! Folders that show one state after the other, whatever is done to them in between.

use super::{Folder, Layout};
use crashpoint_persist::files::{Filler, Model, Trees};
use crashpoint_trace::files::{Before, Initial, InodeId, InodeKind, Slot};
use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

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
                (
                    InodeId(1000 + number as u32),
                    InodeKind::Symlink { target },
                    &[],
                )
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
    let mode = if is_directory { 0o755 } else { 0o644 };
    Initial::new(inode, kind, mode, bytes)
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
    &[
        ("a", File(1, b"one")),
        ("d", Directory),
        ("d/b", File(2, b"two")),
    ],
    &[
        ("a", File(1, b"other")),
        ("d", Directory),
        ("d/b", File(2, b"")),
    ],
    &[("d", File(1, b"now a file")), ("l", Symlink("d"))],
    &[
        ("x", File(3, b"linked")),
        ("y", File(3, b"linked")),
        ("l", Symlink("x")),
    ],
    &[
        ("y", File(3, b"linked twice")),
        ("z", File(3, b"linked twice")),
        ("x", File(4, b"-")),
    ],
    &[],
];

fn fresh(plan: Plan) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dir");
    Folder::create(&path).unwrap().lay(&layout(plan)).unwrap();
    seen(&path)
}

/// A folder to lay states out in, its path, and what removes it in the end.
fn empty_folder<'a>() -> (tempfile::TempDir, PathBuf, Folder<'a>) {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("dir");
    let folder = Folder::create(&path).unwrap();
    (scratch, path, folder)
}

#[test]
fn from_any_state_to_any_other_it_looks_as_if_made_anew() {
    let (_scratch, path, mut folder) = empty_folder();
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
    let (_scratch, path, mut folder) = empty_folder();
    let (first, linked) = (STATES[0], STATES[3]);
    let tampering: [(Plan, &dyn Fn()); 9] = [
        (first, &|| {
            // As a mapping in memory does it: no time of change.
            let file = std::fs::File::options()
                .read(true)
                .write(true)
                .open(path.join("a"));
            let file = file.unwrap();
            let times = file.metadata().unwrap();
            std::fs::read(path.join("a")).unwrap();
            let accessed = std::fs::metadata(path.join("a"))
                .unwrap()
                .accessed()
                .unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, b"ONE", 0).unwrap();
            let changed = times.modified().unwrap();
            let times = std::fs::FileTimes::new()
                .set_modified(changed)
                .set_accessed(accessed);
            file.set_times(times).unwrap();
        }),
        (first, &|| std::fs::write(path.join("a"), "one").unwrap()),
        (first, &|| std::fs::write(path.join("d/new"), "x").unwrap()),
        (first, &|| std::fs::remove_file(path.join("d/b")).unwrap()),
        (first, &|| std::fs::remove_dir_all(path.join("d")).unwrap()),
        (first, &|| {
            std::fs::rename(path.join("a"), path.join("d/b")).unwrap()
        }),
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
    let (_scratch, path, mut folder) = empty_folder();
    let one = layout(STATES[0]);
    folder.lay(&one).unwrap();
    let written = folder.written;
    folder.lay(&one).unwrap();
    assert_eq!(folder.written, written);
    if folder.shows_reading() {
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

mod assumed {
    use super::super::{FileMedium, FileOracle};
    use super::initial;
    use crate::engine::medium::{DurableState as _, Medium as _};
    use crashpoint_persist::files::{MicroOpKind, Model};
    use crashpoint_persist::graph::NodeId;
    use crashpoint_trace::files::{
        Before, Call, Effect, InodeId, InodeKind, Slot, Stream, Through,
    };
    use std::ops::ControlFlow;
    use std::path::Path;

    fn slot(name: &str) -> Slot<'_> {
        Slot {
            directory: InodeId::ROOT,
            name: name.as_bytes(),
        }
    }

    /// Saves a document by a new file that is renamed over the old one, without any sync.
    fn saves(times: u32) -> Vec<Call<'static>> {
        let mut effects: Vec<Vec<Effect<'static>>> = Vec::new();
        for number in 0..times {
            let (inode, old) = (InodeId(2 + number), InodeId(1 + number));
            let kind = InodeKind::File;
            let mode = 0o644;
            effects.push(vec![
                Effect::New { inode, kind, mode },
                Effect::Link {
                    slot: slot("tmp"),
                    inode,
                },
            ]);
            effects.push(vec![Effect::Write {
                inode,
                offset: 0,
                bytes: &[b'x'; 1000],
                through: Through::Cache,
            }]);
            effects.push(vec![Effect::Rename {
                from: slot("tmp"),
                to: slot("doc"),
                inode,
                victim: Some(old),
            }]);
            effects.push(vec![Effect::Output {
                stream: Stream::Stdout,
                bytes: b"saved\n",
            }]);
        }
        let call = |(order, effects)| Call::of_one_thread(order, "call()", effects);
        (0..).zip(effects).map(call).collect()
    }

    #[test]
    fn what_is_taken_to_be_durable_takes_with_it_what_it_needs() {
        let root = initial(InodeId::ROOT, InodeKind::Directory, &[]);
        let old = initial(InodeId(1), InodeKind::File, b"old");
        let before = Before {
            inodes: vec![root, old],
            entries: vec![(slot("doc"), InodeId(1))],
        };
        let calls = saves(3);
        let model = Model::builtin("ext4-ordered").unwrap();
        let files = FileMedium::new(&before, &calls, &model, FileOracle::Checker);
        let mut content = files.before();
        let mut known = 0;
        files.crash_points(&mut |point, assumed| {
            content
                .advance(&point.durable[known..], point.order)
                .unwrap();
            known = point.durable.len();
            let frontier = point.frontier();
            for cut in frontier.cuts() {
                let layout = content.patch(&frontier.kept(&cut), 0);
                let size = layout.content(Path::new("doc")).map(|doc| doc.size());
                let kept = frontier.kept(&cut);
                assert_ne!(
                    size,
                    Some(0),
                    "{} {:?} {kept:?}",
                    point.order,
                    point.durable
                );
            }
            if point.returned {
                let mut latest = (0..point.issued as u32).rev().map(NodeId);
                let data =
                    |id: &NodeId| matches!(files.nodes[id.index()].kind, MicroOpKind::Write { .. });
                assumed.extend(latest.find(data));
            }
            ControlFlow::Continue(())
        });
    }
}
