//! Drives the rules: each event goes once through the tracker, then to whoever asks for it.

use crate::rule::{FenceSeen, FlushSeen, Interest, Path, Rule, RuleContext};
use crate::script::{
    Facts, Handler, Memory, Script, ScriptError, ScriptEvent, Stacks, fence_kind, flush_found,
    flush_kind, store_kind,
};
use crate::transactions::{Transactions, World};
use crate::unflushed::Unflushed;
use crate::{
    Config, ProgramInfo, RuleFinding, RuleInfo, RuleSettings, double_log, extra_fence, extra_flush,
    missing_fence, missing_flush, unlogged_update, unpersisted,
};
use crashpoint_persist::memory::x86::{Fenced, Flushed, StoreRoute, Who};
use crashpoint_persist::memory::{OriginInfo, Origins, pieces};
use crashpoint_trace::{Event, EventKind, FenceKind, FileIndex, FlushKind, PmPlace, StoreKind};
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Watches a recording. Feed it all events in order, then ask for the findings.
pub struct Linter<'a> {
    program_info: &'a dyn ProgramInfo,
    origins: Origins,
    memory: Memory,
    /// If a rule needs it.
    unflushed: Option<Unflushed>,
    transactions: Option<Transactions>,
    config: Config,
    rules: Vec<Box<dyn Rule>>,
    /// Rules that asked for a kind of event, by their index.
    interested: Interested,
    scripts: Vec<Script>,
    stacks: Stacks,
    /// By file: whether it is a private mapping, once asked.
    private: Vec<Option<bool>>,
}

/// Everything that came of it.
#[derive(Clone, Debug, Default)]
pub struct LintOutcome {
    /// In the order in which they were first seen.
    pub findings: Vec<RuleFinding>,
    /// Scripts that failed while they ran.
    pub failures: Vec<ScriptError>,
    /// What scripts printed, with their rules' names.
    pub printed: Vec<(String, String)>,
}

/// By kind of event, indices of rules.
#[derive(Default)]
struct Interested {
    foreign_stores: Vec<usize>,
    flushes: Vec<usize>,
    fences: Vec<usize>,
}

impl Interested {
    fn new(rules: &[Box<dyn Rule>]) -> Interested {
        let mut interested = Interested::default();
        for (index, rule) in rules.iter().enumerate() {
            for interest in rule.interests() {
                let list = match interest {
                    Interest::ForeignStores => &mut interested.foreign_stores,
                    Interest::Flushes => &mut interested.flushes,
                    Interest::Fences => &mut interested.fences,
                };
                list.push(index);
            }
        }
        interested
    }
}

/// The rules that are switched on, in the order of [`crate::RULES`].
fn rules(settings: &RuleSettings) -> Vec<Box<dyn Rule>> {
    let chosen = |info: &RuleInfo| {
        let (enabled, severity) = settings.of(info.id).expect("a built-in rule");
        enabled.then(|| severity.unwrap_or(info.severity))
    };
    let mut rules: Vec<Box<dyn Rule>> = Vec::new();
    if let Some(severity) = chosen(&missing_flush::INFO) {
        rules.push(Box::new(missing_flush::MissingFlush { severity }));
    }
    if let Some(severity) = chosen(&missing_fence::INFO) {
        rules.push(Box::new(missing_fence::MissingFence { severity }));
    }
    if let Some(severity) = chosen(&extra_flush::INFO) {
        let own = settings.extra_flush.clone();
        rules.push(Box::new(extra_flush::ExtraFlush::new(severity, own)));
    }
    if let Some(severity) = chosen(&extra_fence::INFO) {
        let own = settings.extra_fence.clone();
        rules.push(Box::new(extra_fence::ExtraFence::new(severity, own)));
    }
    if let Some(severity) = chosen(&unpersisted::INFO) {
        rules.push(Box::new(unpersisted::Unpersisted { severity }));
    }
    if let Some(severity) = chosen(&double_log::INFO) {
        rules.push(Box::new(double_log::DoubleLog { severity }));
    }
    if let Some(severity) = chosen(&unlogged_update::INFO) {
        rules.push(Box::new(unlogged_update::UnloggedUpdate { severity }));
    }
    rules
}

