//! What one node does to a name or to a file, kept or lost.

use super::STALE_BYTE;
use super::op::{BLOCK_BYTES, Class, MicroOpKind, NewHolder, Touched};
use super::tree::Object;
use crashpoint_trace::files::{Allocation, InodeId, Slot};

/// A node's effect on a name.
pub(super) fn rename_slot(
    kind: &MicroOpKind<'_>,
    slot: Slot<'_>,
    value: Option<InodeId>,
) -> Option<InodeId> {
    let Touched::Names(first, second) = kind.touched() else {
        return value;
    };
    // Of a file that is renamed to its own name, the new name counts.
    let mut changes = second.into_iter().chain([first]);
    match changes.find(|change| change.slot == slot) {
        Some(change) => match change.to {
            NewHolder::Inode(inode) => Some(inode),
            NewHolder::NoLonger(inode) => value.filter(|value| *value != inode),
        },
        None => value,
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
        other => match other.touched() {
            Touched::Nothing | Touched::Names(..) => {}
            Touched::Content(..) => unreachable!("what changes a file is listed above"),
        },
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
