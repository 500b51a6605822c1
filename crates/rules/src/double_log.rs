//! Logging what is logged already.

use crate::rule::{Draft, Rule, RuleContext};
use crate::transactions::{Cover, Misuse};
use crate::{RuleFinding, RuleInfo, Severity};

pub const INFO: RuleInfo = RuleInfo {
    id: "double-log",
    title: "a range logged twice in one transaction",
    severity: Severity::Warning,
    manual: "\
A call that logs a range of which every byte was logged before in the same transaction, or belongs \
to an object that was allocated in it. The first log entry (or the absence of the object before) is \
all that a rollback needs.

    TX_ADD(node);
    ...
    TX_ADD_FIELD(node, items);    // reported: part of node

The functions of PMDK's libpmemobj are known. Others are named in the configuration:

    [transactions]
    begin = [\"tx_begin\"]          # or { name = \"tx_begin\", pool = 0 }: argument with the pool
    commit = [\"tx_commit\"]
    abort = [\"tx_abort\"]
    log = [{ name = \"tx_add\", address = 0, length = 1 }]
    alloc = [{ name = \"tx_alloc\", length = 0, returns = \"address\" }]
    library = [\"tx_\"]             # beginnings of names: not the program's own code

## What it can get wrong

- A function that logs what it changes, and is called in a transaction that has logged it already, \
is reported with that call path, though it may need to log with another.
- A range that was logged only in part is not reported.
- An object that is allocated in the transaction is known only if the recording tells its place.

## Settings

    [rules.double-log]
    enabled = true
    severity = \"warning\"
",
};

pub(crate) struct DoubleLog {
    pub(crate) severity: Severity,
}

impl Rule for DoubleLog {
    fn finish(&mut self, rule_context: &RuleContext<'_>, out: &mut Vec<RuleFinding>) {
        let doubled = &rule_context.transactions.doubled;
        for (path, first, tally) in Misuse::by_path(rule_context, doubled) {
            let (before, which, earlier, help) = match first.detail {
                Cover::Logged(mark) => (
                    mark,
                    "is logged already",
                    "logs it first",
                    "log a range once, before it first changes",
                ),
                Cover::Allocated(mark) => (
                    mark,
                    "was allocated",
                    "allocates it",
                    "an object that the transaction allocated need not be logged",
                ),
            };
            let draft = Draft {
                path,
                first: first.mark,
                place: (first.place, first.length),
                message: if tally.count == tally.total {
                    format!("superfluous logging: the range {which} in this transaction")
                } else {
                    format!(
                        "superfluous logging in {} of {} executions: the range {which} in this \
                         transaction",
                        tally.count, tally.total
                    )
                },
                tally,
                help: help.to_owned(),
                history: rule_context.steps([
                    (first.began, "the transaction begins"),
                    (before, earlier),
                    (first.mark, "logs it again"),
                ]),
            };
            out.push(draft.finding(INFO.id, self.severity));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;
    use crate::testing::{BASE, Tape, assert_found, begun, brief};

    #[test]
    fn a_range_that_is_logged_again_is_found() {
        let mut tape = begun();
        tape.log(10, 0..64).log(11, 8..16).commit();
        assert_found!(tape, [("double-log", 11, 1)]);
        let finding = &tape.findings()[0];
        assert_eq!((finding.place.0, finding.length), (8, 8));
        let steps: Vec<u32> = finding.history.iter().map(|step| step.site.0).collect();
        assert_eq!(steps, [1, 10, 11]);
    }

    #[test]
    fn two_entries_may_cover_a_third() {
        let mut tape = begun();
        tape.log(10, 0..8).log(11, 8..16).log(12, 4..12).commit();
        assert_found!(tape, [("double-log", 12, 1)]);
    }

    #[test]
    fn a_range_that_is_partly_new_is_fine() {
        let mut tape = begun();
        tape.log(10, 0..8).log(11, 0..16).log(12, 16..24).commit();
        assert_found!(tape, []);
    }

    #[test]
    fn each_transaction_has_its_own_log() {
        let mut tape = begun();
        tape.log(10, 0..8).commit().begin().log(10, 0..8).commit();
        assert_found!(tape, []);
    }

    #[test]
    fn each_thread_has_its_own_log() {
        let mut tape = begun();
        tape.log(10, 0..8);
        tape.thread(1);
        tape.begin().log(11, 0..8).commit();
        tape.thread(0);
        tape.commit();
        assert_found!(tape, []);
    }

    #[test]
    fn a_nested_transaction_shares_the_log_of_the_outermost() {
        let mut tape = begun();
        tape.log(10, 0..8)
            .begin()
            .log(11, 8..16)
            .log(12, 0..8)
            .commit();
        tape.log(13, 8..16).commit();
        assert_found!(tape, [("double-log", 12, 1), ("double-log", 13, 1)]);
    }

    #[test]
    fn an_object_allocated_in_the_transaction_need_not_be_logged() {
        let mut tape = begun();
        tape.calls(10, "pmemobj_tx_alloc", &[64, 1], 1024)
            .log(11, 1024..1032)
            .commit();
        assert_found!(tape, [("double-log", 11, 1)]);
        assert!(tape.findings()[0].message.contains("was allocated"));
    }

    #[test]
    fn object_ids_and_pointers_name_the_same_memory() {
        let mut tape = begun();
        tape.log(10, 256..320);
        tape.calls(11, "pmemobj_tx_add_range", &[0xabcd, 256, 8, 16], 0)
            .commit();
        assert_found!(tape, [("double-log", 11, 1)]);
    }

    #[test]
    fn what_the_library_logs_for_itself_does_not_count() {
        let mut tape = begun();
        tape.log(10, 0..8);
        tape.call(11, "pmemobj_tx_xalloc", &[8, 1, 0])
            .within(5, 11)
            .log(12, 0..8);
        tape.context(0).returns(11, 2048).commit();
        assert_found!(tape, []);
    }

    #[test]
    fn other_libraries_can_be_named() {
        let config = || -> Config {
            let text = r#"
                [transactions]
                begin = ["begin"]
                commit = ["commit"]
                log = [{ name = "save", address = 1, length = 0 }]
            "#;
            toml::from_str(text).expect("a valid configuration")
        };
        let mut tape = Tape::default();
        tape.map().calls(1, "begin", &[], 0);
        tape.calls(2, "save", &[8, BASE], 0)
            .calls(3, "save", &[4, BASE + 2], 0);
        tape.calls(4, "commit", &[], 0)
            .calls(2, "save", &[8, BASE], 0);
        assert_eq!(
            brief(&tape.findings_with(config())),
            [("double-log".to_owned(), 3, 1)]
        );
        assert_found!(tape, []);
    }
}