impl<'a> Linter<'a> {
    pub fn new(config: Config, program_info: &'a dyn ProgramInfo) -> Linter<'a> {
        let on = &config.rules;
        let rules = rules(on);
        let unflushed = on.missing_flush.enabled || on.unpersisted.enabled;
        let logs = on.double_log.enabled || on.unlogged_update.enabled;
        Linter {
            program_info,
            origins: Origins::default(),
            memory: Memory::default(),
            unflushed: unflushed.then(Unflushed::default),
            transactions: logs.then(|| Transactions::new(&config.transactions)),
            interested: Interested::new(&rules),
            rules,
            config,
            scripts: Vec::new(),
            stacks: Stacks::default(),
            private: Vec::new(),
        }
    }

    /// Adds a rule of the user's own.
    pub fn add_script(&mut self, script: Script) {
        self.scripts.push(script);
    }

    /// Takes the next event.
    #[inline]
    pub fn feed(&mut self, event: &Event<'_>) {
        match event.kind {
            EventKind::Store { kind, place, bytes } => {
                let length = bytes.len() as u64;
                let who = self.store(event, kind, place, length);
                if self.wanted(Handler::Store) {
                    let value = bytes.first_chunk().filter(|_| length <= 8);
                    let mut wide = [0; 8];
                    wide.iter_mut()
                        .zip(bytes)
                        .for_each(|(to, from)| *to = *from);
                    let value = value.map(|[_]: &[u8; 1]| u64::from_le_bytes(wide));
                    self.tell_store(event, who, (kind, place, length), value);
                }
            }
            EventKind::Fill {
                kind,
                place,
                length,
                byte: _,
            } => {
                let who = self.store(event, kind, place, length);
                if self.wanted(Handler::Store) {
                    self.tell_store(event, who, (kind, place, length), None);
                }
            }
            EventKind::Flush { kind, place } => self.flush(event, kind, place),
            EventKind::Fence { kind } => self.fence(event, kind),
            // Unknown assembly may flush, and may fence; that it stores is noticed otherwise.
            EventKind::Opaque => self.memory.tracker.uncertain(event.thread),
            EventKind::Call { .. } | EventKind::Return { .. } => self.call(event),
            EventKind::Map { .. } | EventKind::Unmap { .. } | EventKind::Msync { .. } => {
                self.mapping(event);
            }
            // A thread that waits for another may fence inside of libc; nothing relies on it.
            EventKind::Load { .. } | EventKind::Sync { .. } => {}
        }
    }

    fn who(&mut self, event: &Event<'_>, counted: bool) -> Who {
        let info = OriginInfo {
            site: event.site,
            context: event.context,
            thread: event.thread,
        };
        let origin = if counted {
            self.origins.count(info)
        } else {
            self.origins.number(info)
        };
        Who {
            order: event.order,
            origin,
            thread: event.thread,
        }
    }

    #[inline]
    fn private(&mut self, file: FileIndex) -> bool {
        match self.private.get(file.index()) {
            Some(Some(known)) => *known,
            _ => self.ask_private(file),
        }
    }

    #[cold]
    fn ask_private(&mut self, file: FileIndex) -> bool {
        if self.private.len() <= file.index() {
            self.private.resize(file.index() + 1, None);
        }
        *self.private[file.index()].get_or_insert(self.program_info.private(file))
    }

    fn store(&mut self, event: &Event<'_>, kind: StoreKind, at: PmPlace, length: u64) -> Who {
        let who = self.who(event, true);
        // What goes to a private mapping is lost anyway.
        if self.private(at.pm.file()) {
            return who;
        }
        let how = match kind {
            StoreKind::NonTemporal => StoreRoute::NonTemporal,
            StoreKind::Foreign => StoreRoute::Foreign,
            StoreKind::Locked | StoreKind::Assembly => {
                self.memory.tracker.boundary(who.thread);
                StoreRoute::Cached
            }
            StoreKind::Plain | StoreKind::Atomic | StoreKind::Memory => StoreRoute::Cached,
        };
        let unflushed = &mut self.unflushed;
        for piece in pieces(at.pm, length) {
            self.memory.tracker.store(who, how, piece, |line, habits| {
                if let Some(unflushed) = unflushed {
                    let origin = who.origin;
                    unflushed.store(habits, line, origin, kind, piece.mask);
                }
            });
            if how == StoreRoute::Foreign {
                for rule in &self.interested.foreign_stores {
                    self.rules[*rule].foreign_store(piece.line);
                }
            }
        }
        if let Some(transactions) = &mut self.transactions
            && how != StoreRoute::Foreign
        {
            transactions.store(self.program_info, who, event.context, at, length);
        }
        who
    }

    fn flush(&mut self, event: &Event<'_>, kind: FlushKind, at: PmPlace) {
        let who = self.who(event, true);
        if self.private(at.pm.file()) {
            self.memory.tracker.uncertain(who.thread);
            return;
        }
        let address = at.pm;
        let (unflushed, rules) = (&mut self.unflushed, &mut self.rules);
        let interested = &self.interested.flushes;
        let found = self
            .memory
            .tracker
            .flush(who, kind, address, |line, habits, found| {
                if let Some(unflushed) = unflushed {
                    unflushed.flush(habits, line, found);
                }
                let seen = FlushSeen {
                    who,
                    address,
                    found,
                    line,
                };
                interested.iter().for_each(|rule| rules[*rule].flush(&seen));
            });
        if self.wanted(Handler::Flush) {
            self.tell_flush(event, who, kind, at, found);
        }
    }

    fn fence(&mut self, event: &Event<'_>, kind: FenceKind) {
        // A locked instruction that stores is counted by its store.
        let who = self.who(event, kind != FenceKind::Locked);
        let found = self.memory.tracker.fence(who);
        if let Some(unflushed) = &mut self.unflushed {
            unflushed.fence(who.thread, who.order);
        }
        let seen = FenceSeen { who, kind, found };
        for rule in &self.interested.fences {
            self.rules[*rule].fence(&seen);
        }
        if self.wanted(Handler::Fence) {
            let mut facts = self.facts(event, who);
            facts.kind = fence_kind(kind);
            facts.found = match found {
                Fenced::Nothing => "nothing",
                Fenced::Completed { .. } => "flushes",
            };
            self.tell(Handler::Fence, facts);
        }
    }

    fn call(&mut self, event: &Event<'_>) {
        let who = self.who(event, matches!(event.kind, EventKind::Call { .. }));
        let world = World {
            program_info: self.program_info,
            mappings: &self.memory.mappings,
        };
        if let Some(transactions) = &mut self.transactions {
            match event.kind {
                EventKind::Call { arguments } => {
                    transactions.call(world, who, (event.site, event.context), arguments);
                }
                EventKind::Return { value } => transactions.returned(world, who, event.site, value),
                _ => {}
            }
        }
        let handler = match event.kind {
            EventKind::Call { .. } => Handler::Call,
            _ => Handler::Return,
        };
        if self.wanted(handler) {
            let mut facts = self.facts(event, who);
            facts.name = self.program_info.callee(event.site).unwrap_or("").into();
            match event.kind {
                EventKind::Call { arguments } => facts.arguments = arguments.iter().collect(),
                EventKind::Return { value } => facts.value = Some(value),
                _ => {}
            }
            self.tell(handler, facts);
        }
    }

    fn mapping(&mut self, event: &Event<'_>) {
        let process = self.program_info.process(event.thread);
        match event.kind {
            EventKind::Map { place, length, .. } => {
                self.memory
                    .mappings
                    .map(process, place.address, length, place.pm);
            }
            EventKind::Unmap { place, length } => {
                self.memory.mappings.unmap(process, place.address, length);
                if let Some(transactions) = &mut self.transactions {
                    transactions.unmap(process, place.address, length);
                }
            }
            EventKind::Msync { place, length } => {
                let who = self.who(event, false);
                self.memory.tracker.msync(who, place.pm, length);
            }
            _ => {}
        }
    }

    /// The findings, in the order in which they were first seen.
    pub fn finish(self) -> Vec<RuleFinding> {
        self.conclude().findings
    }

    /// The findings, and what became of the scripts.
    pub fn conclude(mut self) -> LintOutcome {
        let mut unflushed = self.unflushed.take().unwrap_or_default();
        unflushed.conclude(&self.origins, &self.memory.tracker, self.program_info);
        let transactions = self.transactions.take();
        let mut transactions =
            transactions.unwrap_or_else(|| Transactions::new(&self.config.transactions));
        transactions.conclude(self.program_info);
        let mut totals: FxHashMap<Path, u64> = FxHashMap::default();
        for (origin, info) in self.origins.iter() {
            *totals.entry((info.site, info.context)).or_default() += self.origins.events(origin);
        }
        let rule_context = RuleContext {
            origins: &self.origins,
            tracker: &self.memory.tracker,
            program_info: self.program_info,
            unflushed: &unflushed,
            transactions: &transactions,
            totals: &totals,
        };
        let mut outcome = LintOutcome::default();
        for rule in &mut self.rules {
            rule.finish(&rule_context, &mut outcome.findings);
        }
        for script in &mut self.scripts {
            script.end(&mut self.memory);
            outcome
                .findings
                .extend(script.findings(&self.origins, &totals));
            outcome.failures.extend(script.failure.take());
            let printed = script.printed().into_iter();
            outcome
                .printed
                .extend(printed.map(|line| (script.id().to_string(), line)));
        }
        outcome.findings.sort_by(|a, b| {
            let key = |finding: &RuleFinding| (finding.first_order, finding.site, finding.context);
            key(a).cmp(&key(b)).then_with(|| a.rule.cmp(&b.rule))
        });
        outcome
    }
}

/// What scripts are told.
impl Linter<'_> {
    #[inline]
    fn wanted(&self, handler: Handler) -> bool {
        self.scripts.iter().any(|script| script.has(handler))
    }

