use super::*;
use crashpoint_trace::files::{
    Before, Call, Effect, Initial, InodeId, InodeKind, Slot, StackId, SyncKind, SystemCall, Through,
};
use std::collections::BTreeSet;

const F: InodeId = InodeId(1);
const G: InodeId = InodeId(2);

fn slot(name: &str) -> Slot<'_> {
    Slot {
        directory: InodeId::ROOT,
        name: name.as_bytes(),
    }
}

fn folder() -> Initial<'static> {
    Initial {
        inode: InodeId::ROOT,
        kind: InodeKind::Directory,
        mode: 0o755,
        xattrs: Vec::new(),
        bytes: b"",
    }
}

fn call<'a>(order: u64, effects: Vec<Effect<'a>>) -> Call<'a> {
    Call {
        order,
        process: 0,
        thread: 0,
        number: SystemCall(0),
        stack: StackId(0),
        text: "",
        effects,
    }
}

/// All trees that a crash at the end may leave.
fn states<'a>(model: &str, before: &Before<'a>, calls: &[Vec<Effect<'a>>]) -> BTreeSet<String> {
    let model = Model::builtin(model).expect("a built-in model");
    let mut walker = Walker::new(&model, before);
    let mut trees = Trees::new(&model, before);
    for (order, effects) in (1..).zip(calls) {
        walker.feed(&call(order, effects.clone()));
        trees.settle(&walker.take_durable(), walker.nodes());
    }
    let frontier = walker.frontier();
    let mut states = BTreeSet::new();
    for cut in frontier.cuts() {
        let kept = frontier.kept(&cut);
        for filler in trees.fillers(&kept, walker.nodes()) {
            states.insert(trees.tree(&kept, walker.nodes(), filler).summary());
        }
    }
    states
}

fn created<'a>(inode: InodeId, name: &'a str, bytes: &'a [u8]) -> Vec<Vec<Effect<'a>>> {
    let new = Effect::New {
        inode,
        kind: InodeKind::File,
        mode: 0o644,
    };
    let link = Effect::Link {
        slot: slot(name),
        inode,
    };
    let write = Effect::Write {
        inode,
        offset: 0,
        bytes,
        through: Through::Cache,
    };
    vec![vec![new, link], vec![write]]
}

fn set(states: &[&str]) -> BTreeSet<String> {
    states.iter().map(|state| state.to_string()).collect()
}

#[test]
fn every_built_in_model_is_right() {
    for name in Model::NAMES {
        assert_eq!(Model::builtin(name).expect("built in").name(), name);
    }
}

#[test]
fn a_new_file_may_be_absent_empty_zeros_or_full() {
    let before = Before {
        inodes: vec![folder()],
        entries: Vec::new(),
    };
    let calls = created(F, "f", &[b'A'; 4096]);
    assert_eq!(
        states("ext4-ordered", &before, &calls),
        set(&["-", "f=", "f=0*4096", "f=A*4096"])
    );
    assert_eq!(
        states("xfs", &before, &calls),
        set(&["-", "f=", "f=A*4096"])
    );
    assert_eq!(
        states("posix", &before, &calls),
        set(&["-", "f=", "f=0*4096", "f=?*4096", "f=A*4096"])
    );
}

#[test]
fn a_rename_over_a_file_may_leave_zeros() {
    let old = Initial {
        inode: G,
        kind: InodeKind::File,
        mode: 0o644,
        bytes: b"O",
        xattrs: Vec::new(),
    };
    let before = Before {
        inodes: vec![folder(), old],
        entries: vec![(slot("g"), G)],
    };
    let mut calls = created(F, "t", b"N");
    calls.push(vec![Effect::Rename {
        from: slot("t"),
        to: slot("g"),
        inode: F,
        victim: Some(G),
    }]);
    calls.push(vec![Effect::Sync(SyncKind::Full(InodeId::ROOT))]);
    assert_eq!(
        states("ext4-ordered", &before, &calls),
        set(&["g=0*1", "g=N*1"])
    );
    assert_eq!(states("xfs", &before, &calls), set(&["g=", "g=N*1"]));
}
