//! The persistence graph of files: which directory trees a crash may leave behind.
//!
//! # Model
//!
//! A system call is made of micro-operations ([`MicroOp`]): an entry added or removed, data of one
//! block, a size. Each is a node, the smallest unit that persists whole. A [`FileWalker`] takes in the
//! calls of a recording and knows which nodes are durable and which are pending; its frontier says
//! which sets of pending nodes a crash may keep, in the same terms as for memory (see
//! [`crate::graph`]). [`Trees`] shows what a set of nodes looks like as a [`Tree`].
//!
//! What waits for what, and what a sync covers, is a [`Model`]: a table of knobs. The built-in ones
//! follow what was seen of Linux 6.18; `docs/file-models.md` states every rule with its name, and
//! [`litmus`] has a tiny program for each, with exactly the trees that each model allows.
//!
//! # Deviations
//!
//! - Writes of more than 64 blocks are cut into 64 runs of blocks.
//! - A write over bytes that stand there already is no node, sector by sector.
//! - Rule K5 (later writes wait for a truncation) is also applied to holes and to shifted ranges:
//!   bytes that were taken away do not come back.
//! - A crash leaves one filler for all data that was lost, never a mixture of zeros and old bytes.
//! - The time of a change is not modelled, nor are owners.
//!
//! A model may allow more than a file system does (false alarms), where blocks that user space
//! cannot see decide; it allows less where a file system breaks its own rules.

mod content;
mod effect;
mod inode;
pub mod litmus;
mod model;
mod op;
mod order;
mod parse;
mod patches;
mod paths;
mod summary;
mod sync;
mod tree;
mod trees;
mod walker;
mod write;

#[cfg(test)]
mod random;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

pub use content::{ByteSource, Content, Extent};
pub use model::{Filler, LossReason, Model};
pub use op::{BLOCK_BYTES, Class, Data, Growth, MicroOp, MicroOpKind, SECTOR_BYTES};
pub use parse::{ModelError, ModelErrorKind};
pub use patches::{ContentPatch, PatchSource};
pub use tree::{Object, Tree};
pub use trees::Trees;
pub use walker::{FileWalker, Needs};

/// Stands for what the disk held before, of whatever file.
pub const STALE_BYTE: u8 = 0xa5;
