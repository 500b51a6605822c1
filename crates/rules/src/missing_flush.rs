//! A store to persistent memory that is never flushed.

use crate::leftovers::Left;
use crate::rule::{Draft, Path, Rule, Scene, Tally, by_path};
use crate::{Finding, RuleInfo, Severity, Step};
use crashpoint_persist::Origin;

pub const INFO: RuleInfo = RuleInfo {
    id: "missing-flush",
    title: "a store that is never flushed",
    severity: Severity::Error,
    manual: MANUAL,
};

const MANUAL: &str = "\
A store to persistent memory whose cache line is not flushed afterwards, until the recording ends. \
After a power failure the old value may be back.

    account->balance = 60;        // reported: no flush follows
    exit(0);

Flush the line after the store (clwb, clflushopt, clflush), or store past the cache, and fence \
before anything depends on the new value. Flushing a range means every line of it: a structure \
may begin in the middle of a line.

## What it can get wrong

- A place that the program never flushes on purpose and stores to over and over is taken for \
volatile data, and reported by `unpersisted` instead. If it is not volatile, both names mean the \
same mistake.
- Data that may be lost by design (a buffer whose last part need not survive, a node that is about \
to be freed) is reported all the same.
- A flush in code that was not built with crashpoint-cc is not seen, and the store is reported.
- Only the end of the recording is looked at. A flush that comes too late, or that comes only \
because a neighbour in the same line is flushed, hides the mistake.
- When a process was killed, stores that fewer than 16 fences of their thread followed are not \
reported: they may have been interrupted.

## Settings

    [rules.missing-flush]
    enabled = true
    severity = \"error\"
";

const HELP: &str = "flush the cache line after the store (clwb, clflushopt or clflush) and fence \
before anything depends on it";

pub(crate) struct MissingFlush {
    pub(crate) severity: Severity,
}

impl Rule for MissingFlush {
    fn finish(&mut self, scene: &Scene<'_>, out: &mut Vec<Finding>) {
        let left = scene
            .leftovers
            .missing
            .iter()
            .map(|left| (left.origin, left));
        for (path, left) in by_path(scene.origins, left) {
            let draft = draft(scene, path, &left);
            out.push(draft.finding(INFO.id, self.severity));
        }
    }
}

fn draft(scene: &Scene<'_>, path: Path, left: &[(Origin, &Left)]) -> Draft {
    let (_, first) = left
        .iter()
        .min_by_key(|(_, left)| left.mark.order)
        .expect("never empty");
    let tally = Tally {
        count: left.iter().map(|(_, left)| left.count).sum(),
        total: scene.total(path),
    };
    let message = match tally.total {
        total if total <= tally.count => "this store is never flushed".to_owned(),
        total => format!(
            "{} of {total} stores made here are never flushed",
            tally.count
        ),
    };
    Draft {
        path,
        tally,
        first: first.mark,
        place: first.line.span(first.own),
        message,
        help: HELP.to_owned(),
        history: history(scene, first),
    }
}

/// The line's last flush, what was stored to it since, and the store in question.
pub(crate) fn history(scene: &Scene<'_>, left: &Left) -> Vec<Step> {
    const OTHERS: usize = 4;
    let Some(line) = scene.tracker.line(left.line) else {
        return Vec::new();
    };
    let mut steps = scene.steps([
        (line.flushed_store, "a store to the line"),
        (line.flush, "the line is flushed for the last time"),
        (line.fence, "a fence waits for it"),
    ]);
    let others = line
        .writers
        .iter()
        .filter(|writer| writer.origin != left.origin);
    let others = others.rev().take(OTHERS).map(|writer| {
        let also = writer.mask & left.mask != 0;
        let what = if also {
            "stores to the same bytes"
        } else {
            "stores to the same line"
        };
        scene.step(writer.mark(), what)
    });
    steps.extend(others);
    if left.mark.happened() {
        steps.push(scene.step(left.mark, "stores, and no flush of the line follows"));
    }
    steps.sort_by_key(|step| step.order);
    steps
}
