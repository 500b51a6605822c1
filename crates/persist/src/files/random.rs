//! The graph against the reference, and laws that all models keep, over random small programs.

use super::litmus::{self, Litmus, LitmusFile, LitmusOp, WriteFlags};
use super::reference::{ALL, Reference};
use super::{Content, Data, FileWalker, Filler, Model, PatchSource, Tree, Trees};
use crate::graph::{Cut, NodeId, Walker as _};
use crashpoint_trace::files::{Allocation, Before, Call};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const FILES: [&str; 4] = ["f", "g", "d/f", "e/g"];

fn setup() -> Vec<LitmusOp> {
    let create = |path: &str| LitmusOp::Create {
        path: path.to_owned(),
    };
    let fill = |path: &str, bytes: Vec<u8>| LitmusOp::Append {
        file: LitmusFile::Path(path.to_owned()),
        bytes,
        how: WriteFlags::Plain,
    };
    vec![
        LitmusOp::Mkdir {
            path: "d".to_owned(),
        },
        create("f"),
        fill("f", vec![b'O'; 700]),
        create("g"),
    ]
}

fn op() -> impl Strategy<Value = LitmusOp> {
    let path = || prop::sample::select(FILES.to_vec()).prop_map(str::to_owned);
    let file = || path().prop_map(LitmusFile::Path);
    let directory = || prop::sample::select(vec![".", "d", "e"]).prop_map(str::to_owned);
    let letter = || prop::sample::select(vec![b'A', b'B', b'C']);
    let offset = prop::sample::select(vec![0u64, 1, 300, 600, 700, 4000, 4096]);
    let how = prop::sample::select(vec![
        WriteFlags::Plain,
        WriteFlags::Plain,
        WriteFlags::Plain,
        WriteFlags::Dsync,
        WriteFlags::Sync,
    ]);
    let size = prop::sample::select(vec![0u64, 1, 100, 600, 4096, 5000]);
    prop_oneof![
        2 => path().prop_map(|path| LitmusOp::Create { path }),
        1 => Just(LitmusOp::Mkdir { path: "e".to_owned() }),
        1 => (file(), path()).prop_map(|(file, path)| LitmusOp::Link { file, path }),
        2 => path().prop_map(|path| LitmusOp::Unlink { path }),
        3 => (path(), path()).prop_map(|(from, to)| LitmusOp::Rename { from, to }),
        1 => Just(LitmusOp::Rename { from: "d".to_owned(), to: "e".to_owned() }),
        1 => (path(), path()).prop_map(|(first, second)| LitmusOp::Exchange { first, second }),
        5 => (file(), offset, letter(), 1..300usize, how.clone()).prop_map(
            |(file, offset, letter, length, how)| LitmusOp::Write {
                file,
                offset,
                bytes: vec![letter; length],
                how,
            }
        ),
        3 => (file(), letter(), 1..100usize, how).prop_map(|(file, letter, length, how)| {
            let bytes = vec![letter; length];
            LitmusOp::Append { file, bytes, how }
        }),
        3 => (file(), size).prop_map(|(file, size)| LitmusOp::Truncate { file, size }),
        1 => file().prop_map(|file| LitmusOp::Allocate {
            file,
            offset: 0,
            length: 4096,
            what: Allocation::PunchHole,
        }),
        1 => file().prop_map(|file| LitmusOp::Allocate {
            file,
            offset: 0,
            length: 8192,
            what: Allocation::Reserve,
        }),
        1 => file().prop_map(|file| LitmusOp::Chmod { file, mode: 0o600 }),
        2 => file().prop_map(|file| LitmusOp::Fsync { file }),
        1 => file().prop_map(|file| LitmusOp::Fdatasync { file }),
        2 => directory().prop_map(|path| LitmusOp::Fsync { file: LitmusFile::Path(path) }),
        1 => Just(LitmusOp::Sync),
    ]
}

