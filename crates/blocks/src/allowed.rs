//! What a model allows of a small program, step by step.

use std::collections::BTreeSet;

use crashpoint_persist::files::{Filler, Model, Trees, Walker};
use crashpoint_trace::files::{Before, Call};

/// More cuts than a small program has.
const MOST_CUTS: usize = 1 << 16;

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
    let mut allowed = Allowed {
        states: vec![BTreeSet::new(); calls.len() + 1],
        truncated: false,
    };
    allowed.add(0, &walker, &mut trees);
    for (returned, call) in calls.iter().enumerate() {
        walker.begin(call);
        allowed.add(returned, &walker, &mut trees);
        walker.end(call);
        trees.settle(&walker.take_durable(), walker.nodes());
        allowed.add(returned + 1, &walker, &mut trees);
    }
    allowed
}

impl Allowed {
    fn add<'a>(&mut self, returned: usize, walker: &Walker<'a>, trees: &mut Trees<'a>) {
        let frontier = walker.frontier();
        let mut cuts = frontier.cuts();
        for cut in cuts.by_ref().take(MOST_CUTS) {
            let kept = frontier.kept(&cut);
            for filler in trees.fillers(&kept, walker.nodes()) {
                let tree = trees.tree(&kept, walker.nodes(), filler);
                self.states[returned].insert(tree.summary());
            }
        }
        self.truncated |= cuts.next().is_some();
    }
}

/// A folder in the words of the models.
pub(crate) fn describe(model: &Model, before: &Before<'_>) -> String {
    let mut trees = Trees::new(model, before);
    trees.tree(&[], &[], Filler::Zeros).summary()
}
