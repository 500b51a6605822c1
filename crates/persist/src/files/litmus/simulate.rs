//! A file system that never crashes: what the operations of a litmus test do.

use super::{LitmusFile, LitmusOp, WriteFlags};
use crashpoint_trace::files::{
    Allocation, Before, Call, Effect, Initial, InodeId, InodeKind, Slot, SyncKind, Through,
};
use std::collections::BTreeMap;

const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    LitmusFile,
    Directory,
    Symlink,
}

/// What an inode holds, while that matters: of a file, how long it is.
#[derive(Clone, Debug, Default)]
struct Node {
    entries: BTreeMap<String, InodeId>,
    size: u64,
}

/// An inode that the setup leaves.
#[derive(Clone, Debug)]
struct Made {
    shape: Shape,
    mode: u32,
    bytes: Vec<u8>,
    target: String,
    xattrs: Vec<(String, Vec<u8>)>,
}

/// What the setup leaves.
#[derive(Clone, Debug, Default)]
pub(super) struct Start {
    made: Vec<Made>,
    entries: Vec<(InodeId, String, InodeId)>,
}

/// Names, sizes and open files at the moment.
struct World {
    nodes: Vec<Node>,
    handles: BTreeMap<String, InodeId>,
}

impl World {
    fn new() -> World {
        World {
            nodes: vec![Node::default()],
            handles: BTreeMap::new(),
        }
    }

    fn of(start: &Start) -> World {
        let mut world = World {
            nodes: start.made.iter().map(|_| Node::default()).collect(),
            handles: BTreeMap::new(),
        };
        for (node, made) in world.nodes.iter_mut().zip(&start.made) {
            node.size = made.bytes.len() as u64;
        }
        for (directory, name, inode) in &start.entries {
            let entries = &mut world.nodes[directory.index()].entries;
            entries.insert(name.clone(), *inode);
        }
        world
    }

    fn add(&mut self) -> InodeId {
        self.nodes.push(Node::default());
        InodeId(self.nodes.len() as u32 - 1)
    }

    fn find(&self, path: &str) -> Result<InodeId, String> {
        let mut inode = InodeId::ROOT;
        for name in path.split('/').filter(|name| *name != ".") {
            let entry = self.nodes[inode.index()].entries.get(name);
            inode = *entry.ok_or_else(|| format!("there is no `{path}`"))?;
        }
        Ok(inode)
    }

    fn slot<'p>(&self, path: &'p str) -> Result<Slot<'p>, String> {
        let (directory, name) = path.rsplit_once('/').unwrap_or((".", path));
        Ok(Slot {
            directory: self.find(directory)?,
            name: name.as_bytes(),
        })
    }

    fn file(&self, file: &LitmusFile) -> Result<InodeId, String> {
        match file {
            LitmusFile::Path(path) => self.find(path),
            LitmusFile::Handle(handle) => {
                let inode = self.handles.get(handle);
                inode
                    .copied()
                    .ok_or_else(|| format!("nothing is open as `{handle}`"))
            }
        }
    }

    fn size(&mut self, inode: InodeId) -> &mut u64 {
        &mut self.nodes[inode.index()].size
    }

    fn insert(&mut self, slot: Slot<'_>, inode: InodeId) -> Option<InodeId> {
        let name = String::from_utf8_lossy(slot.name).into_owned();
        let entries = &mut self.nodes[slot.directory.index()].entries;
        entries.insert(name, inode)
    }

    fn remove(&mut self, slot: Slot<'_>) {
        let name = String::from_utf8_lossy(slot.name);
        let entries = &mut self.nodes[slot.directory.index()].entries;
        entries.remove(name.as_ref());
    }
}

