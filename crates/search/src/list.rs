//! The list of operations as plain text: one per line, blank lines and lines that begin with `#`
//! skipped.

use crate::generate::Settings;
use crate::kind::OperationKind;

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What the target is given, exactly.
    pub line: String,
    /// Which of the kinds has this first word; a list written by hand may name others.
    pub kind: Option<usize>,
    pub read_only: bool,
    keys: Vec<String>,
}

impl Operation {
    /// Reads a line by the kinds that are known.
    pub fn new(line: impl Into<String>, kinds: &[OperationKind]) -> Operation {
        let line = line.into();
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        let kind = kinds.iter().position(|kind| kind.name == name);
        let known = kind.map(|index| &kinds[index]);
        let args = known.map_or(&[][..], |kind| kind.args.as_slice());
        let pairs = args.iter().zip(words);
        let keys = pairs.filter(|(argument, _)| argument.is_key());
        Operation {
            kind,
            read_only: known.is_some_and(|kind| kind.read_only),
            keys: keys.map(|(_, word)| word.to_owned()).collect(),
            line,
        }
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
        } = settings;
        text += &format!("# {count} operations, seed {seed}\n");
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
    use crate::kind::ArgumentKind;

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
    fn an_operation_with_too_few_words_has_no_key() {
        let operation = Operation::new("get", &kinds());
        assert_eq!((operation.kind, operation.key()), (Some(1), None));
    }
}
