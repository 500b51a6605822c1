//! What one node does to a name or to a file, kept or lost.

use super::STALE_BYTE;
use super::op::{BLOCK_BYTES, Class, Kind};
use super::tree::Object;
use crashpoint_trace::files::{Allocation, InodeId, Slot};

/// A node's effect on a name.
pub(super) fn rename_slot(
    kind: &Kind<'_>,
    slot: Slot<'_>,
    value: Option<InodeId>,
) -> Option<InodeId> {
    let without = |inode: InodeId| value.filter(|value| *value != inode);
    match *kind {
        Kind::Link { inode, .. } | Kind::ExchangeHalf { inode, .. } => Some(inode),
        Kind::Unlink { inode, .. } => without(inode),
        Kind::Rename {
            from, to, inode, ..
        } => match slot == to {
            true => Some(inode),
            // Somebody else may have taken the old name.
            false if slot == from => without(inode),
            false => value,
        },
        Kind::RenameTarget { to, inode, .. } => match slot == to {
            true => Some(inode),
            false => value,
        },
        Kind::RenameSource { inode, .. } => without(inode),
        Kind::Exchange {
            first,
            first_inode,
            second_inode,
            ..
        } => match slot == first {
            true => Some(second_inode),
            false => Some(first_inode),
        },
        Kind::Create { .. }
        | Kind::Reserved { .. }
        | Kind::Write { .. }
        | Kind::Grow { .. }
        | Kind::Shrink { .. }
        | Kind::Allocate { .. }
        | Kind::SetXattr { .. }
        | Kind::SetMode { .. } => value,
    }
}

/// A node's effect on a file.
pub(super) fn change<'a>(kind: &Kind<'a>, object: &mut Object<'a>) {
    let content = &mut object.content;
    match *kind {
        Kind::Write {
            offset, data, grow, ..
        } => {
            content.write(offset, data);
            if let Some(grow) = grow {
                content.grow(grow.to);
            }
        }
        Kind::Grow { to, .. } => content.grow(to),
        Kind::Shrink { to, .. } => content.shrink(to),
        Kind::Allocate {
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
        Kind::SetXattr { name, value, .. } => {
            match value {
                Some(value) => object.xattrs.insert(name, value),
                None => object.xattrs.remove(name),
            };
        }
        Kind::SetMode { mode, .. } => object.mode = mode,
        Kind::Create { .. }
        | Kind::Reserved { .. }
        | Kind::Link { .. }
        | Kind::Unlink { .. }
        | Kind::Rename { .. }
        | Kind::RenameTarget { .. }
        | Kind::RenameSource { .. }
        | Kind::Exchange { .. }
        | Kind::ExchangeHalf { .. } => {}
    }
}

/// What a lost write leaves where nothing was written before: a block that the file has got and
/// nobody has written, or the rest of one.
pub(super) fn lose(kind: &Kind<'_>, object: &mut Object<'_>, fresh: bool, tail: bool) {
    let Kind::Write {
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
        Class::Fresh | Class::Both => match content.is_gap(block, behind) {
            true if fresh => content.fill_gaps(block, behind, STALE_BYTE),
            false if tail => content.fill_gaps(offset, end, STALE_BYTE),
            true | false => {}
        },
    }
}
