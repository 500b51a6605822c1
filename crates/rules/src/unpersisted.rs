//! Volatile data in persistent memory.

use crate::leftovers::Left;
use crate::missing_flush::history;
use crate::rule::{Draft, Path, Rule, Scene, Tally, by_path};
use crate::{Finding, RuleInfo, Severity};
use crashpoint_persist::Origin;

pub const INFO: RuleInfo = RuleInfo {
    id: "unpersisted",
    title: "data in persistent memory that is never persisted",
    severity: Severity::Warning,
    manual: MANUAL,
};

const MANUAL: &str = "\
A place in persistent memory that the program stores to over and over and never flushes on \
purpose: a lock, a counter, a hint. If it need not survive a crash, it is in the wrong memory, \
which is slower than ordinary memory and wears out; if it must survive, its flushes are missing.

    pool->lock = 1;               // reported
    ...
    pool->lock = 0;               // reported

All sites that store to such a place are reported.

## What it can get wrong

- The difference to `missing-flush` is a guess about intent. A flush writes back a whole line, so \
that volatile data is flushed by accident with its neighbours, and an object is flushed whole when \
it is made. Only a flush that follows its store with no fence in between tells that the program \
meant it. Places that were flushed in this way are left to `missing-flush`, and so are places that \
were stored to only once.
- A lock that must live in persistent memory because the object it protects lives there (as PMDK's \
PMEMmutex does) is reported too.

## Settings

    [rules.unpersisted]
    enabled = true
    severity = \"warning\"
";

const HELP: &str = "if the value is not needed after a crash, keep it in ordinary memory; if it \
is, flush it after each store";

pub(crate) struct Unpersisted {
    pub(crate) severity: Severity,
}

impl Rule for Unpersisted {
    fn finish(&mut self, scene: &Scene<'_>, out: &mut Vec<Finding>) {
        let left = scene
            .leftovers
            .volatile
            .iter()
            .map(|left| (left.origin, left));
        for (path, left) in by_path(scene.origins, left) {
            let draft = draft(scene, path, &left);
            out.push(draft.finding(INFO.id, self.severity));
        }
    }
}

fn draft(scene: &Scene<'_>, path: Path, left: &[(Origin, &Left)]) -> Draft {
    let dirty = left.iter().filter(|(_, left)| left.mark.happened());
    let example = dirty
        .min_by_key(|(_, left)| left.mark.order)
        .or(left.first());
    let (_, example) = example.expect("never empty");
    let message = if example.mark.happened() {
        "this place in persistent memory is stored to and never persisted"
    } else {
        "this place in persistent memory is persisted only when a neighbour in its line is flushed"
    };
    let total = scene.total(path);
    let count: u64 = left.iter().map(|(_, left)| left.count).sum();
    Draft {
        path,
        tally: Tally {
            count: count.min(total),
            total,
        },
        first: example.mark,
        place: example.line.span(example.mask),
        message: message.to_owned(),
        help: HELP.to_owned(),
        history: history(scene, example),
    }
}
