//! Transactions with an undo log: what each has logged and allocated, and what it changes.
//!
//! A transaction belongs to a thread, begins and ends with calls of known functions
//! ([`library`]), and may be nested: what is logged in an inner one is logged for the outermost.
//! While it is at work, the program may store to a range only after it has logged it or allocated
//! it in the same transaction. What functions of the library store, and whatever they call, is
//! their own business; so are calls that the library makes to itself.
//!
//! Addresses are those of the process, for that is what a library is told.
//!
//! # Objects whose place is unknown
//!
//! An allocation may return the new object in a form that the recording does not keep: it keeps a
//! word, and the second of two (a `PMEMoid`'s offset). A transaction with such an object is *blind*:
//! a store that looks unlogged may be to it. Then only stores to memory that is known to have been in
//! use before count: memory that an earlier transaction of the process logged or stored to, and that
//! was not freed since.

pub(crate) mod library;
mod state;

pub(crate) use state::Cover;

use crate::ProgramInfo;
use crate::config::{Returns, Transactions as Settings};
use crate::intervals::Intervals;
use crate::mappings::Mappings;
use crate::rule::{Path, RuleContext, Tally, by_path};
use crashpoint_persist::memory::Origin;
use crashpoint_persist::memory::x86::{Mark, Who};
use crashpoint_trace::{
    Arguments, ContextId, PmAddress, PmPlace, ProcessIndex, SiteId, ThreadIndex,
};
use library::{Library, Role};
use rustc_hash::FxHashMap;
use state::{OpenCall, State, Unlogged};
use std::rc::Rc;

/// Something that a transaction does to a range and should not, by one origin: the first time, and
/// how often. `T` is what is known besides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Misuse<T> {
    pub(crate) count: u64,
    pub(crate) mark: Mark,
    /// The beginning of the transaction.
    pub(crate) began: Mark,
    pub(crate) place: PmAddress,
    pub(crate) length: u64,
    pub(crate) detail: T,
}

impl<T: Copy> Misuse<T> {
    /// One for each site and call path: the first, with the counts of all.
    pub(crate) fn by_path(
        rule_context: &RuleContext<'_>,
        found: &FxHashMap<Origin, Misuse<T>>,
    ) -> Vec<(Path, Misuse<T>, Tally)> {
        let found = found.iter().map(|(origin, found)| (*origin, *found));
        let merged = by_path(rule_context.origins, found).into_iter();
        let firsts = merged.map(|(path, found)| {
            let first = found.iter().min_by_key(|(_, found)| found.mark.order);
            let (_, first) = first.expect("never empty");
            let tally = Tally {
                count: found.iter().map(|(_, found)| found.count).sum(),
                total: rule_context.total(path),
            };
            (path, *first, tally)
        });
        firsts.collect()
    }
}

/// A range that was logged although it was covered already, and by what.
pub(crate) type Doubled = Misuse<Cover>;

/// A store without a log entry, and the call that logged it too late.
pub(crate) type Unprotected = Misuse<Option<Mark>>;

/// What the analysis asks about the world around an event.
#[derive(Clone, Copy)]
pub(crate) struct World<'a> {
    pub(crate) program_info: &'a dyn ProgramInfo,
    pub(crate) mappings: &'a Mappings,
}

/// Follows the transactions of all threads.
#[derive(Debug)]
pub(crate) struct Transactions {
    library: Library,
    /// By site of a call.
    roles: FxHashMap<SiteId, Option<Rc<Role>>>,
    /// By context: whether it lies within the library.
    inside: FxHashMap<ContextId, bool>,
    threads: Vec<State>,
    /// Memory that earlier transactions used, where it matters.
    used: FxHashMap<ProcessIndex, Intervals<()>>,
    /// Whether any allocation had an unknown place.
    blind: bool,
    pub(crate) doubled: FxHashMap<Origin, Doubled>,
    pub(crate) unlogged: FxHashMap<Origin, Unprotected>,
}

impl Transactions {
    pub(crate) fn new(settings: &Settings) -> Transactions {
        Transactions {
            library: Library::new(settings),
            roles: FxHashMap::default(),
            inside: FxHashMap::default(),
            threads: Vec::new(),
            used: FxHashMap::default(),
            blind: false,
            doubled: FxHashMap::default(),
            unlogged: FxHashMap::default(),
        }
    }

