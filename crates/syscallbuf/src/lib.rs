//! Preloaded into a watched program: what stands in front of `write`.
//!
//! The protocol is [`crashpoint_abi::syscallbuf`]. What is not marked goes to libc's own `write` by a
//! jump, so that the call stack at the stop is the one that the program would have had.
//!
//! # Rules of this code
//!
//! - **No allocation, no lock, no unwinding, little stack**: it runs wherever the program writes, in
//!   signal handlers too. While a record is made, signals wait.
//! - **The caller's memory is touched after the kernel has read it**: a bad pointer is an error of
//!   the call, as without us.
//! - **The environment is as it was**: the two variables that brought it here are gone before `main`,
//!   so that programs started by this one are not concerned.
#![no_std]

extern crate std;

use core::arch::asm;
use core::ffi::{CStr, c_char, c_int};
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use crashpoint_abi::syscallbuf::{self, Shared, WriteRecord};
use crashpoint_abi::system_call::system_call;

/// Null: not watched, or not yet.
static SHARED: AtomicPtr<Shared> = AtomicPtr::new(ptr::null_mut());
/// Above it there are no frames: where the arguments of the program lie.
static STACK_TOP: AtomicU64 = AtomicU64::new(0);

/// The write is left to libc; no call returns this.
const NOT_DONE: isize = isize::MIN;

unsafe extern "C" {
    /// libc's own, under the name that nobody stands in front of.
    fn __write(descriptor: c_int, bytes: *const u8, count: usize) -> isize;
}

/// # Safety
///
/// As `write` of libc.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn write(descriptor: c_int, bytes: *const u8, count: usize) -> isize {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "mov rax, qword ptr [rip + {shared}]",
        "test rax, rax",
        "jz 2f",
        "cmp edi, {descriptors}",
        "jae 2f",
        "mov ecx, edi",
        "cmp byte ptr [rax + rcx + {marked}], 0",
        "je 2f",
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "push rsi",
        ".cfi_adjust_cfa_offset 8",
        "push rdx",
        ".cfi_adjust_cfa_offset 8",
        "lea rcx, [rsp + 24]",
        "mov r8, rbp",
        "call {marked_write}",
        "pop rdx",
        ".cfi_adjust_cfa_offset -8",
        "pop rsi",
        ".cfi_adjust_cfa_offset -8",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "mov rcx, {not_done}",
        "cmp rax, rcx",
        "je 2f",
        "ret",
        "2: jmp qword ptr [rip + {libc}@GOTPCREL]",
        ".cfi_endproc",
        shared = sym SHARED,
        descriptors = const syscallbuf::DESCRIPTORS,
        marked = const core::mem::offset_of!(Shared, marked),
        marked_write = sym marked_write,
        not_done = const NOT_DONE,
        libc = sym __write,
    )
}

/// # Safety
///
/// As `write`; `stack` is the stack pointer at its first instruction.
unsafe extern "C" fn marked_write(
    descriptor: c_int,
    bytes: *const u8,
    count: usize,
    stack: u64,
    frame: u64,
) -> isize {
    let depth = STACK_TOP.load(Ordering::Relaxed).wrapping_sub(stack);
    if depth > syscallbuf::MAX_STACK_BYTES as u64 || count > syscallbuf::MAX_WRITE_BYTES {
        return NOT_DONE;
    }
    let length = (size_of::<WriteRecord>() + depth as usize + count + 7) & !7;
    let every_signal = u64::MAX;
    let mut signals = 0_u64;
    // A handler could write, seek or never return: it waits until the record is finished.
    // SAFETY: two words of eight bytes, which is the size of the kernel's sets.
    unsafe { set_signals(&every_signal, &mut signals) };
    let shared = SHARED.load(Ordering::Relaxed);
    // SAFETY: mapped for good once it is set, and it is: the caller looked. What was looked at
    // before a signal may have changed since, and is looked at again.
    let returned = unsafe {
        let mark = &(*shared).marked[descriptor as usize];
        match mark.load(Ordering::Relaxed) {
            0 => NOT_DONE,
            _ => recorded(
                shared,
                descriptor,
                bytes,
                count,
                (stack, frame, depth),
                length,
            ),
        }
    };
    // SAFETY: as above.
    unsafe { set_signals(&signals, ptr::null_mut()) };
    if (-4095..0).contains(&returned) {
        // SAFETY: always valid for the calling thread.
        unsafe { *libc::__errno_location() = -returned as c_int };
        return -1;
    }
    returned
}

