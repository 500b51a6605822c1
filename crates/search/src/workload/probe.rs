//! Questions that show what a crash has left.

use std::collections::HashSet;

use super::kind::{ArgumentKind, OperationKind};
use super::list::Operation;

/// Read-only operations that look at everything the operations up to `upto` (and with it) touched:
/// first those that need no key, then, for each key from the one named last to the one named
/// first, all that need just one. At most `limit`, so that the newest keys are never left out.
///
/// Other arguments must be words, or numbers, of which the largest is taken: a scan shall see as
/// much as it can. A kind that needs two keys, a key that nobody has used, or a value, is not asked.
pub fn probes(
    operations: &[Operation],
    upto: usize,
    kinds: &[OperationKind],
    limit: usize,
) -> Vec<Operation> {
    let keys = newest_keys(operations, upto);
    let read_only = || kinds.iter().filter(|kind| kind.read_only);
    let without = read_only().filter(|kind| keys_of(kind) == 0);
    let without = without.filter_map(|kind| question(kind, ""));
    let with = keys.flat_map(|key| {
        let kinds = read_only().filter(|kind| keys_of(kind) == 1);
        kinds.filter_map(|kind| question(kind, key))
    });
    let all = without.chain(with).take(limit);
    all.map(|line| Operation::new(line, kinds)).collect()
}

/// Takes everything away that the operations up to `upto` (and with it) touched, key by key from
/// the one named last, and asks for it again: what was there twice shows only now. At most `limit`.
pub fn removals(
    operations: &[Operation],
    upto: usize,
    kinds: &[OperationKind],
    limit: usize,
) -> Vec<Operation> {
    let keys = newest_keys(operations, upto);
    let all = keys.flat_map(|key| {
        let with_one_key = || kinds.iter().filter(|kind| keys_of(kind) == 1);
        let remove = with_one_key().filter(|kind| kind.removes);
        let ask = with_one_key().filter(|kind| kind.read_only);
        remove.chain(ask).filter_map(|kind| question(kind, key))
    });
    if kinds.iter().any(|kind| kind.removes) {
        all.take(limit)
            .map(|line| Operation::new(line, kinds))
            .collect()
    } else {
        Vec::new()
    }
}

/// Every key that the operations up to `upto` named, the one named last first.
fn newest_keys(operations: &[Operation], upto: usize) -> impl Iterator<Item = &String> {
    let before = &operations[..operations.len().min(upto.saturating_add(1))];
    let mut seen = HashSet::new();
    let newest_first = before.iter().rev().flat_map(|op| op.keys().iter().rev());
    newest_first.filter(move |key| seen.insert(key.as_str()))
}

fn keys_of(kind: &OperationKind) -> usize {
    kind.args.iter().filter(|arg| arg.is_key()).count()
}

fn question(kind: &OperationKind, key: &str) -> Option<String> {
    let mut line = kind.name.clone();
    for argument in &kind.args {
        line.push(' ');
        match argument {
            ArgumentKind::UsedKey | ArgumentKind::AnyKey => line += key,
            ArgumentKind::Word(word) => line += word,
            ArgumentKind::Number { max, .. } => line += &max.to_string(),
            ArgumentKind::NewKey | ArgumentKind::Value => return None,
        }
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::list::parse;

    /// Kinds of operations, separated by commas: the name, with `?` behind it if it changes nothing,
    /// and the arguments.
    fn kinds(all: &str) -> Vec<OperationKind> {
        let kind = |text: &str| {
            let (name, args) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
            let args = args.split_whitespace().map(|word| word.parse().unwrap());
            OperationKind {
                read_only: name.ends_with('?'),
                ..OperationKind::new(name.trim_end_matches('?'), args.collect())
            }
        };
        all.split(',').map(kind).collect()
    }

    fn asked(text: &str, upto: usize, kinds: &[OperationKind], limit: usize) -> Vec<String> {
        let operations = parse(text, kinds);
        let probes = probes(&operations, upto, kinds, limit);
        assert!(probes.iter().all(|probe| probe.read_only));
        probes.into_iter().map(|probe| probe.line).collect()
    }

    #[test]
    fn the_newest_keys_are_asked_first_and_each_once() {
        let kinds =
            kinds("insert new-key value, delete used-key, get? used-key, has? any-key, length?");
        let text = "insert 1 10\ninsert 2 20\nget 3\ndelete 1\ninsert 9 90\n";
        assert_eq!(
            asked(text, 3, &kinds, 100),
            [
                "length", "get 1", "has 1", "get 3", "has 3", "get 2", "has 2"
            ]
        );
        assert_eq!(asked(text, 3, &kinds, 2), ["length", "get 1"]);
        assert_eq!(asked(text, 99, &kinds, 2), ["length", "get 9"]);
        assert!(asked("", 0, &kinds[..3], 9).is_empty());
    }

    #[test]
    fn a_question_needs_no_more_than_one_used_key() {
        let kinds = kinds(
            "scan? used-key 1..4 =up, between? used-key used-key, fresh? new-key, find? value",
        );
        assert_eq!(asked("scan 5 2 up", 0, &kinds, 9), ["scan 5 4 up"]);
    }
}
