//! Findings that are known and accepted: a text file that lies beside the sources.
//!
//! ```text
//! # comments and blank lines are skipped
//! 1f0c2b3a4d5e6f70  missing-flush  src/store.c:8  8 bytes stored here are never flushed
//! ```
//!
//! Columns are separated by two blanks or more. Only the fingerprint decides, so that lines may
//! move and messages may be put better; the rest is for the people who review the file. Several
//! findings can share a fingerprint (the same mistake twice in one function): then as many are
//! known as there are lines, first those whose place is still the same.

use std::collections::HashMap;
use std::fmt;

use crate::finding::{Finding, relative};
use crate::junit::first_line;

/// What a finding without a source line has in its place.
const NOWHERE: &str = "-";

const HEAD: &str = "\
# Known findings of Crashpoint: they are listed, but fail nothing. Remove a line to be told again.
# fingerprint     rule  place  message
";

/// The file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline {
    pub entries: Vec<Entry>,
}

/// One line of a baseline.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// `file:line`.
    pub place: String,
    pub rule: String,
    pub fingerprint: String,
    /// The first line of it.
    pub message: String,
}

/// Findings, held against a baseline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Split {
    pub new: Vec<Finding>,
    pub known: Vec<Finding>,
    /// What is not found any more.
    pub gone: Vec<Entry>,
}

/// A line that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {kind}")]
pub struct BaselineError {
    /// The number of the line, from 1.
    pub line: usize,
    pub kind: BaselineErrorKind,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BaselineErrorKind {
    #[error("`{0}` is not a fingerprint: 16 digits of 0-9 and a-f")]
    Fingerprint(String),
    #[error("the rule is missing: columns are separated by two blanks")]
    NoRule,
}

impl Entry {
    /// Files within `base`, an absolute folder, are named relative to it: the file is shared.
    pub fn of(finding: &Finding, base: Option<&str>) -> Entry {
        let place = finding.location.as_ref().map(|location| {
            let file = relative(&location.file, base);
            format!("{file}:{}", location.line)
        });
        Entry {
            place: place.unwrap_or_else(|| NOWHERE.to_owned()),
            rule: finding.rule.clone(),
            fingerprint: finding.fingerprint(),
            message: first_line(&finding.message).trim().to_owned(),
        }
    }

    fn parse(text: &str) -> Result<Entry, BaselineErrorKind> {
        let mut rest = text;
        let mut column = || {
            let (first, others) = rest.split_once("  ").unwrap_or((rest, ""));
            rest = others.trim_start();
            first.trim().to_owned()
        };
        let fingerprint = column();
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if fingerprint.len() != 16 || !fingerprint.bytes().all(is_digit) {
            return Err(BaselineErrorKind::Fingerprint(fingerprint));
        }
        let rule = column();
        if rule.is_empty() {
            return Err(BaselineErrorKind::NoRule);
        }
        let place = column();
        Ok(Entry {
            place,
            rule,
            fingerprint,
            message: rest.to_owned(),
        })
    }
}

impl Baseline {
    pub fn parse(text: &str) -> Result<Baseline, BaselineError> {
        let mut entries = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let entry = Entry::parse(line);
            entries.push(entry.map_err(|kind| BaselineError {
                line: index + 1,
                kind,
            })?);
        }
        Ok(Baseline { entries })
    }

    /// Accepts these findings. In the order of their places, so that a later file differs only
    /// where the findings do.
    pub fn of<'a>(findings: impl IntoIterator<Item = &'a Finding>, base: Option<&str>) -> Baseline {
        let findings = findings.into_iter();
        let mut entries: Vec<Entry> = findings.map(|finding| Entry::of(finding, base)).collect();
        entries.sort();
        Baseline { entries }
    }

    /// Which of the findings are known. Their order stays.
    pub fn split(&self, findings: Vec<Finding>, base: Option<&str>) -> Split {
        let mut open: HashMap<&str, Vec<&Entry>> = HashMap::new();
        for entry in &self.entries {
            let same = open.entry(entry.fingerprint.as_str()).or_default();
            same.push(entry);
        }
        let seen: Vec<Entry> = findings.iter().map(|it| Entry::of(it, base)).collect();
        let mut known = vec![false; seen.len()];
        for same_place in [true, false] {
            for (entry, known) in seen.iter().zip(&mut known).filter(|(_, known)| !**known) {
                let Some(candidates) = open.get_mut(entry.fingerprint.as_str()) else {
                    continue;
                };
                let fits = |it: &&Entry| !same_place || it.place == entry.place;
                if let Some(index) = candidates.iter().position(fits) {
                    candidates.remove(index);
                    *known = true;
                }
            }
        }
        let mut split = Split::default();
        for (finding, known) in findings.into_iter().zip(known) {
            if known {
                split.known.push(finding)
            } else {
                split.new.push(finding)
            }
        }
        split.gone = open.into_values().flatten().cloned().collect();
        split.gone.sort();
        split
    }
}

