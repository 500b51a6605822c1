//! The exec family: this program ends, and another one goes on under its process id.
//!
//! The environment is passed on, so that the other program records too if it can. A call that
//! fails comes back, and then it was no end; the `end` line that it left is followed by another.

use crate::exit;
use crate::mapping::fail;
use crate::memory;
use crate::serve;
use crate::sys::{self, Errno};
use crate::weak;
use core::arch::naked_asm;
use crashpoint_abi::serve::notes;
use libc::{c_char, c_int};

type Strings = *const *const c_char;

unsafe extern "C" {
    static environ: Strings;
}

/// Runs something that does not come back unless it fails.
fn leave(exec: impl FnOnce() -> c_int) -> c_int {
    exit::end("exec", 0);
    let was_noted = serve::note(notes::EXECUTED);
    let result = exec();
    if !was_noted {
        serve::take_back(notes::EXECUTED);
    }
    exit::reopen();
    result
}

/// # Safety
/// As `execve`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execve(
    path: *const c_char,
    arguments: Strings,
    environment: Strings,
) -> c_int {
    leave(|| {
        let words = [
            path as usize,
            arguments as usize,
            environment as usize,
            0,
            0,
            0,
        ];
        // SAFETY: passed on.
        match unsafe { sys::syscall(libc::SYS_execve, words) } {
            Ok(_) => 0,
            Err(error) => fail(error, -1),
        }
    })
}

/// # Safety
/// As `execv`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execv(path: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: passed on.
    unsafe { execve(path, arguments, environ) }
}

/// # Safety
/// As `fexecve`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fexecve(
    descriptor: c_int,
    arguments: Strings,
    environment: Strings,
) -> c_int {
    leave(|| {
        let path = c"".as_ptr() as usize;
        let flags = libc::AT_EMPTY_PATH as usize;
        let (arguments, environment) = (arguments as usize, environment as usize);
        let words = [descriptor as usize, path, arguments, environment, flags, 0];
        // SAFETY: passed on.
        match unsafe { sys::syscall(libc::SYS_execveat, words) } {
            Ok(_) => 0,
            Err(error) => fail(error, -1),
        }
    })
}

/// # Safety
/// As `execvpe`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvpe(
    file: *const c_char,
    arguments: Strings,
    environment: Strings,
) -> c_int {
    // libc searches the path: by its inner name in a static program.
    let real = match weak::address!("__execvpe") {
        0 => weak::next(c"execvpe"),
        address => Some(address),
    };
    let Some(real) = real else {
        return fail(Errno(libc::ENOSYS), -1);
    };
    // SAFETY: that is its type.
    let real: unsafe extern "C" fn(*const c_char, Strings, Strings) -> c_int =
        unsafe { core::mem::transmute(real) };
    // SAFETY: passed on.
    leave(|| unsafe { real(file, arguments, environment) })
}

/// # Safety
/// As `execvp`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvp(file: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: passed on.
    unsafe { execvpe(file, arguments, environ) }
}

const LIST: u32 = 0;
const LIST_SEARCHED: u32 = 1;
const LIST_WITH_ENVIRONMENT: u32 = 2;

/// Arguments of a variadic function: five came in registers, the others lie on the stack.
struct Variadic {
    registers: *const *const c_char,
    stack: *const *const c_char,
}

impl Variadic {
    /// # Safety
    /// The caller has passed that many.
    unsafe fn get(&self, index: usize) -> *const c_char {
        // SAFETY: the caller vouches for it.
        unsafe {
            match index {
                0..5 => *self.registers.add(index),
                _ => *self.stack.add(index - 5),
            }
        }
    }
}

/// # Safety
/// From the functions below.
unsafe extern "C" fn listed(
    path: *const c_char,
    registers: *const *const c_char,
    stack: *const *const c_char,
    form: u32,
) -> c_int {
    let variadic = Variadic { registers, stack };
    // SAFETY: the list ends with a null pointer, and with `execle` the environment follows.
    unsafe {
        let mut count = 0;
        while !variadic.get(count).is_null() {
            count += 1;
        }
        let bytes = ((count + 1) * size_of::<*const c_char>()).next_multiple_of(sys::PAGE_BYTES);
        let arguments = match memory::anonymous(bytes) {
            Ok(place) => place as *mut *const c_char,
            Err(error) => return fail(error, -1),
        };
        for index in 0..count {
            *arguments.add(index) = variadic.get(index);
        }
        let result = match form {
            LIST_SEARCHED => execvp(path, arguments),
            LIST_WITH_ENVIRONMENT => execve(path, arguments, variadic.get(count + 1).cast()),
            _ => execv(path, arguments),
        };
        let _ = memory::unmap(arguments as usize, bytes);
        result
    }
}

/// The body of a function with the signature `int (const char *, const char *, ...)`.
macro_rules! list {
    ($form:expr) => {
        naked_asm!(
            "sub rsp, 56",
            "mov [rsp], rsi",
            "mov [rsp + 8], rdx",
            "mov [rsp + 16], rcx",
            "mov [rsp + 24], r8",
            "mov [rsp + 32], r9",
            "mov rsi, rsp",
            "lea rdx, [rsp + 64]",
            "mov ecx, {form}",
            "call {listed}",
            "add rsp, 56",
            "ret",
            form = const $form,
            listed = sym listed,
        )
    };
}

/// # Safety
/// As `execl`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn execl() -> c_int {
    list!(LIST)
}

/// # Safety
/// As `execlp`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn execlp() -> c_int {
    list!(LIST_SEARCHED)
}

/// # Safety
/// As `execle`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn execle() -> c_int {
    list!(LIST_WITH_ENVIRONMENT)
}
