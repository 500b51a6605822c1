//! What follows a recording and knows what a crash may lose.

use super::{Frontier, NodeId};

/// What an event did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fed {
    /// Nodes became durable by a fence, by `msync` or by a sync of a file: fewer things may be lost
    /// from here on. [`Walker::completes`] tells it before.
    pub fence: bool,
    /// Nodes appeared or became durable.
    pub changed: bool,
}

/// Follows a recording and knows what a crash may lose.
///
/// An implementation is pure, and linear in the nodes issued: each is added once and becomes durable
/// at most once.
pub trait Walker {
    /// What a recording is made of: an access to memory, a system call.
    type Event<'e>;
    /// The smallest unit that persists whole.
    type Node;

    /// Takes in what the next event does, but not yet what it makes durable when it returns.
    /// [`Walker::end`] must follow. An event without duration is over when it has begun.
    fn begin(&mut self, event: &Self::Event<'_>) -> Fed;

    /// The event that was begun has returned: what it makes durable is durable.
    fn end(&mut self, event: &Self::Event<'_>) -> Fed;

    /// Takes in the next event.
    fn feed(&mut self, event: &Self::Event<'_>) -> Fed {
        let began = self.begin(event);
        let ended = self.end(event);
        Fed {
            fence: began.fence || ended.fence,
            changed: began.changed || ended.changed,
        }
    }

    /// Whether this event, if it is the next one or the one that was begun, makes nodes durable as
    /// a fence or a sync does. The moment before is when a crash may lose the most.
    fn completes(&self, event: &Self::Event<'_>) -> bool;

    /// All nodes so far, in the order of issue; a [`NodeId`] is an index.
    fn nodes(&self) -> &[Self::Node];

    /// Nodes that became durable since the last call, ascending.
    fn take_durable(&mut self) -> Vec<NodeId>;

    /// Takes a pending node to be durable from here on, and with it all that it needs: for callers
    /// who know enough about its loss.
    fn assume_durable(&mut self, node: NodeId);

    /// What a crash right now may lose.
    fn frontier(&self) -> Frontier;

    /// What a crash right now, or in the midst of the event that was fed last, may lose. It differs
    /// from [`Walker::frontier`] where nodes are durable as soon as they are issued.
    fn crash_frontier(&self) -> Frontier {
        self.frontier()
    }

    /// How many nodes are pending, whatever is assumed: what a frontier costs to make.
    fn pending(&self) -> usize;

    /// Nothing is pending, whatever is assumed: a crash loses nothing.
    fn is_quiet(&self) -> bool {
        self.pending() == 0
    }
}
