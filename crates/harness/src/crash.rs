//! What `crashpoint test` finds in one case, and whether that is what the comments expect. Programs
//! that keep memory and programs that keep files differ only in what a mark names.
//!
//! A crash finding names the stores or calls that were needed and the one that went ahead. It is
//! expected if each place it names is marked so, for its rule. A variant's bug is found if at least
//! one expected finding is made; which of its marked places that takes depends on the workload.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::Error;
use crate::cases::Case;
use crate::expectations::Side;
use crate::lint::same_file;
use crate::step::read_findings;

/// What `crashpoint test` says about one case.
#[derive(Clone, Debug, Default)]
pub struct CrashOutcome {
    pub findings: Vec<CrashFinding>,
    /// What limits the result.
    pub problems: Vec<String>,
    /// Crash states that were tried.
    pub states: u64,
    pub crash_points: u64,
    /// Update behaviours, and those that were tried for all of them.
    pub behaviours: u64,
    pub representatives: u64,
    pub seconds: f64,
    /// What was printed, in the format that was asked for.
    pub report: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashFinding {
    pub rule: String,
    pub category: String,
    pub needed: Vec<CrashPlace>,
    pub ahead: Option<CrashPlace>,
}

/// A store by its line, or a system call and its line where that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CrashPlace {
    /// Empty where it is not known.
    pub file: String,
    pub line: u32,
    /// Empty for a store.
    pub call: String,
}

impl std::fmt::Display for CrashPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.file.rsplit('/').next().unwrap_or_default();
        match (self.call.as_str(), name) {
            ("", name) => write!(f, "{name}:{}", self.line),
            (call, "") => f.write_str(call),
            (call, name) => write!(f, "{call} at {name}:{}", self.line),
        }
    }
}

impl std::fmt::Display for CrashFinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let needed: Vec<String> = self.needed.iter().map(CrashPlace::to_string).collect();
        write!(f, "{} needs {}", self.rule, needed.join(", "))?;
        if let Some(ahead) = &self.ahead {
            write!(f, ", ahead of it {ahead}")?;
        }
        write!(f, " ({})", self.category)
    }
}

#[derive(Deserialize)]
struct Document {
    findings: Vec<WireFinding>,
    problems: Vec<String>,
    test: WireFigures,
}

#[derive(Deserialize)]
struct WireFinding {
    rule: String,
    crash: WireCrash,
}

#[derive(Deserialize)]
struct WireCrash {
    category: String,
    needed: Vec<CrashPlace>,
    ahead: Option<CrashPlace>,
}

#[derive(Deserialize)]
struct WireFigures {
    tried_states: u64,
    crash_points: u64,
    behaviours: u64,
    representatives: u64,
    /// By phase.
    seconds: BTreeMap<String, f64>,
}

impl CrashOutcome {
    /// From the folder that `crashpoint test` wrote.
    pub(crate) fn read(case: &str, out: &Path, report: String) -> Result<CrashOutcome, Error> {
        let document: Document = read_findings(case, out)?;
        let finding = |wire: WireFinding| CrashFinding {
            rule: wire.rule,
            category: wire.crash.category,
            needed: wire.crash.needed,
            ahead: wire.crash.ahead,
        };
        Ok(CrashOutcome {
            findings: document.findings.into_iter().map(finding).collect(),
            problems: document.problems,
            states: document.test.tried_states,
            crash_points: document.test.crash_points,
            behaviours: document.test.behaviours,
            representatives: document.test.representatives,
            seconds: document.test.seconds.values().sum(),
            report,
        })
    }
}

/// How a case came out.
#[derive(Clone, Debug, Default)]
pub struct CrashVerdict {
    /// Whether there is something to find.
    pub seeded: bool,
    pub found: bool,
    pub findings: usize,
    /// Findings that nothing asks for.
    pub false_alarms: Vec<CrashFinding>,
}

/// Judges a program that keeps memory.
pub fn judge_crash(case: &Case, outcome: &CrashOutcome) -> CrashVerdict {
    CrashVerdict::by_marks(outcome, !case.crash.is_empty(), |rule, side, place| {
        case.crash.iter().any(|mark| {
            mark.rule == rule
                && mark.side == side
                && mark.line == place.line
                && same_file(&mark.file, Path::new(&place.file))
        })
    })
}

