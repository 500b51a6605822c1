//! Conditions that the user adds or does not want: the section `[conditions]`.

use crashpoint_infer::{Conditions, Hint};
use crashpoint_states::conditions::Given;
use crashpoint_trace::SiteId;
use crashpoint_trace::program::Program;

use super::Prepared;
use crate::settings::{Settings, SourceLine, SuppressedCondition};

/// What the user says must hold: the stores on two lines.
pub fn given(settings: &Settings, prepared: &Prepared) -> Vec<Given> {
    let program = &prepared.program;
    let sites = (1..prepared.recording.site_count() as u32).map(SiteId);
    let added = settings.conditions.add.iter();
    let given = added.map(|added| {
        let at = |line: &SourceLine| {
            let there = sites.clone().filter(|site| is_at(line, *site, program));
            there.collect()
        };
        Given {
            first: at(&added.first),
            later: at(&added.later),
        }
    });
    given.collect()
}

/// Takes away what is not wanted.
pub fn apply(settings: &Settings, prepared: &Prepared, conditions: &mut Conditions) {
    let program = &prepared.program;
    let unwanted = &settings.conditions.suppress;
    if unwanted.is_empty() {
        return;
    }
    conditions.suppress(|hint| unwanted.iter().any(|one| fits(one, hint, program)));
}

fn fits(unwanted: &SuppressedCondition, hint: &Hint, program: &Program) -> bool {
    let at = |wanted: &Option<SourceLine>, site: SiteId| {
        wanted
            .as_ref()
            .is_none_or(|line| is_at(line, site, program))
    };
    unwanted.rule.is_none_or(|rule| rule == hint.rule)
        && at(&unwanted.first, hint.first)
        && at(&unwanted.later, hint.later)
}

/// Whether a site is on a line, or was inlined there.
pub fn is_at(line: &SourceLine, site: SiteId, program: &Program) -> bool {
    let Some(resolved) = program.resolve(site) else {
        return false;
    };
    let mut places = std::iter::once(&resolved.place).chain(&resolved.inlined);
    places.any(|place| place.line == line.line && line.is_file(place.file))
}