    fn state(&mut self, thread: ThreadIndex) -> &mut State {
        if self.threads.len() <= thread.index() {
            self.threads.resize_with(thread.index() + 1, State::default);
        }
        &mut self.threads[thread.index()]
    }

    fn role(&mut self, program_info: &dyn ProgramInfo, site: SiteId) -> Option<Rc<Role>> {
        let library = &self.library;
        let known = self.roles.entry(site).or_insert_with(|| {
            let role = program_info
                .callee(site)
                .and_then(|name| library.role(name));
            role.cloned().map(Rc::new)
        });
        known.clone()
    }

    /// Whether a function of the library is on the call stack.
    fn inside(&mut self, program_info: &dyn ProgramInfo, context: ContextId) -> bool {
        if let Some(known) = self.inside.get(&context) {
            return *known;
        }
        let mut path = Vec::new();
        let mut at = context;
        let inside = loop {
            if let Some(known) = self.inside.get(&at) {
                break *known;
            }
            path.push(at);
            let Some((caller, site)) = program_info.caller(at) else {
                break false;
            };
            if program_info
                .callee(site)
                .is_some_and(|name| self.library.owns(name))
            {
                break true;
            }
            at = caller;
        };
        // What was walked through on the way up shares the answer of where the walk ended.
        self.inside
            .extend(path.into_iter().map(|context| (context, inside)));
        inside
    }

    /// Memory that goes away is no longer in use.
    pub(crate) fn unmap(&mut self, process: ProcessIndex, address: u64, length: u64) {
        if let Some(used) = self.used.get_mut(&process) {
            used.remove(address, address.saturating_add(length));
        }
    }

    /// A call of a watched function.
    pub(crate) fn call(
        &mut self,
        world: World<'_>,
        who: Who,
        at: (SiteId, ContextId),
        arguments: Arguments<'_>,
    ) {
        let (site, context) = at;
        let Some(role) = self.role(world.program_info, site) else {
            return;
        };
        let outer = !self.inside(world.program_info, context);
        let mut words = [0; 8];
        for (word, argument) in words.iter_mut().zip(arguments.iter()) {
            *word = argument;
        }
        let state = self.state(who.thread);
        let over = match &*role {
            // The function that ends a transaction may do so by another of the library.
            Role::Commit { leaves } if outer || !leaves => state.commit(*leaves),
            Role::Abort { leaves } => state.abort(*leaves),
            Role::End => state.end(),
            Role::Begin(_) | Role::Alloc(_) if outer => {
                state.open.push(OpenCall {
                    site,
                    arguments: words,
                    mark: who.mark(),
                });
                false
            }
            Role::Log(call) if outer => {
                let plus = call.plus.map_or(0, |at| word(&words, at));
                let start = state.address(word(&words, call.address), call.in_pool);
                let start = start.wrapping_add(plus);
                let end = start.saturating_add(word(&words, call.length));
                self.log(world, who, start, end);
                false
            }
            Role::Free(call) if outer && state.working() => {
                let start = state.address(word(&words, call.address), call.in_pool);
                state.freed.push(start);
                false
            }
            Role::Commit { .. } | Role::Begin(_) | Role::Alloc(_) | Role::Log(_) => false,
            Role::Free(_) => false,
        };
        if over {
            self.over(world.program_info.process(who.thread), who.thread);
        }
    }

    fn log(&mut self, world: World<'_>, who: Who, start: u64, end: u64) {
        let state = self.state(who.thread);
        if !state.working() || start >= end {
            return;
        }
        let began = state.began;
        match state.covered.value_at(start) {
            Some(cover) if state.covered.covers(start, end) => {
                let place = world
                    .mappings
                    .find(world.program_info.process(who.thread), start);
                let doubled = self.doubled.entry(who.origin).or_insert(Doubled {
                    count: 0,
                    mark: who.mark(),
                    began,
                    detail: cover,
                    place: place.unwrap_or(PmAddress(0)),
                    length: end - start,
                });
                doubled.count += 1;
            }
            _ => state.cover(start, end, Cover::Logged(who.mark())),
        }
    }