/// As many operations of the list as make sense one after the other.
fn program(ops: Vec<LitmusOp>) -> Litmus {
    let mut sensible: Vec<LitmusOp> = Vec::new();
    for op in ops {
        let confused = match &op {
            LitmusOp::Rename { from, to } => from == to || from == "d" && uses(&sensible, "e"),
            LitmusOp::Exchange { first, second } => first == second,
            LitmusOp::Link { file, path } => {
                let there = LitmusOp::Fsync {
                    file: LitmusFile::Path(path.clone()),
                };
                *file == LitmusFile::Path(path.clone()) || runs(&sensible, there)
            }
            LitmusOp::Fsync { .. } | LitmusOp::Fdatasync { .. } => false,
            _ => false,
        };
        if !confused && runs(&sensible, op.clone()) {
            sensible.push(op);
        }
    }
    Litmus::new("random", setup(), sensible).expect("each operation was tried")
}

fn runs(program: &[LitmusOp], op: LitmusOp) -> bool {
    let mut longer = program.to_vec();
    longer.push(op);
    Litmus::new("random", setup(), longer).is_ok()
}

fn uses(program: &[LitmusOp], path: &str) -> bool {
    program.iter().any(|op| match op {
        LitmusOp::Mkdir { path: made } => made == path,
        _ => false,
    })
}

/// Shown as it is written.
struct Program(Litmus);

impl std::fmt::Debug for Program {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for op in &self.0.program {
            writeln!(to, "  {op}")?;
        }
        Ok(())
    }
}

fn programs(length: usize) -> impl Strategy<Value = Program> {
    prop::collection::vec(op(), 1..length).prop_map(|ops| Program(program(ops)))
}

/// More states than this, and a program is not for comparing all of them.
const MAX_STATES: u64 = 3000;

/// All states now, or nothing if there are too many.
fn states<'a>(walker: &FileWalker<'a>, trees: &mut Trees<'a>) -> Option<BTreeSet<String>> {
    let frontier = walker.frontier();
    if frontier.count().value > MAX_STATES.into() {
        return None;
    }
    let mut states = BTreeSet::new();
    for cut in frontier.cuts() {
        let kept = frontier.kept(&cut);
        for filler in trees.fillers(&kept, walker.nodes()) {
            states.insert(trees.tree(&kept, walker.nodes(), filler).summary());
        }
    }
    Some(states)
}

fn compare(litmus: &Litmus) -> Result<(), TestCaseError> {
    let (before, calls) = litmus.calls();
    for (name, fs) in ALL {
        let model = Model::builtin(name).expect("a built-in model");
        let mut walker = FileWalker::new(&model, &before);
        let mut trees = Trees::new(&model, &before);
        let mut reference = Reference::new(fs, &before);
        for (index, call) in calls.iter().enumerate() {
            walker.begin(call);
            reference.begin(call);
            let Some(seen) = states(&walker, &mut trees) else {
                break;
            };
            let within = reference.states();
            prop_assert_eq!(&seen, &within, "{} within call {}", name, index);
            let completes = walker.completes(call);
            let fed = walker.end(call);
            prop_assert_eq!(completes, fed.fence, "{} completes {}", name, index);
            trees.settle(&walker.take_durable(), walker.nodes());
            reference.end(call);
            let seen = states(&walker, &mut trees).expect("a sync makes states fewer");
            prop_assert_eq!(seen, reference.states(), "{} after call {}", name, index);
        }
    }
    Ok(())
}

/// Every program of three of these: what is next to what decides, not how much there is of it.
#[test]
fn every_short_program_leaves_what_the_reference_says() {
    let text = [
        "create d/f",
        "write f 600 A*300",
        "append g B*1",
        "write g 4096 C*1",
        "truncate f 1",
        "rename f g",
        "rename g d/f",
        "unlink f",
        "fsync g",
        "fdatasync f",
        "fsync d",
        "append f D*1 dsync",
    ];
    let lines: Vec<String> = text.iter().map(|line| format!("  {line}\n")).collect();
    let mut tried = 0;
    for number in 0..lines.len().pow(3) {
        let digits = [1, 12, 144].map(|unit| number / unit % 12);
        let body: String = digits.iter().map(|digit| lines[*digit].as_str()).collect();
        let setup: String = setup().iter().map(|op| format!("  {op}\n")).collect();
        let text = format!("litmus short\nsetup\n{setup}program\n{body}");
        // Not every order makes sense: a file has to be there to be removed.
        let Ok(parsed) = Litmus::parse(&text) else {
            continue;
        };
        tried += 1;
        if let Err(error) = compare(&parsed[0]) {
            panic!("{error}\n{text}");
        }
    }
    assert!(tried > 1000, "{tried}");
}

