//! Why did it fail: from the cause of a failing crash state to a finding, in words, with a fix, a
//! picture, and what replays it.
//!
//! An [`Explainer`] is one medium's part: where a node comes from, what a finding says, what replays
//! it. Everything else is the same for all media.
//!
//! **Architecture invariant:** knows neither settings nor the terminal.
#![forbid(unsafe_code)]

pub mod files;
pub mod manuals;
pub mod memory;
pub mod merge;
pub mod outcome;
pub mod picture;
pub mod replay;

use std::io;
use std::path::Path;

use crashpoint_check::engine::medium::CheckError;
use crashpoint_check::engine::medium::Checker;
use crashpoint_check::engine::minimise::{Cause, CauseKind};
use crashpoint_check::process::run::FinishedRun;
use crashpoint_persist::graph::NodeId;
use crashpoint_report::{Finding, Location};
use crashpoint_states::representative::Facts;

/// What one medium knows about causes.
pub trait Explainer<C: Checker> {
    /// Where the program made a node of a cause, as far as causes are told apart by it.
    fn origin(&self, cause: &Cause, node: NodeId) -> Option<Location>;

    /// Leaves out of a cause what tells a reader nothing.
    fn simplify(&self, _: &mut Cause) {}

    /// What a node is, and where it was made, for pictures.
    fn describe(&self, node: NodeId) -> (String, String);

    /// What each node needs, and when it is durable, for pictures.
    fn facts(&self) -> Facts;

    /// The finding of a cause whose state has just failed once more, without its replay command.
    fn finding(&self, failed: &mut FailedAgain<'_, C>) -> Result<Finding, CheckError>;

    /// Writes what replays a finding into its folder, in place of what is there.
    fn write_replay(
        &self,
        failed: &FailedAgain<'_, C>,
        finding: &Finding,
        folder: &Path,
    ) -> io::Result<()>;
}

/// A cause whose state was run once more, and failed again.
pub struct FailedAgain<'f, C: Checker> {
    pub cause: &'f Cause,
    /// The last event before the crash.
    pub order: u64,
    pub patch: &'f C::Patch,
    pub ended: &'f FinishedRun,
    /// Holds what is durable at the crash point.
    pub checker: &'f mut C,
}

/// The node at which a finding is shown.
fn main_node(cause: &Cause) -> Option<NodeId> {
    match cause.kind {
        CauseKind::Ordering | CauseKind::Atomicity => cause.ahead.or(cause.needed.first().copied()),
        CauseKind::Durability => cause.needed.first().copied(),
    }
}

/// The rule that a cause breaks.
fn rule_of(kind: CauseKind) -> &'static str {
    match kind {
        CauseKind::Ordering => manuals::ORDERING.id,
        CauseKind::Atomicity => manuals::ATOMICITY.id,
        CauseKind::Durability => manuals::DURABILITY.id,
    }
}
