//! What is kept in persistent memory and never persisted, and need not be: a matter of performance,
//! if the oracle agrees.
//!
//! Lint knows which stores nothing ever persists; whether that is a bug or a waste it cannot tell. A
//! test can: where such a store was lost in crash states and no failure needs it, losing it does no
//! harm, and it could as well be kept in DRAM. Where a failure needs it, it is among the findings.

use crashpoint_check::memory::timeline::Timeline;
use crashpoint_explain::manuals::UNPERSISTED;
use crashpoint_report::resolve::Resolver;
use crashpoint_report::{Finding, Severity};
use crashpoint_rules::{Linter, RULES};
use crashpoint_trace::SiteId;
use rustc_hash::FxHashSet;

use super::Prepared;
use crate::pipeline::Outcome;
use crate::settings::Settings;
use crashpoint_rules::RecordedProgram;

/// The rule's id, as lint has it.
const RULE: &str = UNPERSISTED.id;

/// Reports nothing while some failures are not explained: such a failure may be of any store.
pub fn harmless(
    settings: &Settings,
    prepared: &Prepared,
    timeline: &Timeline,
    outcome: &Outcome,
) -> Vec<Finding> {
    if outcome.causes.unexplained > 0 {
        return Vec::new();
    }
    let names = RecordedProgram {
        recording: &prepared.recording,
        program: &prepared.program,
    };
    let mut config = settings.rules.clone();
    for rule in RULES {
        // All are known, being the ones there are.
        let _ = config.rules.set_enabled(rule.id, rule.id == RULE);
    }
    let mut linter = Linter::new(config, &names);
    for event in prepared.recording.events() {
        linter.feed(&event);
    }
    let causes = outcome.causes.causes.iter();
    let nodes = causes.flat_map(|cause| cause.needed.iter().chain(&cause.ahead));
    let named: FxHashSet<SiteId> = nodes
        .map(|node| timeline.nodes[node.index()].site)
        .collect();
    let lost = &outcome.statistics.lost_by_site;
    let mut found = linter.conclude().findings;
    found.retain(|finding| !named.contains(&finding.site));
    found.retain_mut(|finding| {
        let Some(states) = lost.get(&u64::from(finding.site.0)) else {
            return false;
        };
        finding.message = format!(
            "this is never persisted, and losing it does no harm: it was lost in {states} of the \
             crash states"
        );
        finding.help = "keep it in DRAM, where stores are cheaper".to_owned();
        true
    });
    let mut told = Resolver::new(&prepared.recording, &prepared.program).findings(&found);
    for finding in &mut told {
        finding.severity = Severity::Note;
    }
    told
}
