//! Compares findings with expectations.
//!
//! A finding is expected if its rule and its line are marked; how many call paths lead there does
//! not matter. A mark is found if at least one finding is at it.

use std::path::Path;

use crate::cases::{Case, Purpose};
use crate::expectations::Expectation;
use crate::run::{Finding, Outcome};

/// How a case came out.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    pub found: Vec<Expectation>,
    pub missed: Vec<Expectation>,
    /// Findings that nothing asks for.
    pub false_alarms: Vec<Finding>,
    pub findings: usize,
}

pub fn judge(case: &Case, outcome: &Outcome) -> Verdict {
    let at = |mark: &Expectation, finding: &Finding| {
        mark.rule == finding.rule
            && mark.line == finding.line
            && same_file(&mark.file, Path::new(&finding.file))
    };
    let is_found = |mark: &&Expectation| outcome.findings.iter().any(|finding| at(mark, finding));
    let (found, missed): (Vec<&Expectation>, Vec<_>) = case.expected.iter().partition(is_found);
    let unasked = |finding: &&Finding| !case.expected.iter().any(|mark| at(mark, finding));
    Verdict {
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

impl Verdict {
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
pub struct Totals {
    pub programs: usize,
    pub seeded: usize,
    pub found: usize,
    pub findings: usize,
    pub false_alarms: usize,
    /// Gaps do not count as seeded.
    pub gaps: usize,
}

impl Totals {
    pub fn add(&mut self, case: &Case, verdict: &Verdict) {
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
    use crate::cases::Kind;

    fn case(purpose: Purpose) -> Case {
        Case {
            name: "a".into(),
            source: "a.c".into(),
            variant: None,
            kind: Kind::Small,
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

    fn outcome(findings: &[(&str, u32)]) -> Outcome {
        let finding = |(rule, line): &(&str, u32)| Finding {
            rule: rule.to_string(),
            file: "/somewhere/a.c".into(),
            line: *line,
            message: String::new(),
        };
        Outcome {
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
        let verdict = judge(&case, &outcome(&findings));
        assert_eq!(verdict.found, [expectation("missing-flush", 3)]);
        assert_eq!(verdict.missed, [expectation("extra-fence", 9)]);
        assert_eq!(verdict.false_alarms.len(), 1);
        assert_eq!(verdict.complaints(&case).len(), 2);

        let mut totals = Totals::default();
        totals.add(&case, &verdict);
        let expected = Totals {
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
        assert_eq!(judge(&case, &outcome(&[])).complaints(&case), [""; 0]);
        let verdict = judge(&case, &outcome(&[("missing-flush", 3)]));
        assert!(verdict.complaints(&case)[0].starts_with("gap closed"));
    }
}