    /// A watched call has returned.
    pub(crate) fn returned(&mut self, world: World<'_>, who: Who, site: SiteId, value: u64) {
        let Some(role) = self.role(world.program_info, site) else {
            return;
        };
        let process = world.program_info.process(who.thread);
        let state = self.state(who.thread);
        // Calls that were left by a jump never return; those above this one were.
        let Some(at) = state.open.iter().rposition(|call| call.site == site) else {
            return;
        };
        let call = state.open[at];
        state.open.truncate(at);
        match &*role {
            Role::Begin(pool) => {
                let pool = pool.map(|at| word(&call.arguments, at));
                let pool = pool.or_else(|| world.mappings.lowest(process));
                state.begin(call.mark, pool);
            }
            Role::Alloc(alloc) if state.working() => {
                let start = match alloc.returns {
                    Returns::Address => Some(value),
                    Returns::Offset => state.pool.map(|pool| pool.wrapping_add(value)),
                    Returns::Other => None,
                };
                // What is not in persistent memory, or is the pool itself, is no object.
                let start = start.filter(|start| {
                    Some(*start) != state.pool && world.mappings.find(process, *start).is_some()
                });
                match start {
                    Some(start) => {
                        let end = start.saturating_add(word(&call.arguments, alloc.length));
                        state.cover(start, end, Cover::Allocated(call.mark));
                    }
                    None => {
                        state.blind = true;
                        self.blind = true;
                    }
                }
            }
            Role::Alloc(_)
            | Role::Commit { .. }
            | Role::Abort { .. }
            | Role::End
            | Role::Log(_)
            | Role::Free(_) => {}
        }
    }

    /// A store to persistent memory.
    #[inline]
    pub(crate) fn store(
        &mut self,
        program_info: &dyn ProgramInfo,
        who: Who,
        context: ContextId,
        at: PmPlace,
        length: u64,
    ) {
        let state = self.threads.get(who.thread.index());
        if state.is_some_and(State::working) && !self.inside(program_info, context) {
            self.store_at_work(program_info.process(who.thread), who, at, length);
        }
    }

    fn store_at_work(&mut self, process: ProcessIndex, who: Who, at: PmPlace, length: u64) {
        let state = &mut self.threads[who.thread.index()];
        let end = at.address.saturating_add(length);
        if self.blind {
            state.stored.push((at.address, end));
        }
        for (from, to) in state.covered.gaps(at.address, end) {
            let used = self.used.get(&process);
            if state.blind && !used.is_some_and(|used| used.covers(from, to)) {
                continue;
            }
            state.unlogged.push(Unlogged {
                mark: who.mark(),
                start: from,
                end: to,
                place: PmAddress(at.pm.0 + (from - at.address)),
                logged: None,
            });
        }
    }

    /// The work of a thread's outermost transaction is over.
    fn over(&mut self, process: ProcessIndex, thread: ThreadIndex) {
        let state = &mut self.threads[thread.index()];
        let mut last = None;
        for store in &state.unlogged {
            let found = self
                .unlogged
                .entry(store.mark.origin)
                .or_insert(Unprotected {
                    count: 0,
                    mark: store.mark,
                    began: state.began,
                    place: store.place,
                    length: store.end - store.start,
                    detail: store.logged,
                });
            // A store with several gaps is one.
            if last.replace(store.mark.order) != Some(store.mark.order) {
                found.count += 1;
            }
        }
        if self.blind {
            let used = self.used.entry(process).or_default();
            for (start, end) in &state.stored {
                used.add(*start, *end, ());
            }
            for start in &state.freed {
                let end = used.run_end(*start);
                used.remove(*start, end);
            }
        }
        state.clear();
    }

    /// Transactions that are open when the recording ends are over too.
    pub(crate) fn conclude(&mut self, program_info: &dyn ProgramInfo) {
        for thread in 0..self.threads.len() {
            let thread = ThreadIndex(thread as u32);
            self.over(program_info.process(thread), thread);
        }
    }
}

fn word(words: &[u64; 8], at: usize) -> u64 {
    words.get(at).copied().unwrap_or(0)
}

/// Names and patterns of functions whose calls must be recorded for these rules.
pub fn watched_calls(settings: &Settings) -> Vec<String> {
    Library::new(settings).names()
}
