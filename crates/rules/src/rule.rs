//! What a rule is: something that watches the recording go by and has findings at its end.

use crate::transactions::Transactions;
use crate::unflushed::{Tracker, Unflushed};
use crate::{HistoryStep, MODEL, ProgramInfo, RuleFinding, RuleId, Severity};
use crashpoint_persist::memory::x86::{Fenced, Flushed, LineState, Mark, Who};
use crashpoint_persist::memory::{LineId, Origin, Origins};
use crashpoint_trace::{ContextId, FenceKind, PmAddress, SiteId};
use rustc_hash::FxHashMap;

/// A built-in rule, for lists and manuals.
#[derive(Clone, Copy, Debug)]
pub struct RuleInfo {
    pub id: &'static str,
    /// A few words.
    pub title: &'static str,
    pub severity: Severity,
    /// What it finds, what it can get wrong, how it is tuned. Markdown.
    pub manual: &'static str,
}

pub(crate) struct FlushSeen<'a> {
    pub(crate) who: Who,
    pub(crate) address: PmAddress,
    pub(crate) found: Flushed,
    /// Before the flush.
    pub(crate) line: &'a LineState,
}

pub(crate) struct FenceSeen {
    pub(crate) who: Who,
    pub(crate) kind: FenceKind,
    pub(crate) found: Fenced,
}

/// Everything that is known when the recording is over.
pub(crate) struct RuleContext<'a> {
    pub(crate) origins: &'a Origins,
    pub(crate) tracker: &'a Tracker,
    pub(crate) program_info: &'a dyn ProgramInfo,
    pub(crate) unflushed: &'a Unflushed,
    pub(crate) transactions: &'a Transactions,
    /// Executions of every site with every call path.
    pub(crate) totals: &'a FxHashMap<Path, u64>,
}

/// Which events a rule wants to see. Stores are by far the most, so only foreign ones are on offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    ForeignStores,
    Flushes,
    Fences,
}

/// A rule sees the events that it asks for after the tracker has classified them.
pub(crate) trait Rule {
    fn interests(&self) -> &'static [Interest] {
        &[]
    }

    fn foreign_store(&mut self, _: LineId) {}

    fn flush(&mut self, _: &FlushSeen<'_>) {}

    fn fence(&mut self, _: &FenceSeen) {}

    fn finish(&mut self, rule_context: &RuleContext<'_>, out: &mut Vec<RuleFinding>);
}

impl RuleContext<'_> {
    pub(crate) fn step(&self, mark: Mark, what: impl Into<String>) -> HistoryStep {
        let info = self.origins.info(mark.origin);
        HistoryStep {
            order: mark.order,
            what: what.into(),
            site: info.site,
            context: info.context,
            thread: info.thread,
        }
    }

    /// Steps of those marks that happened, in order.
    pub(crate) fn steps<const N: usize>(&self, marks: [(Mark, &str); N]) -> Vec<HistoryStep> {
        let mut steps: Vec<HistoryStep> = Vec::new();
        for (mark, what) in marks.into_iter().filter(|(mark, _)| mark.happened()) {
            // One event may play two parts; the last one named matters.
            steps.retain(|step| step.order != mark.order);
            steps.push(self.step(mark, what));
        }
        steps.sort_by_key(|step| step.order);
        steps
    }

    pub(crate) fn total(&self, path: Path) -> u64 {
        self.totals.get(&path).copied().unwrap_or(0)
    }

    pub(crate) fn ended_in_order(&self, origin: Origin) -> bool {
        let thread = self.origins.info(origin).thread;
        self.program_info
            .ended_in_order(self.program_info.process(thread))
    }
}

/// A site with a call path.
pub(crate) type Path = (SiteId, ContextId);

/// Counts of one rule at one site with one call path, over all threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) count: u64,
    pub(crate) total: u64,
}

/// Merges what was counted by origin into findings' units.
pub(crate) fn by_path<T>(
    origins: &Origins,
    items: impl Iterator<Item = (Origin, T)>,
) -> Vec<(Path, Vec<(Origin, T)>)> {
    let mut places: FxHashMap<Path, usize> = FxHashMap::default();
    let mut merged: Vec<(Path, Vec<(Origin, T)>)> = Vec::new();
    for (origin, item) in items {
        let info = origins.info(origin);
        let path = (info.site, info.context);
        let at = *places.entry(path).or_insert_with(|| {
            merged.push((path, Vec::new()));
            merged.len() - 1
        });
        merged[at].1.push((origin, item));
    }
    merged
}

/// What differs from finding to finding of a rule.
pub(crate) struct Draft {
    pub(crate) path: Path,
    pub(crate) tally: Tally,
    pub(crate) first: Mark,
    pub(crate) place: (PmAddress, u64),
    pub(crate) message: String,
    pub(crate) help: String,
    pub(crate) history: Vec<HistoryStep>,
}

impl Draft {
    pub(crate) fn finding(self, id: &'static str, severity: Severity) -> RuleFinding {
        let (place, length) = self.place;
        RuleFinding {
            rule: RuleId::built_in(id),
            severity,
            site: self.path.0,
            context: self.path.1,
            count: self.tally.count,
            total: self.tally.total,
            first_order: self.first.order,
            place,
            length,
            message: self.message,
            help: self.help,
            history: self.history,
            model: MODEL,
        }
    }
}
