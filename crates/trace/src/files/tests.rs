//! What is written is what is read, and what is damaged is read up to the damage.

use super::*;
use proptest::prelude::*;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

/// An effect that owns its bytes.
#[derive(Clone, Debug)]
struct Seed {
    shape: u8,
    inode: u32,
    other: u32,
    offset: u64,
    bytes: Vec<u8>,
}

impl Seed {
    fn effect(&self) -> Effect<'_> {
        let inode = InodeId(self.inode);
        let bytes = &self.bytes[..];
        let slot = Slot {
            directory: InodeId(self.other),
            name: bytes,
        };
        let (offset, length) = (self.offset, u64::from(self.other));
        match self.shape % 15 {
            0 => Effect::New {
                inode,
                kind: InodeKind::Symlink { target: bytes },
                mode: self.other,
            },
            1 => Effect::Link { slot, inode },
            2 => Effect::Unlink { slot, inode },
            3 => Effect::Rename {
                from: slot,
                to: slot,
                inode,
                victim: Some(InodeId(self.other)),
            },
            4 => Effect::Exchange {
                first: slot,
                first_inode: inode,
                second: slot,
                second_inode: inode,
            },
            5 | 6 => Effect::Write {
                inode,
                offset,
                bytes,
                through: Through::Mapping,
            },
            7 => Effect::Resize {
                inode,
                from: offset,
                to: length,
            },
            8 => Effect::Allocate {
                inode,
                offset,
                length,
                what: Allocation::Insert,
            },
            9 => Effect::SetXattr {
                inode,
                name: bytes,
                value: Some(bytes),
            },
            10 => Effect::SetMode {
                inode,
                mode: self.other,
            },
            11 => Effect::Sync(SyncKind::WriteOut {
                inode,
                offset,
                length,
            }),
            12 => Effect::LastClose { inode },
            13 => Effect::SetXattr {
                inode,
                name: bytes,
                value: None,
            },
            _ => Effect::Output {
                stream: Stream::Socket,
                bytes,
            },
        }
    }
}

fn seeds() -> impl Strategy<Value = Vec<Vec<Seed>>> {
    let bytes = prop_oneof![
        9 => proptest::collection::vec(any::<u8>(), 0..50),
        1 => proptest::collection::vec(any::<u8>(), 4000..9000),
    ];
    let seed = (any::<u8>(), any::<u32>(), any::<u32>(), any::<u64>(), bytes);
    let seed = seed.prop_map(|(shape, inode, other, offset, bytes)| Seed {
        shape,
        inode,
        other,
        offset,
        bytes,
    });
    proptest::collection::vec(proptest::collection::vec(seed, 0..4), 0..12)
}

fn call<'a>(order: usize, seeds: &'a [Seed]) -> Call<'a> {
    Call {
        order: order as u64,
        process: 0,
        thread: 3,
        number: SystemCall(82),
        stack: StackId(0),
        text: "rename(\"a\", \"ü\")",
        effects: seeds.iter().map(Seed::effect).collect(),
    }
}

fn start() -> Start {
    Start {
        command: vec![OsString::from_vec(vec![0xff, b'x']), "y".into()],
        folder: "/data".into(),
        directory: "/".into(),
        stacks: true,
    }
}

