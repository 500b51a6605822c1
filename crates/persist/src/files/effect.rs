//! What one node does to a name or to a file, kept or lost.

use super::STALE_BYTE;
use super::op::{BLOCK_BYTES, Class, MicroOpKind};
use super::tree::Object;
use crashpoint_trace::files::{Allocation, InodeId, Slot};

/// A node's effect on a name.
pub(super) fn rename_slot(
    kind: &MicroOpKind<'_>,
    slot: Slot<'_>,
    value: Option<InodeId>,
) -> Option<InodeId> {
    let without = |inode: InodeId| value.filter(|value| *value != inode);
    match *kind {
        MicroOpKind::Link { inode, .. } | MicroOpKind::ExchangeHalf { inode, .. } => Some(inode),
        MicroOpKind::Unlink { inode, .. } => without(inode),
        MicroOpKind::Rename {
            from, to, inode, ..
        } => {
            if slot == to {
                Some(inode)
            } else if slot == from {
                // Somebody else may have taken the old name.
                without(inode)
            } else {
                value
            }
        }
        MicroOpKind::RenameTarget { to, inode, .. } => {
            if slot == to {
                Some(inode)
            } else {
                value
            }
        }
        MicroOpKind::RenameSource { inode, .. } => without(inode),
        MicroOpKind::Exchange {
            first,
            first_inode,
            second_inode,
            ..
        } => {
            if slot == first {
                Some(second_inode)
            } else {
                Some(first_inode)
            }
        }
        MicroOpKind::Create { .. }
        | MicroOpKind::Reserved { .. }
        | MicroOpKind::Write { .. }
        | MicroOpKind::Grow { .. }
        | MicroOpKind::Shrink { .. }
        | MicroOpKind::Allocate { .. }
        | MicroOpKind::SetXattr { .. }
        | MicroOpKind::SetMode { .. } => value,
    }
}

/// A node's effect on a file.
pub(super) fn change<'a>(kind: &MicroOpKind<'a>, object: &mut Object<'a>) {
    let content = &mut object.content;
    match *kind {
        MicroOpKind::Write {
            offset, data, grow, ..
        } => {
            content.write(offset, data);
            if let Some(grow) = grow {
                content.grow(grow.to);
            }
        }
        MicroOpKind::Grow { to, .. } => content.grow(to),
        MicroOpKind::Shrink { to, .. } => content.shrink(to),
        MicroOpKind::Allocate {
            offset,
            length,
            what,
            to,
            ..
        } => match what {
            Allocation::Reserve | Allocation::ReserveKeepSize => content.grow(to),
            Allocation::PunchHole | Allocation::ZeroKeepSize => content.punch(offset, length),
            Allocation::Zero => {
                content.punch(offset, length);
                content.grow(to);
            }
            Allocation::Collapse => content.collapse(offset, length),
            Allocation::Insert => content.insert(offset, length),
        },
        MicroOpKind::SetXattr { name, value, .. } => {
            match value {
                Some(value) => object.xattrs.insert(name, value),
                None => object.xattrs.remove(name),
            };
        }
        MicroOpKind::SetMode { mode, .. } => object.mode = mode,
        MicroOpKind::Create { .. }
        | MicroOpKind::Reserved { .. }
        | MicroOpKind::Link { .. }
        | MicroOpKind::Unlink { .. }
        | MicroOpKind::Rename { .. }
        | MicroOpKind::RenameTarget { .. }
        | MicroOpKind::RenameSource { .. }
        | MicroOpKind::Exchange { .. }
        | MicroOpKind::ExchangeHalf { .. } => {}
    }
}

/// What a lost write leaves where nothing was written before: a block that the file has got and
/// nobody has written, or the rest of one.
pub(super) fn lose(kind: &MicroOpKind<'_>, object: &mut Object<'_>, fresh: bool, tail: bool) {
    let MicroOpKind::Write {
        offset,
        data,
        class,
        ..
    } = *kind
    else {
        return;
    };
    let end = offset + data.len();
    let block = offset / BLOCK_BYTES * BLOCK_BYTES;
    let behind = end.div_ceil(BLOCK_BYTES) * BLOCK_BYTES;
    let content = &mut object.content;
    match class {
        Class::Over => {}
        Class::Tail => {
            if tail {
                content.fill_gaps(offset, end, STALE_BYTE);
            }
        }
        Class::Fresh | Class::Both => {
            let is_gap = content.is_gap(block, behind);
            if is_gap && fresh {
                content.fill_gaps(block, behind, STALE_BYTE);
            } else if !is_gap && tail {
                content.fill_gaps(offset, end, STALE_BYTE);
            }
        }
    }
}
