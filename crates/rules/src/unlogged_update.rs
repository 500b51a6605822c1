//! Changing in a transaction what is not in its log.

use crate::rule::{Draft, Rule, RuleContext};
use crate::transactions::Misuse;
use crate::{RuleFinding, RuleInfo, Severity};
use crashpoint_persist::memory::x86::Mark;

pub const INFO: RuleInfo = RuleInfo {
    id: "unlogged-update",
    title: "a change in a transaction without logging",
    severity: Severity::Error,
    manual: "\
A store to persistent memory in a transaction, to bytes that were neither logged before in the same \
transaction nor belong to an object that was allocated in it. If the transaction aborts, or the \
power fails before it commits, the old value does not come back.

    TX_BEGIN(pool) {
        root->count++;            // reported: log it first, TX_ADD_FIELD(root, count)
    } TX_END

If the bytes are logged later in the same transaction, the log holds the new value; the finding \
says so.

The functions of PMDK's libpmemobj are known; `crashpoint lint --explain double-log` shows how \
others are named. What functions of the library do, and what they call, is not looked at.

## What it can get wrong

- A transaction that allocates an object whose place the recording does not tell is judged with \
less zeal: only stores to memory that an earlier transaction used, and that was not freed since, \
are reported.
- Data that need not be rolled back (a statistic, a lock) is reported all the same.
- A transaction that the library aborts by itself, in the middle of a call, looks as if it went on.

## Settings

    [rules.unlogged-update]
    enabled = true
    severity = \"error\"
",
};

pub(crate) struct UnloggedUpdate {
    pub(crate) severity: Severity,
}

impl Rule for UnloggedUpdate {
    fn finish(&mut self, rule_context: &RuleContext<'_>, out: &mut Vec<RuleFinding>) {
        let unlogged = &rule_context.transactions.unlogged;
        for (path, first, tally) in Misuse::by_path(rule_context, unlogged) {
            let (message, help) = if first.detail.is_some() {
                (
                    "this store is logged only after it was made",
                    "log the range before the store: the log must hold the old value",
                )
            } else {
                (
                    "this store in a transaction is not logged",
                    "log the range in the transaction, before the store",
                )
            };
            let draft = Draft {
                path,
                tally,
                first: first.mark,
                place: (first.place, first.length),
                message: message.to_owned(),
                help: help.to_owned(),
                history: rule_context.steps([
                    (first.began, "the transaction begins"),
                    (first.mark, "stores to a range that is not logged"),
                    (first.detail.unwrap_or(Mark::default()), "logs it too late"),
                ]),
            };
            out.push(draft.finding(INFO.id, self.severity));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{BASE, assert_found, assert_says, begun};

    #[test]
    fn a_store_that_is_not_logged_is_found() {
        let mut tape = begun();
        tape.log(10, 0..8)
            .store(11, 0..8)
            .store(12, 64..72)
            .persist(13, 0)
            .persist(13, 64)
            .commit();
        assert_found!(tape, [("unlogged-update", 12, 1)]);
        let finding = &tape.findings()[0];
        assert_eq!((finding.place.0, finding.length), (64, 8));
    }

    #[test]
    fn a_store_outside_of_transactions_needs_no_log() {
        let mut tape = begun();
        tape.commit().store(11, 0..8).persist(13, 0);
        assert_found!(tape, []);
    }

    #[test]
    fn a_store_that_is_logged_later_is_found_as_such() {
        let mut tape = begun();
        tape.store(11, 0..8).log(10, 0..64).persist(13, 0).commit();
        assert_found!(tape, [("unlogged-update", 11, 1)]);
        let finding = &tape.findings()[0];
        assert_says(finding, "only after");
        let steps: Vec<u32> = finding.history.iter().map(|step| step.site.0).collect();
        assert_eq!(steps, [1, 11, 10]);
    }

    #[test]
    fn part_of_a_store_may_be_unlogged() {
        let mut tape = begun();
        tape.log(10, 0..8)
            .log(11, 12..16)
            .store(12, 0..16)
            .persist(13, 0)
            .commit();
        assert_found!(tape, [("unlogged-update", 12, 1)]);
        let finding = &tape.findings()[0];
        assert_eq!((finding.place.0, finding.length), (8, 4));
    }

    #[test]
    fn a_new_object_may_be_stored_to() {
        let mut tape = begun();
        tape.calls(10, "pmemobj_tx_zalloc", &[64, 1], 1024)
            .store(11, 1024..1088);
        tape.persist(13, 1024).commit();
        assert_found!(tape, []);
    }

    #[test]
    fn what_the_library_stores_is_its_own_business() {
        let mut tape = begun();
        tape.call(10, "pmemobj_tx_add_range_direct", &[BASE, 8])
            .within(5, 10);
        tape.store(20, 512..520)
            .within(6, 21)
            .store(22, 576..584)
            .persist(13, 512);
        tape.persist(13, 576).context(0).returns(10, 0).commit();
        assert_found!(tape, []);
    }

    #[test]
    fn a_transaction_that_does_not_end_is_judged_too() {
        let mut tape = begun();
        tape.store(11, 0..8).persist(13, 0);
        assert_found!(tape, [("unlogged-update", 11, 1)]);
    }

    #[test]
    fn handlers_of_commit_and_abort_are_outside() {
        for over in ["pmemobj_tx_commit", "pmemobj_tx_process"] {
            let mut tape = begun();
            tape.calls(5, over, &[], 0).store(11, 0..8).persist(13, 0);
            tape.calls(6, over, &[], 0)
                .calls(7, "pmemobj_tx_end", &[], 0);
            assert_found!(tape, []);
        }
        // An abort jumps away and never returns.
        let mut tape = begun();
        tape.call(5, "pmemobj_tx_abort", &[1])
            .store(11, 0..8)
            .persist(13, 0);
        tape.calls(7, "pmemobj_tx_end", &[], 0)
            .store(11, 0..8)
            .persist(13, 0);
        assert_found!(tape, []);
    }

    #[test]
    fn after_an_inner_transaction_the_outer_one_goes_on() {
        let mut tape = begun();
        tape.begin()
            .commit()
            .store(11, 0..8)
            .persist(13, 0)
            .commit();
        assert_found!(tape, [("unlogged-update", 11, 1)]);
    }

    #[test]
    fn with_an_object_of_unknown_place_only_memory_in_use_counts() {
        let mut tape = begun();
        let unknown = 0xdead_beef_dead_beef;
        tape.calls(10, "pmemobj_tx_alloc", &[64, 1], unknown)
            .store(11, 1024..1088);
        tape.persist(13, 1024).commit();
        assert_found!(tape, []);
        tape.begin()
            .calls(10, "pmemobj_tx_alloc", &[64, 1], unknown);
        tape.store(12, 1024..1032)
            .persist(13, 1024)
            .store(14, 2048..2056)
            .persist(13, 2048);
        tape.calls(15, "pmemobj_tx_free", &[7, 1024], 0).commit();
        assert_found!(tape, [("unlogged-update", 12, 1)]);
        tape.begin()
            .calls(10, "pmemobj_tx_alloc", &[64, 1], unknown);
        tape.store(16, 1024..1032).persist(13, 1024).commit();
        assert_found!(tape, [("unlogged-update", 12, 1)]);
    }
}
