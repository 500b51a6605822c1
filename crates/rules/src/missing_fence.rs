//! A flush that no fence waits for.

use crate::rule::{Draft, Rule, RuleContext, Tally, by_path};
use crate::{RuleFinding, RuleInfo, Severity};
use crashpoint_persist::memory::x86::LineState;
use crashpoint_persist::memory::{LineId, Origin};
use crashpoint_trace::ThreadIndex;

pub const INFO: RuleInfo = RuleInfo {
    id: "missing-fence",
    title: "a flush that no fence waits for",
    severity: Severity::Error,
    manual: "\
A flush by clflushopt or clwb, or a non-temporal store, after which its thread executes no fence \
(sfence, mfence, or a locked instruction) until the recording ends. The line may still be on its \
way when the power fails, though the program went on as if it were safe.

    clwb(&account->balance);      // reported: no fence follows
    return OK;

Fence after the last flush of an operation, and before any store that must not overtake it.

## What it can get wrong

- clflush is not reported: it keeps its place among the thread's stores, so that nothing stored \
later can be durable without it (Px86). A program that promises durability to somebody else after \
a clflush needs a fence all the same.
- Only the end of each thread is looked at. A fence that is missing between two stores is hidden by \
any later fence of the thread; that takes a test of crash states.
- A fence in code that was not built with crashpoint-cc is not seen.
- Nothing is reported for a process that was killed.

## Settings

    [rules.missing-fence]
    enabled = true
    severity = \"error\"
",
};

const HELP: &str = "execute sfence after the flush, before the operation counts as done";

pub(crate) struct MissingFence {
    pub(crate) severity: Severity,
}

struct Unfenced<'a> {
    id: LineId,
    line: &'a LineState,
    thread: ThreadIndex,
    mask: u64,
}

impl Rule for MissingFence {
    fn finish(&mut self, rule_context: &RuleContext<'_>, out: &mut Vec<RuleFinding>) {
        let threads = rule_context.tracker.threads();
        let waiting = threads.flat_map(|thread| {
            let lines = rule_context.tracker.unfenced(thread);
            lines.filter_map(move |(id, line, mask)| unfenced(thread, id, line, mask))
        });
        let waiting = waiting.filter(|found| rule_context.ended_in_order(found.0));
        for (path, found) in by_path(rule_context.origins, waiting) {
            let first = found
                .iter()
                .min_by_key(|(_, found)| found.line.flush().order);
            let (_, first) = first.expect("never empty");
            let message = if first.line.was_streamed() {
                "no fence waits for this non-temporal store"
            } else {
                "no fence waits for this flush"
            };
            let draft = Draft {
                path,
                tally: Tally {
                    count: found.len() as u64,
                    total: rule_context.total(path),
                },
                first: first.line.flush(),
                place: first.id.span(first.mask),
                message: message.to_owned(),
                help: HELP.to_owned(),
                history: rule_context.steps([
                    (
                        rule_context.tracker.last_fence(first.thread),
                        "the thread's last fence",
                    ),
                    (first.line.flushed_store(), "the last store to the line"),
                    (
                        first.line.flush(),
                        "puts the line on its way, and no fence of this thread follows",
                    ),
                ]),
            };
            out.push(draft.finding(INFO.id, self.severity));
        }
    }
}

/// Of several threads that flushed a line and did not fence, the last one is named.
fn unfenced(
    thread: ThreadIndex,
    id: LineId,
    line: &LineState,
    mask: u64,
) -> Option<(Origin, Unfenced<'_>)> {
    let mask = mask & line.pending & !line.ordered;
    let found = Unfenced {
        id,
        line,
        thread,
        mask,
    };
    (mask != 0).then_some((line.flush().origin, found))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Tape, assert_found};
    use crashpoint_trace::{FenceKind, FlushKind, StoreKind};

    #[test]
    fn a_flush_without_a_fence_is_found() {
        for kind in [FlushKind::Clwb, FlushKind::Clflushopt] {
            let mut tape = Tape::default();
            tape.store(1, 0..8)
                .persist(2, 0)
                .store(4, 0..8)
                .flush_as(kind, 5, 0);
            assert_found!(tape, [("missing-fence", 5, 1)]);
            let steps = tape.findings()[0].history.len();
            assert_eq!(steps, 3);
        }
    }

    #[test]
    fn any_fence_of_the_thread_will_do() {
        for kind in [FenceKind::Sfence, FenceKind::Mfence, FenceKind::Locked] {
            let mut tape = Tape::default();
            tape.store(1, 0..8).flush(2, 0).fence_as(kind, 3);
            assert_found!(tape, []);
        }
    }

    #[test]
    fn a_fence_of_another_thread_will_not_do() {
        let mut tape = Tape::default();
        tape.store(1, 0..8)
            .flush(2, 0)
            .thread(1)
            .store(3, 64..72)
            .persist(4, 64);
        assert_found!(tape, [("missing-fence", 2, 1)]);
    }

    #[test]
    fn another_thread_may_flush_and_fence_the_line_too() {
        let mut tape = Tape::default();
        tape.store(1, 0..8).flush(2, 0).thread(1).persist(4, 0);
        assert_found!(tape, []);
    }

    #[test]
    fn clflush_needs_no_fence() {
        let mut tape = Tape::default();
        tape.store(1, 0..8).flush_as(FlushKind::Clflush, 2, 0);
        assert_found!(tape, []);
    }

    #[test]
    fn a_non_temporal_store_needs_a_fence() {
        let mut tape = Tape::default();
        tape.store_as(StoreKind::NonTemporal, 1, 0..128);
        assert_found!(tape, [("missing-fence", 1, 2)]);
        assert!(tape.findings()[0].message.contains("non-temporal"));
    }

    #[test]
    fn a_flush_of_nothing_needs_no_fence() {
        let mut tape = Tape::default();
        tape.store(1, 0..8)
            .persist(2, 0)
            .store(4, 64..72)
            .persist(2, 64)
            .flush(5, 4096);
        assert_found!(tape, [("extra-flush", 5, 1)]);
    }

    #[test]
    fn a_killed_process_may_have_been_about_to_fence() {
        let mut tape = Tape::default();
        tape.kill().store(1, 0..8).flush(2, 0);
        assert_found!(tape, []);
    }
}
