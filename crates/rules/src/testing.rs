//! Tiny recordings for the tests of rules: a tape of events, and what the rules say of it.
//!
//! A site is a number; contexts, threads and callees are set where a test needs them. Memory is
//! one file that is mapped at [`BASE`].

use crate::{Config, Linter, ProgramInfo, RuleFinding};
use crashpoint_trace::{
    Arguments, ContextId, Event, EventKind, FenceKind, FlushKind, PmAddress, PmPlace, ProcessIndex,
    SiteId, StoreKind, ThreadIndex,
};
use std::collections::HashMap;
use std::ops::Range;

pub(crate) const BASE: u64 = 0x10_0000;
pub(crate) const SIZE: u64 = 0x1_0000;

#[derive(Clone, Debug)]
enum Kind {
    Store(StoreKind, Range<u64>),
    Flush(FlushKind, u64),
    Fence(FenceKind),
    Opaque,
    Msync(Range<u64>),
    Map,
    Call(Vec<u8>),
    Return(u64),
}

#[derive(Clone, Debug)]
struct Entry {
    site: u32,
    context: u32,
    thread: u32,
    kind: Kind,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Tape {
    entries: Vec<Entry>,
    context: u32,
    thread: u32,
    killed: bool,
    callees: HashMap<u32, &'static str>,
    callers: HashMap<u32, (u32, u32)>,
}

impl ProgramInfo for Tape {
    fn callee(&self, site: SiteId) -> Option<&str> {
        self.callees.get(&site.0).copied()
    }

    fn caller(&self, context: ContextId) -> Option<(ContextId, SiteId)> {
        let (parent, site) = self.callers.get(&context.0)?;
        Some((ContextId(*parent), SiteId(*site)))
    }

    fn ended_in_order(&self, _: ProcessIndex) -> bool {
        !self.killed
    }
}

impl Tape {
    fn push(&mut self, site: u32, kind: Kind) -> &mut Tape {
        self.entries.push(Entry {
            site,
            context: self.context,
            thread: self.thread,
            kind,
        });
        self
    }

    /// What follows is done by this thread.
    pub(crate) fn thread(&mut self, thread: u32) -> &mut Tape {
        self.thread = thread;
        self
    }

    /// What follows happens in this call stack.
    pub(crate) fn context(&mut self, context: u32) -> &mut Tape {
        self.context = context;
        self
    }

    /// What follows happens in a function that is called at a site of the current context.
    pub(crate) fn within(&mut self, context: u32, site: u32) -> &mut Tape {
        self.callers.insert(context, (self.context, site));
        self.context(context)
    }

    /// The process does not end in order.
    pub(crate) fn kill(&mut self) -> &mut Tape {
        self.killed = true;
        self
    }

    pub(crate) fn store(&mut self, site: u32, bytes: Range<u64>) -> &mut Tape {
        self.store_as(StoreKind::Plain, site, bytes)
    }

    pub(crate) fn store_as(&mut self, kind: StoreKind, site: u32, bytes: Range<u64>) -> &mut Tape {
        self.push(site, Kind::Store(kind, bytes))
    }

    pub(crate) fn flush(&mut self, site: u32, address: u64) -> &mut Tape {
        self.flush_as(FlushKind::Clwb, site, address)
    }

    pub(crate) fn flush_as(&mut self, kind: FlushKind, site: u32, address: u64) -> &mut Tape {
        self.push(site, Kind::Flush(kind, address))
    }

    pub(crate) fn fence(&mut self, site: u32) -> &mut Tape {
        self.fence_as(FenceKind::Sfence, site)
    }

    pub(crate) fn fence_as(&mut self, kind: FenceKind, site: u32) -> &mut Tape {
        self.push(site, Kind::Fence(kind))
    }

    /// Flush and fence.
    pub(crate) fn persist(&mut self, site: u32, address: u64) -> &mut Tape {
        self.flush(site, address).fence(site + 1)
    }

    pub(crate) fn opaque(&mut self, site: u32) -> &mut Tape {
        self.push(site, Kind::Opaque)
    }

    pub(crate) fn msync(&mut self, site: u32, bytes: Range<u64>) -> &mut Tape {
        self.push(site, Kind::Msync(bytes))
    }

    pub(crate) fn map(&mut self) -> &mut Tape {
        self.push(0, Kind::Map)
    }

