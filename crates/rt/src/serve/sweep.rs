//! Ends whatever a run has left.
//!
//! The server is the reaper of all its descendants: one whose parent dies becomes the server's
//! child, whatever session or group it moved to. So nothing is left when, and only when, the server
//! has no children. Processes that fork while we look are first stopped, all of them, until none
//! moves any more; then they are killed together. While they are stopped nobody collects the dead,
//! so that no process id is given anew between the look and the kill.

use super::system;
use crate::memory::ScratchBlock;
use crate::others;
use crate::run::Slot;
use crate::sys::{self, File, Path};
use core::fmt::Write;

/// Looks that are taken to stop everybody before the killing starts regardless.
const LOOKS: usize = 200;

/// What is known of a process.
#[derive(Clone, Copy)]
struct Process {
    id: u32,
    parent: u32,
    state: u8,
}

/// Processes that fit. Further ones are met at the next look.
const CAPACITY: usize = 1 << 16;

/// All processes there are, by number.
struct Table {
    block: ScratchBlock,
    count: usize,
}

impl Table {
    fn new() -> Option<Table> {
        let block = ScratchBlock::new(CAPACITY * size_of::<Process>()).ok()?;
        Some(Table { block, count: 0 })
    }

    fn all(&self) -> &[Process] {
        // SAFETY: so many have been written; a block begins at a page.
        unsafe { core::slice::from_raw_parts(self.block.as_ptr().cast(), self.count) }
    }

    /// Looks at /proc. False if there is none.
    fn look(&mut self) -> bool {
        self.count = 0;
        let Some(Ok(folder)) =
            Path::new(b"/proc\0").map(|path| File::open(path, libc::O_RDONLY | libc::O_DIRECTORY))
        else {
            return false;
        };
        let Ok(mut names) = ScratchBlock::new(16 * sys::PAGE_BYTES) else {
            return false;
        };
        while let Ok(length @ 1..) = sys::read_folder(folder.number(), &mut names) {
            for id in others::entries(&names[..length]) {
                if let Some(process) = read(id)
                    && self.count < CAPACITY
                {
                    let list = self.block.as_mut_ptr().cast::<Process>();
                    // SAFETY: below the capacity.
                    unsafe { list.add(self.count).write(process) };
                    self.count += 1;
                }
            }
        }
        let list = self.block.as_mut_ptr().cast::<Process>();
        // SAFETY: so many have been written, and they are borrowed nowhere else.
        unsafe { core::slice::from_raw_parts_mut(list, self.count) }
            .sort_unstable_by_key(|process| process.id);
        self.count > 0
    }

    fn descends(&self, process: &Process, from: u32) -> bool {
        let mut parent = process.parent;
        // A table that was read while it changed may have circles.
        for _ in 0..self.count {
            if parent == from {
                return true;
            }
            match self
                .all()
                .binary_search_by_key(&parent, |process| process.id)
            {
                Ok(at) => parent = self.all()[at].parent,
                Err(_) => return false,
            }
        }
        false
    }

    fn each_descendant(&self, of: u32, then: impl FnMut(&Process)) {
        self.all()
            .iter()
            .filter(|process| self.descends(process, of))
            .for_each(then);
    }
}

fn read(id: u32) -> Option<Process> {
    let mut path = [0; 32];
    let mut slot = Slot {
        bytes: &mut path,
        length: 0,
    };
    write!(slot, "/proc/{id}/stat\0").ok()?;
    let length = slot.length;
    let file = File::open(Path::new(&path[..length])?, libc::O_RDONLY).ok()?;
    let mut text = [0; 128];
    let length = file.read_at(&mut text, 0).ok()?;
    let (state, parent) = parse(&text[..length])?;
    Some(Process { id, parent, state })
}

/// State and parent, from a line like `1 (name) S 0 ...`. The name may hold anything.
fn parse(line: &[u8]) -> Option<(u8, u32)> {
    let after_name = line.iter().rposition(|byte| *byte == b')')?;
    let mut fields = line.get(after_name + 2..)?.split(|byte| *byte == b' ');
    let state = *fields.next()?.first()?;
    let parent = core::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    Some((state, parent))
}

/// Kills all descendants of the server. They may not have ended when this returns, and more may
/// come to light: it is to be repeated until there are no children. `child` is where to begin if
/// the kernel does not tell who there is.
pub fn kill_all(server: u32, child: u32) {
    let is_known = Table::new().is_some_and(|mut table| {
        stop_all(&mut table, server);
        table.each_descendant(server, |process| {
            let _ = system::kill(process.id as i32, libc::SIGKILL);
        });
        table.count > 0
    });
    if !is_known {
        let _ = system::kill(-(child as i32), libc::SIGKILL);
        let _ = system::kill(child as i32, libc::SIGKILL);
    }
}

/// Stops all descendants, until a look finds none that can move.
fn stop_all(table: &mut Table, server: u32) {
    for _ in 0..LOOKS {
        if !table.look() {
            return;
        }
        let mut moving = 0;
        table.each_descendant(server, |process| {
            // The others are stopped, dead, or waiting in the kernel with a stop ahead of them.
            if matches!(process.state, b'R' | b'S') {
                moving += 1;
                let _ = system::kill(process.id as i32, libc::SIGSTOP);
            }
        });
        if moving == 0 {
            return;
        }
        sys::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_do_not_confuse() {
        assert_eq!(parse(b"17 (a) S 4 (b) R 12 17"), Some((b'R', 12)));
        assert_eq!(parse(b"17 (sh) T 1 17 17 0"), Some((b'T', 1)));
        assert_eq!(parse(b"17 (sh"), None);
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn a_process_descends_from_its_ancestors_alone() {
        let mut table = Table::new().unwrap();
        assert!(table.look());
        let own = read(sys::process_id()).unwrap();
        assert!(table.descends(&own, own.parent));
        assert!(!table.descends(&own, own.id));
    }
}
