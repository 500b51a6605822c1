//! What a crash looks like from outside: in a word, what was expected, and what was found.

use crashpoint_check::judge::{Oracle, Reference, References, first_difference, lines};
use crashpoint_check::minimise::{Cause, Kind};
use crashpoint_check::plan::Plan;
use crashpoint_check::server::{End, Ended};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What the program does wrong: a word, what was expected, and what it does.
pub fn describe(
    plan: &Plan<'_>,
    cause: &Cause,
    ended: &Ended,
    references: Option<&References>,
) -> (&'static str, Vec<String>, String) {
    let said = text(&ended.stderr);
    let last = said
        .lines()
        .last()
        .map_or(String::new(), |line| format!(": {line}"));
    let recovered = !ended.stdout.is_empty();
    match (ended.end, plan.oracle) {
        (End::Killed { .. }, _) if !recovered => {
            return (
                "crash in recovery",
                Vec::new(),
                format!("the program {}{last}", ended.end),
            );
        }
        (End::Killed { .. }, _) => {
            return (
                "unexpected failure of an operation",
                Vec::new(),
                format!("the program {}{last}", ended.end),
            );
        }
        (End::TimedOut, _) => {
            return ("hang", Vec::new(), format!("the program {}", ended.end));
        }
        (End::TooMuchOutput, _) => {
            let said = format!("the program {}", ended.end);
            return ("endless output", Vec::new(), said);
        }
        (End::Exited(_), Oracle::Checker) => {
            return (
                "inconsistent",
                Vec::new(),
                format!("the checker {}{last}", ended.end),
            );
        }
        (End::Exited(code), Oracle::Output | Oracle::Visible) if code != 0 => {
            let category = match recovered {
                true => "unexpected failure of an operation",
                false => "recovery refuses",
            };
            return (
                category,
                Vec::new(),
                format!("the program {}{last}", ended.end),
            );
        }
        (End::Exited(_), _) => {}
    }
    let Some(references) = references else {
        return (
            "inconsistent",
            Vec::new(),
            format!("the program {}", ended.end),
        );
    };
    differences(plan, cause, ended, references)
}

/// The first line that differs from what a consistent program prints.
fn differences<'a>(
    plan: &Plan<'_>,
    cause: &Cause,
    ended: &'a Ended,
    references: &'a References,
) -> (&'static str, Vec<String>, String) {
    let list = plan.lists.get(cause.state.phase.list());
    let operation = |line: usize| list.text.lines().nth(line).unwrap_or("").trim();
    // The world that it resembles the longest shows best where it leaves all.
    let difference = |reference: &'a Reference| first_difference(&reference.stdout, &ended.stdout);
    let nearest = match cause.kind {
        Kind::Durability => difference(&references.done),
        Kind::Ordering | Kind::Atomicity => {
            let differences: Option<Vec<_>> = references.all().map(difference).collect();
            // Of equals the first.
            let differences = differences.into_iter().flatten().rev();
            differences.max_by_key(|difference| difference.0)
        }
    };
    let Some((at, _, found)) = nearest else {
        let said = format!("the program {}", ended.end);
        return ("inconsistent", Vec::new(), said);
    };
    let expected = lines(&references.done.stdout).nth(at);
    let shown = |side: Option<&[u8]>| side.map_or("nothing".to_owned(), text);
    let asked = operation(at);
    let tell = |side: Option<&[u8]>| match asked.is_empty() {
        true => shown(side),
        false => format!("`{asked}` prints {}", shown(side)),
    };
    let mut wanted = vec![tell(expected)];
    if cause.kind != Kind::Durability {
        for other in references.all().map(|one| lines(&one.stdout).nth(at)) {
            let told = tell(other);
            if !wanted.contains(&told) {
                wanted.push(told);
            }
        }
    }
    let absent = absent(references, list.text.as_str());
    let is_absent = |side: Option<&[u8]>| side.is_some() && side == absent.as_deref();
    let category = match (cause.kind, is_absent(expected), is_absent(found)) {
        (Kind::Durability, _, _) | (_, false, true) => "lost",
        (_, true, false) => "resurrected",
        (_, true, true) | (_, false, false) => "wrong value",
    };
    (category, wanted, tell(found))
}

/// What the program prints for something that is not there: the line that most questions about
/// removed things share. Known only if two questions are answered alike.
fn absent(references: &References, list: &str) -> Option<Vec<u8>> {
    let mut counts: Vec<(&[u8], usize)> = Vec::new();
    for line in lines(&references.done.stdout).take(list.lines().count()) {
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
