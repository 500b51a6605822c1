//! Functions of libc that are there or not, depending on how the target is linked.

/// Address of a symbol, 0 where it does not exist.
macro_rules! address {
    ($name:literal) => {{
        let address: usize;
        // SAFETY: reads an entry of the global offset table.
        unsafe {
            core::arch::asm!(
                concat!(".weak ", $name),
                concat!("mov {}, qword ptr [rip + ", $name, "@GOTPCREL]"),
                out(reg) address,
                options(nostack, preserves_flags, readonly),
            );
        }
        address
    }};
}
pub(crate) use address;

/// The function that ours stands in front of, in a program that is linked dynamically.
pub fn next(name: &core::ffi::CStr) -> Option<usize> {
    let dlsym = address!("dlsym");
    if dlsym == 0 {
        return None;
    }
    // SAFETY: that is its type.
    let dlsym: unsafe extern "C" fn(*mut libc::c_void, *const libc::c_char) -> *mut libc::c_void =
        unsafe { core::mem::transmute(dlsym) };
    // SAFETY: the name is terminated.
    let found = unsafe { dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    (!found.is_null()).then_some(found as usize)
}
