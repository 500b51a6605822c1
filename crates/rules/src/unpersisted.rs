//! Volatile data in persistent memory.

use crate::rule::{Rule, RuleContext, Tally};
use crate::unflushed::Left;
use crate::unflushed::draft::{self, Statement};
use crate::{RuleFinding, RuleInfo, Severity};

pub const INFO: RuleInfo = RuleInfo {
    id: "unpersisted",
    title: "data in persistent memory that is never persisted",
    severity: Severity::Warning,
    manual: "\
A place in persistent memory that nothing in the recording ever persists, or that is used as a \
lock: a counter, a hint, a mutex. If it need not survive a crash, it is in the wrong memory, which \
is slower than ordinary memory and wears out; if it must survive, its flushes are missing.

    pool->lock = 1;               // reported
    ...
    pool->lock = 0;               // reported

All sites that store to such a place are reported.

## What it can get wrong

- The difference to `missing-flush` is a guess about intent. A flush writes back a whole line, so \
that a counter is persisted by accident with its neighbours, and an object is flushed whole when it \
is made; such places are left to `missing-flush`. A store whose flush was forgotten at the only \
place where it is made looks like volatile data.
- A lock that must live in persistent memory because the object it protects lives there (as PMDK's \
PMEMmutex does) is reported too.

## Settings

    [rules.unpersisted]
    enabled = true
    severity = \"warning\"
",
};

const HELP: &str = "if the value is not needed after a crash, keep it in ordinary memory; if it \
is, flush it after each store";

pub(crate) struct Unpersisted {
    pub(crate) severity: Severity,
}

impl Rule for Unpersisted {
    fn finish(&mut self, rule_context: &RuleContext<'_>, out: &mut Vec<RuleFinding>) {
        let volatile = &rule_context.unflushed.volatile;
        let rule = (&INFO, self.severity);
        out.extend(draft::findings(rule_context, volatile, rule, say));
    }
}

fn say(left: &Left, _: &Tally) -> Statement {
    let message = if left.late {
        "this place in persistent memory is persisted only when a neighbour in its line is flushed"
    } else {
        "this place in persistent memory is stored to and never persisted"
    };
    Statement {
        message: message.to_owned(),
        help: HELP,
        mask: left.mask,
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Tape, assert_found};
    use crashpoint_trace::StoreKind;

    #[test]
    fn a_counter_that_is_never_flushed_is_found() {
        let mut tape = Tape::default();
        for _ in 0..10 {
            tape.store(1, 0..8);
        }
        assert_found!(tape, [("unpersisted", 1, 10)]);
    }

    #[test]
    fn a_lock_beside_persistent_data_is_found_where_it_is_taken_and_released() {
        let mut tape = Tape::default();
        tape.store(1, 0..8).store(2, 8..16).persist(3, 0);
        for _ in 0..5 {
            tape.store_as(StoreKind::Locked, 5, 0..8);
            tape.store(6, 8..16).persist(3, 0);
            tape.store(7, 0..8);
        }
        assert_found!(tape, [("unpersisted", 5, 5), ("unpersisted", 7, 1)]);
    }

    #[test]
    fn a_counter_that_is_flushed_is_fine() {
        let mut tape = Tape::default();
        for _ in 0..10 {
            tape.store(1, 0..8).persist(2, 0);
        }
        assert_found!(tape, []);
    }

    #[test]
    fn values_that_are_computed_in_place_and_flushed_once_are_fine() {
        let mut tape = Tape::default();
        for _ in 0..10 {
            tape.store(1, 0..8);
        }
        tape.store(2, 64..72).persist(3, 64).persist(5, 0);
        assert_found!(tape, []);
    }

    #[test]
    fn no_site_is_reported_by_both_rules() {
        let mut tape = Tape::default();
        for line in 0..4 {
            tape.store(1, line * 64..line * 64 + 8);
        }
        tape.store(1, 0..8);
        assert_found!(tape, [("unpersisted", 1, 5)]);
    }
}
