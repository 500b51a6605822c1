//! The other threads of the process: letting them finish what they are in the middle of.
//!
//! A store and its hook are a few nanoseconds apart, but a thread may be stopped by the scheduler
//! between them. A thread that has run for some microseconds since then, or that waits in the
//! kernel, is in the middle of nothing.

use crate::memory::ScratchBlock;
use crate::run::Slot;
use crate::sys::{self, File, Path};
use core::fmt::Write;

/// Processor time after which a thread is past whatever it was in.
const PASSED_NS: u64 = 20_000;

/// Time after which waiting for starved threads ends.
const PATIENCE_NS: u64 = 50_000_000;

/// Waits until every other thread has run a little or waits in the kernel. False if one of them
/// did not get to run.
pub fn let_pass() -> bool {
    let Ok(mut names) = ScratchBlock::new(sys::PAGE_BYTES) else {
        return false;
    };
    let Some(Ok(folder)) = Path::new(b"/proc/self/task\0")
        .map(|path| File::open(path, libc::O_RDONLY | libc::O_DIRECTORY))
    else {
        return false;
    };
    let own = sys::thread_id();
    let deadline = sys::clock(libc::CLOCK_MONOTONIC) + PATIENCE_NS;
    loop {
        let length = match sys::read_folder(folder.number(), &mut names) {
            Ok(0) => return true,
            Ok(length) => length,
            Err(_) => return false,
        };
        for thread in entries(&names[..length]) {
            if thread != own && !has_passed(thread, deadline) {
                return false;
            }
        }
    }
}

/// The numbers among the names of a folder's entries, as the kernel lists them.
pub fn entries(mut list: &[u8]) -> impl Iterator<Item = u32> {
    /// Bytes before the name: inode, offset, length of the entry, type.
    const HEAD: usize = 19;
    core::iter::from_fn(move || {
        let length = u16::from_le_bytes([*list.get(16)?, *list.get(17)?]) as usize;
        let entry = list.get(..length).filter(|entry| entry.len() > HEAD)?;
        list = &list[length..];
        let name = entry[HEAD..].split(|byte| *byte == 0).next()?;
        Some(
            core::str::from_utf8(name)
                .ok()
                .and_then(|name| name.parse().ok()),
        )
    })
    .flatten()
}

fn has_passed(thread: u32, deadline: u64) -> bool {
    // The kernel's number for the processor time of a thread.
    let clock = (!(thread as i32) << 3) | 6;
    let start = sys::clock(clock);
    loop {
        if !is_runnable(thread) || sys::clock(clock) > start + PASSED_NS {
            return true;
        }
        if sys::clock(libc::CLOCK_MONOTONIC) > deadline {
            return false;
        }
        sys::yield_now();
    }
}

/// Whether a thread runs or would run if it could; false if it is gone.
fn is_runnable(thread: u32) -> bool {
    let mut path = [0; 48];
    let mut slot = Slot {
        bytes: &mut path,
        length: 0,
    };
    let _ = write!(slot, "/proc/self/task/{thread}/stat\0");
    let length = slot.length;
    let opened = Path::new(&path[..length]).map(|path| File::open(path, libc::O_RDONLY));
    let Some(Ok(file)) = opened else { return false };
    let mut text = [0; 128];
    let length = file.read_at(&mut text, 0).unwrap_or(0);
    // The name of the thread stands in parentheses, and may hold some itself.
    let after_name = text[..length].iter().rposition(|byte| *byte == b')');
    after_name.and_then(|at| text.get(at + 2)) == Some(&b'R')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn busy_and_sleeping_threads_let_us_pass() {
        let done = AtomicBool::new(false);
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    core::hint::spin_loop();
                }
            });
            scope.spawn(move || receiver.recv());
            // A machine under load may starve a thread for a while, but not every time.
            assert!((0..100).any(|_| let_pass()));
            done.store(true, Ordering::Relaxed);
            drop(sender);
        });
    }

    #[test]
    fn names_that_are_numbers_are_listed() {
        let mut list = std::vec::Vec::new();
        for name in [".", "..", "17", "4242"] {
            let length = (19 + name.len() + 1usize).next_multiple_of(8);
            let mut entry = std::vec![0; length];
            entry[16..18].copy_from_slice(&(length as u16).to_le_bytes());
            entry[19..19 + name.len()].copy_from_slice(name.as_bytes());
            list.extend(entry);
        }
        assert_eq!(entries(&list).collect::<std::vec::Vec<_>>(), [17, 4242]);
    }
}
