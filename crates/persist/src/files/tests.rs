//! Models from text, reasons and words, and the simplest programs.

use super::*;
use crate::graph::Walker as _;
use crashpoint_trace::files::{
    Before, Call, Effect, Initial, InodeId, InodeKind, Slot, SyncKind, Through,
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
    Initial::new(InodeId::ROOT, InodeKind::Directory, 0o755, b"")
}

fn call<'a>(order: u64, effects: Vec<Effect<'a>>) -> Call<'a> {
    Call::of_one_thread(order, "", effects)
}

/// All trees that a crash at the end may leave.
fn states<'a>(model: &str, before: &Before<'a>, calls: &[Vec<Effect<'a>>]) -> BTreeSet<String> {
    states_of(&Model::builtin(model).expect("built in"), before, calls)
}

fn states_of<'a>(
    model: &Model,
    before: &Before<'a>,
    calls: &[Vec<Effect<'a>>],
) -> BTreeSet<String> {
    let mut walker = FileWalker::new(model, before);
    let mut trees = Trees::new(model, before);
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
    let old = Initial::new(G, InodeKind::File, 0o644, b"O");
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

#[test]
fn a_model_may_start_from_another_one() {
    let model = Model::parse(
        "base = \"ext4-ordered\"\nname = \"mine\"\n[sync]\nfsync-new-file-name = false\n",
    )
    .expect("a model");
    assert_eq!(model.name(), "mine");
    assert!(!model.sync.fsync_new_file_name);
    assert_eq!(model.sync.fsync, model::Fsync::Chain);
    let changed = Model::parse("base = \"xfs\"").expect("a model");
    assert_eq!(changed.name(), "xfs, changed");
}

#[test]
fn a_model_that_starts_from_nothing_says_everything() {
    let whole = include_str!("../../models/posix.toml");
    assert_eq!(Model::parse(whole).expect("a model").name(), "posix");
    let error = Model::parse("name = \"mine\"").expect_err("most is missing");
    assert!(error.to_string().contains("missing field"), "{error}");
}

#[test]
fn a_wrong_model_is_shown_with_its_line_and_the_nearest_name() {
    let error = |text: &str| Model::parse(text).expect_err("it is wrong").to_string();
    assert_eq!(
        error("base = \"xfs\"\n\n[sync]\nfsinc = \"own\"\n"),
        "line 4: unknown key `fsinc`; did you mean `fsync`?"
    );
    assert_eq!(
        error("\nbase = \"ext4-orderd\""),
        "line 2: there is no model `ext4-orderd`; did you mean `ext4-ordered`?"
    );
    let value = error("base = \"xfs\"\nrename = \"atomical\"\n");
    assert!(value.starts_with("line 2: `rename`: "), "{value}");
    assert!(value.contains("link-first"), "{value}");
    assert!(error("base = [").starts_with("line 1: "));
    assert_eq!(
        error("base = \"xfs\"\nsync = 1\n"),
        "line 2: `sync`: must be a table"
    );
}

#[test]
fn a_name_may_be_taken_to_need_its_directory() {
    let strict = "base = \"ext4-ordered\"\n[sync]\nfsync-new-file-name = false\n";
    let model = Model::parse(strict).expect("a model");
    let before = Before {
        inodes: vec![folder()],
        entries: Vec::new(),
    };
    let mut calls = created(F, "f", b"A");
    calls.push(vec![Effect::Sync(SyncKind::Full(F))]);
    assert_eq!(states_of(&model, &before, &calls), set(&["-", "f=A*1"]));
    calls.push(vec![Effect::Sync(SyncKind::Full(InodeId::ROOT))]);
    assert_eq!(states_of(&model, &before, &calls), set(&["f=A*1"]));
}

#[test]
fn every_loss_has_a_reason() {
    let before = Before {
        inodes: vec![folder()],
        entries: Vec::new(),
    };
    let model = Model::builtin("ext4-ordered").expect("built in");
    let mut walker = FileWalker::new(&model, &before);
    for (order, effects) in (1..).zip(created(F, "f", b"A")) {
        walker.feed(&call(order, effects));
    }
    let frontier = walker.frontier();
    let lost = frontier.lost(&frontier.none());
    let rules = lost.iter().map(|node| {
        let reason = model.explain(&walker.nodes()[node.index()].kind);
        reason.rule.as_str()
    });
    assert_eq!(rules.collect::<Vec<_>>(), ["E1", "E2", "E4"]);
}

#[test]
fn a_long_write_is_cut_into_so_many_runs() {
    let before = Before {
        inodes: vec![folder()],
        entries: Vec::new(),
    };
    let bytes = vec![b'A'; 1000 * 4096 + 1];
    let calls = created(F, "f", &bytes);
    for (name, most) in [("posix", 128), ("xfs", 64), ("ext4-journal", 4)] {
        let model = Model::builtin(name).expect("built in");
        let mut walker = FileWalker::new(&model, &before);
        for (order, effects) in (1..).zip(&calls) {
            walker.feed(&call(order, effects.clone()));
        }
        let data = walker.nodes().iter().filter(|op| {
            matches!(
                op.kind,
                MicroOpKind::Write { .. } | MicroOpKind::Grow { .. }
            )
        });
        let count = data.count();
        assert!((1..=most).contains(&count), "{name}: {count}");
    }
}
