//! The corpus against the expectations in its comments: what was seeded, what of it was found, and
//! what else was said.

use crate::{Error, Options};
use crashpoint_harness::{Tools, Totals, Workshop, cases, judge};
use serde_json::{Value, json};
use std::path::Path;

pub fn run(options: &Options) -> Result<Value, Error> {
    match options.strategy.as_deref() {
        Some("lint") | None => {}
        Some(other) => return Err(format!("no strategy `{other}`; there is `lint`").into()),
    }
    let beside = std::env::current_exe()?;
    let tools = Tools::in_folder(beside.parent().unwrap_or(Path::new(".")))?;
    let root = Path::new("corpus")
        .canonicalize()
        .map_err(|error| format!("corpus: {error}; run this from the repository"))?;
    let workshop = Workshop::new(tools, &root)?;
    let mut totals = Totals::default();
    for case in cases(&root)? {
        if !options
            .only
            .as_ref()
            .is_none_or(|only| case.name.contains(only.as_str()))
        {
            continue;
        }
        let verdict = judge(&case, &workshop.check(&case)?);
        eprintln!(
            "{}: {} of {} found, {} false alarms",
            case.name,
            verdict.found.len(),
            case.expected.len(),
            verdict.false_alarms.len()
        );
        for complaint in verdict.complaints(&case) {
            eprintln!("  {complaint}");
        }
        totals.add(&case, &verdict);
    }
    Ok(json!({
        "benchmark": "corpus",
        "strategy": "lint",
        "programs": totals.programs,
        "seeded": totals.seeded,
        "found": totals.found,
        "findings": totals.findings,
        "false_alarms": totals.false_alarms,
        "gaps": totals.gaps,
    }))
}
