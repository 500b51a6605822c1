//! Drives the rules: each event goes once through the tracker, then to whoever asks for it.

use crate::leftovers::Leftovers;
use crate::rule::{FenceSeen, FlushSeen, Path, Rule, Scene, StoreSeen};
use crate::transactions::Transactions;
use crate::{
    Config, Finding, Names, Severity, double_log, extra_fence, extra_flush, missing_fence,
    missing_flush, unlogged_update, unpersisted,
};
use crashpoint_persist::x86::{How, LineTracker, Who};
use crashpoint_persist::{LineId, OriginInfo, Origins, pieces};
use crashpoint_trace::{Event, EventKind, FenceKind, FlushKind, Place, StoreKind, SyncKind};
use rustc_hash::FxHashMap;

/// Watches a recording. Feed it all events in order, then ask for the findings.
pub struct Linter<'a> {
    names: &'a dyn Names,
    origins: Origins,
    tracker: LineTracker,
    /// If a rule needs it.
    leftovers: Option<Leftovers>,
    transactions: Option<Transactions>,
    config: Config,
    rules: Vec<Box<dyn Rule>>,
}

impl<'a> Linter<'a> {
    pub fn new(config: Config, names: &'a dyn Names) -> Linter<'a> {
        let mut rules: Vec<Box<dyn Rule>> = Vec::new();
        let settings = &config.rules;
        let basic = |own: &crate::Basic, info: &crate::RuleInfo| -> Option<Severity> {
            own.enabled.then(|| own.severity.unwrap_or(info.severity))
        };
        let flush = basic(&settings.missing_flush, &missing_flush::INFO);
        let unpersisted = basic(&settings.unpersisted, &unpersisted::INFO);
        let fence = basic(&settings.missing_fence, &missing_fence::INFO);
        let double = basic(&settings.double_log, &double_log::INFO);
        let unlogged = basic(&settings.unlogged_update, &unlogged_update::INFO);
        if let Some(severity) = flush {
            rules.push(Box::new(missing_flush::MissingFlush { severity }));
        }
        if let Some(severity) = fence {
            rules.push(Box::new(missing_fence::MissingFence { severity }));
        }
        if settings.extra_flush.enabled {
            let severity = settings
                .extra_flush
                .severity
                .unwrap_or(extra_flush::INFO.severity);
            let settings = settings.extra_flush.clone();
            rules.push(Box::new(extra_flush::ExtraFlush::new(severity, settings)));
        }
        if settings.extra_fence.enabled {
            let severity = settings
                .extra_fence
                .severity
                .unwrap_or(extra_fence::INFO.severity);
            let settings = settings.extra_fence.clone();
            rules.push(Box::new(extra_fence::ExtraFence::new(severity, settings)));
        }
        if let Some(severity) = unpersisted {
            rules.push(Box::new(unpersisted::Unpersisted { severity }));
        }
        if let Some(severity) = double {
            rules.push(Box::new(double_log::DoubleLog { severity }));
        }
        if let Some(severity) = unlogged {
            rules.push(Box::new(unlogged_update::UnloggedUpdate { severity }));
        }
        let leftovers = (flush.is_some() || unpersisted.is_some()).then(Leftovers::default);
        let transactions = (double.is_some() || unlogged.is_some())
            .then(|| Transactions::new(&config.transactions));
        Linter {
            names,
            origins: Origins::default(),
            tracker: LineTracker::default(),
            leftovers,
            transactions,
            config,
            rules,
        }
    }

    /// Takes the next event.
    #[inline]
    pub fn feed(&mut self, event: &Event<'_>) {
        let info = OriginInfo {
            site: event.site,
            context: event.context,
            thread: event.thread,
        };
        match event.kind {
            EventKind::Store { kind, place, bytes } => {
                self.store(info, event.order, kind, place, bytes.len() as u64);
            }
            EventKind::Fill {
                kind,
                place,
                length,
                byte: _,
            } => self.store(info, event.order, kind, place, length),
            EventKind::Flush { kind, place } => self.flush(info, event.order, kind, place),
            EventKind::Fence { kind } => self.fence(info, event.order, kind),
            // Unknown assembly may flush, and may fence; that it stores is noticed otherwise.
            EventKind::Opaque => self.tracker.uncertain(event.thread),
            EventKind::Call { .. }
            | EventKind::Return { .. }
            | EventKind::Map { .. }
            | EventKind::Unmap { .. }
            | EventKind::Msync { .. } => self.rare(info, event),
            EventKind::Load { .. } => {}
            EventKind::Sync { kind, object: _ } => match kind {
                SyncKind::Acquire
                | SyncKind::Release
                | SyncKind::Create
                | SyncKind::Start
                | SyncKind::Join
                | SyncKind::Wait
                | SyncKind::Signal
                | SyncKind::Barrier
                | SyncKind::Fork
                | SyncKind::ThreadExit
                | SyncKind::ProcessExit => {}
            },
        }
    }

    fn store(&mut self, info: OriginInfo, order: u64, kind: StoreKind, at: Place, length: u64) {
        if self.names.private(at.pm.file()) {
            return;
        }
        let who = Who {
            order,
            origin: self.origins.count(info),
            thread: info.thread,
        };
        let how = match kind {
            StoreKind::NonTemporal => How::NonTemporal,
            StoreKind::Foreign => How::Foreign,
            StoreKind::Locked | StoreKind::Assembly => {
                self.tracker.boundary(info.thread);
                How::Cached
            }
            StoreKind::Plain | StoreKind::Atomic | StoreKind::Memory => How::Cached,
        };
        let (leftovers, rules) = (&mut self.leftovers, &mut self.rules);
        for piece in pieces(at.pm, length) {
            self.tracker.store(who, how, piece, |line| {
                let seen = StoreSeen {
                    who,
                    kind,
                    piece,
                    line,
                };
                if let Some(leftovers) = leftovers {
                    leftovers.store(&seen);
                }
                rules.iter_mut().for_each(|rule| rule.store(&seen));
            });
        }
        if let Some(transactions) = &mut self.transactions
            && how != How::Foreign
        {
            transactions.store(self.names, who, info.context, at.address, at.pm, length);
        }
    }

    fn flush(&mut self, info: OriginInfo, order: u64, kind: FlushKind, at: Place) {
        let who = Who {
            order,
            origin: self.origins.count(info),
            thread: info.thread,
        };
        let address = at.pm;
        let (leftovers, rules) = (&mut self.leftovers, &mut self.rules);
        self.tracker.flush(who, kind, address, |line, found| {
            if let Some(leftovers) = leftovers {
                leftovers.flush(LineId::of(address), line, found);
            }
            let seen = FlushSeen {
                who,
                kind,
                address,
                found,
                line,
            };
            rules.iter_mut().for_each(|rule| rule.flush(&seen));
        });
    }

    fn fence(&mut self, info: OriginInfo, order: u64, kind: FenceKind) {
        // A locked instruction that stores is counted by its store.
        let origin = match kind {
            FenceKind::Locked => self.origins.number(info),
            FenceKind::Sfence | FenceKind::Mfence => self.origins.count(info),
        };
        let who = Who {
            order,
            origin,
            thread: info.thread,
        };
        let found = self.tracker.fence(who, |_, _| ());
        if let Some(leftovers) = &mut self.leftovers {
            leftovers.fence(info.thread, order);
        }
        let seen = FenceSeen { who, kind, found };
        self.rules.iter_mut().for_each(|rule| rule.fence(&seen));
    }

    fn rare(&mut self, info: OriginInfo, event: &Event<'_>) {
        let order = event.order;
        let origin = match event.kind {
            EventKind::Call { .. } => self.origins.count(info),
            _ => self.origins.number(info),
        };
        let who = Who {
            order,
            origin,
            thread: info.thread,
        };
        let names = self.names;
        if let EventKind::Msync { place, length } = event.kind {
            self.tracker.msync(who, place.pm, length);
        }
        let Some(transactions) = &mut self.transactions else {
            return;
        };
        let process = names.process(info.thread);
        match event.kind {
            EventKind::Call { arguments } => {
                transactions.call(names, who, info.site, info.context, arguments);
            }
            EventKind::Return { value } => transactions.returned(names, who, info.site, value),
            EventKind::Map { place, length, .. } => {
                transactions.map(process, place.address, length, place.pm);
            }
            EventKind::Unmap { place, length } => {
                transactions.unmap(process, place.address, length);
            }
            EventKind::Store { .. }
            | EventKind::Fill { .. }
            | EventKind::Load { .. }
            | EventKind::Flush { .. }
            | EventKind::Fence { .. }
            | EventKind::Opaque
            | EventKind::Sync { .. }
            | EventKind::Msync { .. } => {}
        }
    }

    /// The findings, in the order in which they were first seen.
    pub fn finish(mut self) -> Vec<Finding> {
        let mut leftovers = self.leftovers.take().unwrap_or_default();
        leftovers.conclude(&self.origins, &self.tracker, self.names);
        let transactions = self.transactions.take();
        let mut transactions =
            transactions.unwrap_or_else(|| Transactions::new(&self.config.transactions));
        transactions.conclude(self.names);
        let mut totals: FxHashMap<Path, u64> = FxHashMap::default();
        for (origin, info) in self.origins.iter() {
            *totals.entry((info.site, info.context)).or_default() += self.origins.events(origin);
        }
        let scene = Scene {
            origins: &self.origins,
            tracker: &self.tracker,
            names: self.names,
            leftovers: &leftovers,
            transactions: &transactions,
            totals: &totals,
        };
        let mut findings = Vec::new();
        for rule in &mut self.rules {
            rule.finish(&scene, &mut findings);
        }
        findings.sort_by(|a, b| {
            let key = |finding: &Finding| (finding.first_order, finding.site, finding.context);
            key(a).cmp(&key(b)).then_with(|| a.rule.cmp(&b.rule))
        });
        findings
    }
}
