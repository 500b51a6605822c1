//! A system call by instruction, for the two libraries that run inside of the target (`rt` and
//! `syscallbuf`): they must not change `errno`, be a point of cancellation, or come back into the
//! functions that they stand in front of, so they do not go through libc.

use core::arch::asm;

/// Returns what the kernel returned: errors are -4095 to -1.
///
/// # Safety
/// As the system call demands.
#[inline(always)]
pub unsafe fn system_call(number: i64, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let returned: isize;
    // SAFETY: the kernel's calling convention on x86-64: it changes rax, rcx and r11 and does not
    // use the stack. What it does to memory, the caller vouches for.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => returned,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
            in("r8") e,
            in("r9") f,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    returned
}
