//! Crashes one case by `crashpoint test` and compares what that shows with the comments.
//!
//! A crash finding names the stores that were needed and the one that went ahead. It is expected if
//! each line it names is marked so, for its rule. A variant's bug is found if at least one expected
//! finding is made; which of its marked lines that takes depends on the workload.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::cases::{Case, Kind};
use crate::expectations::Side;
use crate::judge::same_file;
use crate::run::Workshop;
use crate::{Error, io_error};

/// What `crashpoint test` says about one case.
#[derive(Clone, Debug)]
pub struct CrashOutcome {
    pub findings: Vec<CrashFinding>,
    /// What limits the result.
    pub problems: Vec<String>,
    /// Crash states that were tried.
    pub states: u64,
    pub crash_points: u64,
    pub seconds: f64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashFinding {
    pub rule: String,
    pub category: String,
    pub needed: Vec<Place>,
    pub ahead: Option<Place>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Place {
    pub file: String,
    pub line: u32,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.file.rsplit('/').next().unwrap_or_default();
        write!(f, "{name}:{}", self.line)
    }
}

impl std::fmt::Display for CrashFinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let needed: Vec<String> = self.needed.iter().map(Place::to_string).collect();
        write!(f, "{} needs {}", self.rule, needed.join(", "))?;
        if let Some(ahead) = &self.ahead {
            write!(f, ", ahead of it {ahead}")?;
        }
        write!(f, " ({})", self.category)
    }
}

/// How a case is tested.
#[derive(Clone, Copy, Debug)]
pub struct Way<'a> {
    pub strategy: &'a str,
    /// So many generated operations instead of the case's own few.
    pub operations: Option<usize>,
    /// More arguments of `crashpoint test`.
    pub more: &'a [&'a str],
}

impl<'a> Way<'a> {
    /// With the operations of the case.
    pub fn by(strategy: &'a str) -> Way<'a> {
        Way {
            strategy,
            operations: None,
            more: &[],
        }
    }
}

impl Workshop {
    /// Tests the case by crashes, as its settings say.
    pub fn crash_check(&self, case: &Case, way: &Way<'_>) -> Result<CrashOutcome, Error> {
        let program = self.build(case, false)?;
        self.crash_program(case, &program, way)
    }

    /// As [`Workshop::crash_check`], with a program that is built.
    pub fn crash_program(
        &self,
        case: &Case,
        program: &Path,
        way: &Way<'_>,
    ) -> Result<CrashOutcome, Error> {
        let out = self.out_folder(case, way.strategy);
        let mut test = self.crashpoint(case, "test");
        test.arg("--out")
            .arg(&out)
            .args(["--strategy", way.strategy]);
        if let Some(operations) = way.operations {
            test.arg("--operations").arg(operations.to_string());
        }
        test.args(way.more);
        // Callers run several cases at once.
        test.args(["--jobs", "1"]).arg("--").arg(program);
        test.arg("{pool}");
        if matches!(case.kind, Kind::Store { .. }) {
            test.arg("{ops}");
        }
        self.step(case, "testing", test, &[0, 2])?;
        let path = out.join("findings.json");
        let json = std::fs::read(&path).map_err(io_error(&path))?;
        let _ = std::fs::remove_dir_all(&out);
        let document: Document = serde_json::from_slice(&json).map_err(|source| Error::Json {
            case: case.name.clone(),
            source,
        })?;
        Ok(document.into())
    }

    fn out_folder(&self, case: &Case, strategy: &str) -> PathBuf {
        let name = format!("{}.{strategy}", self.file_name(case));
        self.folder().join(name)
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
    needed: Vec<Place>,
    ahead: Option<Place>,
}

#[derive(Deserialize)]
struct WireFigures {
    tried_states: u64,
    crash_points: u64,
    /// By phase.
    seconds: BTreeMap<String, f64>,
}

impl From<Document> for CrashOutcome {
    fn from(document: Document) -> CrashOutcome {
        let finding = |wire: WireFinding| CrashFinding {
            rule: wire.rule,
            category: wire.crash.category,
            needed: wire.crash.needed,
            ahead: wire.crash.ahead,
        };
        CrashOutcome {
            findings: document.findings.into_iter().map(finding).collect(),
            problems: document.problems,
            states: document.test.tried_states,
            crash_points: document.test.crash_points,
            seconds: document.test.seconds.values().sum(),
        }
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

pub fn judge_crash(case: &Case, outcome: &CrashOutcome) -> CrashVerdict {
    let (expected, false_alarms): (Vec<&CrashFinding>, Vec<_>) = outcome
        .findings
        .iter()
        .partition(|finding| is_expected(case, finding));
    CrashVerdict {
        seeded: !case.crash.is_empty(),
        found: !expected.is_empty(),
        findings: outcome.findings.len(),
        false_alarms: false_alarms.into_iter().cloned().collect(),
    }
}

fn is_expected(case: &Case, finding: &CrashFinding) -> bool {
    let is_marked = |place: &Place, side: Side| {
        case.crash.iter().any(|mark| {
            mark.rule == finding.rule
                && mark.side == side
                && mark.line == place.line
                && same_file(&mark.file, Path::new(&place.file))
        })
    };
    let mut needed = finding.needed.iter();
    let mut ahead = finding.ahead.iter();
    let names_a_line = !finding.needed.is_empty() || finding.ahead.is_some();
    names_a_line
        && needed.all(|place| is_marked(place, Side::Needed))
        && ahead.all(|place| is_marked(place, Side::Ahead))
}

impl CrashVerdict {
    /// What is wrong, one line each; empty if the case is as it should be.
    pub fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        if self.seeded && !self.found {
            complaints.push("the bug is not found".to_owned());
        }
        let alarms = self.false_alarms.iter();
        complaints.extend(alarms.map(|alarm| format!("not marked: {alarm}")));
        complaints
    }
}

/// Sums over many cases.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CrashTotals {
    pub programs: usize,
    pub seeded: usize,
    pub found: usize,
    pub findings: usize,
    pub false_alarms: usize,
    pub states: u64,
}

impl CrashTotals {
    pub fn add(&mut self, outcome: &CrashOutcome, verdict: &CrashVerdict) {
        self.programs += 1;
        self.seeded += usize::from(verdict.seeded);
        self.found += usize::from(verdict.seeded && verdict.found);
        self.findings += verdict.findings;
        self.false_alarms += verdict.false_alarms.len();
        self.states += outcome.states;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::Purpose;
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
            kind: Kind::Small,
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
        let place = |line: u32| Place {
            file: "/somewhere/a.c".into(),
            line,
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
            problems: Vec::new(),
            states: 1,
            crash_points: 1,
            seconds: 0.0,
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
}
