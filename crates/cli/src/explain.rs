//! `crashpoint explain`: the manual of a rule, or the list of all rules.
//! `crashpoint lint --explain` is the same for one rule.

use std::io;

use crashpoint_explain::manuals::CRASH_RULES;
use crashpoint_rules::RULES;

use crate::arguments::Explain;
use crate::exit::{Ending, Exit};
use crate::output::Output;
use crashpoint_campaign::settings::nearest;

#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    #[error("there is no rule `{name}`; {hint}")]
    UnknownRule { name: String, hint: String },
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
}

/// The command.
pub fn run(arguments: &Explain, output: &mut Output) -> Result<Ending, ExplainError> {
    match &arguments.id {
        Some(id) => explain(id, output)?,
        None => list(output)?,
    }
    Ok(Exit::Clean.into())
}

/// What a verdict means, for `model`.
const MODEL: &str = include_str!("../../../docs/soundness.md");

/// The manual of one rule.
struct Page {
    id: &'static str,
    summary: &'static str,
    manual: &'static str,
}

fn lint_pages() -> impl Iterator<Item = Page> {
    RULES.iter().map(|rule| Page {
        id: rule.id,
        summary: rule.title,
        manual: rule.manual,
    })
}

fn test_pages() -> impl Iterator<Item = Page> {
    CRASH_RULES.iter().map(|rule| Page {
        id: rule.id,
        summary: rule.summary,
        manual: rule.manual,
    })
}

/// Prints the manual of a rule, of all rules (`all`), or of the memory model (`model`). An id that
/// both `lint` and `test` have is explained for both.
pub fn explain(name: &str, output: &mut Output) -> Result<(), ExplainError> {
    if name == "model" {
        output.print(MODEL)?;
        return Ok(());
    }
    let all = lint_pages().chain(test_pages());
    let chosen = all.filter(|page| name == "all" || page.id == name);
    let texts: Vec<String> = chosen
        .map(|page| {
            format!(
                "# {}: {}\n\n{}\n",
                page.id,
                page.summary,
                page.manual.trim()
            )
        })
        .collect();
    if texts.is_empty() {
        return Err(unknown_rule(name));
    }
    output.print(&texts.join("\n"))?;
    Ok(())
}

fn list(output: &mut Output) -> io::Result<()> {
    let ids = lint_pages().chain(test_pages()).map(|page| page.id.len());
    let width = ids.max().unwrap_or_default();
    let lines = |pages: &mut dyn Iterator<Item = Page>| -> String {
        pages
            .map(|page| format!("  {:width$}  {}\n", page.id, page.summary))
            .collect()
    };
    output.print(&format!(
        "Rules of `crashpoint lint`:\n{}\nRules of `crashpoint test`:\n{}\n\
         `crashpoint explain ID` prints the manual of a rule.\n",
        lines(&mut lint_pages()),
        lines(&mut test_pages()),
    ))
}

fn unknown_rule(name: &str) -> ExplainError {
    let mut ids: Vec<&str> = Vec::new();
    for page in lint_pages().chain(test_pages()) {
        if !ids.contains(&page.id) {
            ids.push(page.id);
        }
    }
    let hint = match nearest(name, ids.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? `crashpoint explain` lists the rules"),
        None => format!(
            "the rules are {}; `crashpoint explain` lists them with their summaries",
            ids.join(", ")
        ),
    };
    ExplainError::UnknownRule {
        name: name.to_owned(),
        hint,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crashpoint_explain::manuals::CrashRule;
    use crashpoint_report::{Report, sarif};

    #[test]
    fn every_rule_has_a_summary_and_a_manual() {
        for page in lint_pages().chain(test_pages()) {
            assert!(!page.summary.trim().is_empty(), "{}", page.id);
            assert!(!page.manual.trim().is_empty(), "{}", page.id);
        }
    }

    #[test]
    fn words_that_mean_something_else_are_no_rules() {
        for page in lint_pages().chain(test_pages()) {
            assert!(!["all", "model"].contains(&page.id));
        }
    }

    #[test]
    fn sarif_has_the_manuals_of_crash_rules() {
        let report = Report {
            rules: CRASH_RULES.iter().map(CrashRule::describe).collect(),
            ..Report::default()
        };
        let log: serde_json::Value =
            serde_json::from_str(&sarif::render(&report, None)).expect("JSON");
        let rules = &log["runs"][0]["tool"]["driver"]["rules"];
        for (index, rule) in CRASH_RULES.iter().enumerate() {
            assert_eq!(rules[index]["id"], rule.id);
            let help = rules[index]["help"]["text"].as_str().unwrap_or_default();
            assert!(help.contains("How to fix"), "{}", rule.id);
        }
    }
}
