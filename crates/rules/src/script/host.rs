//! What a script can call: its tables, the state of memory, and the report of a finding.

use super::engine::MAX_OPERATIONS;
use super::event::ScriptEvent;
use super::tables::Table;
use crate::Severity;
use crate::mappings::Mappings;
use crate::unflushed::Tracker;
use crashpoint_persist::memory::{Origin, pieces};
use crashpoint_trace::{ProcessIndex, ThreadIndex};
use rhai::{Dynamic, Engine, EvalAltResult, INT, Map};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::rc::Rc;

type Fallible<T> = Result<T, Box<EvalAltResult>>;

/// One report of a script at one origin.
pub(super) struct Raised {
    pub(super) event: ScriptEvent,
    pub(super) count: u64,
    pub(super) severity: Severity,
    pub(super) message: String,
    pub(super) help: String,
    pub(super) history: Vec<(ScriptEvent, String)>,
}

/// What the analyses know; lent to the scripts while a handler runs.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) tracker: Tracker,
    pub(crate) mappings: Mappings,
}

/// What the functions that a script calls work on.
#[derive(Default)]
pub(super) struct Host {
    pub(super) memory: Memory,
    pub(super) process: ProcessIndex,
    pub(super) raised: FxHashMap<Origin, Raised>,
    per_rule: Table,
    per_thread: FxHashMap<ThreadIndex, Table>,
    pub(super) printed: Vec<String>,
}

pub(super) fn register(engine: &mut Engine, host: &Rc<RefCell<Host>>) {
    let own = host.clone();
    engine.register_fn("per_rule", move || own.borrow().per_rule.clone());
    let own = host.clone();
    engine.register_fn("per_thread", move |event: ScriptEvent| -> Table {
        own.borrow_mut()
            .per_thread
            .entry(event.0.who.thread)
            .or_default()
            .clone()
    });
    let own = host.clone();
    engine.register_fn("state", move |start: INT, length: INT| -> Fallible<Map> {
        own.borrow().state(start, length)
    });
    let own = host.clone();
    engine.register_fn("is_persistent", move |address: INT| -> bool {
        let host = own.borrow();
        host.memory
            .mappings
            .find(host.process, address as u64)
            .is_some()
    });
    let own = host.clone();
    engine.register_fn("finding", move |report: Map| -> Fallible<()> {
        own.borrow_mut().finding(report)
    });
}

impl Host {
    /// How many bytes of a range are in which state.
    fn state(&self, start: INT, length: INT) -> Fallible<Map> {
        let length = u64::try_from(length).map_err(|_| format!("a length of {length} bytes"))?;
        if length > MAX_OPERATIONS {
            return Err("the range is too long".into());
        }
        let place = self.memory.mappings.find(self.process, start as u64);
        let place = place.ok_or("the address is not in persistent memory")?;
        let [mut dirty, mut flushing, mut durable, mut unknown] = [0u64; 4];
        for piece in pieces(place, length) {
            let Some(line) = self.memory.tracker.line(piece.line) else {
                continue;
            };
            let count = |mask: u64| u64::from((mask & piece.mask).count_ones());
            dirty += count(line.dirty);
            flushing += count(line.pending);
            durable += count(line.durable);
            unknown += count(line.foreign);
        }
        let clean = length - dirty - flushing - durable - unknown;
        let counts = [
            ("clean", clean),
            ("dirty", dirty),
            ("flushing", flushing),
            ("durable", durable),
            ("unknown", unknown),
        ];
        let counts = counts.map(|(name, count)| (name.into(), Dynamic::from_int(count as INT)));
        Ok(counts.into_iter().collect())
    }

    fn finding(&mut self, mut report: Map) -> Fallible<()> {
        let text = |value: Dynamic, key: &str| -> Fallible<String> {
            Ok(value
                .into_string()
                .map_err(|found| format!("`{key}` must be text, not {found}"))?)
        };
        let event = report
            .remove("event")
            .and_then(Dynamic::try_cast::<ScriptEvent>);
        let event = event.ok_or("`event` is missing: the event that the finding is about")?;
        let message = report.remove("message").ok_or("`message` is missing")?;
        let message = text(message, "message")?;
        let help = report
            .remove("help")
            .map_or(Ok(String::new()), |help| text(help, "help"))?;
        let severity = match report.remove("severity") {
            None => Severity::Warning,
            Some(name) => match text(name, "severity")?.as_str() {
                "note" => Severity::Note,
                "warning" => Severity::Warning,
                "error" => Severity::Error,
                other => return Err(format!("no severity is called `{other}`").into()),
            },
        };
        let history = report.remove("history").map_or(Ok(Vec::new()), steps)?;
        if let Some(key) = report.keys().next() {
            return Err(format!("a finding has no `{key}`").into());
        }
        let origin = event.0.who.origin;
        let raised = self.raised.entry(origin).or_insert(Raised {
            event,
            count: 0,
            severity,
            message,
            help,
            history,
        });
        raised.count += 1;
        Ok(())
    }
}

/// Reads `[[event, "what it did"], …]`.
fn steps(value: Dynamic) -> Fallible<Vec<(ScriptEvent, String)>> {
    let wrong = || "`history` must be an array of arrays of an event and a text".to_owned();
    let list = value.try_cast::<rhai::Array>().ok_or_else(wrong)?;
    let step = |step: Dynamic| -> Option<(ScriptEvent, String)> {
        let mut pair = step.try_cast::<rhai::Array>()?.into_iter();
        let event = pair.next()?.try_cast::<ScriptEvent>()?;
        Some((event, pair.next()?.into_string().ok()?))
    };
    Ok(list
        .into_iter()
        .map(step)
        .collect::<Option<Vec<_>>>()
        .ok_or_else(wrong)?)
}
