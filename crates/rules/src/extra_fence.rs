//! A fence with nothing to wait for.

use crate::config::{ExtraFence as Settings, Mfence};
use crate::rule::{Draft, FenceSeen, Rule, Scene, Tally, by_path};
use crate::{Finding, RuleInfo, Severity};
use crashpoint_persist::Origin;
use crashpoint_persist::x86::{Fenced, Mark};
use crashpoint_trace::{FenceKind, PmAddress, ProcessIndex, ThreadIndex};
use rustc_hash::{FxHashMap, FxHashSet};

pub const INFO: RuleInfo = RuleInfo {
    id: "extra-fence",
    title: "a fence with nothing to wait for",
    severity: Severity::Warning,
    manual: MANUAL,
};

const MANUAL: &str = "\
An sfence or mfence whose thread has executed no flush and no non-temporal store since its last \
fence. Ordinary stores need no fence among themselves on x86: they become visible in program \
order, and become durable only by flushes.

    sfence();                     // reported
    clflush(line);
    sfence();

A fence is judged by all its executions with one call path, and reported if at least half of them \
had nothing to wait for, with the counts.

## What it can get wrong

- mfence also keeps later loads behind earlier stores, which lock-free algorithms need. Only other \
threads can notice, so that mfence is not reported if several threads of the process touched \
persistent memory. Code that is meant for several threads but was recorded with one may be \
reported wrongly: `mfence = \"never\"` leaves all of them out.
- Locked instructions are never reported: they are there for another reason.
- A flush counts, even a superfluous one: the fence is not to blame for it.
- Flushes of code that was not built with crashpoint-cc are not seen.

## Settings

    [rules.extra-fence]
    enabled = true
    severity = \"warning\"
    share = 0.5             # of the executions
    mfence = \"one-thread\"   # or \"always\", \"never\"
";

const HELP: &str = "remove the fence; one after the last flush is enough";

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    idle: u64,
    mfence: bool,
    first: Mark,
    /// The thread's fence before that one.
    before: Mark,
}

pub(crate) struct ExtraFence {
    severity: Severity,
    settings: Settings,
    /// By origin.
    counts: Vec<Count>,
    /// By thread.
    last: Vec<Mark>,
}

impl ExtraFence {
    pub(crate) fn new(severity: Severity, settings: Settings) -> ExtraFence {
        ExtraFence {
            severity,
            settings,
            counts: Vec::new(),
            last: Vec::new(),
        }
    }

    fn last(&mut self, thread: ThreadIndex) -> &mut Mark {
        if self.last.len() <= thread.index() {
            self.last.resize(thread.index() + 1, Mark::default());
        }
        &mut self.last[thread.index()]
    }
}

impl Rule for ExtraFence {
    fn fence(&mut self, seen: &FenceSeen) {
        let here = Mark {
            order: seen.who.order,
            origin: seen.who.origin,
        };
        let before = std::mem::replace(self.last(seen.who.thread), here);
        let mfence = match seen.kind {
            FenceKind::Locked => return,
            FenceKind::Mfence => true,
            FenceKind::Sfence => false,
        };
        if seen.found != Fenced::Nothing {
            return;
        }
        if self.counts.len() <= here.origin.index() {
            self.counts
                .resize(here.origin.index() + 1, Count::default());
        }
        let count = &mut self.counts[here.origin.index()];
        if count.idle == 0 {
            (count.first, count.before, count.mfence) = (here, before, mfence);
        }
        count.idle += 1;
    }

    fn finish(&mut self, scene: &Scene<'_>, out: &mut Vec<Finding>) {
        let shared = shared_processes(scene);
        let may_matter = |origin: Origin| match self.settings.mfence {
            Mfence::Always => false,
            Mfence::Never => true,
            Mfence::OneThread => {
                let thread = scene.origins.info(origin).thread;
                shared.contains(&scene.names.process(thread))
            }
        };
        let counts = (0..).map(Origin).zip(self.counts.iter().copied());
        let counts = counts
            .filter(|(origin, count)| count.idle > 0 && !(count.mfence && may_matter(*origin)));
        for (path, counts) in by_path(scene.origins, counts) {
            let count: u64 = counts.iter().map(|(_, count)| count.idle).sum();
            let total = scene.total(path);
            if (count as f64) < self.settings.share * total as f64 {
                continue;
            }
            let first = counts.iter().min_by_key(|(_, count)| count.first.order);
            let (_, first) = first.expect("never empty");
            let message = if count == total {
                "superfluous fence: nothing was flushed since the last one".to_owned()
            } else {
                format!(
                    "superfluous fence in {count} of {total} executions: nothing was flushed \
                     since the last one"
                )
            };
            let draft = Draft {
                path,
                tally: Tally { count, total },
                first: first.first,
                place: (PmAddress(0), 0),
                message,
                help: HELP.to_owned(),
                history: scene.steps([
                    (first.before, "the thread's fence before"),
                    (first.first, "fences again, with no flush in between"),
                ]),
            };
            out.push(draft.finding(INFO.id, self.severity));
        }
    }
}

/// Processes of which several threads did something with persistent memory.
fn shared_processes(scene: &Scene<'_>) -> FxHashSet<ProcessIndex> {
    let mut threads: FxHashMap<ProcessIndex, FxHashSet<ThreadIndex>> = FxHashMap::default();
    for (_, info) in scene.origins.iter() {
        threads
            .entry(scene.names.process(info.thread))
            .or_default()
            .insert(info.thread);
    }
    let shared = threads.into_iter().filter(|(_, threads)| threads.len() > 1);
    shared.map(|(process, _)| process).collect()
}
