//! Findings about stores that were never flushed: what both rules that report them have in common.

use super::Left;
use crate::rule::{Draft, Path, RuleContext, Tally, by_path};
use crate::{HistoryStep, RuleFinding, RuleInfo, Severity};
use crashpoint_persist::memory::Origin;

/// What a rule says of the stores of one site with one call path.
pub(crate) struct Statement {
    pub(crate) message: String,
    pub(crate) help: &'static str,
    /// The bytes in question, as a mask of the example's line.
    pub(crate) mask: u64,
}

/// One finding for each site and call path among the stores. `say` is given an example, which is the
/// first store that is still dirty if there is one, and the counts.
pub(crate) fn findings(
    rule_context: &RuleContext<'_>,
    left: &[Left],
    (info, severity): (&RuleInfo, Severity),
    say: impl Fn(&Left, &Tally) -> Statement,
) -> Vec<RuleFinding> {
    let left = left.iter().map(|left| (left.origin, left));
    let merged = by_path(rule_context.origins, left);
    let drafts = merged
        .iter()
        .map(|(path, left)| draft(rule_context, *path, left, &say));
    drafts
        .map(|draft| draft.finding(info.id, severity))
        .collect()
}

fn draft(
    rule_context: &RuleContext<'_>,
    path: Path,
    left: &[(Origin, &Left)],
    say: impl Fn(&Left, &Tally) -> Statement,
) -> Draft {
    let dirty = left.iter().filter(|(_, left)| !left.late);
    let example = dirty.min_by_key(|(_, left)| left.mark.order);
    let (_, example) = example.or(left.first()).expect("never empty");
    let total = rule_context.total(path);
    let count: u64 = left.iter().map(|(_, left)| left.count).sum();
    let tally = Tally {
        count: count.min(total),
        total,
    };
    let statement = say(example, &tally);
    Draft {
        path,
        tally,
        first: example.mark,
        place: example.line.span(statement.mask),
        message: statement.message,
        help: statement.help.to_owned(),
        history: history(rule_context, example),
    }
}

/// The line's last flush, what was stored to it since, and the store in question.
fn history(rule_context: &RuleContext<'_>, left: &Left) -> Vec<HistoryStep> {
    const OTHERS: usize = 4;
    let Some(line) = rule_context.tracker.line(left.line) else {
        return Vec::new();
    };
    let mut steps = rule_context.steps([
        (line.flushed_store(), "a store to the line"),
        (line.flush(), "the line is flushed for the last time"),
        (line.fence(), "a fence waits for it"),
    ]);
    let others = line.writers().filter(|writer| writer.origin != left.origin);
    let others = others.rev().take(OTHERS).map(|writer| {
        let also = writer.mask & left.mask != 0;
        let what = if also {
            "stores to the same bytes"
        } else {
            "stores to the same line"
        };
        rule_context.step(writer.mark(), what)
    });
    steps.extend(others);
    let fate = if left.late {
        "stores, and is flushed only because a neighbour in the line is"
    } else {
        "stores, and no flush of the line follows"
    };
    steps.push(rule_context.step(left.mark, fate));
    steps.sort_by_key(|step| step.order);
    steps
}
