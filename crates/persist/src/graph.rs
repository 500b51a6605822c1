//! The persistence graph: which sets of nodes a crash may leave behind.
//!
//! A *node* is the smallest unit that persists whole: up to 8 bytes of a store
//! ([`crate::memory::Node`]), a block of a file or a directory entry ([`crate::files::MicroOp`]). A
//! [`Walker`] takes in the events of a recording, one after the other, and knows which nodes are
//! durable and which are pending. Its [`Frontier`] says what a crash at this moment may lose: the
//! pending nodes lie in [`Chain`]s, a crash keeps a prefix of each (a [`Cut`]), and [`Implication`]s
//! between chains say which combinations of prefixes are possible. A crash state is everything
//! durable and a closed cut of the frontier.
//!
//! What the nodes are, what orders them and what makes them durable, the models say:
//! [`crate::memory`] and [`crate::files`].

mod count;
mod cuts;
mod frontier;
mod node;
mod walker;

#[cfg(test)]
pub(crate) use count::count_within;

pub use count::Count;
pub use frontier::{Chain, Cut, Frontier, Implication};
pub use node::NodeId;
pub use walker::{Fed, Walker};

// A bridge for crates that still name the model of memory by its former path.
pub use crate::memory::{Model, Node};
