//! What is plainly misuse of persistent memory.
//!
//! A rule is a file: its id and manual, what it looks for, its tests. [`RULES`] lists them. The
//! [`Linter`] feeds a recording once through the line tracker of `crashpoint-persist` and then to
//! all rules that are switched on. Two analyses serve several rules: `unflushed` (stores that were
//! never flushed) and `transactions` (undo logs). Users add rules of their own as [`Script`]s.
//!
//! Rules report what is wrong for certain under the memory model, in the run that was recorded;
//! what each can still get wrong stands in its manual.
//!
//! **Architecture invariant:** pure. A rule sees events and the answers of [`ProgramInfo`], and returns
//! [`RuleFinding`]s; nothing here reads a file.
#![forbid(unsafe_code)]

mod allocations;
mod config;
mod double_log;
mod extra_fence;
mod extra_flush;
mod finding;
mod intervals;
mod linter;
mod mappings;
mod missing_fence;
mod missing_flush;
mod program_info;
mod rule;
mod script;
mod transactions;
mod unflushed;
mod unlogged_update;
mod unpersisted;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod testing;

pub use allocations::{Allocation, Allocations};
pub use config::{
    AllocCall, Basic, BeginCall, Config, ExtraFence, ExtraFlush, FreeCall, LogCall, Mfence,
    PoolCall, Returns, RuleSettings, Transactions, UnknownRule,
};
pub use finding::{HistoryStep, MODEL, RuleFinding, RuleId, Severity};
pub use linter::{LintOutcome, Linter};
pub use program_info::{ProgramInfo, RecordedProgram};
pub use rule::RuleInfo;
pub use script::{Script, ScriptError, ScriptSource};
pub use transactions::watched_calls;

/// All built-in rules.
pub const RULES: &[RuleInfo] = &[
    missing_flush::INFO,
    missing_fence::INFO,
    extra_flush::INFO,
    extra_fence::INFO,
    unpersisted::INFO,
    double_log::INFO,
    unlogged_update::INFO,
];
