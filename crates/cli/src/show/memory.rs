//! A recording of memory as `crashpoint show` prints it: one line for each event.

use std::collections::HashMap;
use std::io;

use crashpoint_report::terminal::Style;
use crashpoint_trace::program::{Program, SourcePlace, function_name, readable_name};
use crashpoint_trace::{ContextId, Event, Recording, SiteId};

use super::event_text::EventText;
use super::filter::{Filter, Kind, named};
use super::{Medium, Sink, statistics};

/// A recording of stores, flushes and fences.
pub struct Memory(pub Recording);

impl Medium for Memory {
    const NAME: &'static str = "memory";
    const KINDS: &'static [Kind] = &[
        Kind::Store,
        Kind::Load,
        Kind::Flush,
        Kind::Fence,
        Kind::Opaque,
        Kind::Call,
        Kind::Return,
        Kind::Sync,
        Kind::Map,
        Kind::Unmap,
        Kind::Msync,
    ];
    const HAS_ADDRESSES: bool = true;

    fn thread_count(&self) -> usize {
        self.0.threads().len()
    }

    fn statistics(&self) -> String {
        statistics::text(&self.0)
    }

    fn entries(&self, filter: &Filter, sink: &mut Sink<'_>) -> io::Result<()> {
        let recording = &self.0;
        let (program, missing) = Program::load_available(recording);
        for error in missing {
            sink.warn(&format!("places have no source line: {error}"));
        }
        let mut places = Places::new(recording, &program);
        let text = EventText::new(recording);
        let mut events = recording.events();
        for event in events.by_ref() {
            if sink.is_full() {
                break;
            }
            let wanted = filter.passes_event(recording, &event)
                && (filter.functions.is_empty() || places.within(&event, &filter.functions));
            if !wanted {
                continue;
            }
            let callee = program.callee_name(event.site).map(readable_name);
            let mut entry = text.line(&event, callee.as_deref(), places.place(event.site));
            if sink.stack {
                entry.push_str(&places.stack(&event));
            }
            sink.print(&entry)?;
        }
        for problem in events.problems() {
            sink.warn(&problem.to_string());
        }
        Ok(())
    }

    fn problems(&self) -> Vec<String> {
        let problems = self.0.problems().iter();
        problems.map(ToString::to_string).collect()
    }
}

/// Source places of sites, each resolved once.
struct Places<'a> {
    recording: &'a Recording,
    program: &'a Program,
    style: Style,
    known: HashMap<SiteId, (String, String)>,
    /// Whether a call stack goes through one of the wanted functions.
    contexts: HashMap<ContextId, bool>,
}

impl<'a> Places<'a> {
    fn new(recording: &'a Recording, program: &'a Program) -> Places<'a> {
        Places {
            recording,
            program,
            style: super::style(),
            known: HashMap::new(),
            contexts: HashMap::new(),
        }
    }

    fn resolve(&mut self, site: SiteId) -> &(String, String) {
        let (program, style) = (self.program, &self.style);
        self.known
            .entry(site)
            .or_insert_with(|| match program.resolve(site) {
                Some(resolved) => (
                    function_name(resolved.function),
                    place_text(&resolved.place, style),
                ),
                None => (String::new(), String::new()),
            })
    }

    fn place(&mut self, site: SiteId) -> &str {
        &self.resolve(site).1
    }

    /// Whether an event lies in one of these functions, or in a function that it called.
    fn within(&mut self, event: &Event<'_>, functions: &[String]) -> bool {
        named(&self.resolve(event.site).0, functions) || self.called_by(event.context, functions)
    }

    /// Walks outwards to a context that is known; stacks may be too deep for recursion.
    fn called_by(&mut self, context: ContextId, functions: &[String]) -> bool {
        let mut walked = Vec::new();
        let mut next = context;
        let found = loop {
            if let Some(known) = self.contexts.get(&next) {
                break *known;
            }
            walked.push(next);
            match self.recording.caller(next) {
                Some((_, site)) if named(&self.resolve(site).0, functions) => break true,
                Some((outer, _)) => next = outer,
                None => break false,
            }
        };
        self.contexts
            .extend(walked.into_iter().map(|context| (context, found)));
        found
    }

    fn stack(&mut self, event: &Event<'_>) -> String {
        let mut lines = String::new();
        for site in self.recording.stack(event.context).into_iter().rev() {
            let place = match self.place(site) {
                "" => "?",
                known => known,
            };
            lines.push_str(&format!("{:>22}{place}\n", "by "));
        }
        lines
    }
}

fn place_text(place: &SourcePlace<'_>, style: &Style) -> String {
    match place.line {
        0 => place.function.clone(),
        line => format!("{} at {}:{line}", place.function, style.path(place.file)),
    }
}
