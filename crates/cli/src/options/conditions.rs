//! The section `[conditions]`: what must persist before what, beside what is inferred.
//!
//! Conditions are short texts. To add one: `store.c:12 before store.c:20`. To suppress what was
//! inferred: a rule (`PO4`), lines (`store.c:12 before *`), or both (`PO2 store.c:12 before *`).

use std::str::FromStr;

use crashpoint_campaign::settings::{
    AddedCondition, ConditionSettings, SettingError, SourceLine, SuppressedCondition,
};
use crashpoint_infer::Rule;
use serde::Deserialize;

use super::values::written_as_text;

/// Conditions of the user's own; keys only.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConditionOptions {
    /// Conditions beside those that are inferred.
    add: Vec<Added>,
    /// Conditions that are not wanted.
    suppress: Vec<Suppressed>,
}

#[derive(Clone, Debug)]
pub struct Added(AddedCondition);

#[derive(Clone, Debug)]
pub struct Suppressed(SuppressedCondition);

written_as_text!(Added, Suppressed);

impl ConditionOptions {
    pub const FIELDS: &'static [&'static str] = &["add", "suppress"];

    pub fn resolve(self) -> ConditionSettings {
        ConditionSettings {
            add: self.add.into_iter().map(|added| added.0).collect(),
            suppress: self.suppress.into_iter().map(|one| one.0).collect(),
        }
    }
}

impl FromStr for Added {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Added, SettingError> {
        let sides = text.split_once(" before ");
        let lines = sides.and_then(|(first, later)| Some((line(first)??, line(later)??)));
        let (first, later) = lines.ok_or_else(|| {
            SettingError::new(format!(
                "`{text}` is not a condition; write it like `store.c:12 before store.c:20`"
            ))
        })?;
        Ok(Added(AddedCondition { first, later }))
    }
}

impl FromStr for Suppressed {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Suppressed, SettingError> {
        let wrong = || {
            SettingError::new(format!(
                "`{text}` does not say what to suppress; write a rule (PO1, PO2, PO3, PO4, PA1), \
                 lines (`store.c:12 before *`), or both (`PO2 store.c:12 before *`)"
            ))
        };
        let text = text.trim();
        let (rule, rest) = match text.split_once(' ') {
            Some((word, rest)) if Rule::from_name(word).is_some() => (Rule::from_name(word), rest),
            None if Rule::from_name(text).is_some() => (Rule::from_name(text), ""),
            Some(_) | None => (None, text),
        };
        if rest.is_empty() {
            return Ok(Suppressed(SuppressedCondition {
                rule,
                ..SuppressedCondition::default()
            }));
        }
        let (first, later) = rest.split_once(" before ").ok_or_else(wrong)?;
        Ok(Suppressed(SuppressedCondition {
            rule,
            first: line(first).ok_or_else(wrong)?,
            later: line(later).ok_or_else(wrong)?,
        }))
    }
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
        let added = |text: &str| text.parse().ok().map(|Added(added)| added);
        let expected = AddedCondition {
            first: at("a.c", 1),
            later: at("b/c.h", 20),
        };
        assert_eq!(added("a.c:1 before b/c.h:20"), Some(expected));
        for wrong in [
            "a.c:1",
            "a.c before b.c",
            "* before b.c:2",
            ":1 before b:2",
            "",
        ] {
            assert_eq!(added(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_suppressed_may_be_a_rule_or_lines_or_both() {
        let suppressed = |text: &str| text.parse().ok().map(|Suppressed(one)| one);
        let rule = Some(Rule::Po2);
        let first = Some(at("a.c", 1));
        let only_rule = SuppressedCondition {
            rule,
            ..SuppressedCondition::default()
        };
        assert_eq!(suppressed("PO2"), Some(only_rule));
        let both = SuppressedCondition {
            rule,
            first: first.clone(),
            later: None,
        };
        assert_eq!(suppressed("PO2 a.c:1 before *"), Some(both));
        let lines = SuppressedCondition {
            first,
            ..SuppressedCondition::default()
        };
        assert_eq!(suppressed("a.c:1 before *"), Some(lines));
        for wrong in ["PO9", "a.c:1", "PO1 a.c"] {
            assert_eq!(suppressed(wrong), None, "{wrong}");
        }
    }
}