/// Executes the setup.
pub(super) fn start(setup: &[LitmusOp]) -> Result<Start, String> {
    let mut world = World::new();
    let mut objects: Vec<Made> = vec![Made::new(Shape::Directory)];
    for op in setup {
        let effects = effects(&mut world, op, |_| &[])?;
        for effect in effects {
            made(&mut objects, &effect)?;
        }
    }
    let mut entries = Vec::new();
    for (directory, node) in (0..).zip(&world.nodes) {
        for (name, inode) in &node.entries {
            entries.push((InodeId(directory), name.clone(), *inode));
        }
    }
    Ok(Start {
        made: objects,
        entries,
    })
}

impl Made {
    fn new(shape: Shape) -> Made {
        let mode = match shape {
            Shape::LitmusFile => FILE_MODE,
            Shape::Directory => DIRECTORY_MODE,
            Shape::Symlink => 0o777,
        };
        Made {
            shape,
            mode,
            bytes: Vec::new(),
            target: String::new(),
            xattrs: Vec::new(),
        }
    }
}

fn made(objects: &mut Vec<Made>, effect: &Effect<'_>) -> Result<(), String> {
    match *effect {
        Effect::New { kind, .. } => {
            let mut new = Made::new(match kind {
                InodeKind::Directory => Shape::Directory,
                InodeKind::Symlink { .. } => Shape::Symlink,
                InodeKind::File | InodeKind::Other => Shape::LitmusFile,
            });
            if let InodeKind::Symlink { target } = kind {
                new.target = String::from_utf8_lossy(target).into_owned();
            }
            objects.push(new);
        }
        Effect::Write {
            inode,
            offset,
            bytes,
            ..
        } => {
            let (start, content) = (offset as usize, &mut objects[inode.index()].bytes);
            let end = start + bytes.len();
            content.resize(content.len().max(end), 0);
            content[start..end].copy_from_slice(bytes);
        }
        Effect::Resize { inode, to, .. } => objects[inode.index()].bytes.resize(to as usize, 0),
        Effect::SetXattr { inode, name, value } => {
            let name = String::from_utf8_lossy(name).into_owned();
            let value = value.unwrap_or_default().to_vec();
            objects[inode.index()].xattrs.push((name, value));
        }
        Effect::SetMode { inode, mode } => objects[inode.index()].mode = mode,
        Effect::Allocate { .. } => return Err("fallocate is not for the setup".to_owned()),
        Effect::Link { .. }
        | Effect::Unlink { .. }
        | Effect::Rename { .. }
        | Effect::Exchange { .. }
        | Effect::Sync(_)
        | Effect::LastClose { .. }
        | Effect::Output { .. } => {}
    }
    Ok(())
}

/// Whether the program can be executed.
pub(super) fn check(start: &Start, program: &[LitmusOp]) -> Result<(), String> {
    let mut world = World::of(start);
    for op in program {
        effects(&mut world, op, |inode| bytes(start, inode))?;
    }
    Ok(())
}

fn bytes(start: &Start, inode: InodeId) -> &[u8] {
    let made = start.made.get(inode.index());
    made.map_or(&[], |made| &made.bytes)
}

pub(super) fn calls<'a>(
    start: &'a Start,
    program: &'a [LitmusOp],
    texts: &'a [String],
) -> (Before<'a>, Vec<Call<'a>>) {
    let inodes = (0..).zip(&start.made).map(|(inode, made)| Initial {
        inode: InodeId(inode),
        kind: match made.shape {
            Shape::LitmusFile => InodeKind::File,
            Shape::Directory => InodeKind::Directory,
            Shape::Symlink => InodeKind::Symlink {
                target: made.target.as_bytes(),
            },
        },
        mode: made.mode,
        xattrs: made
            .xattrs
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_slice()))
            .collect(),
        bytes: &made.bytes,
    });
    let entries = start.entries.iter().map(|(directory, name, inode)| {
        let slot = Slot {
            directory: *directory,
            name: name.as_bytes(),
        };
        (slot, *inode)
    });
    let before = Before {
        inodes: inodes.collect(),
        entries: entries.collect(),
    };
    let mut world = World::of(start);
    let calls = (1..).zip(program.iter().zip(texts));
    let calls = calls.map(|(order, (op, text))| {
        let effects = effects(&mut world, op, |inode| bytes(start, inode));
        let effects = effects.expect("the program was checked when it was read");
        Call::of_one_thread(order, text, effects)
    });
    (before, calls.collect())
}

