//! What the walker knows of a file: what is surely on the disk, and what is on its way there.

use super::content::Content;
use super::op::BLOCK_BYTES;
use crate::graph::NodeId;
use std::collections::BTreeMap;

/// A truncation, a hole or a shift, which later writes wait for and earlier ones are seen through.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub node: NodeId,
    pub what: CutKind,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum CutKind {
    /// Nothing from here on.
    Truncate {
        at: u64,
    },
    Punch {
        from: u64,
        to: u64,
    },
    Collapse {
        at: u64,
        length: u64,
    },
    Insert {
        at: u64,
        length: u64,
    },
}

impl Cut {
    /// Whether a later write or size that ends there waits for it.
    fn holds_up(&self, from: u64, to: u64) -> bool {
        match self.what {
            CutKind::Truncate { at }
            | CutKind::Collapse { at, .. }
            | CutKind::Insert { at, .. } => to > at,
            CutKind::Punch {
                from: start,
                to: end,
            } => from < end && start < to,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Inode<'a> {
    pub is_directory: bool,
    /// As the program sees it.
    pub content: Content<'a>,
    /// The size that is surely on the disk.
    sure: u64,
    /// Blocks that are surely on the disk: where each run begins and ends.
    allocated: BTreeMap<u64, u64>,
    /// Who wrote a range last: where each begins, its end, and the node.
    writers: BTreeMap<u64, (u64, NodeId)>,
    /// The latest change of the size that keeps its order.
    pub last_size: Option<NodeId>,
    /// Sizes that float.
    pub floating: Vec<NodeId>,
    cuts: Vec<Cut>,
    /// Pending changes of the content, the size and attributes.
    pub own: Vec<NodeId>,
    /// Pending changes of its names; of a directory, also of names in it.
    pub names: Vec<NodeId>,
    pub entries: Vec<NodeId>,
    /// Everything in the journal up to here is about the file, or older.
    pub last_meta: Option<NodeId>,
}

impl<'a> Inode<'a> {
    pub fn initial(is_directory: bool, bytes: &'a [u8]) -> Inode<'a> {
        let content = Content::new(bytes);
        let mut inode = Inode {
            is_directory,
            sure: content.size(),
            content,
            ..Inode::default()
        };
        inode.allocate(0, inode.sure.div_ceil(BLOCK_BYTES));
        inode
    }

    pub fn size(&self) -> u64 {
        self.content.size()
    }

    pub fn sure(&self) -> u64 {
        self.sure
    }

    pub fn is_allocated(&self, block: u64) -> bool {
        let run = self.allocated.range(..=block).next_back();
        run.is_some_and(|(_, end)| block < *end)
    }

    fn allocate(&mut self, from: u64, to: u64) {
        if from < to {
            self.release(from, to);
            self.allocated.insert(from, to);
        }
    }

    fn release(&mut self, from: u64, to: u64) {
        let runs = self.allocated.range(..to);
        let overlapping: Vec<(u64, u64)> = runs
            .rev()
            .take_while(|(_, end)| **end > from)
            .map(|(start, end)| (*start, *end))
            .collect();
        for (start, end) in overlapping {
            self.allocated.remove(&start);
            if start < from {
                self.allocated.insert(start, from);
            }
            if end > to {
                self.allocated.insert(to, end);
            }
        }
    }

    /// Who wrote into this range, each once.
    pub fn writers(&self, from: u64, to: u64) -> Vec<NodeId> {
        let all = self.writers.range(..to).rev();
        let within = all.take_while(|(_, (end, _))| *end > from);
        let mut nodes: Vec<NodeId> = within.map(|(_, (_, node))| *node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    pub fn wrote(&mut self, from: u64, to: u64, node: NodeId) {
        let all = self.writers.range(..to).rev();
        let within = all.take_while(|(_, (end, _))| *end > from);
        let overlapping: Vec<(u64, (u64, NodeId))> =
            within.map(|(start, rest)| (*start, *rest)).collect();
        for (start, (end, by)) in overlapping {
            self.writers.remove(&start);
            if start < from {
                self.writers.insert(start, (from, by));
            }
            if end > to {
                self.writers.insert(to, (end, by));
            }
        }
        self.writers.insert(from, (to, node));
    }

    /// The latest truncation, hole or shift that a write or size there waits for.
    pub fn held_up_by(&self, from: u64, to: u64) -> Option<NodeId> {
        let mut cuts = self.cuts.iter().rev();
        let last = cuts.find(|cut| cut.holds_up(from, to));
        last.map(|cut| cut.node)
    }

    /// The program did this; where blocks are is different from here on.
    pub fn cut(&mut self, node: NodeId, what: CutKind) {
        self.cuts.push(Cut { node, what });
        match what {
            CutKind::Truncate { at } => {
                self.sure = self.sure.min(at);
                self.release(at.div_ceil(BLOCK_BYTES), u64::MAX);
            }
            CutKind::Punch { from, to } => {
                self.release(from.div_ceil(BLOCK_BYTES), to / BLOCK_BYTES);
            }
            CutKind::Collapse { at, length } => {
                self.shift(at, length, false);
                self.sure = if self.sure >= at + length {
                    self.sure - length
                } else {
                    self.sure.min(at)
                };
            }
            CutKind::Insert { at, length } => {
                self.shift(at, length, true);
                if self.sure > at {
                    self.sure += length;
                }
            }
        }
    }

    fn shift(&mut self, at: u64, length: u64, up: bool) {
        let (at, length) = (at / BLOCK_BYTES, length / BLOCK_BYTES);
        if !up {
            self.release(at, at + length);
        }
        let mut kept = BTreeMap::new();
        let mut moved = BTreeMap::new();
        for (start, end) in std::mem::take(&mut self.allocated) {
            if start < at {
                kept.insert(start, end.min(at));
            }
            if end > at {
                let start = start.max(at);
                if up {
                    moved.insert(start + length, end + length)
                } else {
                    moved.insert(start - length, end - length)
                };
            }
        }
        kept.extend(moved);
        self.allocated = kept;
        // Ranges of before mean other bytes now; whoever writes next waits for the shift.
        self.writers.clear();
    }

    /// A write is durable: its blocks are on the disk, wherever they are by now.
    pub fn became_allocated(&mut self, node: NodeId, from: u64, to: u64) {
        let (mut first, mut last) = (from / BLOCK_BYTES, to.div_ceil(BLOCK_BYTES));
        for index in 0..self.cuts.len() {
            let cut = self.cuts[index];
            if cut.node < node {
                continue;
            }
            match cut.what {
                CutKind::Truncate { at } => last = last.min(at.div_ceil(BLOCK_BYTES)),
                CutKind::Punch { from, to } => {
                    let (start, end) = (from.div_ceil(BLOCK_BYTES), to / BLOCK_BYTES);
                    if start <= first && end >= last {
                        return;
                    }
                    // What is left on both sides of a hole is rare; the longer side will do.
                    if start.saturating_sub(first) >= last.saturating_sub(end) {
                        last = last.min(start.max(first));
                    } else {
                        first = first.max(end.min(last));
                    }
                }
                CutKind::Collapse { at, length } => {
                    let (at, length) = (at / BLOCK_BYTES, length / BLOCK_BYTES);
                    let moved = |block: u64| {
                        if block > at {
                            block.saturating_sub(length).max(at)
                        } else {
                            block
                        }
                    };
                    (first, last) = (moved(first), moved(last));
                }
                CutKind::Insert { at, length } => {
                    let (at, length) = (at / BLOCK_BYTES, length / BLOCK_BYTES);
                    if first >= at {
                        (first, last) = (first + length, last + length);
                    } else {
                        last = last.min(at);
                    }
                }
            }
        }
        self.allocate(first, last);
    }

    /// A size is durable, as far as nothing since then took from it.
    pub fn became_sure(&mut self, node: NodeId, to: u64) {
        let mut size = to;
        for cut in self.cuts.iter().filter(|cut| cut.node > node) {
            size = match cut.what {
                CutKind::Truncate { at } => size.min(at),
                CutKind::Punch { .. } => size,
                CutKind::Collapse { at, length } => size.saturating_sub(length).max(size.min(at)),
                CutKind::Insert { at, length } if size > at => size + length,
                CutKind::Insert { .. } => size,
            };
        }
        self.sure = self.sure.max(size).min(self.size());
    }

    /// Nothing of it is pending any more.
    pub fn became_quiet(&mut self) {
        self.sure = self.size();
        self.writers.clear();
        self.cuts.clear();
        self.floating.clear();
        self.last_size = None;
    }
}
