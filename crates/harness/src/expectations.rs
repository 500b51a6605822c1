//! The comments that say what is expected, at the end of the line that a finding belongs to:
//!
//! - `//~ BUG_NAME rule-id` is a finding of lint;
//! - `//~ BUG_NAME rule-id needed` and `//~ BUG_NAME rule-id ahead` are the two sides of a finding
//!   that takes a crash.
//!
//! Several may follow each other. A line with nothing else belongs to the line above it.

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

/// What `crashpoint test` finds; lint is silent on it.
pub(crate) const CRASH_RULES: [&str; 3] = ["ordering", "atomicity", "durability"];

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

/// What a store can have lost at a line, or had too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    Needed,
    Ahead,
}

/// One line of a crash finding that is expected of one variant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CrashMark {
    pub variant: String,
    pub rule: String,
    pub side: Side,
    pub file: PathBuf,
    pub line: u32,
}

/// All that a source and the headers beside it say.
#[derive(Debug, Default)]
pub struct Marks {
    pub lint: Vec<Expectation>,
    pub crash: Vec<CrashMark>,
    /// Macros that the code tests for. A header that several stores share may have marks for a
    /// variant of one of them.
    pub macros: BTreeSet<String>,
}

/// All expectations in a source and in the headers beside it that it includes.
pub fn read(source: &Path) -> Result<Marks, Error> {
    let mut seen = BTreeSet::new();
    let mut work = vec![source.to_owned()];
    let mut found = Marks::default();
    while let Some(path) = work.pop() {
        if !seen.insert(path.clone()) {
            continue;
        }
        let text = std::fs::read_to_string(&path).map_err(io_error(&path))?;
        let mut code = 0;
        for (index, line) in text.lines().enumerate() {
            if !line.trim_start().starts_with("//~") {
                code = index + 1;
            }
            on_line(&path, code, line, &mut found)?;
            if line.starts_with("#if") || line.starts_with("#elif") {
                found.macros.extend(macros(line));
            }
            let included = included(line).map(|name| path.with_file_name(name));
            work.extend(included.filter(|path| path.is_file()));
        }
    }
    found.lint.sort();
    found.crash.sort();
    Ok(found)
}

fn macros(line: &str) -> impl Iterator<Item = String> + '_ {
    let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words
        .filter(|word| word.starts_with("BUG_"))
        .map(str::to_owned)
}

fn included(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("#include")?.trim_start();
    rest.strip_prefix('"')?.split('"').next()
}

fn on_line(path: &Path, line: usize, text: &str, found: &mut Marks) -> Result<(), Error> {
    let bad = |reason: String| Error::Expectation {
        path: path.to_owned(),
        line,
        reason,
    };
    for mark in text.split("//~").skip(1) {
        let words: Vec<&str> = mark.split_whitespace().collect();
        let (variant, rule, side) = match words[..] {
            [variant, rule] if is_lint_rule(rule) => (variant, rule, None),
            [variant, rule, "needed"] if CRASH_RULES.contains(&rule) => {
                (variant, rule, Some(Side::Needed))
            }
            [variant, rule, "ahead"] if CRASH_RULES.contains(&rule) => {
                (variant, rule, Some(Side::Ahead))
            }
            _ => {
                let forms = "`//~ BUG_NAME lint-rule` or `//~ BUG_NAME crash-rule needed|ahead`";
                return Err(bad(format!("`//~{mark}` is not {forms}")));
            }
        };
        if variant != "BUG" && !variant.starts_with("BUG_") {
            return Err(bad(format!("`{variant}` does not begin with BUG_")));
        }
        let (variant, rule) = (variant.to_owned(), rule.to_owned());
        let (file, line) = (path.to_owned(), line as u32);
        match side {
            None => found.lint.push(Expectation {
                variant,
                rule,
                file,
                line,
            }),
            Some(side) => found.crash.push(CrashMark {
                variant,
                rule,
                side,
                file,
                line,
            }),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read_from_headers_too() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("a.c");
        let header = folder.path().join("b.h");
        let text =
            "#include \"b.h\"\n#include <x.h>\n#ifdef BUG_A\nf();\n  //~ BUG_A ordering ahead\n";
        std::fs::write(&source, text).unwrap();
        let text = "g(); //~ BUG_B missing-flush //~ BUG_C extra-fence\n";
        std::fs::write(&header, text).unwrap();
        let found = read(&source).unwrap();
        let short: Vec<(&str, &str, u32)> = found
            .lint
            .iter()
            .map(|e| (e.variant.as_str(), e.rule.as_str(), e.line))
            .collect();
        let expected = [("BUG_B", "missing-flush", 1), ("BUG_C", "extra-fence", 1)];
        assert_eq!(short, expected);
        assert_eq!(found.lint[0].file, header);
        assert_eq!(found.crash.len(), 1);
        assert_eq!((found.crash[0].line, found.crash[0].side), (4, Side::Ahead));
        assert_eq!(found.macros, BTreeSet::from(["BUG_A".to_owned()]));
    }

    #[test]
    fn a_mark_that_means_nothing_is_an_error() {
        for text in [
            "//~ BUG_A",
            "//~ BUG_A no-such-rule",
            "//~ A missing-flush",
            "//~ BUG_A missing-flush ahead",
            "//~ BUG_A ordering",
            "//~ BUG_A ordering behind",
            "//~ a b c",
        ] {
            let mut found = Marks::default();
            assert!(
                on_line(Path::new("a.c"), 1, text, &mut found).is_err(),
                "{text}"
            );
        }
        let mut found = Marks::default();
        on_line(Path::new("a.c"), 1, "x(); // plain", &mut found).unwrap();
        assert!(found.lint.is_empty() && found.crash.is_empty());
    }
}
