//! The rules of `crashpoint test` and their manuals: what a finding means, an example, under which
//! model it is a bug, how to fix it and how to accept it.
//!
//! Manuals are plain text, one file per rule in `manuals/`.

use crashpoint_report::{Rule, Severity};

/// A rule of `crashpoint test`.
#[derive(Clone, Copy, Debug)]
pub struct CrashRule {
    pub id: &'static str,
    pub severity: Severity,
    /// The rule in one line.
    pub summary: &'static str,
    pub manual: &'static str,
}

impl CrashRule {
    /// The rule as reports list it.
    pub fn describe(&self) -> Rule {
        Rule {
            id: self.id.to_owned(),
            severity: self.severity,
            summary: self.summary.to_owned(),
            manual: self.manual.to_owned(),
        }
    }
}

pub const ORDERING: CrashRule = CrashRule {
    id: "ordering",
    severity: Severity::Error,
    summary: "a store can be durable before one that it needs",
    manual: include_str!("manuals/ordering.txt"),
};

pub const ATOMICITY: CrashRule = CrashRule {
    id: "atomicity",
    severity: Severity::Error,
    summary: "a crash between two stores leaves a state that is neither old nor new",
    manual: include_str!("manuals/atomicity.txt"),
};

pub const DURABILITY: CrashRule = CrashRule {
    id: "durability",
    severity: Severity::Error,
    summary: "an operation that has returned can be lost",
    manual: include_str!("manuals/durability.txt"),
};

pub const RECOVERY: CrashRule = CrashRule {
    id: "recovery",
    severity: Severity::Error,
    summary: "recovery forgets something though nothing was lost",
    manual: include_str!("manuals/recovery.txt"),
};

/// A remark about memory. `crashpoint lint` has a rule with the same id.
pub const UNPERSISTED: CrashRule = CrashRule {
    id: "unpersisted",
    severity: Severity::Note,
    summary: "what is stored is never persisted, and losing it does no harm",
    manual: include_str!("manuals/unpersisted.txt"),
};

/// A remark about files.
pub const EXTRA_SYNC: CrashRule = CrashRule {
    id: "extra-sync",
    severity: Severity::Note,
    summary: "a sync without which no crash state that was tried fails",
    manual: include_str!("manuals/extra-sync.txt"),
};

/// All rules of `crashpoint test`.
pub const CRASH_RULES: &[CrashRule] = &[
    ORDERING,
    ATOMICITY,
    DURABILITY,
    RECOVERY,
    UNPERSISTED,
    EXTRA_SYNC,
];

/// The rules that every test asks, for reports.
pub fn of_tests() -> Vec<Rule> {
    let asked = [ORDERING, ATOMICITY, DURABILITY, RECOVERY, UNPERSISTED];
    asked.iter().map(CrashRule::describe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_manual_answers_the_same_questions() {
        for rule in CRASH_RULES {
            for heading in [
                "Under which model it is a bug",
                "How to fix",
                "What it can get wrong",
                "How to accept it",
            ] {
                let headings = rule.manual.lines().filter(|line| *line == heading);
                assert_eq!(headings.count(), 1, "{}: {heading}", rule.id);
            }
            let example = rule.manual.lines().any(|line| line.starts_with("    "));
            assert!(example, "{}", rule.id);
            assert!(rule.manual.contains("baseline"), "{}", rule.id);
        }
    }

    #[test]
    fn manuals_are_plain_text_that_fits_a_terminal() {
        for rule in CRASH_RULES {
            for line in rule.manual.lines() {
                assert!(!line.starts_with('#'), "{}: {line}", rule.id);
                assert!(line.chars().count() <= 104, "{}: {line}", rule.id);
            }
        }
    }

    #[test]
    fn ids_are_unique() {
        let mut ids: Vec<&str> = CRASH_RULES.iter().map(|rule| rule.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), CRASH_RULES.len());
    }
}