impl CrashVerdict {
    /// `is_marked` says whether a place is marked as one side of a rule.
    pub(crate) fn by_marks(
        outcome: &CrashOutcome,
        seeded: bool,
        is_marked: impl Fn(&str, Side, &CrashPlace) -> bool,
    ) -> CrashVerdict {
        let is_expected = |finding: &&CrashFinding| {
            let on = |side| {
                let (is_marked, rule) = (&is_marked, finding.rule.as_str());
                move |place: &CrashPlace| is_marked(rule, side, place)
            };
            let names_a_place = !finding.needed.is_empty() || finding.ahead.is_some();
            names_a_place
                && finding.needed.iter().all(on(Side::Needed))
                && finding.ahead.iter().all(on(Side::Ahead))
        };
        let (expected, false_alarms): (Vec<&CrashFinding>, Vec<_>) =
            outcome.findings.iter().partition(is_expected);
        CrashVerdict {
            seeded,
            found: !expected.is_empty(),
            findings: outcome.findings.len(),
            false_alarms: false_alarms.into_iter().cloned().collect(),
        }
    }

    /// What is wrong, one line each; empty if the case is as it should be.
    pub fn complaints(&self) -> Vec<String> {
        let missed = (self.seeded && !self.found).then(|| "the bug is not found".to_owned());
        let alarms = self.false_alarms.iter();
        let alarms = alarms.map(|alarm| format!("not marked: {alarm}"));
        missed.into_iter().chain(alarms).collect()
    }

    /// For one line of a table: whether what is seeded was found.
    pub fn word(&self) -> &'static str {
        match (self.seeded, self.found) {
            (true, true) => "found",
            (true, false) => "MISSED",
            (false, _) => "correct",
        }
    }
}

/// Sums over many cases, or over many cases and models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CrashTotals {
    pub runs: usize,
    pub seeded: usize,
    pub found: usize,
    pub findings: usize,
    pub false_alarms: usize,
    pub states: u64,
}

impl CrashTotals {
    pub fn of(outcome: &CrashOutcome, verdict: &CrashVerdict) -> CrashTotals {
        CrashTotals {
            runs: 1,
            seeded: usize::from(verdict.seeded),
            found: usize::from(verdict.seeded && verdict.found),
            findings: verdict.findings,
            false_alarms: verdict.false_alarms.len(),
            states: outcome.states,
        }
    }

    pub fn add(&mut self, other: &CrashTotals) {
        self.runs += other.runs;
        self.seeded += other.seeded;
        self.found += other.found;
        self.findings += other.findings;
        self.false_alarms += other.false_alarms;
        self.states += other.states;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{ProgramKind, Purpose};
    use crate::expectations::CrashMark;

    fn case() -> Case {
        let mark = |rule: &str, side, line| CrashMark {
            variant: "BUG_A".into(),
            rule: rule.into(),
            side,
            file: "a.c".into(),
            line,
        };
        Case {
            name: "a".into(),
            source: "a.c".into(),
            variant: Some("BUG_A".into()),
            kind: ProgramKind::Small,
            purpose: Purpose::Exact,
            config: None,
            expected: Vec::new(),
            crash: vec![
                mark("ordering", Side::Needed, 3),
                mark("ordering", Side::Needed, 4),
                mark("ordering", Side::Ahead, 9),
                mark("durability", Side::Needed, 9),
            ],
        }
    }

    fn finding(rule: &str, needed: &[u32], ahead: Option<u32>) -> CrashFinding {
        let place = |line: u32| CrashPlace {
            file: "/somewhere/a.c".into(),
            line,
            call: String::new(),
        };
        CrashFinding {
            rule: rule.into(),
            category: "lost".into(),
            needed: needed.iter().copied().map(place).collect(),
            ahead: ahead.map(place),
        }
    }

    fn verdict(findings: Vec<CrashFinding>) -> CrashVerdict {
        let outcome = CrashOutcome {
            findings,
            ..CrashOutcome::default()
        };
        judge_crash(&case(), &outcome)
    }

    #[test]
    fn a_finding_is_expected_if_every_line_it_names_is_marked() {
        let good = [
            finding("ordering", &[3], Some(9)),
            finding("ordering", &[3, 4], Some(9)),
            finding("durability", &[9], None),
        ];
        for finding in good {
            assert_eq!(verdict(vec![finding]).complaints(), [""; 0]);
        }
        let bad = [
            finding("atomicity", &[3], Some(9)),
            finding("ordering", &[3, 5], Some(9)),
            finding("ordering", &[9], Some(3)),
            finding("recovery", &[], None),
        ];
        for finding in bad {
            assert_eq!(verdict(vec![finding]).complaints().len(), 2);
        }
    }

    #[test]
    fn silence_about_a_bug_is_a_complaint() {
        assert_eq!(verdict(Vec::new()).complaints(), ["the bug is not found"]);
    }

    #[test]
    fn a_place_is_a_call_or_a_line_or_both() {
        let place = |file: &str, call: &str| CrashPlace {
            file: file.into(),
            line: 7,
            call: call.into(),
        };
        assert_eq!(place("/there/a.c", "").to_string(), "a.c:7");
        assert_eq!(place("", "fsync(3)").to_string(), "fsync(3)");
        assert_eq!(
            place("/there/a.c", "fsync(3)").to_string(),
            "fsync(3) at a.c:7"
        );
    }
}
