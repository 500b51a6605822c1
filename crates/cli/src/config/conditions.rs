//! The section `[conditions]`: what must persist before what, beside what is inferred.
//!
//! Conditions are short texts. To add one: `store.c:12 before store.c:20`. To suppress what was
//! inferred: a rule (`PO4`), lines (`store.c:12 before *`), or both (`PO2 store.c:12 before *`).

use std::path::Path;

use crashpoint_infer::Rule;
use serde::Deserialize;

use super::wrong::{Reason, Wrong};

/// As it is written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ConditionsSection {
    add: Vec<String>,
    suppress: Vec<String>,
}

/// A line of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// The end of its path.
    pub file: String,
    pub line: u32,
}

impl SourceLine {
    /// Whether a path, as the compiler knew it, is that of the file.
    pub fn is_file(&self, path: &str) -> bool {
        Path::new(path).ends_with(&self.file)
    }
}

/// What is stored on the first line persists before what is stored on the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    pub first: SourceLine,
    pub later: SourceLine,
}

/// What hints are not wanted; what is not said fits all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unwanted {
    pub rule: Option<Rule>,
    pub first: Option<SourceLine>,
    pub later: Option<SourceLine>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConditionSettings {
    pub add: Vec<Added>,
    pub suppress: Vec<Unwanted>,
}

impl ConditionsSection {
    pub fn resolve(self) -> Result<ConditionSettings, Wrong> {
        let add = self.add.iter().map(|text| added(text)).collect();
        let suppress = self.suppress.iter().map(|text| unwanted(text)).collect();
        Ok(ConditionSettings {
            add: add_path(add, "add")?,
            suppress: add_path(suppress, "suppress")?,
        })
    }
}

fn add_path<T>(read: Result<T, Reason>, key: &str) -> Result<T, Wrong> {
    read.map_err(|reason| reason.at(&["conditions", key]))
}

fn added(text: &str) -> Result<Added, Reason> {
    let sides = text.split_once(" before ");
    let lines = sides.and_then(|(first, later)| Some((line(first)??, line(later)??)));
    let (first, later) = lines.ok_or_else(|| {
        Reason::new(format!(
            "`{text}` is no condition; write it like `store.c:12 before store.c:20`"
        ))
    })?;
    Ok(Added { first, later })
}

fn unwanted(text: &str) -> Result<Unwanted, Reason> {
    let wrong = || {
        Reason::new(format!(
            "`{text}` does not say what to suppress; write a rule (PO1, PO2, PO3, PO4, PA1), lines \
             (`store.c:12 before *`), or both (`PO2 store.c:12 before *`)"
        ))
    };
    let text = text.trim();
    let (rule, rest) = match text.split_once(' ') {
        Some((word, rest)) if Rule::from_name(word).is_some() => (Rule::from_name(word), rest),
        None if Rule::from_name(text).is_some() => (Rule::from_name(text), ""),
        Some(_) | None => (None, text),
    };
    if rest.is_empty() {
        return Ok(Unwanted {
            rule,
            ..Unwanted::default()
        });
    }
    let (first, later) = rest.split_once(" before ").ok_or_else(wrong)?;
    Ok(Unwanted {
        rule,
        first: line(first).ok_or_else(wrong)?,
        later: line(later).ok_or_else(wrong)?,
    })
}

/// `file:line`, or `*` for any; none if it is neither.
fn line(text: &str) -> Option<Option<SourceLine>> {
    let text = text.trim();
    if text == "*" {
        return Some(None);
    }
    let (file, line) = text.rsplit_once(':')?;
    let line = line.parse().ok()?;
    let file = file.to_owned();
    (!file.is_empty()).then_some(Some(SourceLine { file, line }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(file: &str, line: u32) -> SourceLine {
        let file = file.to_owned();
        SourceLine { file, line }
    }

    #[test]
    fn conditions_name_lines() {
        let expected = Added {
            first: at("a.c", 1),
            later: at("b/c.h", 20),
        };
        assert_eq!(added("a.c:1 before b/c.h:20").ok(), Some(expected));
        for wrong in [
            "a.c:1",
            "a.c before b.c",
            "* before b.c:2",
            ":1 before b:2",
            "",
        ] {
            assert!(added(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_suppressed_may_be_a_rule_or_lines_or_both() {
        let rule = Some(Rule::Po2);
        let first = Some(at("a.c", 1));
        let only_rule = Unwanted {
            rule,
            ..Unwanted::default()
        };
        assert_eq!(unwanted("PO2").ok(), Some(only_rule));
        let both = Unwanted {
            rule,
            first: first.clone(),
            later: None,
        };
        assert_eq!(unwanted("PO2 a.c:1 before *").ok(), Some(both));
        let lines = Unwanted {
            first,
            ..Unwanted::default()
        };
        assert_eq!(unwanted("a.c:1 before *").ok(), Some(lines));
        for wrong in ["PO9", "a.c:1", "PO1 a.c"] {
            assert!(unwanted(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_file_is_known_by_the_end_of_its_path() {
        assert!(at("src/a.c", 1).is_file("/home/me/src/a.c"));
        assert!(!at("a.c", 1).is_file("/home/me/ba.c"));
    }
}
