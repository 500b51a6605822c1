//! Micro-operations in words, for reports.

use super::op::{BLOCK_BYTES, MicroOp, MicroOpKind};
use crate::graph::NodeId;

impl MicroOp<'_> {
    /// What it does, as the object of a sentence: "the entry `CURRENT` by rename".
    pub fn text(&self) -> String {
        let path = &self.path;
        match self.kind {
            MicroOpKind::Create { .. } => format!("the file `{path}`"),
            MicroOpKind::Link { .. } => format!("the entry `{path}`"),
            MicroOpKind::Unlink { .. } => format!("the removal of `{path}`"),
            MicroOpKind::Rename { from, .. } => {
                let from = String::from_utf8_lossy(from.name);
                format!("the rename of `{from}` to `{path}`")
            }
            MicroOpKind::RenameTarget { .. } => format!("the entry `{path}` by rename"),
            MicroOpKind::RenameSource { .. } | MicroOpKind::Reserved { .. } => {
                format!("the removal of `{path}` by rename")
            }
            MicroOpKind::Exchange { first, .. } => {
                let first = String::from_utf8_lossy(first.name);
                format!("the exchange of `{first}` and `{path}`")
            }
            MicroOpKind::ExchangeHalf { .. } => format!("the entry `{path}` by exchange"),
            MicroOpKind::Write { offset, data, .. } => {
                let blocks = blocks(offset, data.len());
                match (blocks, data.len()) {
                    (1, bytes) if bytes < BLOCK_BYTES => {
                        format!("{} of `{path}`", counted(bytes, "byte"))
                    }
                    (blocks, _) => {
                        format!("{} of data of `{path}`", counted(blocks, "block"))
                    }
                }
            }
            MicroOpKind::Grow { to, .. } => {
                format!("the size of `{path}` ({})", counted(to, "byte"))
            }
            MicroOpKind::Shrink { to, .. } => {
                format!("the truncation of `{path}` to {}", counted(to, "byte"))
            }
            MicroOpKind::Allocate { .. } => format!("the change of extents of `{path}`"),
            MicroOpKind::SetXattr { name, .. } => {
                let name = String::from_utf8_lossy(name);
                format!("the attribute `{name}` of `{path}`")
            }
            MicroOpKind::SetMode { .. } => format!("the mode of `{path}`"),
        }
    }
}

fn blocks(offset: u64, length: u64) -> u64 {
    (offset + length).div_ceil(BLOCK_BYTES) - offset / BLOCK_BYTES
}

fn counted(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

/// What several micro-operations do, ascending: the data and the sizes that one call made of one
/// file are told together.
pub fn describe(nodes: &[MicroOp<'_>], ids: &[NodeId]) -> Vec<String> {
    let mut texts = Vec::new();
    let mut rest = ids;
    while let Some((first, behind)) = rest.split_first() {
        let op = &nodes[first.index()];
        let same = |id: &&NodeId| {
            let other = &nodes[id.index()];
            other.call == op.call && other.path == op.path && is_content(other)
        };
        if !is_content(op) {
            texts.push(op.text());
            rest = behind;
            continue;
        }
        let count = rest.iter().take_while(same).count();
        let (group, behind) = rest.split_at(count);
        texts.push(describe_content(nodes, group));
        rest = behind;
    }
    texts
}

/// Whether losing just these of the nodes takes a rename that lost the file: the old name gone and
/// the new one not there. POSIX does not exclude it, and every file system on Linux does.
pub fn needs_split_rename(nodes: &[MicroOp<'_>], lost: &[NodeId]) -> bool {
    lost.iter().any(|target| {
        let op = &nodes[target.index()];
        let MicroOpKind::RenameTarget { from, inode, .. } = op.kind else {
            return false;
        };
        // The halves of a rename are next to each other.
        let near = [target.0.checked_sub(1), target.0.checked_add(1)];
        near.into_iter().flatten().map(NodeId).any(|source| {
            let half = nodes.get(source.index()).map(|op| op.kind);
            let is_source = matches!(
                half,
                Some(MicroOpKind::RenameSource { from: own, inode: of, .. }) if own == from && of == inode
            );
            is_source && !lost.contains(&source)
        })
    })
}

fn is_content(op: &MicroOp<'_>) -> bool {
    matches!(
        op.kind,
        MicroOpKind::Write { .. } | MicroOpKind::Grow { .. }
    )
}

fn describe_content(nodes: &[MicroOp<'_>], group: &[NodeId]) -> String {
    if let [alone] = group {
        return nodes[alone.index()].text();
    }
    let (mut bytes, mut touched, mut last, mut size) = (0, 0, None, None);
    for id in group {
        match nodes[id.index()].kind {
            MicroOpKind::Write {
                offset, data, grow, ..
            } => {
                bytes += data.len();
                touched += blocks(offset, data.len());
                // Sectors of one block are one block.
                if last == Some(offset / BLOCK_BYTES) {
                    touched -= 1;
                }
                last = Some((offset + data.len() - 1) / BLOCK_BYTES);
                size = size.max(grow.map(|grow| grow.to));
            }
            MicroOpKind::Grow { to, .. } => size = size.max(Some(to)),
            MicroOpKind::Create { .. }
            | MicroOpKind::Reserved { .. }
            | MicroOpKind::Link { .. }
            | MicroOpKind::Unlink { .. }
            | MicroOpKind::Rename { .. }
            | MicroOpKind::RenameTarget { .. }
            | MicroOpKind::RenameSource { .. }
            | MicroOpKind::Exchange { .. }
            | MicroOpKind::ExchangeHalf { .. }
            | MicroOpKind::Shrink { .. }
            | MicroOpKind::Allocate { .. }
            | MicroOpKind::SetXattr { .. }
            | MicroOpKind::SetMode { .. } => {}
        }
    }
    let path = &nodes[group[0].index()].path;
    let data = match touched {
        0 => None,
        1 if bytes < BLOCK_BYTES => Some(counted(bytes, "byte")),
        blocks => Some(format!("{} of data", counted(blocks, "block"))),
    };
    match (data, size) {
        (Some(data), Some(_)) => format!("{data} and the size of `{path}`"),
        (Some(data), None) => format!("{data} of `{path}`"),
        (None, Some(to)) => format!("the size of `{path}` ({})", counted(to, "byte")),
        (None, None) => format!("nothing of `{path}`"),
    }
}