/// What an operation does. `source` tells what a file held after the setup.
fn effects<'a>(
    world: &mut World,
    op: &'a LitmusOp,
    source: impl Fn(InodeId) -> &'a [u8],
) -> Result<Vec<Effect<'a>>, String> {
    Ok(match op {
        LitmusOp::Create { path } => new(world, path, Shape::LitmusFile, "")?,
        LitmusOp::Mkdir { path } => new(world, path, Shape::Directory, "")?,
        LitmusOp::Symlink { target, path } => new(world, path, Shape::Symlink, target)?,
        LitmusOp::Link { file, path } => {
            let (inode, slot) = (world.file(file)?, world.slot(path)?);
            world.insert(slot, inode);
            vec![Effect::Link { slot, inode }]
        }
        LitmusOp::Unlink { path } | LitmusOp::Rmdir { path } => {
            let (inode, slot) = (world.find(path)?, world.slot(path)?);
            world.remove(slot);
            vec![Effect::Unlink { slot, inode }]
        }
        LitmusOp::Rename { from, to } => {
            let inode = world.find(from)?;
            let (from, to) = (world.slot(from)?, world.slot(to)?);
            world.remove(from);
            let victim = world.insert(to, inode);
            vec![Effect::Rename {
                from,
                to,
                inode,
                victim,
            }]
        }
        LitmusOp::Exchange { first, second } => {
            let (first_inode, second_inode) = (world.find(first)?, world.find(second)?);
            let (first, second) = (world.slot(first)?, world.slot(second)?);
            world.insert(first, second_inode);
            world.insert(second, first_inode);
            vec![Effect::Exchange {
                first,
                first_inode,
                second,
                second_inode,
            }]
        }
        LitmusOp::Open { handle, path } => {
            let inode = world.find(path)?;
            world.handles.insert(handle.clone(), inode);
            Vec::new()
        }
        LitmusOp::Tmpfile { handle, directory } => {
            world.find(directory)?;
            let inode = world.add();
            world.handles.insert(handle.clone(), inode);
            vec![Effect::New {
                inode,
                kind: InodeKind::File,
                mode: FILE_MODE,
            }]
        }
        LitmusOp::Close { handle } => {
            let inode = world.handles.remove(handle);
            let inode = inode.ok_or_else(|| format!("nothing is open as `{handle}`"))?;
            vec![Effect::LastClose { inode }]
        }
        LitmusOp::Write {
            file,
            offset,
            bytes,
            how,
        } => write(world, file, Some(*offset), bytes, *how)?,
        LitmusOp::Append { file, bytes, how } => write(world, file, None, bytes, *how)?,
        LitmusOp::Truncate { file, size } => {
            let inode = world.file(file)?;
            let from = std::mem::replace(world.size(inode), *size);
            vec![Effect::Resize {
                inode,
                from,
                to: *size,
            }]
        }
        LitmusOp::Allocate {
            file,
            offset,
            length,
            what,
        } => allocate(world, file, (*offset, *length), *what)?,
        LitmusOp::Copy { from, to } => {
            let bytes = source(world.find(from)?);
            let inode = world.file(to)?;
            let size = world.size(inode);
            *size = (*size).max(bytes.len() as u64);
            vec![Effect::Write {
                inode,
                offset: 0,
                bytes,
                through: Through::Copy,
            }]
        }
        LitmusOp::Store {
            file,
            offset,
            bytes,
        } => {
            let inode = world.file(file)?;
            if offset + bytes.len() as u64 > *world.size(inode) {
                return Err("a store behind the end of the file".to_owned());
            }
            vec![Effect::Write {
                inode,
                offset: *offset,
                bytes,
                through: Through::Mapping,
            }]
        }
        LitmusOp::Msync { file, range, waits } => {
            let inode = world.file(file)?;
            let sync = SyncKind::DataRange {
                inode,
                offset: range.start,
                length: range.end - range.start,
            };
            if *waits {
                vec![Effect::Sync(sync)]
            } else {
                Vec::new()
            }
        }
        LitmusOp::SetXattr { file, name, value } => vec![Effect::SetXattr {
            inode: world.file(file)?,
            name: name.as_bytes(),
            value: Some(value),
        }],
        LitmusOp::Chmod { file, mode } => vec![Effect::SetMode {
            inode: world.file(file)?,
            mode: *mode,
        }],
        LitmusOp::Fsync { file } => vec![Effect::Sync(SyncKind::Full(world.file(file)?))],
        LitmusOp::FailedFsync { file } => {
            world.file(file)?;
            Vec::new()
        }
        LitmusOp::Fdatasync { file } => vec![Effect::Sync(SyncKind::Data(world.file(file)?))],
        LitmusOp::SyncFileRange {
            file,
            offset,
            length,
        } => vec![Effect::Sync(SyncKind::WriteOut {
            inode: world.file(file)?,
            offset: *offset,
            length: *length,
        })],
        LitmusOp::Sync | LitmusOp::Syncfs => vec![Effect::Sync(SyncKind::Everything)],
    })
}

