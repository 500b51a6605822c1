//! The one order over all persistent-memory events of a recording.
//!
//! A page of the file `order`, mapped by every process of the recording, holds the next number.
//! While one thread of one process is all there is, a number is taken by an `xadd` without `lock`,
//! a quarter of the price: it is one instruction, so that a signal handler cannot come in between.
//! The page says when that is over: [`OrderPage::shared`] is set before a second thread or process
//! starts, where we can know it. Where we cannot (a process that somebody else started joins the
//! recording, a thread made without `pthread_create`), two threads may for the moment of one
//! instruction take the same number; what they did is unordered then anyway, and the reader
//! accepts it.

use crate::memory;
use crate::process::fatal;
use crate::run::Folder;
use crate::sys::{self, Errno, File, PAGE_BYTES};
use core::arch::asm;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crashpoint_abi::TRACE_VERSION;
use crashpoint_abi::layout::{ORDER_FILE, ORDER_NEXT_AT, STREAM_MAGIC};

#[repr(C, align(64))]
pub struct OrderPage {
    magic: [u8; 8],
    version: u32,
    reserved: [u32; 13],
    /// The next number.
    next: AtomicU64,
    /// Not 0 once more than one thread or process may take numbers.
    shared: AtomicU32,
    /// The process that may take numbers without `lock` while `shared` is 0.
    owner: AtomicU32,
}

const _: () = assert!(core::mem::offset_of!(OrderPage, next) == ORDER_NEXT_AT);

impl OrderPage {
    #[inline(always)]
    pub fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Relaxed) != 0
    }

    /// From now on numbers are taken with `lock`, by all.
    pub fn share(&self) {
        self.shared.store(1, Ordering::SeqCst);
    }

    #[inline(always)]
    pub fn take(&self) -> u64 {
        if self.is_shared() {
            self.take_shared()
        } else {
            self.take_alone()
        }
    }

    #[inline(always)]
    pub fn take_alone(&self) -> u64 {
        let mut number = 1u64;
        // SAFETY: as `fetch_add`, but atomic only towards this processor, see above.
        unsafe {
            asm!(
                "xadd qword ptr [{0}], {1}",
                in(reg) self.next.as_ptr(),
                inout(reg) number,
                options(nostack),
            );
        }
        number
    }

    #[inline(always)]
    pub fn take_shared(&self) -> u64 {
        self.next.fetch_add(1, Ordering::SeqCst)
    }

    /// A process begins to take numbers.
    pub fn join(&self, process: u32) {
        let exchange = |old| {
            let success = Ordering::SeqCst;
            self.owner
                .compare_exchange(old, process, success, Ordering::SeqCst)
        };
        if let Err(owner) = exchange(0)
            && owner != process
            && (sys::process_exists(owner) || exchange(owner).is_err())
        {
            self.share();
        }
    }

    /// A process takes no more numbers, or next to none.
    pub fn leave(&self, process: u32) {
        let (success, failure) = (Ordering::SeqCst, Ordering::Relaxed);
        let _ = self.owner.compare_exchange(process, 0, success, failure);
    }
}

/// Maps the page, making it if this is the first process of the recording.
pub fn open(folder: &Folder) -> &'static OrderPage {
    let path = |name: &str| folder.path(format_args!("{name}"));
    let Some(mut wanted) = path(ORDER_FILE) else {
        fatal(format_args!("no memory"));
    };
    for _ in 0..4 {
        let Some(wanted) = wanted.path() else { break };
        match File::open(wanted, libc::O_RDWR) {
            Ok(file) => return map(&file, folder),
            Err(Errno(libc::ENOENT)) => create(folder),
            Err(error) => folder.refuse(error),
        }
    }
    fatal(format_args!("the file that numbers events cannot be made"))
}

/// Makes the file under another name first: nobody ever sees it half written.
fn create(folder: &Folder) {
    let process = sys::process_id();
    let temporary = folder.path(format_args!("{ORDER_FILE}.{process}"));
    let wanted = folder.path(format_args!("{ORDER_FILE}"));
    let (Some(mut temporary), Some(mut wanted)) = (temporary, wanted) else {
        return;
    };
    let (Some(temporary), Some(wanted)) = (temporary.path(), wanted.path()) else {
        return;
    };
    let mut head = [0; ORDER_NEXT_AT + 8];
    head[..8].copy_from_slice(&STREAM_MAGIC);
    head[8..12].copy_from_slice(&TRACE_VERSION.to_le_bytes());
    head[ORDER_NEXT_AT..].copy_from_slice(&1u64.to_le_bytes());
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;
    let written = File::open(temporary, flags).and_then(|file| {
        file.allocate(PAGE_BYTES as u64)?;
        file.write_at(&head, 0)
    });
    if let Err(error) = written {
        let _ = sys::unlink(temporary);
        folder.refuse(error);
    }
    // Whoever links first has made it.
    let linked = sys::link(temporary, wanted);
    let _ = sys::unlink(temporary);
    if let Err(error) = linked
        && error != Errno(libc::EEXIST)
    {
        folder.refuse(error);
    }
}

fn map(file: &File, folder: &Folder) -> &'static OrderPage {
    let mut head = [0; 16];
    let read = file.read_at(&mut head, 0);
    if read != Ok(16) || head[..8] != STREAM_MAGIC || head[8..12] != TRACE_VERSION.to_le_bytes() {
        folder.refuse_with("it holds a recording of another version; choose another folder");
    }
    // SAFETY: no address is wanted.
    match unsafe { memory::file(file, PAGE_BYTES, 0) } {
        // SAFETY: a whole page, aligned, mapped for good; all fields that change are atomic.
        Ok(address) => unsafe { &*(address as *const OrderPage) },
        Err(error) => folder.refuse(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> OrderPage {
        OrderPage {
            magic: STREAM_MAGIC,
            version: TRACE_VERSION,
            reserved: [0; 13],
            next: AtomicU64::new(1),
            shared: AtomicU32::new(0),
            owner: AtomicU32::new(0),
        }
    }

    #[test]
    fn numbers_count_up_alone_and_shared() {
        let page = page();
        assert_eq!((page.take(), page.take()), (1, 2));
        page.share();
        assert_eq!((page.take(), page.take()), (3, 4));
    }

    #[test]
    fn a_second_living_process_makes_numbers_shared() {
        let page = page();
        page.join(std::process::id());
        assert!(!page.is_shared());
        page.join(1);
        assert!(page.is_shared());
    }

    #[test]
    fn a_process_that_left_or_died_does_not_count() {
        let page = page();
        page.join(7);
        page.leave(7);
        page.join(8);
        assert!(!page.is_shared());
        let dead = page;
        // No process has this number: it is above the kernel's limit.
        dead.owner.store(0x7fff_ffff, Ordering::SeqCst);
        dead.join(9);
        assert!(!dead.is_shared());
        assert_eq!(dead.owner.load(Ordering::SeqCst), 9);
    }
}
