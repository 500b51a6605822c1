//! What is crashed, as the search for crash states sees it: memory or files.
//!
//! A [`Medium`] is a recording under a model: the crash points, and what a
//! crash at each may lose. A [`DurableState`] is what is durable at one crash point; a crash state is a
//! patch on top. A [`Checker`] has a state of its own, in files, and runs recovery on that state.

use crate::engine::crash_points::{CrashPointVisitor, Phase, Span, SuffixId};
use crate::engine::outcome::Observed;
use crate::engine::result_table::Key;
use crate::process::pin::Pinned;
use crate::process::run::{FinishedRun, Limits};
use crate::process::server::ServerError;
use crashpoint_persist::graph::NodeId;
use std::io;
use std::path::{Path, PathBuf};

/// Something that a check may read or not: a word of memory, a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReadLocation(pub u64);

/// What tells one content from another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateHash(pub u128);

#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error("the files of a check in {}: {source}", folder.display())]
    Files { folder: PathBuf, source: io::Error },
    #[error("the search has stopped")]
    Stopped,
}

impl CheckError {
    /// Makes an error of what went wrong with the files of a check in a folder.
    pub fn in_folder(folder: &Path) -> impl Fn(io::Error) -> CheckError + use<> {
        let folder = folder.to_owned();
        move |source| CheckError::Files {
            folder: folder.clone(),
            source,
        }
    }
}

/// A recording under a model.
pub trait Medium: Sync {
    type Patch: Send;
    type DurableState: DurableState<Patch = Self::Patch>;

    /// What was there before the recorded program ran.
    fn before(&self) -> Self::DurableState;

    /// Visits all crash points, in order, until `visit` breaks off.
    fn crash_points(&self, visit: &mut CrashPointVisitor<'_>);

    /// The number of crash points.
    fn points(&self) -> usize;

    /// How many nodes the whole recording has.
    fn nodes(&self) -> usize;

    /// Nodes issued before the first operation began; all, where there is none.
    fn started(&self) -> usize;

    /// Nodes issued before an operation began, and before it returned.
    fn span(&self, operation: u32) -> Span;

    /// What runs after a crash in a phase.
    fn suffix(&self, phase: Phase) -> SuffixId;

    /// All that a check of a phase depends on.
    fn key(&self, phase: Phase, image: StateHash) -> Key;

    /// Places that may differ between states of a list.
    fn varying(&self, suffix: SuffixId) -> Vec<ReadLocation>;

    /// Nodes that come from one place in the program have the same.
    fn site(&self, node: NodeId) -> u64;

    /// Whether two nodes change the same thing.
    fn is_same_place(&self, first: NodeId, second: NodeId) -> bool;

    /// Whether two nodes are parts of one store or one call, which a crash may tear.
    fn is_one_write(&self, first: NodeId, second: NodeId) -> bool;

    fn observe(&self, phase: Phase, ended: &FinishedRun) -> Observed;

    /// Makes of a patch one in which a durable node, the last of its place, was never there; false
    /// where it cannot be told what was there before it.
    fn take_back(&self, _: &mut Self::Patch, _: NodeId) -> bool {
        false
    }
}

/// What is durable.
pub trait DurableState {
    type Patch;

    /// Goes on to a crash point, by which these nodes have persisted. `order` is that of the last event
    /// before it.
    fn advance(&mut self, nodes: &[NodeId], order: u64) -> Result<(), CheckError>;

    /// In how many ways a crash that keeps these nodes may show: what a model leaves open.
    fn variants(&mut self, kept: &[NodeId]) -> u8;

    /// What these nodes change, ascending; in one of the ways.
    fn patch(&mut self, kept: &[NodeId], variant: u8) -> Self::Patch;

    fn hash_with(&self, patch: &Self::Patch) -> StateHash;

    fn value(&self, patch: &Self::Patch, place: ReadLocation) -> u64;
}

/// Runs recovery on crash states, one at a time.
pub trait Checker: DurableState + Send {
    /// Back to what was there before the recorded program ran.
    fn rewind(&mut self) -> Result<(), CheckError>;

    /// `mark`: what it reads is noted.
    fn run(
        &mut self,
        patch: &Self::Patch,
        phase: Phase,
        mark: bool,
    ) -> Result<FinishedRun, CheckError>;

    /// Which of these places the last marked run read; nothing is known where something may have
    /// been read unseen.
    fn reads(&self, varying: &[ReadLocation]) -> Result<Option<Vec<ReadLocation>>, CheckError>;

    fn limits(&mut self) -> &mut Limits;

    /// Keeps the calling thread with the target while the value lives.
    fn stay(&self) -> Pinned;

    /// How often the target had to be started again.
    fn restarts(&self) -> u32;
}
