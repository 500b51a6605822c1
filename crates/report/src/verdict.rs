//! What a report comes to: findings, nothing found in all that was to be looked at, or nothing found
//! in part of it.
//!
//! A run that was cut short is not a clean run. Whatever was chosen and not looked at is listed as
//! [`LeftOut`], and a report that lists something is never [`Verdict::Clean`].

use std::fmt;

use crate::Report;
use crashpoint_rules::Severity;

/// What a report comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All that was chosen was looked at, and nothing was found.
    Clean,
    Findings,
    /// Nothing was found, and not all that was chosen was looked at.
    Incomplete,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Clean => "clean",
            Verdict::Findings => "findings",
            Verdict::Incomplete => "incomplete",
        }
    }
}

/// Why something was not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOutReason {
    /// The budget was spent: time, or crash states.
    Budget,
    /// States fail, and no finding says why.
    NotExplained,
    /// States pass or fail, from run to run.
    Unstable,
    /// The recording does not hold all that the program did.
    RecordingGap,
    /// The program stored nothing that can be lost.
    NothingToLose,
    /// No crash state was tried at all.
    NothingTried,
    /// Results cannot be judged as the test asks for.
    NotJudged,
}

impl LeftOutReason {
    /// In machine-readable reports; never changes.
    pub fn name(self) -> &'static str {
        match self {
            LeftOutReason::Budget => "budget",
            LeftOutReason::NotExplained => "not-explained",
            LeftOutReason::Unstable => "unstable",
            LeftOutReason::RecordingGap => "recording-gap",
            LeftOutReason::NothingToLose => "nothing-to-lose",
            LeftOutReason::NothingTried => "nothing-tried",
            LeftOutReason::NotJudged => "not-judged",
        }
    }
}

/// Something that was to be looked at and was not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    pub reason: LeftOutReason,
    /// What, and what to do about it; a fragment of a sentence.
    pub text: String,
}

impl LeftOut {
    pub fn new(reason: LeftOutReason, text: impl Into<String>) -> LeftOut {
        LeftOut {
            reason,
            text: text.into(),
        }
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.text)
    }
}

impl Report {
    /// What the report comes to. Notes are no findings.
    pub fn verdict(&self) -> Verdict {
        let is_note = |severity| severity == Severity::Note;
        if !self.findings.iter().all(|one| is_note(one.severity)) {
            Verdict::Findings
        } else if self.left_out.is_empty() {
            Verdict::Clean
        } else {
            Verdict::Incomplete
        }
    }

    /// What was left out, in one line.
    pub fn left_out_text(&self) -> String {
        let all: Vec<&str> = self.left_out.iter().map(|one| one.text.as_str()).collect();
        all.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Finding;

    #[test]
    fn what_was_left_out_is_never_clean() {
        let mut report = Report::default();
        assert_eq!(report.verdict(), Verdict::Clean);
        let left_out = LeftOut::new(LeftOutReason::Budget, "3 of 9 crash points");
        report.left_out.push(left_out);
        assert_eq!(report.verdict(), Verdict::Incomplete);
        let note = Finding {
            severity: Severity::Note,
            ..crate::examples::missing_flush()
        };
        report.findings.push(note);
        assert_eq!(report.verdict(), Verdict::Incomplete);
        report.findings.push(crate::examples::missing_flush());
        assert_eq!(report.verdict(), Verdict::Findings);
        assert_eq!(report.left_out_text(), "3 of 9 crash points");
    }
}
