//! A store to persistent memory that is never flushed.

use crate::rule::{Rule, RuleContext, Tally};
use crate::unflushed::Left;
use crate::unflushed::draft::{self, Statement};
use crate::{RuleFinding, RuleInfo, Severity};

pub const INFO: RuleInfo = RuleInfo {
    id: "missing-flush",
    title: "a store that is never flushed",
    severity: Severity::Error,
    manual: "\
A store to persistent memory whose cache line is not flushed afterwards, until the recording ends. \
After a power failure the old value may be back.

    account->balance = 60;        // reported: no flush follows
    exit(0);

Flush the line after the store (clwb, clflushopt, clflush), or store past the cache, and fence \
before anything depends on the new value. Flushing a range means every line of it: a structure \
may begin in the middle of a line.

## What it can get wrong

- A place that nothing in the recording ever persists, or that is used as a lock, is taken for \
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
",
};

const HELP: &str = "flush the cache line after the store (clwb, clflushopt or clflush) and fence \
before anything depends on it";

pub(crate) struct MissingFlush {
    pub(crate) severity: Severity,
}

impl Rule for MissingFlush {
    fn finish(&mut self, rule_context: &RuleContext<'_>, out: &mut Vec<RuleFinding>) {
        let missing = &rule_context.unflushed.missing;
        let rule = (&INFO, self.severity);
        out.extend(draft::findings(rule_context, missing, rule, say));
    }
}

fn say(left: &Left, tally: &Tally) -> Statement {
    let message = if left.late {
        "this store is flushed only when a neighbour in its line is".to_owned()
    } else if tally.total <= tally.count {
        "this store is never flushed".to_owned()
    } else {
        format!(
            "{} of {} stores made here are never flushed",
            tally.count, tally.total
        )
    };
    Statement {
        message,
        help: HELP,
        mask: if left.own != 0 { left.own } else { left.mask },
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Tape, assert_found};
    use crate::unflushed::FENCES_AFTER;
    use crashpoint_trace::StoreKind;

    #[test]
    fn a_store_without_a_flush_is_found() {
        let mut tape = Tape::default();
        tape.store(1, 0..8).persist(2, 0).store(4, 0..8);
        assert_found!(tape, [("missing-flush", 4, 1)]);
        let finding = &tape.findings()[0];
        assert_eq!((finding.place.0, finding.length), (0, 8));
        assert_eq!(
            (finding.count, finding.total, finding.first_order),
            (1, 1, 4)
        );
        let steps: Vec<u64> = finding.history.iter().map(|step| step.order).collect();
        assert_eq!(steps, [1, 2, 3, 4]);
    }

    #[test]
    fn a_flushed_and_fenced_store_is_fine() {
        let mut tape = Tape::default();
        tape.store(1, 0..8)
            .persist(2, 0)
            .store(4, 0..8)
            .persist(2, 0);
        assert_found!(tape, []);
    }

    #[test]
    fn a_place_that_other_sites_persist_is_not_taken_for_volatile() {
        let mut tape = Tape::default();
        tape.store(1, 0..8).persist(2, 0);
        for _ in 0..5 {
            tape.store(4, 0..8).store(5, 64..72).persist(2, 64);
        }
        assert_found!(tape, [("missing-flush", 4, 5)]);
    }

    #[test]
    fn each_call_path_is_a_finding_of_its_own() {
        let mut tape = Tape::default();
        for line in [0, 64, 128] {
            tape.store(1, line..line + 8).persist(2, line);
        }
        tape.context(1).store(4, 0..8).store(4, 64..72);
        tape.context(2).store(4, 128..136);
        assert_found!(tape, [("missing-flush", 4, 2), ("missing-flush", 4, 1)]);
    }

    #[test]
    fn one_line_of_a_range_is_enough() {
        let mut tape = Tape::default();
        tape.store(1, 60..68).persist(2, 0);
        assert_found!(tape, [("missing-flush", 1, 1)]);
        assert_eq!(tape.findings()[0].place.0, 64);
    }

    #[test]
    fn a_store_that_was_replaced_is_not_to_blame() {
        let mut tape = Tape::default();
        tape.store(1, 0..64)
            .store(2, 0..8)
            .persist(3, 0)
            .store(2, 0..8)
            .persist(3, 0);
        tape.store(5, 0..8).store(6, 0..8);
        assert_found!(tape, [("missing-flush", 6, 1)]);
    }

    #[test]
    fn non_temporal_stores_and_msync_need_no_flush() {
        let mut tape = Tape::default();
        tape.store_as(StoreKind::NonTemporal, 1, 0..64).fence(2);
        tape.store(3, 64..72).msync(4, 64..128);
        assert_found!(tape, []);
    }

    #[test]
    fn a_foreign_write_is_not_reported() {
        let mut tape = Tape::default();
        tape.store(1, 0..8).store_as(StoreKind::Foreign, 2, 0..64);
        assert_found!(tape, []);
    }

    #[test]
    fn a_site_whose_stores_are_only_flushed_by_accident_is_found_too() {
        let mut tape = Tape::default();
        // A counter at 0, pointers at 8; the pointer is persisted from time to time.
        tape.store(9, 0..16).persist(10, 0);
        for _ in 0..3 {
            tape.store(1, 0..8).store(12, 64..72).persist(13, 64);
            tape.store(2, 0..8).store(12, 64..72).persist(13, 64);
            tape.store(3, 8..16).persist(4, 0);
        }
        tape.store(1, 0..8).store(12, 64..72).persist(13, 64);
        assert_found!(tape, [("missing-flush", 2, 3), ("missing-flush", 1, 1)]);
    }

    #[test]
    fn a_killed_process_may_have_been_interrupted() {
        let mut tape = Tape::default();
        tape.kill().store(4, 0..8).persist(5, 0).store(1, 0..8);
        for _ in 0..FENCES_AFTER {
            tape.store(2, 64..72).persist(3, 64);
        }
        tape.store(2, 64..72);
        assert_found!(tape, [("missing-flush", 1, 1)]);
    }
}