fn all_states<'a>(name: &str, before: &Before<'a>, calls: &[Call<'a>]) -> Option<litmus::States> {
    let model = Model::builtin(name).expect("a built-in model");
    let mut walker = FileWalker::new(&model, before);
    for call in calls {
        walker.begin(call);
        if walker.frontier().count().value > MAX_STATES.into() {
            return None;
        }
        walker.end(call);
    }
    Some(litmus::states(&model, before, calls))
}

/// What the second model of a pair allows, the first does.
const WEAKER: [(&str, &str); 6] = [
    ("posix", "ext4-ordered"),
    ("posix", "xfs"),
    ("posix", "btrfs"),
    ("ext4-ordered", "ext4-journal"),
    ("ext4-ordered", "ext4-dioread-lock"),
    ("ext4-dioread-lock", "ext4-nodelalloc"),
];

fn allows_no_more(program: &Litmus) -> Result<(), TestCaseError> {
    let (before, calls) = program.calls();
    for (weak, strong) in WEAKER {
        let both = (
            all_states(weak, &before, &calls),
            all_states(strong, &before, &calls),
        );
        if let (Some(weak_states), Some(strong_states)) = both {
            let more: Vec<&String> = strong_states
                .at_end
                .difference(&weak_states.at_end)
                .collect();
            prop_assert!(more.is_empty(), "{} and not {}: {:?}", strong, weak, more);
        }
    }
    Ok(())
}

/// Whether the size of `f` is durable decides whether the zeros lie within it.
#[test]
fn zeros_behind_a_new_end_tear_wherever_the_old_end_was() {
    let setup: String = setup().iter().map(|op| format!("  {op}\n")).collect();
    let body = "  write f 700 A*1\n  append g A*1 dsync\n  truncate f 1\n";
    let text = format!("litmus zeros\nsetup\n{setup}program\n{body}");
    let parsed = Litmus::parse(&text).unwrap();
    allows_no_more(&parsed[0]).unwrap();
    compare(&parsed[0]).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_programs_leave_what_the_reference_says(program in programs(7)) {
        compare(&program.0)?;
    }

    #[test]
    fn a_stronger_model_allows_no_more(program in programs(6)) {
        allows_no_more(&program.0)?;
    }

    #[test]
    fn what_happened_so_far_may_be_all_there_is(program in programs(12)) {
        let (before, calls) = program.0.calls();
        for name in Model::NAMES {
            let model = Model::builtin(name).expect("a built-in model");
            let mut walker = FileWalker::new(&model, &before);
            for call in &calls {
                walker.feed(call);
                let frontier = walker.frontier();
                for last in 0..=walker.nodes().len() as u32 {
                    let kept = frontier.chains.iter().map(|chain| {
                        chain.nodes.partition_point(|node| *node < NodeId(last)) as u32
                    });
                    let cut = Cut(kept.collect());
                    prop_assert!(frontier.is_closed(&cut), "{} up to {}", name, last);
                }
            }
            walker.feed(&sync(&calls));
            prop_assert!(walker.is_quiet());
            prop_assert!(walker.frontier().chains.is_empty());
        }
    }

    #[test]
    fn after_a_sync_the_tree_is_what_the_program_sees(program in programs(12)) {
        let (before, calls) = program.0.calls();
        let mut seen = BTreeSet::new();
        for name in Model::NAMES {
            let model = Model::builtin(name).expect("a built-in model");
            let mut walker = FileWalker::new(&model, &before);
            let mut trees = Trees::new(&model, &before);
            for call in &calls {
                walker.feed(call);
                trees.settle(&walker.take_durable(), walker.nodes());
                let all = walker.frontier().kept(&walker.frontier().all());
                let tree = trees.tree(&all, walker.nodes(), Filler::Zeros);
                let after = trees.tree(&all, walker.nodes(), Filler::Zeros);
                prop_assert_eq!(tree.hash(), after.hash());
            }
            walker.feed(&sync(&calls));
            trees.settle(&walker.take_durable(), walker.nodes());
            let tree = trees.tree(&[], walker.nodes(), Filler::Zeros);
            seen.insert((tree.hash(), tree.summary()));
        }
        prop_assert_eq!(seen.len(), 1, "{:?}", seen);
    }

    #[test]
    fn what_is_taken_to_be_durable_changes_neither_nodes_nor_what_is_possible(
        program in programs(8), choices in prop::collection::vec(0..100_usize, 8),
    ) {
        let (before, calls) = program.0.calls();
        for name in Model::NAMES {
            let model = Model::builtin(name).expect("a built-in model");
            let mut plain = (FileWalker::new(&model, &before), Trees::new(&model, &before));
            let mut other = plain.clone();
            for (call, choice) in calls.iter().zip(&choices) {
                for (walker, trees) in [&mut plain, &mut other] {
                    walker.feed(call);
                    trees.settle(&walker.take_durable(), walker.nodes());
                }
                prop_assert_eq!(
                    format!("{:?}", plain.0.nodes()),
                    format!("{:?}", other.0.nodes())
                );
                let Some(possible) = states(&plain.0, &mut plain.1) else {
                    return Ok(());
                };
                let left = states(&other.0, &mut other.1).expect("no more than all");
                prop_assert!(left.is_subset(&possible), "{name} {call:?}");
                // Every other choice is to assume nothing.
                let nodes = other.0.frontier();
                let nodes: Vec<NodeId> = nodes.kept(&nodes.all());
                if let Some(node) = nodes.get(choice / 2).filter(|_| choice % 2 == 0) {
                    other.0.assume_durable(*node);
                    other.1.settle(&other.0.take_durable(), other.0.nodes());
                }
            }
        }
    }

    #[test]
    fn patches_lead_from_any_content_to_any_other(program in programs(9)) {
        let mut at: Option<Tree<'_>> = None;
        each_tree(&program.0.calls(), 50, |next| {
            for (_, inode, new) in next.entries() {
                let mut before = at.iter().flat_map(Tree::entries);
                if let Some((_, _, old)) = before.find(|(_, one, _)| *one == inode) {
                    let patched = patched(&old.content, &new.content);
                    prop_assert_eq!(patched.summary(), new.content.summary());
                }
            }
            at = Some(next);
            Ok(())
        })?;
    }

    #[test]
    fn equal_hashes_are_equal_trees(program in programs(7)) {
        let mut known: BTreeMap<u128, String> = BTreeMap::new();
        let mut summaries: BTreeMap<String, u128> = BTreeMap::new();
        each_tree(&program.0.calls(), 200, |tree| {
            let (hash, summary) = (tree.hash(), tree.summary());
            prop_assert_eq!(known.entry(hash).or_insert(summary.clone()), &summary);
            prop_assert_eq!(*summaries.entry(summary).or_insert(hash), hash);
            Ok(())
        })?;
    }
}

