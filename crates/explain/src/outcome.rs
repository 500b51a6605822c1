//! What a crash looks like from outside: its category, what was expected, and what was found.

use crashpoint_check::engine::minimise::{Cause, CauseKind};
use crashpoint_check::memory::judge::{Oracle, Reference, References};
use crashpoint_check::memory::plan::TestPlan;
use crashpoint_check::process::message::{checker_message, message};
use crashpoint_check::process::output::{first_difference, lines};
use crashpoint_check::process::run::{FinishedRun, RunEnd};
use crashpoint_persist::graph::Model;
use crashpoint_report::{Category, Location};

const HELP_ATOMICITY: &str = "no order of the stores helps: keep what both belong to in a log, or \
                              make the change visible by one store of 8 bytes";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What the program does after a crash, and what it should have done.
pub struct Seen {
    pub category: Category,
    pub expected: Vec<String>,
    pub found: String,
}

impl Seen {
    /// A failure that anybody can see.
    fn failure(category: Category, who: &str, ended: &FinishedRun) -> Seen {
        let message = match (ended.end, category) {
            (RunEnd::Exited(_), Category::Inconsistent) => checker_message(ended),
            (RunEnd::Killed { .. } | RunEnd::Exited(_), _) => message(ended),
            (RunEnd::TimedOut | RunEnd::TooMuchOutput, _) => None,
        };
        let message = message.map_or(String::new(), |line| format!(": {line}"));
        Seen {
            category,
            expected: Vec::new(),
            found: format!("{who} {}{message}", ended.end),
        }
    }
}

/// What the program does wrong.
pub fn describe(
    plan: &TestPlan<'_>,
    cause: &Cause,
    ended: &FinishedRun,
    references: Option<&References>,
) -> Seen {
    let recovered = !ended.stdout.is_empty();
    let program = |category| Seen::failure(category, "the program", ended);
    match (ended.end, plan.oracle) {
        (RunEnd::Killed { .. }, _) if !recovered => program(Category::CrashInRecovery),
        (RunEnd::Killed { .. }, _) => program(Category::FailureOfAnOperation),
        (RunEnd::TimedOut, _) => program(Category::Hang),
        (RunEnd::TooMuchOutput, _) => program(Category::EndlessOutput),
        (RunEnd::Exited(_), Oracle::Checker) => {
            Seen::failure(Category::Inconsistent, "the checker", ended)
        }
        (RunEnd::Exited(code), Oracle::Output | Oracle::Visible) if code != 0 && recovered => {
            program(Category::FailureOfAnOperation)
        }
        (RunEnd::Exited(code), Oracle::Output | Oracle::Visible) if code != 0 => {
            program(Category::RecoveryRefuses)
        }
        (RunEnd::Exited(_), Oracle::Output | Oracle::Visible) => match references {
            Some(references) => differences(plan, cause, ended, references),
            None => program(Category::Inconsistent),
        },
    }
}

/// What is wrong, and what to do.
pub fn words(model: Model, cause: &Cause, needed: &[Location]) -> (String, String) {
    let lines = needed.iter().map(|at| {
        let name = at.file.rsplit('/').next().unwrap_or_default();
        format!("{name}:{}", at.line)
    });
    let lines = lines.collect::<Vec<_>>().join(", ");
    let fix = match model {
        Model::X86 => "a flush and a fence",
        Model::Eadr => "a store of 8 bytes that comes last",
        Model::Msync => "msync",
    };
    match cause.kind {
        CauseKind::Ordering => {
            let help = if cause.fixed_by_persisting {
                format!(
                    "{fix} after the store at {lines} makes every failing state of this \
                     finding impossible (checked on this recording)"
                )
            } else {
                format!("make the store at {lines} durable before this one")
            };
            (
                "this store can be durable before one that it needs".to_owned(),
                help,
            )
        }
        CauseKind::Durability if !cause.fixed_by_persisting => (
            "an operation that needs this store returns before it is made".to_owned(),
            format!("return when the store at {lines} is durable"),
        ),
        CauseKind::Durability => (
            "this store can be lost after the operation has returned".to_owned(),
            format!(
                "{fix} after the store at {lines} makes every failing state of this finding \
                 impossible (checked on this recording)"
            ),
        ),
        CauseKind::Atomicity if cause.ahead.is_none() => (
            "a crash before anything is stored leaves a pool that is neither absent nor made"
                .to_owned(),
            "take a pool for one that was made only if the last store of making it says so, or \
             make it under another name and rename it"
                .to_owned(),
        ),
        CauseKind::Atomicity if cause.torn => (
            "this store can tear: a crash keeps a part of it, as only 8 aligned bytes persist whole"
                .to_owned(),
            "store it where nothing refers to it yet, make it durable, and switch to it by one store \
             of 8 aligned bytes; or let recovery check it, by a checksum"
                .to_owned(),
        ),
        CauseKind::Atomicity => (
            "a crash right after this store leaves a state that is neither old nor new".to_owned(),
            HELP_ATOMICITY.to_owned(),
        ),
    }
}

