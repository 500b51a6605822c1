//! What a node is known by.

/// Number of a node, among all that a [`super::Walker`] has issued: an index into
/// [`super::Walker::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The number of the node that follows `issued` others.
    pub fn after(issued: usize) -> NodeId {
        NodeId(u32::try_from(issued).expect("fewer than 2^32 nodes"))
    }

    pub fn index(self) -> usize {
        self.0 as usize
    }
}