/// Makes the call and the record, if there is room for it.
///
/// # Safety
///
/// As `write`; no signal arrives; `shared` is mapped, and from `stack` upwards `depth` bytes are.
unsafe fn recorded(
    shared: *mut Shared,
    descriptor: c_int,
    bytes: *const u8,
    count: usize,
    (stack, frame, depth): (u64, u64, u64),
    length: usize,
) -> isize {
    // SAFETY: mapped, and made of atomics alone.
    let header = unsafe { &*shared };
    let used = header.used.load(Ordering::Relaxed) as usize;
    if syscallbuf::HEADER_BYTES + used + length > syscallbuf::SHARED_BYTES {
        return NOT_DONE;
    }
    // SAFETY: it fits into the shared memory, and begins at a multiple of 8.
    let (record, behind) = unsafe {
        let start = shared.cast::<u8>().add(syscallbuf::HEADER_BYTES + used);
        let record = start.cast::<WriteRecord>();
        (&*record, record.add(1).cast::<u8>())
    };
    record.bytes.store(length as u32, Ordering::Relaxed);
    record.state.store(syscallbuf::BEGUN, Ordering::Relaxed);
    record
        .descriptor
        .store(descriptor as u32, Ordering::Relaxed);
    record.stack_bytes.store(depth as u32, Ordering::Relaxed);
    record.wanted.store(count as u64, Ordering::Relaxed);
    record.stack_pointer.store(stack, Ordering::Relaxed);
    record.frame_pointer.store(frame, Ordering::Relaxed);
    // SAFETY: from the stack pointer to the top is stack of the thread that calls.
    unsafe { ptr::copy_nonoverlapping(stack as *const u8, behind, depth as usize) };
    header.used.store((used + length) as u64, Ordering::Release);
    // SAFETY: the call that the program asked for, and a question about its descriptor.
    let (returned, end) = unsafe {
        let returned = let_pass(descriptor, bytes, count);
        let current = libc::SEEK_CUR as usize;
        let end = call(libc::SYS_lseek, descriptor as usize, 0, current);
        (returned, end)
    };
    if returned > 0 {
        // SAFETY: the kernel has read as much from there.
        unsafe {
            ptr::copy_nonoverlapping(bytes, behind.add(depth as usize), returned as usize);
        }
    }
    record.returned.store(returned as i64, Ordering::Relaxed);
    record.end.store(end as u64, Ordering::Relaxed);
    record.state.store(syscallbuf::DONE, Ordering::Release);
    returned
}

/// # Safety
///
/// Pointers to sets of the kernel, or null for one that is not asked for.
unsafe fn set_signals(to: *const u64, old: *mut u64) {
    let how = libc::SIG_SETMASK as usize;
    let arguments = [how, to as usize, old as usize, size_of::<u64>(), 0, 0];
    // SAFETY: passed on.
    unsafe { system_call(libc::SYS_rt_sigprocmask, arguments) };
}

