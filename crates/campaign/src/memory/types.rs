//! What the program model knows of stores, as representative testing wants it: which object of
//! which type a store changes, and which calls led to it. Types and functions get numbers.

use crashpoint_check::memory::behaviours::ProgramModel;
use crashpoint_persist::graph::Node;
use crashpoint_program::stored_types;
use crashpoint_rules::{self as rules, Allocations};
use crashpoint_states::representative::calls::{FunctionId, StackFrame};
use crashpoint_states::representative::objects::{Member, ObjectId};
use crashpoint_trace::program::{Program, function_name};
use crashpoint_trace::{ContextId, Event, Recording, SiteId};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// A struct that an address lies in, and how far from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner {
    of: u32,
    offset: u64,
}

type Owners = SmallVec<[Owner; 2]>;

/// Types and functions of a recording, each with a number.
pub struct Types<'r> {
    recording: &'r Recording,
    program: &'r Program,
    names: Vec<String>,
    numbers: FxHashMap<String, u32>,
    /// Types by the place of a store: the first node of a store may lie anywhere in a word.
    owners: FxHashMap<(SiteId, ContextId), Owners>,
    /// Where the store that a node belongs to begins.
    store: Option<(u64, u64)>,
    allocations: Allocations,
}

impl<'r> Types<'r> {
    pub fn new(
        recording: &'r Recording,
        program: &'r Program,
        transactions: &rules::Transactions,
    ) -> Types<'r> {
        Types {
            allocations: Allocations::new(transactions),
            recording,
            program,
            names: Vec::new(),
            numbers: FxHashMap::default(),
            owners: FxHashMap::default(),
            store: None,
        }
    }

    /// What a type or function is called.
    pub fn name(&self, number: u32) -> Option<&str> {
        self.names.get(number as usize).map(String::as_str)
    }

    fn number(&mut self, name: String) -> u32 {
        if let Some(number) = self.numbers.get(&name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.clone());
        self.numbers.insert(name, number);
        number
    }

    fn find(&mut self, site: SiteId, context: ContextId) -> Owners {
        let structs = stored_types::enclosing_structs(self.recording, self.program, site, context);
        let owners = structs.into_iter().map(|one| Owner {
            of: self.number(one.name),
            offset: one.offset,
        });
        owners.collect()
    }
}

impl ProgramModel for Types<'_> {
    fn frames(&mut self, site: SiteId, context: ContextId) -> Vec<StackFrame> {
        let mut sites = self.recording.stack(context);
        sites.push(site);
        let frame = |site: SiteId| {
            let name = match self.program.resolve(site) {
                Some(resolved) => function_name(resolved.function),
                None => format!("site {}", site.0),
            };
            StackFrame {
                function: FunctionId(self.number(name)),
                at: u64::from(site.0),
            }
        };
        sites.into_iter().map(frame).collect()
    }

    fn members(&mut self, node: &Node) -> SmallVec<[Member; 2]> {
        // The nodes of one store follow each other: the first one tells where it begins.
        let begin = match self.store {
            Some((order, begin)) if order == node.order => begin,
            Some(_) | None => node.address.0,
        };
        self.store = Some((node.order, begin));
        let key = (node.site, node.context);
        let owners = match self.owners.get(&key) {
            Some(owners) => owners.clone(),
            None => {
                let owners = self.find(node.site, node.context);
                self.owners.insert(key, owners.clone());
                owners
            }
        };
        let member = |owner: &Owner| {
            let address = begin.checked_sub(owner.offset)?;
            let object = ObjectId {
                of: owner.of,
                address,
            };
            let field = node.address.0 - address;
            Some(Member { object, field })
        };
        owners.iter().filter_map(member).collect()
    }

    fn see(&mut self, event: &Event<'_>) {
        let (recording, program) = (self.recording, self.program);
        self.allocations
            .see(&rules::RecordedProgram { recording, program }, event);
    }

    fn allocation(&mut self, node: &Node) -> Option<Member> {
        let allocation = self.allocations.at(node.address)?;
        let allocator = self
            .program
            .callee_name(allocation.site)
            .unwrap_or("a call");
        let place = match self.program.resolve(allocation.site) {
            Some(resolved) => function_name(resolved.function),
            None => format!("site {}", allocation.site.0),
        };
        let of = self.number(format!("{allocator} in {place}"));
        let address = allocation.start.0;
        Some(Member {
            object: ObjectId { of, address },
            field: node.address.0 - address,
        })
    }
}
