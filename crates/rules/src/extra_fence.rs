//! A fence with nothing to wait for.

use crate::config::{ExtraFence as Settings, Mfence};
use crate::rule::{Draft, FenceSeen, Interest, Rule, RuleContext, Tally, by_path};
use crate::{RuleFinding, RuleInfo, Severity};
use crashpoint_persist::memory::Origin;
use crashpoint_persist::memory::x86::{Fenced, Mark};
use crashpoint_trace::{FenceKind, PmAddress, ProcessIndex, ThreadIndex};
use rustc_hash::{FxHashMap, FxHashSet};

pub const INFO: RuleInfo = RuleInfo {
    id: "extra-fence",
    title: "a fence with nothing to wait for",
    severity: Severity::Warning,
    manual: "\
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
",
};

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
    fn interests(&self) -> &'static [Interest] {
        &[Interest::Fences]
    }

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

    fn finish(&mut self, rule_context: &RuleContext<'_>, out: &mut Vec<RuleFinding>) {
        let shared = shared_processes(rule_context);
        let may_matter = |origin: Origin| match self.settings.mfence {
            Mfence::Always => false,
            Mfence::Never => true,
            Mfence::OneThread => {
                let thread = rule_context.origins.info(origin).thread;
                shared.contains(&rule_context.program_info.process(thread))
            }
        };
        let counts = (0..).map(Origin).zip(self.counts.iter().copied());
        let counts = counts
            .filter(|(origin, count)| count.idle > 0 && !(count.mfence && may_matter(*origin)));
        for (path, counts) in by_path(rule_context.origins, counts) {
            let count: u64 = counts.iter().map(|(_, count)| count.idle).sum();
            let total = rule_context.total(path);
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
                history: rule_context.steps([
                    (first.before, "the thread's fence before"),
                    (first.first, "fences again, with no flush in between"),
                ]),
            };
            out.push(draft.finding(INFO.id, self.severity));
        }
    }
}

/// Processes of which several threads did something with persistent memory.
fn shared_processes(rule_context: &RuleContext<'_>) -> FxHashSet<ProcessIndex> {
    let mut threads: FxHashMap<ProcessIndex, FxHashSet<ThreadIndex>> = FxHashMap::default();
    for (_, info) in rule_context.origins.iter() {
        threads
            .entry(rule_context.program_info.process(info.thread))
            .or_default()
            .insert(info.thread);
    }
    let shared = threads.into_iter().filter(|(_, threads)| threads.len() > 1);
    shared.map(|(process, _)| process).collect()
}

#[cfg(test)]
mod tests {
    use crate::Config;
    use crate::config::Mfence;
    use crate::testing::{Tape, assert_found, brief};
    use crashpoint_trace::{FenceKind, FlushKind, StoreKind};

    #[test]
    fn a_second_fence_is_found() {
        let mut tape = Tape::default();
        tape.store(1, 0..8).persist(2, 0).fence(4);
        assert_found!(tape, [("extra-fence", 4, 1)]);
        assert_eq!(tape.findings()[0].history.len(), 2);
        assert_eq!(tape.findings()[0].length, 0);
    }

    #[test]
    fn a_fence_before_anything_was_flushed_is_found() {
        let mut tape = Tape::default();
        tape.store(1, 0..8).fence(2).persist(3, 0);
        assert_found!(tape, [("extra-fence", 2, 1)]);
    }

    #[test]
    fn a_fence_for_a_flush_or_a_non_temporal_store_or_unknown_assembly_is_fine() {
        let mut tape = Tape::default();
        tape.store(1, 0..8)
            .flush_as(FlushKind::Clflush, 2, 0)
            .fence(3);
        tape.store_as(StoreKind::NonTemporal, 4, 0..8).fence(5);
        tape.opaque(6).fence(7);
        assert_found!(tape, []);
    }

    #[test]
    fn a_flush_of_another_thread_is_no_reason_to_fence() {
        let mut tape = Tape::default();
        tape.store(1, 0..8)
            .flush(2, 0)
            .thread(1)
            .fence(3)
            .thread(0)
            .fence(4);
        assert_found!(tape, [("extra-fence", 3, 1)]);
    }

    #[test]
    fn locked_instructions_are_never_extra() {
        let mut tape = Tape::default();
        tape.fence_as(FenceKind::Locked, 1);
        assert_found!(tape, []);
    }

    #[test]
    fn mfence_is_left_alone_where_another_thread_could_notice() {
        let mut tape = Tape::default();
        tape.fence_as(FenceKind::Mfence, 1);
        assert_found!(tape, [("extra-fence", 1, 1)]);
        tape.thread(1).store(2, 0..8).persist(3, 0);
        assert_found!(tape, []);
        let mut config = Config::default();
        config.rules.extra_fence.mfence = Mfence::Always;
        assert_eq!(
            brief(&tape.findings_with(config)),
            [("extra-fence".to_owned(), 1, 1)]
        );
    }

    #[test]
    fn a_fence_that_is_needed_most_of_the_time_is_fine() {
        let mut tape = Tape::default();
        for round in 0..5 {
            if round < 3 {
                tape.store(1, 0..8).flush(2, 0);
            }
            tape.fence(3);
        }
        assert_found!(tape, []);
        tape.fence(3);
        assert_found!(tape, [("extra-fence", 3, 3)]);
    }
}