fn new<'a>(
    world: &mut World,
    path: &'a str,
    shape: Shape,
    target: &'a str,
) -> Result<Vec<Effect<'a>>, String> {
    let slot = world.slot(path)?;
    let inode = world.add();
    if world.insert(slot, inode).is_some() {
        return Err(format!("`{path}` is there already"));
    }
    let made = Made::new(shape);
    let kind = match shape {
        Shape::LitmusFile => InodeKind::File,
        Shape::Directory => InodeKind::Directory,
        Shape::Symlink => InodeKind::Symlink {
            target: target.as_bytes(),
        },
    };
    let new = Effect::New {
        inode,
        kind,
        mode: made.mode,
    };
    Ok(vec![new, Effect::Link { slot, inode }])
}

fn write<'a>(
    world: &mut World,
    file: &LitmusFile,
    offset: Option<u64>,
    bytes: &'a [u8],
    how: WriteFlags,
) -> Result<Vec<Effect<'a>>, String> {
    let inode = world.file(file)?;
    let size = world.size(inode);
    let offset = offset.unwrap_or(*size);
    let length = bytes.len() as u64;
    *size = (*size).max(offset + length);
    let mut effects = vec![Effect::Write {
        inode,
        offset,
        bytes,
        through: match how {
            WriteFlags::Direct => Through::Direct,
            WriteFlags::Plain | WriteFlags::Dsync | WriteFlags::Sync => Through::Cache,
        },
    }];
    match how {
        WriteFlags::Plain | WriteFlags::Direct => {}
        WriteFlags::Dsync => effects.push(Effect::Sync(SyncKind::DataRange {
            inode,
            offset,
            length,
        })),
        WriteFlags::Sync => effects.push(Effect::Sync(SyncKind::FullRange {
            inode,
            offset,
            length,
        })),
    }
    Ok(effects)
}

fn allocate<'a>(
    world: &mut World,
    file: &LitmusFile,
    range: (u64, u64),
    what: Allocation,
) -> Result<Vec<Effect<'a>>, String> {
    let inode = world.file(file)?;
    let (offset, length) = range;
    let size = world.size(inode);
    match what {
        Allocation::Reserve | Allocation::Zero => *size = (*size).max(offset + length),
        Allocation::ReserveKeepSize | Allocation::PunchHole | Allocation::ZeroKeepSize => {}
        Allocation::Collapse if offset + length >= *size => {
            return Err("a range at the end of a file cannot be collapsed".to_owned());
        }
        Allocation::Collapse => *size -= length,
        Allocation::Insert => *size += length,
    }
    Ok(vec![Effect::Allocate {
        inode,
        offset,
        length,
        what,
    }])
}