/// Shows trees that a crash may leave behind: after each call, so many at most.
fn each_tree<'a>(
    (before, calls): &'a (Before<'a>, Vec<Call<'a>>),
    most: usize,
    mut show: impl FnMut(Tree<'a>) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let model = Model::builtin("posix").expect("a built-in model");
    let mut walker = FileWalker::new(&model, before);
    let mut trees = Trees::new(&model, before);
    for call in calls {
        walker.feed(call);
        trees.settle(&walker.take_durable(), walker.nodes());
        let frontier = walker.frontier();
        for cut in frontier.cuts().take(most) {
            let kept = frontier.kept(&cut);
            show(trees.tree(&kept, walker.nodes(), Filler::Stale))?;
        }
    }
    Ok(())
}

/// The old content after all that makes the new one of it.
fn patched<'a>(old: &Content<'a>, new: &Content<'a>) -> Content<'a> {
    let mut content = old.clone();
    content.resize(new.size());
    for patch in new.patches_from(old) {
        match patch.source {
            PatchSource::Bytes(bytes) => {
                assert_eq!(bytes.len() as u64, patch.length);
                content.write(patch.offset, Data::Bytes(bytes));
            }
            PatchSource::Filler(byte) => content.fill(patch.offset, patch.length, byte),
            PatchSource::Hole => content.punch(patch.offset, patch.length),
        }
    }
    content
}

fn sync<'a>(calls: &[Call<'a>]) -> Call<'a> {
    let everything = crashpoint_trace::files::SyncKind::Everything;
    Call {
        order: calls.len() as u64 + 1,
        process: 0,
        thread: 0,
        number: crashpoint_trace::files::SystemCall(0),
        stack: crashpoint_trace::files::StackId(0),
        text: "sync()",
        effects: vec![crashpoint_trace::files::Effect::Sync(everything)],
    }
}
