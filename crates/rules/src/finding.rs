//! What a rule has to say.

use crashpoint_trace::{ContextId, PmAddress, SiteId, ThreadIndex};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

/// The name of a rule: that of a built-in one, or the file name of a script without its ending.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(pub Cow<'static, str>);

impl RuleId {
    pub const fn built_in(id: &'static str) -> RuleId {
        RuleId(Cow::Borrowed(id))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RuleId {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

/// How bad a finding is, in rising order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Work that is done for nothing, or a habit that invites errors.
    Warning,
    /// Data can be lost or inconsistent after a crash.
    Error,
}

impl Severity {
    pub fn name(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// A step of a cache line's or a transaction's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryStep {
    /// In the one order of the recording.
    pub order: u64,
    pub what: String,
    pub site: SiteId,
    pub context: ContextId,
    pub thread: ThreadIndex,
}

/// The memory model that built-in findings are stated under, by the name that `--model` has for it.
pub const MODEL: &str = "x86";

/// One problem at one place of the program, reached by one call path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleFinding {
    pub rule: RuleId,
    pub severity: Severity,
    pub site: SiteId,
    pub context: ContextId,
    /// How often it was seen.
    pub count: u64,
    /// How often the place was executed with this call path.
    pub total: u64,
    /// When it was seen first.
    pub first_order: u64,
    /// Where in persistent memory it was seen first, if it concerns memory: `length` is 0 if not.
    pub place: PmAddress,
    pub length: u64,
    /// One sentence, without a full stop.
    pub message: String,
    /// What to do.
    pub help: String,
    /// How it came about when it was seen first, the event itself last.
    pub history: Vec<HistoryStep>,
    pub model: &'static str,
}
