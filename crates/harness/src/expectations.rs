//! The comments that say what is expected: `//~ BUG_NAME rule-id`, at the end of the line that a
//! finding belongs to; several may follow each other.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::{Error, io_error};

/// The rules that `crashpoint lint` has.
pub const LINT_RULES: [&str; 7] = [
    "missing-flush",
    "missing-fence",
    "extra-flush",
    "extra-fence",
    "unpersisted",
    "double-log",
    "unlogged-update",
];

/// Kinds of bugs that take a crash to show; lint is silent on them.
const CRASH_RULES: [&str; 2] = ["ordering", "atomicity"];

pub fn is_lint_rule(rule: &str) -> bool {
    LINT_RULES.contains(&rule)
}

/// One finding that is expected of one variant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Expectation {
    /// The macro that selects the variant; `BUG` where there is none.
    pub variant: String,
    pub rule: String,
    pub file: PathBuf,
    pub line: u32,
}

/// All expectations in a source and in the headers beside it that it includes.
pub fn read(source: &Path) -> Result<Vec<Expectation>, Error> {
    let mut seen = BTreeSet::new();
    let mut work = vec![source.to_owned()];
    let mut found = Vec::new();
    while let Some(path) = work.pop() {
        if !seen.insert(path.clone()) {
            continue;
        }
        let text = std::fs::read_to_string(&path).map_err(io_error(&path))?;
        for (index, line) in text.lines().enumerate() {
            found.extend(on_line(&path, index + 1, line)?);
            let included = included(line).map(|name| path.with_file_name(name));
            work.extend(included.filter(|path| path.is_file()));
        }
    }
    found.sort();
    Ok(found)
}

fn included(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("#include")?.trim_start();
    rest.strip_prefix('"')?.split('"').next()
}

fn on_line(path: &Path, line: usize, text: &str) -> Result<Vec<Expectation>, Error> {
    let bad = |reason: String| Error::Expectation {
        path: path.to_owned(),
        line,
        reason,
    };
    let mut found = Vec::new();
    for mark in text.split("//~").skip(1) {
        let words: Vec<&str> = mark.split_whitespace().collect();
        let [variant, rule] = words[..] else {
            return Err(bad(format!("`//~{mark}` is not `//~ BUG_NAME rule-id`")));
        };
        if variant != "BUG" && !variant.starts_with("BUG_") {
            return Err(bad(format!("`{variant}` does not begin with BUG_")));
        }
        if !is_lint_rule(rule) && !CRASH_RULES.contains(&rule) {
            return Err(bad(format!("there is no rule `{rule}`")));
        }
        found.push(Expectation {
            variant: variant.to_owned(),
            rule: rule.to_owned(),
            file: path.to_owned(),
            line: line as u32,
        });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read_from_headers_too() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("a.c");
        let header = folder.path().join("b.h");
        std::fs::write(
            &source,
            "#include \"b.h\"\n#include <x.h>\nf(); //~ BUG_A ordering\n",
        )
        .unwrap();
        std::fs::write(
            &header,
            "g(); //~ BUG_B missing-flush //~ BUG_C extra-fence\n",
        )
        .unwrap();
        let found = read(&source).unwrap();
        let short: Vec<(&str, &str, u32)> = found
            .iter()
            .map(|e| (e.variant.as_str(), e.rule.as_str(), e.line))
            .collect();
        let expected = [
            ("BUG_A", "ordering", 3),
            ("BUG_B", "missing-flush", 1),
            ("BUG_C", "extra-fence", 1),
        ];
        assert_eq!(short, expected);
        assert_eq!(found[1].file, header);
    }

    #[test]
    fn a_mark_that_means_nothing_is_an_error() {
        for text in [
            "//~ BUG_A",
            "//~ BUG_A no-such-rule",
            "//~ A missing-flush",
            "//~ a b c",
        ] {
            assert!(on_line(Path::new("a.c"), 1, text).is_err(), "{text}");
        }
        assert_eq!(on_line(Path::new("a.c"), 1, "x(); // plain").unwrap(), []);
    }
}