/// The text of the file.
impl fmt::Display for Baseline {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(HEAD)?;
        for entry in &self.entries {
            let Entry {
                place,
                rule,
                fingerprint,
                message,
            } = entry;
            let line = format!("{fingerprint}  {rule}  {place}  {message}");
            writeln!(to, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples;

    fn moved(line: u32) -> Finding {
        let mut finding = examples::missing_flush();
        finding.location = Some(examples::at("put", line, 1));
        finding
    }

    #[test]
    fn what_is_written_reads_the_same() {
        let findings = [examples::missing_flush(), examples::extra_flush()];
        let baseline = Baseline::of(&findings, Some("/src"));
        let text = baseline.to_string();
        let fingerprint = examples::extra_flush().fingerprint();
        let line = format!("\n{fingerprint}  extra-flush  store.c:7  this flush writes nothing");
        assert!(text.contains(&line), "{text}");
        assert!(!text.contains("/src"), "{text}");
        assert_eq!(Baseline::parse(&text), Ok(baseline));
        let mut odd = examples::missing_flush();
        odd.location = None;
        odd.message = "  two  blanks \nand a line".into();
        let baseline = Baseline::of(&[odd], None);
        assert_eq!(baseline.entries[0].place, "-");
        assert_eq!(Baseline::parse(&baseline.to_string()), Ok(baseline));
        let empty = Baseline::of(&[], None);
        assert_eq!(Baseline::parse(&empty.to_string()), Ok(empty));
    }

    #[test]
    fn known_findings_may_move() {
        let baseline = Baseline::of(&[examples::missing_flush()], None);
        let findings = vec![examples::extra_flush(), moved(30)];
        let split = baseline.split(findings, None);
        assert_eq!(split.known, [moved(30)]);
        assert_eq!(split.new, [examples::extra_flush()]);
        assert_eq!(split.gone, []);
    }

    #[test]
    fn the_same_mistake_once_more_is_new() {
        let baseline = Baseline::of(&[moved(8)], None);
        let split = baseline.split(vec![moved(5), moved(8)], None);
        assert_eq!((split.new, split.known), (vec![moved(5)], vec![moved(8)]));
    }

    #[test]
    fn what_is_mended_is_named() {
        let findings = [examples::missing_flush(), examples::extra_flush()];
        let baseline = Baseline::of(&findings, None);
        let split = baseline.split(vec![examples::missing_flush()], None);
        let gone = Entry::of(&examples::extra_flush(), None);
        assert_eq!((split.gone, split.new), (vec![gone], vec![]));
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named() {
        let good = "0123456789abcdef  a-rule";
        assert_eq!(Baseline::parse(good).unwrap().entries[0].message, "");
        for (bad, said) in [
            (
                "x  a  b  c",
                "line 4: `x` is not a fingerprint: 16 digits of 0-9 and a-f",
            ),
            (
                "0123456789ABCDEF  a",
                "line 4: `0123456789ABCDEF` is not a fingerprint",
            ),
            ("0123456789abcdef", "line 4: the rule is missing"),
            (
                "0123456789abcdef rule",
                "line 4: `0123456789abcdef rule` is not a fingerprint",
            ),
        ] {
            let error = Baseline::parse(&format!("# x\n\n{good}\n{bad}\n")).unwrap_err();
            assert!(error.to_string().starts_with(said), "{error}");
        }
    }
}