/// `write`, from where the filter lets it pass.
///
/// # Safety
///
/// As the system call demands, once [`put_code`] has succeeded.
unsafe fn let_pass(descriptor: c_int, bytes: *const u8, count: usize) -> isize {
    let returned: isize;
    // SAFETY: at that address lies `syscall; ret`, which changes what a system call does.
    unsafe {
        asm!(
            "call {code}",
            code = in(reg) syscallbuf::CODE,
            inlateout("rax") libc::SYS_write as isize => returned,
            in("rdi") descriptor as isize,
            in("rsi") bytes,
            in("rdx") count,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    returned
}

/// # Safety
///
/// As the system call demands.
unsafe fn call(number: i64, a: usize, b: usize, c: usize) -> isize {
    // SAFETY: passed on.
    unsafe { system_call(number, [a, b, c, 0, 0, 0]) }
}

/// Before the program's own constructors, as far as the loader lets us.
#[used]
#[unsafe(link_section = ".init_array.00099")]
static CONSTRUCTOR: unsafe extern "C" fn(c_int, *mut *mut c_char, *mut *mut c_char) = {
    /// # Safety
    ///
    /// As the loader calls it.
    unsafe extern "C" fn constructor(
        _: c_int,
        arguments: *mut *mut c_char,
        variables: *mut *mut c_char,
    ) {
        // SAFETY: the loader's arrays, which end in null, before anybody else reads them.
        let path = unsafe { take_variables(variables) };
        if let Some(path) = path {
            STACK_TOP.store(arguments as u64, Ordering::Relaxed);
            // SAFETY: the path ends in zero.
            unsafe { share(path) };
        }
    }
    constructor
};

/// Removes what brought us here from the environment; the path of the shared memory, if we were
/// brought.
///
/// # Safety
///
/// An array of strings that ends in null, which nobody else uses meanwhile.
unsafe fn take_variables(variables: *mut *mut c_char) -> Option<*const c_char> {
    const PRELOAD: &[u8] = b"LD_PRELOAD=";
    // SAFETY: up to the null at the end, and strings up to their zeros; what is moved only shrinks.
    unsafe {
        let own = |text: *mut c_char| {
            let rest = CStr::from_ptr(text).to_bytes();
            let rest = rest.strip_prefix(syscallbuf::VARIABLE.as_bytes())?;
            rest.strip_prefix(b"=")?;
            Some(text.add(syscallbuf::VARIABLE.len() + 1).cast_const())
        };
        let mut path = None;
        let mut at = variables;
        while !(*at).is_null() {
            path = path.or(own(*at));
            at = at.add(1);
        }
        path?;
        let (mut from, mut to) = (variables, variables);
        while !(*from).is_null() {
            let text = *from;
            from = from.add(1);
            if own(text).is_some() {
                continue;
            }
            let bytes = CStr::from_ptr(text).to_bytes();
            if bytes.starts_with(PRELOAD) {
                // We are the first in it; what follows is the program's own.
                let Some(colon) = bytes.iter().position(|byte| *byte == b':') else {
                    continue;
                };
                let rest = bytes.len() - colon;
                ptr::copy(text.add(colon + 1), text.add(PRELOAD.len()), rest);
            }
            *to = text;
            to = to.add(1);
        }
        *to = ptr::null_mut();
        path
    }
}

/// Maps the shared memory and the code; if anything is not as it should be, all writes stop.
///
/// # Safety
///
/// The path ends in zero.
unsafe fn share(path: *const c_char) {
    let flags = (libc::O_RDWR | libc::O_CLOEXEC) as usize;
    // SAFETY: system calls on values of ours; the mapping is used only if it was made, and by the
    // version that both know.
    unsafe {
        let file = call(libc::SYS_open, path as usize, flags, 0);
        if file < 0 {
            return;
        }
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let kind = libc::MAP_SHARED as usize;
        let arguments = [
            0,
            syscallbuf::SHARED_BYTES,
            protection,
            kind,
            file as usize,
            0,
        ];
        let mapped = system_call(libc::SYS_mmap, arguments);
        call(libc::SYS_close, file as usize, 0, 0);
        if (-4095..0).contains(&mapped) {
            return;
        }
        let shared = mapped as *mut Shared;
        if (*shared).version.load(Ordering::Acquire) != syscallbuf::VERSION || !put_code() {
            return;
        }
        let write = __write as *const () as u64;
        (*shared).write.store(write, Ordering::Relaxed);
        (*shared).ready.store(1, Ordering::Release);
        SHARED.store(shared, Ordering::Release);
    }
}

/// Puts the instruction where the filter expects it.
///
/// # Safety
///
/// Not while another thread maps memory there.
unsafe fn put_code() -> bool {
    const BYTES: usize = 4096;
    /// `syscall; ret`.
    const INSTRUCTIONS: [u8; 3] = [0x0f, 0x05, 0xc3];
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let kind = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as usize;
    let address = syscallbuf::CODE as usize;
    // SAFETY: a page of our own, at an address where nothing is.
    unsafe {
        let arguments = [address, BYTES, protection, kind, usize::MAX, 0];
        if system_call(libc::SYS_mmap, arguments) != address as isize {
            return false;
        }
        ptr::copy_nonoverlapping(
            INSTRUCTIONS.as_ptr(),
            address as *mut u8,
            INSTRUCTIONS.len(),
        );
        let protection = (libc::PROT_READ | libc::PROT_EXEC) as usize;
        call(libc::SYS_mprotect, address, BYTES, protection) == 0
    }
}
