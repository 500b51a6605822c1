//! Which pages of a range this process has touched.

use crate::sys::{File, PAGE_BYTES, Path};

const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
/// A page of a file, or of anonymous memory that is shared.
const OF_FILE: u64 = 1 << 61;

/// Calls `then` with each run of pages that are present. If the kernel does not say, all are.
pub fn each_present(base: u64, end: u64, mut then: impl FnMut(u64, u64)) {
    let page = PAGE_BYTES as u64;
    let (base, end) = (base & !(page - 1), end.next_multiple_of(page));
    let opened = Path::new(b"/proc/self/pagemap\0").map(|path| File::open(path, libc::O_RDONLY));
    let Some(Ok(file)) = opened else {
        return then(base, end);
    };
    let mut entries = [0u8; 2048];
    let mut at = base;
    // The run of present pages that ends at `at`.
    let mut start = base;
    while at < end {
        let wanted = (((end - at) / page) as usize * 8).min(entries.len());
        let read = file
            .read_at(&mut entries[..wanted], at / page * 8)
            .unwrap_or(0)
            / 8
            * 8;
        if read == 0 {
            return then(start, end);
        }
        for entry in entries[..read].as_chunks::<8>().0 {
            if u64::from_le_bytes(*entry) & (PRESENT | SWAPPED) == 0 {
                if start < at {
                    then(start, at);
                }
                start = at + page;
            }
            at += page;
        }
    }
    if start < end {
        then(start, end);
    }
}

/// Whether a range of a private mapping of a file has pages that were stored to. If the kernel does
/// not say, it has.
pub fn has_own(base: u64, end: u64) -> bool {
    let page = PAGE_BYTES as u64;
    let opened = Path::new(b"/proc/self/pagemap\0").map(|path| File::open(path, libc::O_RDONLY));
    let Some(Ok(file)) = opened else { return true };
    let mut entries = [0u8; 2048];
    let mut at = base & !(page - 1);
    while at < end {
        let wanted = (((end - at).div_ceil(page)) as usize * 8).min(entries.len());
        let read = file.read_at(&mut entries[..wanted], at / page * 8);
        let read = read.unwrap_or(0) / 8 * 8;
        if read == 0 {
            return true;
        }
        for entry in entries[..read].as_chunks::<8>().0 {
            let entry = u64::from_le_bytes(*entry);
            if entry & (PRESENT | SWAPPED) != 0 && entry & OF_FILE == 0 {
                return true;
            }
            at += page;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory;
    use std::vec::Vec;

    #[test]
    fn only_touched_pages_are_present() {
        let pages = 2000u64;
        let page = PAGE_BYTES as u64;
        let base = memory::shared((pages * page) as usize).unwrap() as u64;
        for touched in [0, 1, 700, 1999] {
            // SAFETY: our own memory.
            unsafe { ((base + touched * page) as *mut u8).write_volatile(1) };
        }
        let mut runs = Vec::new();
        each_present(base, base + pages * page, |from, to| {
            runs.push(((from - base) / page, (to - base) / page));
        });
        assert_eq!(runs, [(0, 2), (700, 701), (1999, 2000)]);
        // SAFETY: our own memory.
        unsafe { memory::unmap(base as usize, (pages * page) as usize) }.unwrap();
    }
}
