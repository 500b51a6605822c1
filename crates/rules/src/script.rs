//! Rules of the user's own, as scripts in Rhai.
//!
//! A script is a file; its name without the ending is the rule's id. It defines handlers, of which
//! only those that exist are called: `on_store(e)`, `on_flush(e)`, `on_fence(e)`, `on_call(e)`,
//! `on_return(e)` and, when the recording is over, `on_end()`. `rules/README.md` documents what a
//! script can ask and do; this module and its children are the other side of that page.
//!
//! A handler runs after the built-in analyses have taken the event, so that it sees the state of
//! memory after it. A script has no access to files, modules, time or other scripts. Each call of
//! a handler may take a bounded number of operations and nesting, and hold values of bounded size,
//! so that no script can hang or exhaust the linter. A script that fails is stopped; what it
//! reported before stands, and its error is told ([`ScriptError`]).

mod engine;
mod event;
mod host;
mod source;
mod tables;

#[cfg(test)]
mod tests;

pub(crate) use engine::Handler;
pub use engine::{Script, ScriptError};
pub(crate) use event::{
    Facts, ScriptEvent, Stacks, fence_kind, flush_found, flush_kind, store_kind,
};
pub(crate) use host::Memory;
pub use source::ScriptSource;
