//! An event as a script sees it.

use crate::ProgramInfo;
use crashpoint_persist::memory::x86::{Flushed, Who};
use crashpoint_trace::{ContextId, FenceKind, FlushKind, PmAddress, StoreKind};
use rhai::{Array, Dynamic, Engine, INT, ImmutableString};
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Names of the functions on a call stack, the innermost first.
pub(crate) type Stack = Rc<[ImmutableString]>;

/// Call stacks by name, each worked out once.
#[derive(Default)]
pub(crate) struct Stacks {
    known: FxHashMap<ContextId, Stack>,
}

impl Stacks {
    pub(crate) fn of(&mut self, program_info: &dyn ProgramInfo, context: ContextId) -> Stack {
        let known = self.known.entry(context).or_insert_with(|| {
            let callers = std::iter::successors(program_info.caller(context), |(at, _)| {
                program_info.caller(*at)
            });
            let callees = callers.map(|(_, site)| program_info.callee(site).unwrap_or("").into());
            callees.collect()
        });
        known.clone()
    }
}

/// What there is to know. Fields that an event does not have are empty.
pub(crate) struct Facts {
    pub(crate) who: Who,
    pub(crate) stack: Stack,
    pub(crate) address: u64,
    pub(crate) place: Option<PmAddress>,
    pub(crate) length: u64,
    pub(crate) kind: &'static str,
    /// What a flush found, or whether a fence had anything to wait for.
    pub(crate) found: &'static str,
    pub(crate) name: ImmutableString,
    pub(crate) arguments: Vec<u64>,
    pub(crate) value: Option<u64>,
}

impl Facts {
    pub(crate) fn new(who: Who, stack: Stack) -> Facts {
        Facts {
            who,
            stack,
            address: 0,
            place: None,
            length: 0,
            kind: "",
            found: "",
            name: ImmutableString::new(),
            arguments: Vec::new(),
            value: None,
        }
    }
}

/// A handle that scripts may copy and keep.
#[derive(Clone)]
pub(crate) struct ScriptEvent(pub(crate) Rc<Facts>);

pub(crate) fn store_kind(kind: StoreKind) -> &'static str {
    match kind {
        StoreKind::Plain => "plain",
        StoreKind::NonTemporal => "non-temporal",
        StoreKind::Atomic => "atomic",
        StoreKind::Locked => "locked",
        StoreKind::Memory => "memory",
        StoreKind::Assembly => "assembly",
        StoreKind::Foreign => "foreign",
    }
}

pub(crate) fn flush_kind(kind: FlushKind) -> &'static str {
    match kind {
        FlushKind::Clflush => "clflush",
        FlushKind::Clflushopt => "clflushopt",
        FlushKind::Clwb => "clwb",
    }
}

pub(crate) fn fence_kind(kind: FenceKind) -> &'static str {
    match kind {
        FenceKind::Sfence => "sfence",
        FenceKind::Mfence => "mfence",
        FenceKind::Locked => "locked",
    }
}

pub(crate) fn flush_found(found: Flushed) -> &'static str {
    match found {
        Flushed::Dirty(_) => "dirty",
        Flushed::Unknown => "unknown",
        Flushed::AlreadyPending => "flushing",
        Flushed::PendingElsewhere => "flushing-elsewhere",
        Flushed::Clean => "durable",
        Flushed::Untouched => "clean",
    }
}

/// Numbers keep their bits: an address above 2^63 is negative in a script.
fn number(value: u64) -> INT {
    value as INT
}

pub(super) fn register(engine: &mut Engine) {
    fn get<T: Clone + Send + Sync + 'static>(engine: &mut Engine, name: &str, of: fn(&Facts) -> T) {
        engine.register_get(name, move |event: &mut ScriptEvent| of(&event.0));
    }
    engine.register_type_with_name::<ScriptEvent>("Event");
    get(engine, "order", |facts| number(facts.who.order));
    get(engine, "tid", |facts| INT::from(facts.who.thread.0));
    get(engine, "address", |facts| number(facts.address));
    get(engine, "length", |facts| number(facts.length));
    engine.register_get("kind", |event: &mut ScriptEvent| -> ImmutableString {
        event.0.kind.into()
    });
    engine.register_get("found", |event: &mut ScriptEvent| -> ImmutableString {
        event.0.found.into()
    });
    engine.register_get("name", |event: &mut ScriptEvent| event.0.name.clone());
    engine.register_get("value", |event: &mut ScriptEvent| match event.0.value {
        Some(value) => Dynamic::from_int(number(value)),
        None => Dynamic::UNIT,
    });
    engine.register_get("arguments", |event: &mut ScriptEvent| -> Array {
        let arguments = event.0.arguments.iter();
        arguments
            .map(|argument| Dynamic::from_int(number(*argument)))
            .collect()
    });
    engine.register_fn("argument", |event: &mut ScriptEvent, at: INT| -> INT {
        let at = usize::try_from(at).ok();
        at.and_then(|at| event.0.arguments.get(at))
            .map_or(0, |argument| number(*argument))
    });
    engine.register_get("stack", |event: &mut ScriptEvent| -> Array {
        event
            .0
            .stack
            .iter()
            .map(|name| Dynamic::from(name.clone()))
            .collect()
    });
    engine.register_fn("inside", |event: &mut ScriptEvent, prefix: &str| -> bool {
        event.0.stack.iter().any(|name| name.starts_with(prefix))
    });
}
