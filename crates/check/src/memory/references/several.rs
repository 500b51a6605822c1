//! References of operations that ran at once: every set of them that may have happened, in every
//! order that may have been.
//!
//! They run one after the other, on the pool as it was before any of them began, and then the list
//! that follows them does, in one process; what they print themselves is taken out. Where the program
//! prints one line for each operation it is the first lines; otherwise they also run alone, and what
//! is printed then beyond what an empty list prints is theirs.
//!
//! The recorded run is one order. If it leaves what none of them leaves, the operations do not
//! behave like any order of them even without a crash, and nothing is judged by their output.

use super::{Longest, ReferenceError, Why, succeeds};
use crate::engine::outcome::RecoveryOutcome;
use crate::memory::image::Patch;
use crate::memory::judge::{Oracle, Reference, SerialExecution};
use crate::memory::overlap::OverlapGroup;
use crate::memory::plan::TestPlan;
use crate::memory::worker::{Suffix, Worker};
use crate::process::output::lines;
use crate::process::run::FinishedRun;

/// Runs all outcomes. `none` is what the list prints if nothing happened. None if what the operations
/// print cannot be told from what follows.
pub fn linearised(
    plan: &TestPlan<'_>,
    worker: &mut Worker<'_>,
    (suffix, none): (Suffix<'_>, &[u8]),
    overlap: &OverlapGroup,
    longest: &Longest,
) -> Result<Option<Vec<SerialExecution>>, ReferenceError> {
    let text = suffix.id.map(|id| plan.suffixes.get(id));
    let lines = text.as_ref().map_or(&[][..], |text| &text.overlapping[..]);
    if plan.oracle != Oracle::Output || lines.len() != overlap.count() {
        return Ok(Some(Vec::new()));
    }
    let mut run = |text: &str, order: &[usize]| -> Result<FinishedRun, ReferenceError> {
        let suffix = Suffix {
            id: None,
            text,
            ..suffix
        };
        let ended = worker.run(&Patch::new(), &suffix, false)?;
        longest.see(&ended);
        succeeds(plan, &ended, || after(lines, order))?;
        Ok(ended)
    };
    let line_each = count_lines(none) == suffix.text.lines().count();
    let opened = if line_each {
        Vec::new()
    } else {
        run("", &[])?.stdout
    };
    let mut serial_executions = Vec::new();
    let outcomes = (0..=RecoveryOutcome::all_rolled_back(lines.len()).0).map(RecoveryOutcome);
    for outcome in outcomes.filter(|outcome| overlap.outcomes.contains(*outcome)) {
        for order in overlap.orders(outcome) {
            if order.is_empty() {
                continue;
            }
            let text: String = order
                .iter()
                .map(|one| format!("{}\n", lines[*one]))
                .collect();
            let whole = run(&format!("{text}{}", suffix.text), &order)?;
            let all_lines = order.len() + suffix.text.lines().count();
            let rest = if line_each && count_lines(&whole.stdout) == all_lines {
                Some(without_lines(&whole.stdout, order.len()))
            } else {
                rest(&opened, &run(&text, &order)?.stdout, &whole.stdout)
            };
            let Some(stdout) = rest else {
                return Ok(None);
            };
            let reference = Reference {
                end: whole.end,
                stdout,
            };
            serial_executions.push(SerialExecution { outcome, reference });
        }
    }
    Ok(Some(serial_executions))
}

fn count_lines(output: &[u8]) -> usize {
    lines(output).count()
}

fn without_lines(output: &[u8], count: usize) -> Vec<u8> {
    let lines = output.split_inclusive(|byte| *byte == b'\n');
    lines.skip(count).flatten().copied().collect()
}

fn after(lines: &[String], order: &[usize]) -> String {
    let told: Vec<String> = order
        .iter()
        .map(|one| format!("`{}`", lines[*one]))
        .collect();
    if told.is_empty() {
        String::new()
    } else {
        format!(" after {} one after the other", told.join(", "))
    }
}

/// What is left of `whole` without what the first operations print. `opened` is the output without
/// any operation, `alone` with the first ones only: theirs lies in it somewhere between.
fn rest(opened: &[u8], alone: &[u8], whole: &[u8]) -> Option<Vec<u8>> {
    let pairs = opened.iter().zip(alone);
    let before = pairs.take_while(|(a, b)| a == b).count();
    let at_end = opened.len() - before;
    let theirs = alone.len().checked_sub(opened.len())?;
    if alone[alone.len() - at_end..] != opened[before..] {
        return None;
    }
    let upto = before + theirs;
    let same = whole.get(..upto)? == &alone[..upto];
    same.then(|| [&whole[..before], &whole[upto..]].concat())
}

/// The outcomes, if the recorded one is among them.
pub fn judged(
    serial_executions: Option<Vec<SerialExecution>>,
    done: &Reference,
) -> Result<Vec<SerialExecution>, Why> {
    let serial_executions = serial_executions.ok_or(Why::Mixed)?;
    let mut whole = serial_executions
        .iter()
        .filter(|one| one.outcome == RecoveryOutcome::COMMITTED);
    if serial_executions.is_empty() || whole.any(|one| one.reference == *done) {
        Ok(serial_executions)
    } else {
        Err(Why::NotLinearizable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::run::RunEnd;

    #[test]
    fn what_the_first_operations_print_is_taken_out_wherever_it_is() {
        let rest = |opened: &str, alone: &str, whole: &str| {
            let found = rest(opened.as_bytes(), alone.as_bytes(), whole.as_bytes());
            found.map(|bytes| String::from_utf8(bytes).unwrap())
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(rest("", "ok\n", "ok\n7\n"), some("7\n"));
        assert_eq!(
            rest("hello\n", "hello\nok\n", "hello\nok\n7\n"),
            some("hello\n7\n")
        );
        let (opened, alone) = ("hello\nbye\n", "hello\nok\nbye\n");
        assert_eq!(
            rest(opened, alone, "hello\nok\n7\nbye\n"),
            some("hello\n7\nbye\n")
        );
        // A farewell that counts says what cannot be told apart.
        let (opened, alone) = ("0 done\n", "ok\n1 done\n");
        assert_eq!(rest(opened, alone, "ok\n7\n2 done\n"), None);
        assert_eq!(rest("", "ok\n", "ko\n7\n"), None);
        assert_eq!(without_lines(b"ok\nok\n7\n", 2), b"7\n");
    }

    #[test]
    fn a_run_that_no_order_explains_is_not_judged() {
        let reference = |text: &str| Reference {
            end: RunEnd::Exited(0),
            stdout: text.into(),
        };
        let one = |outcome: u8, text: &str| SerialExecution {
            outcome: RecoveryOutcome(outcome),
            reference: reference(text),
        };
        let serial_executions = vec![one(0b01, "a"), one(0, "ab"), one(0, "ba")];
        let done = |text: &str| judged(Some(serial_executions.clone()), &reference(text));
        assert!(done("ba").is_ok());
        assert_eq!(done("a"), Err(Why::NotLinearizable));
        assert_eq!(judged(None, &reference("")), Err(Why::Mixed));
    }
}
