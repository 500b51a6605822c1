//! What a set of operations looks like, from the beginning and byte by byte.

use super::super::op::BLOCK_BYTES;
use super::{Class, Op, Reference};
use crate::files::summary::attributes_text;
use crashpoint_trace::files::{Allocation, InodeId, InodeKind};
use std::collections::BTreeMap;

/// Of a block: never written, or written.
const UNWRITTEN: u16 = 0x200;
const UNKNOWN: u16 = 0x100;

#[derive(Clone, Default)]
struct File {
    size: usize,
    /// Also behind the end.
    cells: Vec<u16>,
    mode: Option<u32>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl File {
    fn room(&mut self, to: usize) {
        if self.cells.len() < to {
            self.cells.resize(to, UNWRITTEN);
        }
    }

    fn put(&mut self, from: u64, bytes: &[u8]) {
        let from = from as usize;
        self.room(from + bytes.len());
        for (cell, byte) in self.cells[from..].iter_mut().zip(bytes) {
            *cell = u16::from(*byte);
        }
    }

    fn lose(&mut self, from: u64, to: u64) {
        self.room(to as usize);
        for cell in &mut self.cells[from as usize..to as usize] {
            if *cell == UNWRITTEN {
                *cell = UNKNOWN;
            }
        }
    }

    fn text(&self) -> String {
        let mut runs: Vec<(String, usize)> = Vec::new();
        for index in 0..self.size {
            let cell = self.cells.get(index).copied().unwrap_or(UNWRITTEN);
            let shown = match cell {
                UNKNOWN => "?".to_owned(),
                0 | UNWRITTEN => "0".to_owned(),
                byte => char::from(byte as u8).to_string(),
            };
            match runs.last_mut() {
                Some((last, count)) if *last == shown => *count += 1,
                _ => runs.push((shown, 1)),
            }
        }
        let runs = runs.iter().map(|(shown, count)| format!("{shown}*{count}"));
        runs.collect::<Vec<_>>().join(",")
    }

    fn attributes(&self, usual: u32) -> String {
        let xattrs = self.xattrs.iter();
        attributes_text(
            self.mode.filter(|mode| *mode != usual),
            xattrs.map(|(name, value)| (&name[..], &value[..])),
        )
    }
}

type Names = BTreeMap<(InodeId, Vec<u8>), InodeId>;

pub(super) fn replay(reference: &Reference<'_>, kept: &[bool], stale: bool) -> String {
    let mut files: BTreeMap<InodeId, File> = BTreeMap::new();
    let mut names = Names::new();
    for initial in &reference.before.inodes {
        let mut file = File {
            size: initial.bytes.len(),
            ..File::default()
        };
        file.put(0, initial.bytes);
        files.insert(initial.inode, file);
    }
    for (slot, inode) in &reference.before.entries {
        names.insert((slot.directory, slot.name.to_vec()), *inode);
    }
    for (step, kept) in reference.steps.iter().zip(kept) {
        if *kept {
            apply(&step.op, &mut files, &mut names);
        } else if stale {
            lose(&step.op, &mut files);
        }
    }
    let mut out = Vec::new();
    let mut first: BTreeMap<InodeId, String> = BTreeMap::new();
    let mut paths: BTreeMap<String, InodeId> = BTreeMap::new();
    walk(
        reference,
        &names,
        "",
        InodeId::ROOT,
        &mut vec![InodeId::ROOT],
        &mut paths,
    );
    for (path, inode) in paths {
        let file = files.entry(inode).or_default();
        match reference.kinds[&inode] {
            InodeKind::Directory => out.push(format!("{path}/{}", file.attributes(0o755))),
            InodeKind::File | InodeKind::Symlink { .. } | InodeKind::Other => {
                if let Some(other) = first.get(&inode) {
                    out.push(format!("{path}=>{other}"));
                } else {
                    out.push(format!("{path}{}={}", file.attributes(0o644), file.text()));
                    first.insert(inode, path);
                }
            }
        }
    }
    if out.is_empty() {
        "-".to_owned()
    } else {
        out.join(" ")
    }
}

fn walk(
    reference: &Reference<'_>,
    names: &Names,
    path: &str,
    directory: InodeId,
    above: &mut Vec<InodeId>,
    paths: &mut BTreeMap<String, InodeId>,
) {
    for ((parent, name), inode) in names {
        if *parent != directory || above.contains(inode) {
            continue;
        }
        let name = String::from_utf8_lossy(name);
        let inner = if path.is_empty() {
            name.into_owned()
        } else {
            format!("{path}/{name}")
        };
        if reference.kinds[inode] == InodeKind::Directory {
            above.push(*inode);
            walk(reference, names, &inner, *inode, above, paths);
            above.pop();
        }
        paths.insert(inner, *inode);
    }
}

fn apply(op: &Op<'_>, files: &mut BTreeMap<InodeId, File>, names: &mut Names) {
    let key = |slot: &crashpoint_trace::files::Slot<'_>| (slot.directory, slot.name.to_vec());
    let leave = |names: &mut Names, slot, inode: &InodeId| {
        if names.get(&key(slot)) == Some(inode) {
            names.remove(&key(slot));
        }
    };
    match op {
        Op::Inode(inode) => {
            files.insert(*inode, File::default());
        }
        Op::Link(slot, inode) | Op::Take(slot, inode, _) => {
            names.insert(key(slot), *inode);
        }
        Op::Unlink(slot, inode) | Op::Leave(slot, inode) => leave(names, slot, inode),
        Op::Rename(from, to, inode, _) => {
            leave(names, from, inode);
            names.insert(key(to), *inode);
        }
        Op::Exchange([first, second]) => {
            names.insert(key(&first.0), second.1);
            names.insert(key(&second.0), first.1);
        }
        Op::Data {
            inode,
            from,
            bytes,
            grows,
            ..
        } => {
            let file = files.entry(*inode).or_default();
            file.put(*from, bytes);
            if *grows {
                file.size = file.size.max(*from as usize + bytes.len());
            }
        }
        Op::Grow { inode, to, .. } => {
            let file = files.entry(*inode).or_default();
            file.size = file.size.max(*to as usize);
        }
        Op::Shrink(inode, to) => {
            let file = files.entry(*inode).or_default();
            file.size = *to as usize;
            file.cells.truncate(*to as usize);
        }
        Op::Extents {
            inode,
            from,
            to,
            what,
            size,
        } => {
            let file = files.entry(*inode).or_default();
            match what {
                Allocation::Reserve => file.size = file.size.max(*size as usize),
                _ => {
                    file.room(*to as usize);
                    file.cells[*from as usize..*to as usize].fill(UNWRITTEN);
                }
            }
        }
        Op::Attribute(inode, name, value) => {
            let file = files.entry(*inode).or_default();
            if name.is_empty() {
                let mode = value.as_slice().try_into().expect("four bytes of mode");
                file.mode = Some(u32::from_le_bytes(mode));
            } else {
                file.xattrs.insert(name.to_vec(), value.clone());
            }
        }
    }
}

/// A block that a file has got and nobody has written shows what the disk held; so does the rest of
/// the last one.
fn lose(op: &Op<'_>, files: &mut BTreeMap<InodeId, File>) {
    let Op::Data {
        inode,
        from,
        bytes,
        class,
        ..
    } = op
    else {
        return;
    };
    let file = files.entry(*inode).or_default();
    let to = from + bytes.len() as u64;
    match class {
        Class::Over => {}
        Class::Tail => file.lose(*from, to),
        Class::Fresh => {
            let block = from / BLOCK_BYTES * BLOCK_BYTES;
            file.room((block + BLOCK_BYTES) as usize);
            let cells = &file.cells[block as usize..(block + BLOCK_BYTES) as usize];
            if cells.iter().all(|cell| *cell == UNWRITTEN) {
                file.lose(block, block + BLOCK_BYTES)
            } else {
                file.lose(*from, to)
            }
        }
    }
}
