//! Logging what is logged already.

use crate::rule::{Draft, Rule, Scene, Tally, by_path};
use crate::transactions::Cover;
use crate::{Finding, RuleInfo, Severity};

pub const INFO: RuleInfo = RuleInfo {
    id: "double-log",
    title: "a range logged twice in one transaction",
    severity: Severity::Warning,
    manual: MANUAL,
};

const MANUAL: &str = "\
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
";

pub(crate) struct DoubleLog {
    pub(crate) severity: Severity,
}

impl Rule for DoubleLog {
    fn finish(&mut self, scene: &Scene<'_>, out: &mut Vec<Finding>) {
        let doubled = &scene.transactions.doubled;
        let doubled = doubled.iter().map(|(origin, doubled)| (*origin, *doubled));
        for (path, found) in by_path(scene.origins, doubled) {
            let first = found.iter().min_by_key(|(_, found)| found.mark.order);
            let (_, first) = first.expect("never empty");
            let tally = Tally {
                count: found.iter().map(|(_, found)| found.count).sum(),
                total: scene.total(path),
            };
            let (before, earlier, help) = match first.cover {
                Cover::Logged(mark) => (
                    mark,
                    "logs it first",
                    "log a range once, before it first changes",
                ),
                Cover::Allocated(mark) => {
                    let help = "an object that the transaction allocated need not be logged";
                    (mark, "allocates it", help)
                }
            };
            let which = match first.cover {
                Cover::Logged(_) => "is logged already",
                Cover::Allocated(_) => "was allocated",
            };
            let draft = Draft {
                path,
                first: first.mark,
                place: (first.place, first.length),
                message: match tally.count == tally.total {
                    true => format!("superfluous logging: the range {which} in this transaction"),
                    false => format!(
                        "superfluous logging in {} of {} executions: the range {which} in this \
                         transaction",
                        tally.count, tally.total
                    ),
                },
                tally,
                help: help.to_owned(),
                history: scene.steps([
                    (first.began, "the transaction begins"),
                    (before, earlier),
                    (first.mark, "logs it again"),
                ]),
            };
            out.push(draft.finding(INFO.id, self.severity));
        }
    }
}
