//! What `crashpoint lint` finds in one case, and whether that is what the comments expect.
//!
//! A finding is expected if its rule and its line are marked; how many call paths lead there does
//! not matter. A mark is found if at least one finding is at it.

use std::path::Path;

use serde::Deserialize;

use crate::Error;
use crate::cases::{Case, Purpose};
use crate::expectations::Expectation;
use crate::step::read_findings;

/// What lint says about one case.
#[derive(Clone, Debug)]
pub struct LintOutcome {
    pub findings: Vec<LintFinding>,
    /// What limits the result.
    pub problems: Vec<String>,
    /// The report for people.
    pub report: String,
    /// What the program printed.
    pub printed: String,
}

/// The part of a finding that is compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LintFinding {
    pub rule: String,
    /// Empty without debug information.
    pub file: String,
    pub line: u32,
    pub message: String,
}

#[derive(Deserialize)]
struct Document {
    findings: Vec<WireFinding>,
    problems: Vec<String>,
}

#[derive(Deserialize)]
struct WireFinding {
    rule: String,
    message: String,
    location: Option<WireLocation>,
}

#[derive(Deserialize)]
struct WireLocation {
    file: String,
    line: u32,
}

impl From<WireFinding> for LintFinding {
    fn from(wire: WireFinding) -> LintFinding {
        let (file, line) = wire
            .location
            .map_or_else(Default::default, |at| (at.file, at.line));
        LintFinding {
            rule: wire.rule,
            file,
            line,
            message: wire.message,
        }
    }
}

impl LintOutcome {
    /// From the folder of a recording that was linted.
    pub(crate) fn read(
        case: &str,
        out: &Path,
        report: String,
        printed: String,
    ) -> Result<LintOutcome, Error> {
        let document: Document = read_findings(case, out)?;
        let findings = document.findings.into_iter().map(LintFinding::from);
        Ok(LintOutcome {
            findings: findings.collect(),
            problems: document.problems,
            report,
            printed,
        })
    }
}

/// How a case came out.
#[derive(Clone, Debug, Default)]
pub struct LintVerdict {
    pub found: Vec<Expectation>,
    pub missed: Vec<Expectation>,
    /// Findings that nothing asks for.
    pub false_alarms: Vec<LintFinding>,
    pub findings: usize,
}

pub fn judge_lint(case: &Case, outcome: &LintOutcome) -> LintVerdict {
    let at = |mark: &Expectation, finding: &LintFinding| {
        mark.rule == finding.rule
            && mark.line == finding.line
            && same_file(&mark.file, Path::new(&finding.file))
    };
    let is_found = |mark: &&Expectation| outcome.findings.iter().any(|finding| at(mark, finding));
    let (found, missed): (Vec<&Expectation>, Vec<_>) = case.expected.iter().partition(is_found);
    let unasked = |finding: &&LintFinding| !case.expected.iter().any(|mark| at(mark, finding));
    LintVerdict {
        found: found.into_iter().cloned().collect(),
        missed: missed.into_iter().cloned().collect(),
        false_alarms: outcome.findings.iter().filter(unasked).cloned().collect(),
        findings: outcome.findings.len(),
    }
}

pub(crate) fn same_file(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a.file_name() == b.file_name(),
    }
}

impl LintVerdict {
    /// What is wrong, one line each; empty if the case is as it should be.
    pub fn complaints(&self, case: &Case) -> Vec<String> {
        let mut complaints = Vec::new();
        let place = |mark: &Expectation| format!("{}:{}", mark.file.display(), mark.line);
        match case.purpose {
            Purpose::Exact | Purpose::Canary => {
                for mark in &self.missed {
                    complaints.push(format!("{} is not reported at {}", mark.rule, place(mark)));
                }
            }
            Purpose::Gap => {
                for mark in &self.found {
                    complaints.push(format!(
                        "gap closed: {} is reported at {}. Move the program to corpus/rules",
                        mark.rule,
                        place(mark)
                    ));
                }
            }
        }
        for alarm in &self.false_alarms {
            complaints.push(format!(
                "{} is reported at {}:{}, where nothing is wrong: {}",
                alarm.rule, alarm.file, alarm.line, alarm.message
            ));
        }
        complaints
    }
}

/// Sums over many cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LintTotals {
    pub programs: usize,
    pub seeded: usize,
    pub found: usize,
    pub findings: usize,
    pub false_alarms: usize,
    /// Gaps do not count as seeded.
    pub gaps: usize,
}

impl LintTotals {
    pub fn add(&mut self, case: &Case, verdict: &LintVerdict) {
        self.programs += 1;
        self.findings += verdict.findings;
        self.false_alarms += verdict.false_alarms.len();
        match case.purpose {
            Purpose::Exact | Purpose::Canary => {
                self.seeded += case.expected.len();
                self.found += verdict.found.len();
            }
            Purpose::Gap => self.gaps += case.expected.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::ProgramKind;

    fn case(purpose: Purpose) -> Case {
        Case {
            name: "a".into(),
            source: "a.c".into(),
            variant: None,
            kind: ProgramKind::Small,
            purpose,
            config: None,
            expected: vec![
                expectation("missing-flush", 3),
                expectation("extra-fence", 9),
            ],
            crash: Vec::new(),
        }
    }

    fn expectation(rule: &str, line: u32) -> Expectation {
        Expectation {
            variant: "BUG".into(),
            rule: rule.into(),
            file: "a.c".into(),
            line,
        }
    }

    fn outcome(findings: &[(&str, u32)]) -> LintOutcome {
        let finding = |(rule, line): &(&str, u32)| LintFinding {
            rule: rule.to_string(),
            file: "/somewhere/a.c".into(),
            line: *line,
            message: String::new(),
        };
        LintOutcome {
            findings: findings.iter().map(finding).collect(),
            problems: Vec::new(),
            report: String::new(),
            printed: String::new(),
        }
    }

    #[test]
    fn marks_are_found_missed_or_never_made() {
        let case = case(Purpose::Exact);
        let findings = [
            ("missing-flush", 3),
            ("missing-flush", 3),
            ("extra-fence", 3),
        ];
        let verdict = judge_lint(&case, &outcome(&findings));
        assert_eq!(verdict.found, [expectation("missing-flush", 3)]);
        assert_eq!(verdict.missed, [expectation("extra-fence", 9)]);
        assert_eq!(verdict.false_alarms.len(), 1);
        assert_eq!(verdict.complaints(&case).len(), 2);

        let mut totals = LintTotals::default();
        totals.add(&case, &verdict);
        let expected = LintTotals {
            programs: 1,
            seeded: 2,
            found: 1,
            findings: 3,
            false_alarms: 1,
            gaps: 0,
        };
        assert_eq!(totals, expected);
    }

    #[test]
    fn a_gap_that_is_found_is_a_complaint() {
        let case = case(Purpose::Gap);
        assert_eq!(judge_lint(&case, &outcome(&[])).complaints(&case), [""; 0]);
        let verdict = judge_lint(&case, &outcome(&[("missing-flush", 3)]));
        assert!(verdict.complaints(&case)[0].starts_with("gap closed"));
    }
}
