//! The pointer to the state of the running thread.
//!
//! Entering a function asks for it, so it is read in two instructions: a thread-local word with
//! the initial-exec model. `thread_local!` in a shared library would call `__tls_get_addr`. The
//! word comes from the reserve of static TLS where the library is loaded late by `dlopen`; eight
//! bytes always fit.

use crate::state::State;
use core::arch::{asm, global_asm};

global_asm!(
    ".pushsection .tbss,\"awT\",@nobits",
    ".balign 8",
    ".globl __crashpoint_state",
    ".hidden __crashpoint_state",
    ".type __crashpoint_state, @object",
    ".size __crashpoint_state, 8",
    "__crashpoint_state:",
    ".zero 8",
    ".popsection",
);

#[inline(always)]
pub fn get() -> *mut State {
    let state;
    // SAFETY: reads the thread's own word.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + __crashpoint_state@gottpoff]",
            "mov {0}, qword ptr fs:[{0}]",
            out(reg) state,
            options(nostack, preserves_flags, readonly),
        );
    }
    state
}

#[inline(always)]
pub fn set(state: *mut State) {
    // SAFETY: writes the thread's own word.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + __crashpoint_state@gottpoff]",
            "mov qword ptr fs:[{0}], {1}",
            out(reg) _,
            in(reg) state,
            options(nostack, preserves_flags),
        );
    }
}
