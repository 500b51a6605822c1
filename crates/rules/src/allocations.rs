//! Which objects in persistent memory were allocated, by calls of known functions.
//!
//! The functions are those of transaction libraries ([`library`](crate::transactions)), whether a
//! transaction is under way or not. An object is known from the return of the call that made it
//! until it is freed, or until another one takes its place. Where a call does not return a place
//! that the recording keeps, its object is not known.

use crate::ProgramInfo;
use crate::config::{Returns, Transactions as Settings};
use crate::mappings::Mappings;
use crate::transactions::library::{Library, Role};
use crashpoint_trace::{Event, EventKind, PmAddress, ProcessIndex, SiteId, ThreadIndex};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// An object, and the call that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    pub start: PmAddress,
    pub length: u64,
    pub site: SiteId,
}

/// A call that has not returned.
#[derive(Clone, Copy, Debug)]
struct Open {
    site: SiteId,
    length: u64,
    returns: Returns,
}

/// The objects at this moment of the recording.
#[derive(Debug)]
pub struct Allocations {
    library: Library,
    mappings: Mappings,
    open: FxHashMap<ThreadIndex, Vec<Open>>,
    objects: BTreeMap<u64, Allocation>,
}

impl Allocations {
    pub fn new(settings: &Settings) -> Allocations {
        Allocations {
            library: Library::new(settings),
            mappings: Mappings::default(),
            open: FxHashMap::default(),
            objects: BTreeMap::new(),
        }
    }

    /// Takes in the next event.
    pub fn see(&mut self, program_info: &dyn ProgramInfo, event: &Event<'_>) {
        let process = program_info.process(event.thread);
        match &event.kind {
            EventKind::Map { place, length, .. } => {
                self.mappings.map(process, place.address, *length, place.pm);
            }
            EventKind::Unmap { place, length } => {
                self.mappings.unmap(process, place.address, *length);
            }
            EventKind::Call { arguments, .. } => {
                let role = program_info
                    .callee(event.site)
                    .and_then(|name| self.library.role(name));
                let word = |at: usize| arguments.iter().nth(at).unwrap_or(0);
                match role {
                    Some(Role::Alloc(call)) => {
                        let open = Open {
                            site: event.site,
                            length: word(call.length),
                            returns: call.returns,
                        };
                        self.open.entry(event.thread).or_default().push(open);
                    }
                    Some(Role::Free(call)) => {
                        let start = word(call.address);
                        if let Some(start) = self.place(process, start, call.in_pool) {
                            self.objects.remove(&start.0);
                        }
                    }
                    Some(
                        Role::Begin(_)
                        | Role::Commit { .. }
                        | Role::Abort { .. }
                        | Role::End
                        | Role::Log(_),
                    )
                    | None => {}
                }
            }
            EventKind::Return { value, .. } => {
                self.returned(process, event.thread, event.site, *value);
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

    fn returned(&mut self, process: ProcessIndex, thread: ThreadIndex, site: SiteId, value: u64) {
        let Some(open) = self.open.get_mut(&thread) else {
            return;
        };
        // Calls that were left by a jump never return; those above this one were.
        let Some(at) = open.iter().rposition(|call| call.site == site) else {
            return;
        };
        let call = open[at];
        open.truncate(at);
        let start = match call.returns {
            _ if value == 0 || call.length == 0 => None,
            Returns::Address => self.place(process, value, false),
            Returns::Offset => self.place(process, value, true),
            Returns::Other => None,
        };
        let Some(start) = start else { return };
        let end = start.0.saturating_add(call.length);
        let before = self.objects.range(..end).rev();
        let gone: Vec<u64> = before
            .take_while(|(at, known)| **at + known.length > start.0)
            .map(|(at, _)| *at)
            .collect();
        for at in gone {
            self.objects.remove(&at);
        }
        let allocation = Allocation {
            start,
            length: call.length,
            site,
        };
        self.objects.insert(start.0, allocation);
    }

    fn place(&self, process: ProcessIndex, value: u64, in_pool: bool) -> Option<PmAddress> {
        let base = if in_pool {
            self.mappings.lowest(process)?
        } else {
            0
        };
        self.mappings.find(process, base.wrapping_add(value))
    }

    /// The object that a byte lies in.
    pub fn at(&self, address: PmAddress) -> Option<Allocation> {
        let (_, known) = self.objects.range(..=address.0).next_back()?;
        (address.0 < known.start.0 + known.length).then_some(*known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::testing::{BASE, Tape};

    const ZALLOC: &str = "pmemobj_tx_zalloc";

    /// What lies at an address in the end: the object's start, its length, and the site of the call.
    fn at(tape: &Tape, address: u64) -> Option<(u64, u64, u32)> {
        let mut allocations = Allocations::new(&Config::default().transactions);
        tape.events(|event| allocations.see(tape, event));
        let found = allocations.at(PmAddress(address))?;
        Some((found.start.0, found.length, found.site.0))
    }

    #[test]
    fn an_object_reaches_from_its_offset_as_far_as_was_asked_for() {
        let mut tape = Tape::default();
        tape.map().calls(10, ZALLOC, &[40, 0], 512);
        let object = Some((512, 40, 10));
        let found = [511, 512, 551, 552].map(|address| at(&tape, address));
        assert_eq!(found, [None, object, object, None]);
    }

    #[test]
    fn what_takes_the_place_of_an_object_is_another_one() {
        let mut tape = Tape::default();
        tape.map()
            .calls(10, ZALLOC, &[64, 0], 512)
            .calls(11, ZALLOC, &[64, 0], 576)
            .calls(12, ZALLOC, &[64, 0], 544);
        let found = [520, 550, 620].map(|address| at(&tape, address));
        assert_eq!(found, [None, Some((544, 64, 12)), None]);
    }

    #[test]
    fn what_is_freed_or_was_not_made_is_no_object() {
        let mut tape = Tape::default();
        tape.map()
            .calls(10, ZALLOC, &[64, 0], 512)
            .calls(11, "pmemobj_tx_free", &[7, 512], 0)
            .calls(12, ZALLOC, &[64, 0], 0);
        assert_eq!(at(&tape, 512), None);
        assert_eq!(at(&tape, 0), None);
    }

    #[test]
    fn a_function_of_the_user_may_return_an_address() {
        let settings = "alloc = [{ name = 'pm_alloc', length = 0 }]";
        let settings: Settings = toml::from_str(settings).unwrap();
        let mut tape = Tape::default();
        tape.map().calls(10, "pm_alloc", &[16], BASE + 128);
        let mut allocations = Allocations::new(&settings);
        tape.events(|event| allocations.see(&tape, event));
        let found = allocations.at(PmAddress(130)).unwrap();
        assert_eq!((found.start, found.length), (PmAddress(128), 16));
    }
}
