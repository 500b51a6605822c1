//! Which linked objects (the program and its libraries) have code that was built with hooks.
//!
//! They register in their constructors. In a static program those run before ours; elsewhere ours
//! comes first, and the objects are told by what they refer to: every one with hooks needs the
//! function by which it registers.

use core::ffi::{CStr, c_void};
use crashpoint_abi::hooks;
use libc::{Elf64_Rela, Elf64_Sym, c_int, dl_phdr_info, size_t};

/// An entry of a dynamic section.
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: u64,
}

const END: i64 = 0;
const CALL_RELOCATION_BYTES: i64 = 2;
const STRINGS: i64 = 5;
const SYMBOLS: i64 = 6;
const RELOCATIONS: i64 = 7;
const RELOCATION_BYTES: i64 = 8;
const CALL_RELOCATIONS: i64 = 23;

/// How many there are.
pub fn count() -> u32 {
    let mut referring = 0u32;
    // SAFETY: `visit` takes what is passed here.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut referring).cast()) };
    referring.max(crate::modules::registered_objects())
}

unsafe extern "C" fn visit(info: *mut dl_phdr_info, _size: size_t, count: *mut c_void) -> c_int {
    // SAFETY: the loader describes an object that is loaded; the count is the caller's.
    unsafe {
        if refers(&*info) {
            *count.cast::<u32>() += 1;
        }
    }
    0
}

/// An address, and the object that it lies in once that is found.
struct Search {
    address: u64,
    base: u64,
    end: u64,
}

/// Whether an address is one of code in an object with hooks.
pub fn has_hooks(address: u64) -> bool {
    let mut search = Search {
        address,
        base: 0,
        end: 0,
    };
    // SAFETY: `find` takes what is passed here.
    unsafe { libc::dl_iterate_phdr(Some(find), (&raw mut search).cast()) };
    crate::modules::any_between(search.base, search.end)
}

unsafe extern "C" fn find(info: *mut dl_phdr_info, _size: size_t, search: *mut c_void) -> c_int {
    // SAFETY: as above.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
    // SAFETY: the loader describes an object that is loaded.
    let headers = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let loaded = || {
        let loaded = headers
            .iter()
            .filter(|header| header.p_type == libc::PT_LOAD);
        loaded.map(|header| {
            let start = info.dlpi_addr + header.p_vaddr;
            (start, start + header.p_memsz)
        })
    };
    if !loaded().any(|(start, end)| (start..end).contains(&search.address)) {
        return 0;
    }
    search.base = loaded().map(|(start, _)| start).min().unwrap_or(0);
    search.end = loaded().map(|(_, end)| end).max().unwrap_or(0);
    1
}

/// Whether an object needs the function by which code with hooks registers.
///
/// # Safety
/// The description is true.
unsafe fn refers(info: &dl_phdr_info) -> bool {
    let base = info.dlpi_addr;
    // SAFETY: the caller vouches for the headers, and they for the tables.
    unsafe {
        let headers = core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
        let dynamic = headers
            .iter()
            .find(|header| header.p_type == libc::PT_DYNAMIC);
        let Some(dynamic) = dynamic else { return false };
        let dynamic = (base + dynamic.p_vaddr) as *const Dynamic;
        let value = |tag: i64| {
            let mut at = dynamic;
            while (*at).tag != END && (*at).tag != tag {
                at = at.add(1);
            }
            ((*at).tag == tag).then(|| (*at).value)
        };
        // The loader has made addresses of offsets, where it could write.
        let place = |tag: i64| {
            let value = value(tag)?;
            Some(if value < base { value + base } else { value })
        };
        let (Some(strings), Some(symbols)) = (place(STRINGS), place(SYMBOLS)) else {
            return false;
        };
        let is_wanted = |relocation: &Elf64_Rela| {
            let index = relocation.r_info >> 32;
            if index == 0 {
                return false;
            }
            let symbol = &*(symbols as *const Elf64_Sym).add(index as usize);
            let name = (strings + u64::from(symbol.st_name)) as *const libc::c_char;
            symbol.st_shndx == 0 && CStr::from_ptr(name).to_bytes() == hooks::REGISTER.as_bytes()
        };
        let tables = [
            (RELOCATIONS, RELOCATION_BYTES),
            (CALL_RELOCATIONS, CALL_RELOCATION_BYTES),
        ];
        tables.into_iter().any(|(start, bytes)| {
            let (Some(start), Some(bytes)) = (place(start), value(bytes)) else {
                return false;
            };
            let length = bytes as usize / size_of::<Elf64_Rela>();
            core::slice::from_raw_parts(start as *const Elf64_Rela, length)
                .iter()
                .any(is_wanted)
        })
    }
}
