//! Changing in a transaction what is not in its log.

use crate::rule::{Draft, Rule, Scene, Tally, by_path};
use crate::{Finding, RuleInfo, Severity};
use crashpoint_persist::x86::Mark;

pub const INFO: RuleInfo = RuleInfo {
    id: "unlogged-update",
    title: "a change in a transaction without logging",
    severity: Severity::Error,
    manual: MANUAL,
};

const MANUAL: &str = "\
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
";

pub(crate) struct UnloggedUpdate {
    pub(crate) severity: Severity,
}

impl Rule for UnloggedUpdate {
    fn finish(&mut self, scene: &Scene<'_>, out: &mut Vec<Finding>) {
        let unlogged = &scene.transactions.unlogged;
        let unlogged = unlogged.iter().map(|(origin, found)| (*origin, *found));
        for (path, found) in by_path(scene.origins, unlogged) {
            let first = found.iter().min_by_key(|(_, found)| found.mark.order);
            let (_, first) = first.expect("never empty");
            let late = first.logged.is_some();
            let draft = Draft {
                path,
                tally: Tally {
                    count: found.iter().map(|(_, found)| found.count).sum(),
                    total: scene.total(path),
                },
                first: first.mark,
                place: (first.place, first.length),
                message: match late {
                    true => "this store is logged only after it was made".to_owned(),
                    false => "this store in a transaction is not logged".to_owned(),
                },
                help: match late {
                    true => "log the range before the store: the log must hold the old value",
                    false => "log the range in the transaction, before the store",
                }
                .to_owned(),
                history: scene.steps([
                    (first.began, "the transaction begins"),
                    (first.mark, "stores to a range that is not logged"),
                    (first.logged.unwrap_or(Mark::default()), "logs it too late"),
                ]),
            };
            out.push(draft.finding(INFO.id, self.severity));
        }
    }
}
