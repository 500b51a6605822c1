//! Compiles a script, calls its handlers, and takes what it reports.

use super::event::{self, ScriptEvent};
use super::host::{self, Host, Memory, Raised};
use super::tables;
use crate::rule::Path;
use crate::{HistoryStep, MODEL, RuleFinding, RuleId};
use crashpoint_persist::memory::Origins;
use crashpoint_trace::{PmAddress, ProcessIndex};
use rhai::{
    AST, CallFnOptions, Dynamic, Engine, EvalAltResult, FuncArgs, ParseError, Position, Scope,
};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::fmt;
use std::mem::swap;
use std::rc::Rc;

/// Operations that one call of a handler may take.
pub(super) const MAX_OPERATIONS: u64 = 1_000_000;
const MAX_CALL_LEVELS: usize = 32;
const MAX_NESTING: usize = 64;
const MAX_STRING_BYTES: usize = 1 << 16;
const MAX_PRINTED: usize = 1000;

/// The functions that a script may define to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handler {
    Store,
    Flush,
    Fence,
    Call,
    Return,
    End,
}

impl Handler {
    const ALL: [(Handler, &'static str, usize); 6] = [
        (Handler::Store, "on_store", 1),
        (Handler::Flush, "on_flush", 1),
        (Handler::Fence, "on_fence", 1),
        (Handler::Call, "on_call", 1),
        (Handler::Return, "on_return", 1),
        (Handler::End, "on_end", 0),
    ];

    fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// What is wrong with a script, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ScriptError {
    pub file: String,
    /// From 1.
    pub line: Option<usize>,
    pub column: Option<usize>,
    /// The text of that line.
    pub source_line: Option<String>,
    pub message: String,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.file)?;
        for number in [self.line, self.column].into_iter().flatten() {
            write!(to, ":{number}")?;
        }
        write!(to, ": {}", self.message)?;
        match &self.source_line {
            Some(line) => write!(to, "\n    {}", line.trim()),
            None => Ok(()),
        }
    }
}

/// A script, ready to be given to [`crate::Linter::add_script`].
pub struct Script {
    id: RuleId,
    file: String,
    source: String,
    engine: Engine,
    ast: AST,
    has: [bool; Handler::ALL.len()],
    host: Rc<RefCell<Host>>,
    pub(crate) failure: Option<ScriptError>,
}

impl Script {
    /// Compiles the text of a script. `file` is its path, for errors and for the rule's id.
    pub fn compile(file: &str, source: &str) -> Result<Script, ScriptError> {
        let host = Rc::new(RefCell::new(Host::default()));
        let engine = engine(&host);
        let name = file.rsplit('/').next().unwrap_or(file);
        let id = name.strip_suffix(".rhai").unwrap_or(name).to_owned();
        let mut script = Script {
            id: RuleId(id.into()),
            file: file.to_owned(),
            source: source.to_owned(),
            engine,
            ast: AST::empty(),
            has: [false; Handler::ALL.len()],
            host,
            failure: None,
        };
        let compiled = script.engine.compile(source);
        script.ast = compiled
            .map_err(|ParseError(kind, position)| script.error(position, kind.to_string()))?;
        script.find_handlers()?;
        Ok(script)
    }

    pub fn id(&self) -> &RuleId {
        &self.id
    }

    fn find_handlers(&mut self) -> Result<(), ScriptError> {
        let mut wrong = None;
        for function in self.ast.iter_functions() {
            let known = Handler::ALL
                .iter()
                .find(|(_, name, _)| *name == function.name);
            match known {
                Some((handler, _, count)) if function.params.len() == *count => {
                    self.has[*handler as usize] = true;
                }
                Some((_, name, count)) => {
                    wrong = Some(format!("`{name}` must take {count} parameters"));
                }
                None if function.name.starts_with("on_") => {
                    let names = Handler::ALL.map(|(_, name, _)| name).join(", ");
                    wrong = Some(format!(
                        "`{}` is no handler; there are {names}",
                        function.name
                    ));
                }
                None => {}
            }
        }
        if wrong.is_none() && self.has == [false; Handler::ALL.len()] {
            wrong = Some("the script has no handler, such as `on_store(e)`".to_owned());
        }
        wrong.map_or(Ok(()), |message| Err(self.error(Position::NONE, message)))
    }

    fn error(&self, position: Position, message: String) -> ScriptError {
        let line = position.line();
        let text = line.and_then(|line| self.source.lines().nth(line - 1));
        ScriptError {
            file: self.file.clone(),
            line,
            column: position.position(),
            source_line: text.map(str::to_owned),
            message,
        }
    }

    /// Whether it wants to be called for this.
    #[inline]
    pub(crate) fn has(&self, handler: Handler) -> bool {
        self.has[handler as usize] && self.failure.is_none()
    }