    pub(crate) fn call(&mut self, site: u32, callee: &'static str, arguments: &[u64]) -> &mut Tape {
        self.callees.insert(site, callee);
        let bytes = arguments.iter().flat_map(|argument| argument.to_le_bytes());
        self.push(site, Kind::Call(bytes.collect()))
    }

    pub(crate) fn returns(&mut self, site: u32, value: u64) -> &mut Tape {
        self.push(site, Kind::Return(value))
    }

    /// A call that returns at once.
    pub(crate) fn calls(
        &mut self,
        site: u32,
        callee: &'static str,
        arguments: &[u64],
        value: u64,
    ) -> &mut Tape {
        self.call(site, callee, arguments).returns(site, value)
    }

    /// Begins a transaction.
    pub(crate) fn begin(&mut self) -> &mut Tape {
        self.calls(1, "pmemobj_tx_begin", &[BASE], 0)
    }

    pub(crate) fn log(&mut self, site: u32, bytes: Range<u64>) -> &mut Tape {
        let arguments = [BASE + bytes.start, bytes.end - bytes.start];
        self.calls(site, "pmemobj_tx_add_range_direct", &arguments, 0)
    }

    /// Commits and leaves a transaction.
    pub(crate) fn commit(&mut self) -> &mut Tape {
        self.calls(2, "pmemobj_tx_commit", &[], 0)
            .calls(3, "pmemobj_tx_end", &[], 0)
    }

    /// Feeds all events to a linter.
    pub(crate) fn play(&self, linter: &mut Linter<'_>) {
        self.events(|event| linter.feed(event));
    }

    /// Goes through all events.
    pub(crate) fn events(&self, mut each: impl FnMut(&Event<'_>)) {
        let place = |offset: u64| PmPlace {
            address: BASE + offset,
            pm: PmAddress(offset),
        };
        for (number, entry) in self.entries.iter().enumerate() {
            let bytes;
            let kind = match &entry.kind {
                Kind::Store(kind, range) => {
                    bytes = vec![1; (range.end - range.start) as usize];
                    EventKind::Store {
                        kind: *kind,
                        place: place(range.start),
                        bytes: &bytes,
                    }
                }
                Kind::Flush(kind, address) => EventKind::Flush {
                    kind: *kind,
                    place: place(*address),
                },
                Kind::Fence(kind) => EventKind::Fence { kind: *kind },
                Kind::Opaque => EventKind::Opaque,
                Kind::Msync(range) => EventKind::Msync {
                    place: place(range.start),
                    length: range.end - range.start,
                },
                Kind::Map => EventKind::Map {
                    place: place(0),
                    length: SIZE,
                    shared: true,
                },
                Kind::Call(arguments) => EventKind::Call {
                    arguments: Arguments::from_bytes(arguments),
                },
                Kind::Return(value) => EventKind::Return { value: *value },
            };
            each(&Event {
                order: number as u64 + 1,
                thread: ThreadIndex(entry.thread),
                site: SiteId(entry.site),
                context: ContextId(entry.context),
                kind,
            });
        }
    }

    pub(crate) fn findings_with(&self, config: Config) -> Vec<RuleFinding> {
        let mut linter = Linter::new(config, self);
        self.play(&mut linter);
        linter.finish()
    }

    pub(crate) fn findings(&self) -> Vec<RuleFinding> {
        self.findings_with(Config::default())
    }

    /// Rule, site and count of every finding.
    pub(crate) fn found(&self) -> Vec<(String, u32, u64)> {
        brief(&self.findings())
    }
}

/// A tape with mapped memory and a transaction that has begun.
pub(crate) fn begun() -> Tape {
    let mut tape = Tape::default();
    tape.map().begin();
    tape
}

pub(crate) fn brief(findings: &[RuleFinding]) -> Vec<(String, u32, u64)> {
    let brief = findings
        .iter()
        .map(|found| (found.rule.to_string(), found.site.0, found.count));
    brief.collect()
}

/// Asserts that a finding's message contains a text.
pub(crate) fn assert_says(finding: &RuleFinding, text: &str) {
    assert!(finding.message.contains(text), "{}", finding.message);
}

/// Asserts what a tape's findings are: rule, site, count.
macro_rules! assert_found {
    ($tape:expr, [$(($rule:expr, $site:expr, $count:expr)),* $(,)?]) => {
        let expected: Vec<(String, u32, u64)> = vec![$(($rule.to_string(), $site, $count)),*];
        assert_eq!($tape.found(), expected);
    };
}
pub(crate) use assert_found;