/// Writes a recording and returns the bytes of `calls` and `symbols`.
fn written(all: &[Vec<Seed>], finish: bool) -> (Vec<u8>, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(folder.path(), &start()).unwrap();
    let module = writer.module("/bin/x").unwrap();
    let at = RawFrame { module, offset: 16 };
    assert_eq!(writer.stack(&[at]).unwrap(), StackId(0));
    for (order, seeds) in all.iter().enumerate() {
        writer.call(call(order, seeds)).unwrap();
    }
    if finish {
        let frame = StackFrame {
            module: "/bin/x".into(),
            offset: 16,
            function: "f".into(),
            source: None,
        };
        writer
            .finish(ProgramEnd::Exited(3), [(at, vec![frame])])
            .unwrap();
    } else {
        drop(writer);
    }
    let read = |name: &str| std::fs::read(folder.path().join("files").join(name));
    (read("calls").unwrap(), read("symbols").unwrap_or_default())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read(all in seeds(), finish in any::<bool>()) {
        let (calls, symbols) = written(&all, finish);
        let recording = FileRecording::from_bytes(calls, symbols).unwrap();
        let expected: Vec<Call<'_>> =
            all.iter().enumerate().map(|(order, seeds)| call(order, seeds)).collect();
        prop_assert_eq!(recording.calls().collect::<Vec<_>>(), expected);
        prop_assert_eq!(recording.command(), &start().command[..]);
        prop_assert_eq!(recording.ended(), finish.then_some(ProgramEnd::Exited(3)));
        let kinds: Vec<_> = recording.problems().iter().map(|problem| &problem.kind).collect();
        if finish {
            prop_assert!(kinds.is_empty(), "{:?}", kinds);
        } else {
            prop_assert_eq!(kinds, [&ProblemKind::NoEnd]);
        }
        let function = &recording.frames(StackId(0))[0].function;
        prop_assert_eq!(function, if finish { "f" } else { "?" });
    }

    #[test]
    fn a_recording_that_is_cut_is_read_up_to_the_cut(all in seeds(), cut in any::<usize>()) {
        let (mut calls, symbols) = written(&all, true);
        calls.truncate(cut % calls.len());
        let Ok(recording) = FileRecording::from_bytes(calls, symbols) else {
            return Ok(());
        };
        for (order, read) in recording.calls().enumerate() {
            prop_assert_eq!(read, call(order, &all[order]));
        }
        prop_assert!(!recording.problems().is_empty(), "the end is missing");
    }

    #[test]
    fn a_byte_that_changed_is_noticed(all in seeds(), at in any::<usize>(), to in any::<u8>()) {
        let (mut calls, symbols) = written(&all, true);
        let at = at % calls.len();
        // The last four bytes of the header say nothing.
        prop_assume!(calls[at] != to && !(12..16).contains(&at));
        calls[at] = to;
        let Ok(recording) = FileRecording::from_bytes(calls, symbols) else {
            return Ok(());
        };
        for (order, read) in recording.calls().enumerate() {
            prop_assert_eq!(read, call(order, &all[order]));
        }
        prop_assert!(!recording.problems().is_empty());
    }
}

#[test]
fn recordings_of_other_versions_and_other_files_are_refused() {
    let (calls, _) = written(&[], true);
    let mut newer = calls.clone();
    newer[8] = 99;
    let error = FileRecording::from_bytes(newer, Vec::new()).unwrap_err();
    assert!(
        matches!(error.kind, OpenErrorKind::Version { found: 99 }),
        "{error}"
    );
    let error = FileRecording::from_bytes(b"something else".to_vec(), Vec::new()).unwrap_err();
    assert!(matches!(error.kind, OpenErrorKind::Foreign), "{error}");
    let error = FileRecording::from_bytes(Vec::new(), Vec::new()).unwrap_err();
    assert!(matches!(error.kind, OpenErrorKind::Empty), "{error}");
}

#[test]
fn what_was_there_before_is_read_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    Writer::create(folder.path(), &start()).unwrap();
    let mut before = BeforeWriter::create(folder.path()).unwrap();
    let file = InodeId(1);
    std::fs::write(before.content(file), "content").unwrap();
    before
        .inode(InodeId::ROOT, InodeKind::Directory, 0o755, &[], 0)
        .unwrap();
    let xattrs = [(b"user.a".to_vec(), b"1".to_vec())];
    before
        .inode(file, InodeKind::File, 0o644, &xattrs, 7)
        .unwrap();
    let slot = Slot {
        directory: InodeId::ROOT,
        name: b"f",
    };
    before.entry(slot, file).unwrap();
    let index = folder.path().join("files/before/index");
    let unfinished = FileRecording::open(folder.path()).unwrap_err();
    assert!(
        matches!(unfinished.kind, OpenErrorKind::Before { .. }),
        "{unfinished}"
    );
    before.finish().unwrap();
    assert!(
        index.metadata().unwrap().len() < 400,
        "what was reserved is given back"
    );
    let recording = FileRecording::open(folder.path()).unwrap();
    let read = recording.before();
    assert_eq!(read.inodes.len(), 2);
    assert_eq!(read.inodes[1].bytes, b"content");
    assert_eq!(read.inodes[1].xattrs, [(&b"user.a"[..], &b"1"[..])]);
    assert_eq!(read.entries, [(slot, file)]);
}

#[test]
fn a_folder_that_is_no_recording_is_told_apart_from_one_that_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let error = FileRecording::open(&folder.path().join("none")).unwrap_err();
    assert!(matches!(error.kind, OpenErrorKind::Missing), "{error}");
    let error = FileRecording::open(folder.path()).unwrap_err();
    assert!(
        matches!(error.kind, OpenErrorKind::NotARecording),
        "{error}"
    );
}
