//! What holds of the corpus as a whole, whatever is reported.

use std::collections::BTreeSet;
use std::sync::Arc;

use crashpoint_harness::{
    Case, LINT_RULES, ProgramKind, Purpose, cases, expected_reports, file_cases, recovery_cases,
};
use libtest_mimic::{Failed, Trial};

use crate::shared::{Corpus, assert_no};

type Fact = fn(&Corpus) -> Result<(), Failed>;

const FACTS: [(&str, Fact); 4] = [
    (
        "every_rule_has_a_failing_and_a_silent_program",
        every_rule_has_a_failing_and_a_silent_program,
    ),
    (
        "every_store_has_bugs_of_more_than_one_kind_and_a_correct_form",
        every_store_has_bugs_of_more_than_one_kind_and_a_correct_form,
    ),
    (
        "the_canary_has_one_mark_of_lint",
        the_canary_has_one_mark_of_lint,
    ),
    (
        "every_accepted_report_belongs_to_a_case",
        every_accepted_report_belongs_to_a_case,
    ),
];

pub fn trials(corpus: &Arc<Corpus>) -> Vec<Trial> {
    let trial = |(name, fact): (&str, Fact)| {
        let corpus = Arc::clone(corpus);
        Trial::test(format!("facts/{name}"), move || fact(&corpus))
    };
    FACTS.into_iter().map(trial).collect()
}

fn every_rule_has_a_failing_and_a_silent_program(corpus: &Corpus) -> Result<(), Failed> {
    let cases = cases(&corpus.root)?;
    let under_rules = |case: &&Case| case.name.starts_with("rules/");
    let failing: BTreeSet<&str> = cases
        .iter()
        .filter(under_rules)
        .flat_map(|case| &case.expected)
        .map(|mark| mark.rule.as_str())
        .collect();
    let mut complaints = Vec::new();
    for rule in BTreeSet::from(LINT_RULES).symmetric_difference(&failing) {
        complaints.push(format!(
            "{rule}: no rule of that name, or no failing program"
        ));
    }
    for rule in LINT_RULES {
        let name = format!("rules/{rule}/fixed");
        let silent = cases.iter().find(|case| case.name == name);
        if silent.is_none_or(|case| !case.expected.is_empty()) {
            complaints.push(format!("{name} is not there, or has marks"));
        }
    }
    assert_no(&complaints)
}

fn every_store_has_bugs_of_more_than_one_kind_and_a_correct_form(
    corpus: &Corpus,
) -> Result<(), Failed> {
    let mut cases = cases(&corpus.root)?;
    cases.retain(|case| matches!(case.kind, ProgramKind::Store { .. }));
    let sources: BTreeSet<_> = cases.iter().map(|case| &case.source).collect();
    let mut complaints = Vec::new();
    for source in sources {
        let (correct, variants): (Vec<&Case>, Vec<_>) = cases
            .iter()
            .filter(|case| case.source == *source)
            .partition(|case| case.variant.is_none());
        let marks = variants.iter().flat_map(|case| &case.crash);
        let rules: BTreeSet<&str> = marks.map(|mark| mark.rule.as_str()).collect();
        let is_marked = correct.iter().any(|case| !case.crash.is_empty());
        if correct.len() != 1 || is_marked || rules.len() < 2 {
            complaints.push(format!("{}: bugs of {rules:?} only", source.display()));
        }
    }
    assert_no(&complaints)
}

/// `lint/canary` checks that it is reported.
fn the_canary_has_one_mark_of_lint(corpus: &Corpus) -> Result<(), Failed> {
    let cases = cases(&corpus.root)?;
    let canaries = cases.iter().filter(|case| case.purpose == Purpose::Canary);
    let marks: Vec<usize> = canaries.map(|case| case.expected.len()).collect();
    match marks[..] {
        [1] => Ok(()),
        _ => Err(format!("marks of each canary: {marks:?}").into()),
    }
}

/// A section that no case has would never be compared with anything.
fn every_accepted_report_belongs_to_a_case(corpus: &Corpus) -> Result<(), Failed> {
    let root = &corpus.root;
    let mut names: BTreeSet<String> = BTreeSet::new();
    names.extend(cases(root)?.into_iter().map(|case| case.name));
    names.extend(recovery_cases(root)?.into_iter().map(|case| case.name));
    for case in file_cases(root)? {
        let models = crate::files::models(case.language);
        names.extend(
            models
                .iter()
                .map(|model| format!("{} on {model}", case.name)),
        );
    }
    let mut complaints = Vec::new();
    for reports in expected_reports(root)? {
        let unknown = reports.cases()?.into_iter();
        let unknown = unknown.filter(|case| !names.contains(case));
        let file = reports.path().display();
        complaints.extend(unknown.map(|case| format!("{file}: no case `{case}`")));
    }
    assert_no(&complaints)
}