/// The first line that differs from what a consistent program prints.
fn differences<'a>(
    plan: &TestPlan<'_>,
    cause: &Cause,
    ended: &'a FinishedRun,
    references: &'a References,
) -> Seen {
    let list = plan.suffixes.get(cause.state.phase.suffix());
    let operation = |line: usize| list.text.lines().nth(line).unwrap_or("").trim();
    // The outcome that it resembles the longest shows best where it leaves all.
    let difference = |reference: &'a Reference| first_difference(&reference.stdout, &ended.stdout);
    let nearest = match cause.kind {
        CauseKind::Durability => difference(&references.committed),
        CauseKind::Ordering | CauseKind::Atomicity => {
            let differences: Option<Vec<_>> = references.all().map(difference).collect();
            // Of equals the first.
            let differences = differences.into_iter().flatten().rev();
            differences.max_by_key(|difference| difference.0)
        }
    };
    let Some((at, _, found)) = nearest else {
        return Seen {
            category: Category::Inconsistent,
            expected: Vec::new(),
            found: format!("the program {}", ended.end),
        };
    };
    let expected = lines(&references.committed.stdout).nth(at);
    let tell = |line: usize, side: Option<&[u8]>| {
        let shown = side.map_or("nothing".to_owned(), text);
        match operation(line) {
            "" => shown,
            asked => format!("`{asked}` prints {shown}"),
        }
    };
    let (wanted, said) = match cause.kind {
        CauseKind::Durability => (vec![tell(at, expected)], tell(at, found)),
        CauseKind::Ordering | CauseKind::Atomicity => {
            let outcomes: Vec<&[u8]> = references.all().map(|one| &one.stdout[..]).collect();
            contradictions(&outcomes, &ended.stdout, tell)
        }
    };
    let absent = absent(references, list.text.as_str());
    let is_absent = |side: Option<&[u8]>| side.is_some() && side == absent.as_deref();
    let category = match (cause.kind, is_absent(expected), is_absent(found)) {
        (CauseKind::Durability, _, _) | (_, false, true) => Category::Lost,
        (_, true, false) => Category::Resurrected,
        (_, true, true) | (_, false, false) => Category::WrongValue,
    };
    Seen {
        category,
        expected: wanted,
        found: said,
    }
}

/// What each outcome would print and what was found instead: in one line that contradicts all of them
/// if there is one, otherwise in the first of each. In a line that only some outcomes print otherwise, it
/// would look as if nothing were wrong.
fn contradictions(
    outcomes: &[&[u8]],
    found: &[u8],
    tell: impl Fn(usize, Option<&[u8]>) -> String,
) -> (Vec<String>, String) {
    let printed: Vec<Vec<&[u8]>> = outcomes
        .iter()
        .map(|outcome| lines(outcome).collect())
        .collect();
    let found: Vec<&[u8]> = lines(found).collect();
    let line = |all: &[&'_ [u8]], at: usize| all.get(at).map(|line| line.to_vec());
    let differs = |outcome: &Vec<&[u8]>, at: usize| line(outcome, at) != line(&found, at);
    let longest = printed.iter().chain([&found]).map(Vec::len).max();
    let mut all = 0..longest.unwrap_or(0);
    let common = all.find(|at| printed.iter().all(|outcome| differs(outcome, *at)));
    let (mut wanted, mut said): (Vec<String>, Vec<String>) = Default::default();
    for outcome in &printed {
        let first = (0..outcome.len().max(found.len())).find(|at| differs(outcome, *at));
        let Some(at) = common.or(first) else { continue };
        for (told, side) in [(&mut wanted, outcome), (&mut said, &found)] {
            let line = tell(at, side.get(at).copied());
            if !told.contains(&line) {
                told.push(line);
            }
        }
    }
    (wanted, said.join(", and "))
}

/// What the program prints for something that is not there: the line that most questions about
/// removed things share. Known only if two questions are answered alike.
fn absent(references: &References, list: &str) -> Option<Vec<u8>> {
    let mut counts: Vec<(&[u8], usize)> = Vec::new();
    for line in lines(&references.committed.stdout).take(list.lines().count()) {
        match counts.iter_mut().find(|(known, _)| *known == line) {
            Some((_, count)) => *count += 1,
            None => counts.push((line, 1)),
        }
    }
    // Values are distinct; words such as `ok` and `missing` are not. Of these, the one that is no
    // acknowledgement cannot be told in general, so numbers are left out and the rest is counted.
    counts.retain(|(line, _)| !line.iter().any(u8::is_ascii_digit));
    let most = counts.into_iter().max_by_key(|(_, count)| *count)?;
    (most.1 > 1 && most.0 != b"ok").then(|| most.0.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(outcomes: [&str; 2], found: &str) -> (Vec<String>, String) {
        let tell = |line: usize, side: Option<&[u8]>| {
            format!("{line}: {}", side.map_or("nothing".to_owned(), text))
        };
        contradictions(&outcomes.map(str::as_bytes), found.as_bytes(), tell)
    }

    #[test]
    fn one_line_that_contradicts_all_worlds_says_it() {
        let (wanted, said) = told(["a\nb\n", "a\nc\n"], "a\nd\n");
        assert_eq!(wanted, ["1: b", "1: c"]);
        assert_eq!(said, "1: d");
        // A later one, if the first contradicts only some.
        let (wanted, said) = told(["a\nb\nx\n", "z\nb\nx\n"], "z\nb\n");
        assert_eq!((wanted, said), (vec!["2: x".into()], "2: nothing".into()));
    }

    #[test]
    fn otherwise_each_world_is_contradicted_where_it_is() {
        let (wanted, said) = told(["1\n1\n", "0\n0\n"], "1\n0\n");
        assert_eq!(wanted, ["1: 1", "0: 0"]);
        assert_eq!(said, "1: 0, and 0: 1");
    }
}