    fn facts(&mut self, event: &Event<'_>, who: Who) -> Facts {
        Facts::new(who, self.stacks.of(self.program_info, event.context))
    }

    fn tell(&mut self, handler: Handler, facts: Facts) {
        let process = self.program_info.process(facts.who.thread);
        let event = ScriptEvent(Rc::new(facts));
        let scripts = self.scripts.iter_mut().filter(|script| script.has(handler));
        for script in scripts {
            script.handle(handler, &event, process, &mut self.memory);
        }
    }

    fn tell_store(
        &mut self,
        event: &Event<'_>,
        who: Who,
        (kind, at, length): (StoreKind, PmPlace, u64),
        value: Option<u64>,
    ) {
        let mut facts = self.facts(event, who);
        facts.kind = store_kind(kind);
        (facts.address, facts.place, facts.length) = (at.address, Some(at.pm), length);
        facts.value = value;
        self.tell(Handler::Store, facts);
    }

    fn tell_flush(
        &mut self,
        event: &Event<'_>,
        who: Who,
        kind: FlushKind,
        at: PmPlace,
        found: Flushed,
    ) {
        let mut facts = self.facts(event, who);
        facts.kind = flush_kind(kind);
        facts.found = flush_found(found);
        let offset = at.pm.0 - at.pm.line().0;
        facts.address = at.address - offset;
        (facts.place, facts.length) = (Some(at.pm.line()), 64);
        self.tell(Handler::Flush, facts);
    }
}
