//! The list of operations as plain text: one per line, blank lines and lines that begin with `#`
//! skipped. A line of several, with `||` between them, is run at once by several threads.

use super::generate::Settings;
use super::kind::OperationKind;

/// Between operations that run at once: a word of its own.
pub const AT_ONCE: &str = "||";

/// One operation, or several that run at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What the target is given, exactly.
    pub line: String,
    /// Which of the kinds has this first word; a list written by hand may name others. Of several
    /// at once, the first one's.
    pub kind: Option<usize>,
    /// Of several at once, all.
    pub read_only: bool,
    keys: Vec<String>,
}

impl Operation {
    /// Reads a line by the kinds that are known.
    pub fn new(line: impl Into<String>, kinds: &[OperationKind]) -> Operation {
        let line = line.into();
        let mut operation = Operation {
            kind: None,
            read_only: true,
            keys: Vec::new(),
            line: String::new(),
        };
        for (number, part) in parts(&line).enumerate() {
            let mut words = part.split_whitespace();
            let name = words.next().unwrap_or_default();
            let kind = kinds.iter().position(|kind| kind.name == name);
            let known = kind.map(|index| &kinds[index]);
            let args = known.map_or(&[][..], |kind| kind.args.as_slice());
            let pairs = args.iter().zip(words);
            let keys = pairs.filter(|(argument, _)| argument.is_key());
            operation.keys.extend(keys.map(|(_, word)| word.to_owned()));
            operation.read_only &= known.is_some_and(|kind| kind.read_only);
            if number == 0 {
                operation.kind = kind;
            }
        }
        Operation { line, ..operation }
    }

    /// The operations that run at once; just itself where it runs alone.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        parts(&self.line)
    }

    /// What it works on: the first of its arguments that is a key.
    pub fn key(&self) -> Option<&str> {
        self.keys.first().map(String::as_str)
    }

    /// All of its arguments that are keys.
    pub fn keys(&self) -> &[String] {
        &self.keys
    }
}

/// Lines are kept exactly where nothing runs at once.
fn parts(line: &str) -> impl Iterator<Item = &str> {
    let is_several = line.split_whitespace().any(|word| word == AT_ONCE);
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let text = rest.take()?;
        if !is_several {
            return Some(text);
        }
        let is_word = |at: &usize| {
            let bytes = text.as_bytes();
            let blank = |at: usize| bytes.get(at).is_none_or(u8::is_ascii_whitespace);
            (*at == 0 || blank(at - 1)) && blank(at + AT_ONCE.len())
        };
        let found = text.match_indices(AT_ONCE).map(|(at, _)| at).find(is_word);
        let (part, after) = match found {
            Some(at) => (&text[..at], Some(&text[at + AT_ONCE.len()..])),
            None => (text, None),
        };
        rest = after;
        Some(part.trim())
    })
}

/// Reads a list. Lines are kept exactly, blanks at their ends too: what a target makes of them is
/// its own business.
pub fn parse(text: &str, kinds: &[OperationKind]) -> Vec<Operation> {
    let lines = text.lines().filter(|line| {
        let beginning = line.trim_start();
        !beginning.is_empty() && !beginning.starts_with('#')
    });
    lines.map(|line| Operation::new(line, kinds)).collect()
}

/// The list as text that [`parse`] reads back. `made_by` tells in comments how it came about.
pub fn write(operations: &[Operation], made_by: Option<&Settings>) -> String {
    let mut text = String::new();
    if let Some(settings) = made_by {
        let Settings {
            kinds,
            count,
            seed,
            keys,
            values,
            at_once,
        } = settings;
        text += &format!("# {count} operations, seed {seed}");
        if *at_once > 1 {
            text += &format!(", {at_once} at once");
        }
        text.push('\n');
        text += &format!("# keys {}..{}", keys.range.start(), keys.range.end());
        if let Some(distinct) = keys.distinct {
            text += &format!(", at most {distinct}");
        }
        text += &format!("; values {}..{}\n", values.start(), values.end());
        for kind in kinds {
            text += &format!("# {kind}\n");
        }
    }
    for operation in operations {
        text += &operation.line;
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::kind::ArgumentKind;

    fn kinds() -> Vec<OperationKind> {
        vec![
            OperationKind::new("insert", vec![ArgumentKind::NewKey, ArgumentKind::Value]),
            OperationKind {
                read_only: true,
                ..OperationKind::new("get", vec![ArgumentKind::UsedKey])
            },
            OperationKind::new("move", vec![ArgumentKind::UsedKey, ArgumentKind::NewKey]),
        ]
    }

    #[test]
    fn comments_and_blank_lines_are_skipped_and_the_rest_is_exact() {
        let text = "# a list\n\n  # indented\ninsert 1 2  \n\tget\t1\nvacuum\r\n \nmove 1 7";
        let operations = parse(text, &kinds());
        let lines: Vec<&str> = operations.iter().map(|op| op.line.as_str()).collect();
        assert_eq!(lines, ["insert 1 2  ", "\tget\t1", "vacuum", "move 1 7"]);
        let known: Vec<_> = operations.iter().map(|op| op.kind).collect();
        assert_eq!(known, [Some(0), Some(1), None, Some(2)]);
        assert!(operations[1].read_only && !operations[0].read_only);
        assert_eq!(operations[0].key(), Some("1"));
        assert_eq!(operations[2].key(), None);
        assert_eq!(operations[3].keys(), ["1", "7"]);
    }

    #[test]
    fn operations_that_run_at_once_stand_on_one_line() {
        let operation = Operation::new("insert 1 2 || get 7 ||  move 3 4", &kinds());
        let parts: Vec<&str> = operation.parts().collect();
        assert_eq!(parts, ["insert 1 2", "get 7", "move 3 4"]);
        assert_eq!(operation.keys(), ["1", "7", "3", "4"]);
        assert_eq!((operation.kind, operation.read_only), (Some(0), false));
        for alone in [" get a||b ", "get |||", "get 1"] {
            let operation = Operation::new(alone, &kinds());
            assert_eq!(operation.parts().collect::<Vec<_>>(), [alone]);
        }
    }

    #[test]
    fn an_operation_with_too_few_words_has_no_key() {
        let operation = Operation::new("get", &kinds());
        assert_eq!((operation.kind, operation.key()), (Some(1), None));
    }
}
