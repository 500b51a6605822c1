//! The linked files, programs and libraries, that instrumented objects are part of.
//!
//! They are looked up when an object registers and remembered: in a forked child or at the very
//! end, the loader cannot be asked any more.

use crate::memory;
use crate::proc;
use crate::sys::{self, File};
use crate::text::Text;
use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

#[derive(Clone, Copy)]
pub struct Binary {
    pub path: &'static [u8],
    /// What was added to the addresses in the file.
    pub bias: u64,
    /// Lowest and highest address.
    base: u64,
    end: u64,
}

/// Stands for a file that was not found.
pub static UNKNOWN: Binary = Binary {
    path: b"",
    bias: 0,
    base: 0,
    end: 0,
};

/// Most binaries that are remembered.
const CAPACITY: usize = 1 << 12;

static ENTRIES: AtomicPtr<Binary> = AtomicPtr::new(core::ptr::null_mut());
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn all() -> &'static [Binary] {
    let count = COUNT.load(Ordering::Acquire);
    if count == 0 {
        return &[];
    }
    // SAFETY: so many have been written, and none is changed.
    unsafe { core::slice::from_raw_parts(ENTRIES.load(Ordering::Acquire), count) }
}

/// Whether instrumented code was loaded between two addresses.
pub fn any_between(base: u64, end: u64) -> bool {
    all()
        .iter()
        .any(|binary| binary.base < end && base < binary.end)
}

/// What the loader says about the binary that holds an address.
struct Found<'a> {
    address: u64,
    then: &'a mut dyn FnMut(&[u8], Binary),
}

/// The binary that holds an address. The loader's lock is taken, so ours must not be held; the
/// loader calls one constructor at a time, so that one thread is here.
pub fn of(address: u64) -> &'static Binary {
    let mut result = None;
    let mut then = |path: &[u8], found: Binary| result = remember(path, found);
    let mut search = Found {
        address,
        then: &mut then,
    };
    let data = (&raw mut search).cast::<c_void>();
    // SAFETY: the callback gets what it expects.
    unsafe { libc::dl_iterate_phdr(Some(visit), data) };
    result.unwrap_or(&UNKNOWN)
}

fn remember(path: &[u8], found: Binary) -> Option<&'static Binary> {
    let is_same = |known: &&Binary| {
        known.path == path && (known.base, known.bias) == (found.base, found.bias)
    };
    if let Some(known) = all().iter().find(is_same) {
        return Some(known);
    }
    if ENTRIES.load(Ordering::Relaxed).is_null() {
        let place = memory::anonymous(CAPACITY * size_of::<Binary>()).ok()?;
        ENTRIES.store(place as *mut Binary, Ordering::Release);
    }
    let count = COUNT.load(Ordering::Relaxed);
    if count == CAPACITY {
        return None;
    }
    let mut text = Text::new().ok()?;
    text.push(path);
    let binary = Binary {
        path: text.leak(),
        ..found
    };
    // SAFETY: below the capacity, and nobody reads it before the count says so.
    unsafe { ENTRIES.load(Ordering::Relaxed).add(count).write(binary) };
    COUNT.store(count + 1, Ordering::Release);
    all().get(count)
}

unsafe extern "C" fn visit(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    data: *mut c_void,
) -> c_int {
    // SAFETY: the loader passes its description, and what `of` gave it.
    let (info, search) = unsafe { (&*info, &mut *data.cast::<Found<'_>>()) };
    let count = usize::from(info.dlpi_phnum);
    // SAFETY: as the loader says.
    let segments = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, count) };
    let loaded = segments
        .iter()
        .filter(|segment| segment.p_type == libc::PT_LOAD);
    let (mut base, mut end, mut holds) = (u64::MAX, 0, false);
    for segment in loaded {
        let start = info.dlpi_addr.wrapping_add(segment.p_vaddr);
        base = base.min(start);
        end = end.max(start + segment.p_memsz);
        holds |= search.address.wrapping_sub(start) < segment.p_memsz;
    }
    if !holds {
        return 0;
    }
    let found = Binary {
        path: b"",
        bias: info.dlpi_addr,
        base,
        end,
    };
    // SAFETY: the loader's name is terminated.
    let name = unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes_with_nul();
    with_absolute(name, |path| (search.then)(path, found));
    1
}

/// The path of what the loader calls by a name, which ends with a zero byte.
fn with_absolute(name: &[u8], then: impl FnOnce(&[u8])) {
    match name {
        // The program itself.
        [0] => proc::with_link(b"/proc/self/exe\0", then),
        [b'/', ..] => then(&name[..name.len() - 1]),
        _ => {
            let opened = sys::Path::new(name).and_then(|path| File::open(path, libc::O_PATH).ok());
            match opened {
                Some(file) => proc::with_descriptor_path(file.number(), then),
                None => then(&name[..name.len() - 1]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_finds_its_own_program() {
        let here = (&raw const UNKNOWN) as u64;
        let binary = of(here);
        assert_eq!(
            binary.path,
            std::env::current_exe()
                .unwrap()
                .as_os_str()
                .as_encoded_bytes()
        );
        assert!((binary.base..binary.end).contains(&here));
        assert!(any_between(here, here + 1));
        assert!(!any_between(0, 1));
        assert!(core::ptr::eq(of(here), binary));
    }

    #[test]
    fn an_address_of_no_binary_is_unknown() {
        assert_eq!(of(8).path, b"");
    }
}