    /// Calls a handler for an event.
    pub(crate) fn handle(
        &mut self,
        handler: Handler,
        event: &ScriptEvent,
        process: ProcessIndex,
        memory: &mut Memory,
    ) {
        self.host.borrow_mut().process = process;
        self.run(handler, (event.clone(),), memory);
    }

    /// Calls the handler for the end of the recording.
    pub(crate) fn end(&mut self, memory: &mut Memory) {
        if self.has(Handler::End) {
            self.run(Handler::End, (), memory);
        }
    }

    fn run(&mut self, handler: Handler, arguments: impl FuncArgs, memory: &mut Memory) {
        swap(memory, &mut self.host.borrow_mut().memory);
        let options = CallFnOptions::new().eval_ast(false);
        let mut scope = Scope::new();
        let result = self.engine.call_fn_with_options::<Dynamic>(
            options,
            &mut scope,
            &self.ast,
            handler.name(),
            arguments,
        );
        swap(memory, &mut self.host.borrow_mut().memory);
        if let Err(mut error) = result {
            let position = innermost(&mut error);
            self.failure = Some(self.error(position, error.to_string()));
        }
    }

    /// What the script printed.
    pub(crate) fn printed(&self) -> Vec<String> {
        self.host.borrow_mut().printed.split_off(0)
    }

    /// What it reported, one finding for each site and call path.
    pub(crate) fn findings(
        &self,
        origins: &Origins,
        totals: &FxHashMap<Path, u64>,
    ) -> Vec<RuleFinding> {
        let raised = std::mem::take(&mut self.host.borrow_mut().raised);
        let mut merged: FxHashMap<Path, RuleFinding> = FxHashMap::default();
        for (origin, raised) in raised {
            let info = origins.info(origin);
            let path = (info.site, info.context);
            let finding = self.finding(origins, path, totals, raised);
            match merged.entry(path) {
                std::collections::hash_map::Entry::Vacant(slot) => {
                    slot.insert(finding);
                }
                std::collections::hash_map::Entry::Occupied(mut known) => {
                    let count = known.get().count + finding.count;
                    if finding.first_order < known.get().first_order {
                        known.insert(finding);
                    }
                    known.get_mut().count = count;
                }
            }
        }
        merged.into_values().collect()
    }

    fn finding(
        &self,
        origins: &Origins,
        path: Path,
        totals: &FxHashMap<Path, u64>,
        raised: Raised,
    ) -> RuleFinding {
        let steps = raised.history.iter().map(|(event, what)| {
            let info = origins.info(event.0.who.origin);
            HistoryStep {
                order: event.0.who.order,
                what: what.clone(),
                site: info.site,
                context: info.context,
                thread: info.thread,
            }
        });
        let mut history: Vec<HistoryStep> = steps.collect();
        history.sort_by_key(|step| step.order);
        RuleFinding {
            rule: self.id.clone(),
            severity: raised.severity,
            site: path.0,
            context: path.1,
            count: raised.count,
            total: totals.get(&path).copied().unwrap_or(0),
            first_order: raised.event.0.who.order,
            place: raised.event.0.place.unwrap_or(PmAddress(0)),
            length: raised.event.0.length * u64::from(raised.event.0.place.is_some()),
            message: raised.message,
            help: raised.help,
            history,
            model: MODEL,
        }
    }
}

/// Strips the calls that an error came through and says where it arose.
fn innermost(error: &mut Box<EvalAltResult>) -> Position {
    while let EvalAltResult::ErrorInFunctionCall(_, _, inner, _) = &mut **error {
        let inner = std::mem::replace(
            inner,
            EvalAltResult::Exit(Dynamic::UNIT, Position::NONE).into(),
        );
        *error = inner;
    }
    error.take_position()
}

fn engine(host: &Rc<RefCell<Host>>) -> Engine {
    let mut engine = Engine::new();
    engine.set_max_operations(MAX_OPERATIONS);
    engine.set_max_call_levels(MAX_CALL_LEVELS);
    engine.set_max_expr_depths(MAX_NESTING, MAX_NESTING);
    engine.set_max_string_size(MAX_STRING_BYTES);
    engine.set_max_array_size(tables::MAX_ENTRIES);
    engine.set_max_map_size(tables::MAX_ENTRIES);
    engine.disable_symbol("eval");
    let printer = |host: Rc<RefCell<Host>>| {
        move |text: &str| {
            let printed = &mut host.borrow_mut().printed;
            if printed.len() < MAX_PRINTED {
                printed.push(text.to_owned());
            }
        }
    };
    engine.on_print(printer(host.clone()));
    let debug = printer(host.clone());
    engine.on_debug(move |text, _, _| debug(text));
    event::register(&mut engine);
    tables::register(&mut engine);
    host::register(&mut engine, host);
    engine
}
