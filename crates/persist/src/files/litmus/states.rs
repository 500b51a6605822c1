//! All states that a model allows of a small program.

use super::super::{FileWalker, Model, Trees};
use crate::graph::Walker as _;
use crashpoint_trace::files::{Before, Call};
use std::collections::BTreeSet;

/// The trees that crashes may leave, by their summaries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct States {
    pub any_time: BTreeSet<String>,
    pub at_end: BTreeSet<String>,
}

/// Every closed cut of every frontier: before, within and after each call. For small programs.
pub fn states<'a>(model: &Model, before: &Before<'a>, calls: &[Call<'a>]) -> States {
    let mut walker = FileWalker::new(model, before);
    let mut trees = Trees::new(model, before);
    let mut any_time = BTreeSet::new();
    let mut at_end = here(&walker, &mut trees);
    any_time.extend(at_end.iter().cloned());
    for call in calls {
        walker.begin(call);
        any_time.extend(here(&walker, &mut trees));
        walker.end(call);
        trees.settle(&walker.take_durable(), walker.nodes());
        at_end = here(&walker, &mut trees);
        any_time.extend(at_end.iter().cloned());
    }
    States { any_time, at_end }
}

fn here<'a>(walker: &FileWalker<'a>, trees: &mut Trees<'a>) -> BTreeSet<String> {
    let frontier = walker.frontier();
    let mut states = BTreeSet::new();
    for cut in frontier.cuts() {
        let kept = frontier.kept(&cut);
        for filler in trees.fillers(&kept, walker.nodes()) {
            let tree = trees.tree(&kept, walker.nodes(), filler);
            states.insert(tree.summary());
        }
    }
    states
}
