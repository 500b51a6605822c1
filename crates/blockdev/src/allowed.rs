//! What a model allows of a small program, step by step.

use std::collections::BTreeSet;

use crashpoint_persist::files::{FileWalker, Filler, Model, STALE_BYTE, Trees};
use crashpoint_persist::graph::Walker as _;
use crashpoint_trace::files::{Before, Call};

/// More cuts than a small program has.
const MAX_CUTS: usize = 1 << 17;

/// What a crash may leave after so many calls had returned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// By the number of calls that had returned; the next one may be under way.
    pub states: Vec<BTreeSet<String>>,
    /// Whether there were too many to list them all.
    pub truncated: bool,
}

pub fn allowed<'a>(model: &Model, before: &Before<'a>, calls: &[Call<'a>]) -> Allowed {
    let mut walker = FileWalker::new(model, before);
    let mut trees = Trees::new(model, before);
    let mut truncated = false;
    let mut now = here(&walker, &mut trees, &mut truncated);
    let mut states = Vec::new();
    for call in calls {
        let mut during = now.clone();
        if walker.begin(call).changed {
            now = here(&walker, &mut trees, &mut truncated);
            during.extend(now.iter().cloned());
        }
        if walker.end(call).changed {
            trees.settle(&walker.take_durable(), walker.nodes());
            now = here(&walker, &mut trees, &mut truncated);
            // What it makes durable may be so a moment before it returns.
            during.extend(now.iter().cloned());
        }
        states.push(during);
    }
    states.push(now);
    Allowed { states, truncated }
}

fn here<'a>(
    walker: &FileWalker<'a>,
    trees: &mut Trees<'a>,
    truncated: &mut bool,
) -> BTreeSet<String> {
    let mut states = BTreeSet::new();
    let frontier = walker.frontier();
    let mut cuts = frontier.cuts();
    for cut in cuts.by_ref().take(MAX_CUTS) {
        let kept = frontier.kept(&cut);
        for filler in trees.fillers(&kept, walker.nodes()) {
            let tree = trees.tree(&kept, walker.nodes(), filler);
            states.insert(tree.summary());
        }
    }
    *truncated |= cuts.next().is_some();
    states
}

/// A folder in the words of the models. What lay on the disk before is what they do not know.
pub(crate) fn describe(model: &Model, before: &Before<'_>) -> String {
    let mut trees = Trees::new(model, before);
    let summary = trees.tree(&[], &[], Filler::Zeros).summary();
    // Litmus tests write letters and zeros alone.
    summary.replace(&format!("x{STALE_BYTE:02x}*"), "?*")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crashpoint_persist::files::litmus::Litmus;

    fn model(name: &str) -> Model {
        Model::builtin(name).expect("it is built in")
    }

    #[test]
    fn a_sync_narrows_what_is_allowed_once_it_has_returned() {
        let text = "litmus l\nprogram\n  create f\n  fsync f\n";
        let litmus = Litmus::parse(text).unwrap().remove(0);
        let (before, calls) = litmus.calls();
        let allowed = allowed(&model("ext4-ordered"), &before, &calls);
        let sets: Vec<Vec<&str>> = allowed
            .states
            .iter()
            .map(|states| states.iter().map(String::as_str).collect())
            .collect();
        assert_eq!(sets, [vec!["-", "f="], vec!["-", "f="], vec!["f="]]);
        assert!(!allowed.truncated);
    }

    #[test]
    fn what_lay_on_the_disk_is_what_models_do_not_know() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("f"), [b'A', STALE_BYTE, STALE_BYTE]).unwrap();
        let tree = crate::tree::FolderTree::read(folder.path()).unwrap();
        let text = describe(&model("posix"), &tree.before());
        assert!(text.ends_with("f=A*1,?*2"), "{text}");
    }
}
