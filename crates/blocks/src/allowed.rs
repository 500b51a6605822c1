//! What a model allows of a small program, step by step.

use std::collections::BTreeSet;

use crashpoint_persist::files::{Filler, Model, Trees, Walker};
use crashpoint_trace::files::{Before, Call};

/// More cuts than a small program has.
const MOST_CUTS: usize = 1 << 17;

/// What a crash may leave after so many calls had returned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// By the number of calls that had returned; the next one may be under way.
    pub states: Vec<BTreeSet<String>>,
    /// Whether there were too many to list them all.
    pub truncated: bool,
}

pub fn allowed<'a>(model: &Model, before: &Before<'a>, calls: &[Call<'a>]) -> Allowed {
    let mut walker = Walker::new(model, before);
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

fn here<'a>(walker: &Walker<'a>, trees: &mut Trees<'a>, truncated: &mut bool) -> BTreeSet<String> {
    let mut states = BTreeSet::new();
    let frontier = walker.frontier();
    let mut cuts = frontier.cuts();
    for cut in cuts.by_ref().take(MOST_CUTS) {
        let kept = frontier.kept(&cut);
        for filler in trees.fillers(&kept, walker.nodes()) {
            let tree = trees.tree(&kept, walker.nodes(), filler);
            states.insert(tree.summary());
        }
    }
    *truncated |= cuts.next().is_some();
    states
}

/// A folder in the words of the models.
pub(crate) fn describe(model: &Model, before: &Before<'_>) -> String {
    let mut trees = Trees::new(model, before);
    trees.tree(&[], &[], Filler::Zeros).summary()
}
