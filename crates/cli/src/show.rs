//! `crashpoint show`: the events of a recording or the model in a binary, readable.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use crashpoint_ir::elf::{self, ElfError};
use crashpoint_ir::{FunctionId, Module, text};
use crashpoint_report::terminal::Style;
use crashpoint_trace::program::{Program, SourcePlace, function_name, readable_name};
use crashpoint_trace::{ContextId, Event, OpenError, Recording, SiteId};

use crate::arguments;
use crate::event_text::EventText;
use crate::exit::{Ending, Exit};
use crate::filter::Filter;
use crate::output::Output;
use crate::{show_files, show_graph, statistics};
use crashpoint_campaign::settings::nearest;

#[derive(Debug, thiserror::Error)]
pub enum ShowError {
    #[error("name the binary: crashpoint show --ir BINARY [FUNCTION]")]
    NoBinary,
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    OpenFiles(#[from] crashpoint_trace::files::OpenError),
    #[error("a recording of files has no {0}: leave the option away")]
    NotOfFiles(&'static str),
    #[error(transparent)]
    Binary(#[from] ElfError),
    #[error("{}: {cause}; build it again", path.display())]
    Model {
        path: PathBuf,
        cause: crashpoint_ir::binary::ModelError,
    },
    #[error("there is no function `{name}` in {}{hint}", path.display())]
    NoFunction {
        name: String,
        path: PathBuf,
        hint: String,
    },
    #[error("there is no thread {number}; the recording has threads 0 to {last}")]
    NoThread { number: u32, last: usize },
    #[error(transparent)]
    Graph(#[from] show_graph::GraphError),
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
}

/// The command.
pub fn run(arguments: &arguments::Show, output: &mut Output) -> Result<Ending, ShowError> {
    if arguments.ir {
        let binary = arguments.subject.as_deref().ok_or(ShowError::NoBinary)?;
        models(binary, arguments.function_name.as_deref(), output)?;
        return Ok(Exit::Clean.into());
    }
    let folder = arguments
        .subject
        .as_deref()
        .unwrap_or(Path::new("crashpoint.out"));
    if arguments.graph {
        show_graph::run(folder, output)?;
        return Ok(Exit::Clean.into());
    }
    if show_files::is_one(folder) {
        show_files::run(folder, arguments, output)?;
        return Ok(Exit::Clean.into());
    }
    let recording = Recording::open(folder)?;
    if arguments.stats {
        output.print(&statistics::text(&recording))?;
    } else {
        events(&recording, arguments, output)?;
    }
    for problem in recording.problems() {
        output.warn(&problem.to_string());
    }
    Ok(Exit::Clean.into())
}

fn models(path: &Path, wanted: Option<&str>, output: &mut Output) -> Result<(), ShowError> {
    let mut known: Vec<String> = Vec::new();
    let mut shown = false;
    for embedded in elf::models(path)? {
        let decoded = embedded.decode();
        let (_, module) = decoded.map_err(|cause| ShowError::Model {
            path: path.to_owned(),
            cause,
        })?;
        let Some(wanted) = wanted else {
            output.print(&text::module(&module).to_string())?;
            shown = true;
            continue;
        };
        for (id, names) in defined(&module) {
            if names.iter().any(|name| name == wanted) {
                output.print(&format!("{}\n", text::function(&module, id)))?;
                shown = true;
            }
            known.extend(names);
        }
    }
    match wanted {
        Some(name) if !shown => Err(ShowError::NoFunction {
            name: name.to_owned(),
            path: path.to_owned(),
            hint: nearest(name, known.iter().map(String::as_str))
                .map_or(String::new(), |near| format!("; did you mean `{near}`?")),
        }),
        _ => Ok(()),
    }
}

/// Functions with a body, under all names that people may call them by.
fn defined(module: &Module) -> impl Iterator<Item = (FunctionId, [String; 3])> {
    let numbered = (0..).map(FunctionId).zip(&module.functions);
    numbered
        .filter(|(_, function)| !function.is_declaration())
        .map(|(id, function)| {
            let source = function.source_name.clone().unwrap_or_default();
            (id, [function.name.clone(), source, function_name(function)])
        })
}

fn events(
    recording: &Recording,
    arguments: &arguments::Show,
    output: &mut Output,
) -> Result<(), ShowError> {
    let threads = recording.threads().len();
    if let Some(number) = arguments
        .threads
        .iter()
        .find(|number| **number as usize >= threads)
    {
        return Err(ShowError::NoThread {
            number: *number,
            last: threads.saturating_sub(1),
        });
    }
    let (program, missing) = Program::load_available(recording);
    for error in missing {
        output.warn(&format!("places have no source line: {error}"));
    }
    let filter = Filter {
        threads: &arguments.threads,
        kinds: &arguments.kinds,
        range: arguments.range.as_ref(),
    };
    let mut places = Places::new(recording, &program);
    let text = EventText::new(recording);
    let mut left = arguments.limit.unwrap_or(u64::MAX);
    let mut events = recording.events();
    for event in events.by_ref() {
        if left == 0 || output.is_closed() {
            break;
        }
        let wanted = filter.passes(recording, &event)
            && (arguments.functions.is_empty() || places.within(&event, &arguments.functions));
        if !wanted {
            continue;
        }
        left -= 1;
        let callee = program.callee_name(event.site).map(readable_name);
        let line = text.line(&event, callee.as_deref(), places.place(event.site));
        output.print(&line)?;
        if arguments.stack {
            output.print(&places.stack(&event))?;
        }
    }
    for problem in events.problems() {
        output.warn(&problem.to_string());
    }
    Ok(())
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
        let folder = std::env::current_dir().ok();
        Places {
            recording,
            program,
            style: Style {
                colours: false,
                base: folder.and_then(|folder| folder.to_str().map(str::to_owned)),
            },
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

    /// In one of these functions, or called by it.
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

/// By the whole name, or by its last part in C++.
pub fn named(function: &str, wanted: &[String]) -> bool {
    let last = function.rsplit("::").next().unwrap_or_default();
    wanted
        .iter()
        .any(|wanted| wanted == function || wanted == last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_known_by_their_last_name_too() {
        let wanted = ["put".to_owned(), "tree::get".to_owned()];
        assert!(named("put", &wanted));
        assert!(named("hash::put", &wanted));
        assert!(named("tree::get", &wanted));
        assert!(!named("other::get", &wanted));
        assert!(!named("", &wanted));
    }
}
