//! The filter in the kernel: which calls stop the program.
//!
//! Everything that cannot matter passes without the watcher. Whether a call matters is decided by
//! its number and, where that says enough, by its arguments: opening for reading alone, mappings
//! that are private or of no file, and advice that throws nothing away do not stop.

use crate::table::{Class, TABLE};
use crashpoint_abi::syscallbuf;

/// `seccomp_data`: where its fields lie.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
/// Of the instruction behind the call, in halves.
const ADDRESS: u32 = 8;
const ARGUMENTS: u32 = 16;

pub const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const JUMP_ANY_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const JUMP_ABOVE: u16 = (libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K) as u16;
const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;

const STOP: u32 = libc::SECCOMP_RET_TRACE;
const PASS: u32 = libc::SECCOMP_RET_ALLOW;
/// A call by the numbers of another machine: a signal, which says so where a stop would not.
const FOREIGN: u32 = libc::SECCOMP_RET_TRAP;

/// What of the arguments makes a call stop.
enum When {
    Always,
    /// The lower half of an argument has one of these bits.
    AnyBit {
        argument: u32,
        bits: u32,
    },
    /// The lower half of an argument is one of these.
    OneOf {
        argument: u32,
        values: &'static [u32],
    },
    /// One of these bits, and none of those.
    AnyBitBut {
        argument: u32,
        bits: u32,
        not: u32,
    },
    /// The lower half of an argument, masked, is one of these.
    Masked {
        argument: u32,
        mask: u32,
        values: &'static [u32],
    },
}

fn when(number: u16) -> When {
    const OPENED: u32 = (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) as u32;
    match i64::from(number) {
        libc::SYS_open => When::AnyBit {
            argument: 1,
            bits: OPENED,
        },
        libc::SYS_openat | libc::SYS_open_by_handle_at => When::AnyBit {
            argument: 2,
            bits: OPENED,
        },
        libc::SYS_fcntl => When::OneOf {
            argument: 1,
            values: &[
                libc::F_DUPFD as u32,
                libc::F_DUPFD_CLOEXEC as u32,
                libc::F_SETFL as u32,
            ],
        },
        // MAP_SHARED and MAP_SHARED_VALIDATE have the first bit, MAP_PRIVATE has not.
        libc::SYS_mmap => When::AnyBitBut {
            argument: 3,
            bits: libc::MAP_SHARED as u32,
            not: libc::MAP_ANONYMOUS as u32,
        },
        libc::SYS_mprotect | libc::SYS_pkey_mprotect => When::AnyBit {
            argument: 2,
            bits: libc::PROT_WRITE as u32,
        },
        libc::SYS_madvise => When::OneOf {
            argument: 2,
            values: &[libc::MADV_REMOVE as u32],
        },
        libc::SYS_unshare => When::AnyBit {
            argument: 0,
            bits: (libc::CLONE_FILES | libc::CLONE_FS | libc::CLONE_NEWNS) as u32,
        },
        // By the type: those of file systems in general, of XFS, and of btrfs with clones.
        libc::SYS_ioctl => When::Masked {
            argument: 1,
            mask: 0xff00,
            values: &[0x6600, 0x5800, 0x9400],
        },
        _ => When::Always,
    }
}

/// The program of the filter; `with_syscallbuf`: writes from [`syscallbuf::CODE`] pass.
pub fn program(with_syscallbuf: bool) -> Vec<libc::sock_filter> {
    let mut code = vec![
        statement(LOAD, ARCHITECTURE),
        jump(JUMP_EQUAL, AUDIT_ARCH_X86_64, 1, 0),
        statement(RETURN, FOREIGN),
        statement(LOAD, NUMBER),
    ];
    let last = TABLE.last().map_or(0, |row| u32::from(row.0));
    code.extend([jump(JUMP_ABOVE, last, 0, 1), statement(RETURN, STOP)]);
    if with_syscallbuf {
        code.extend([
            jump(JUMP_EQUAL, libc::SYS_write as u32, 0, 6),
            statement(LOAD, ADDRESS),
            jump(JUMP_EQUAL, syscallbuf::CALL_END as u32, 0, 3),
            statement(LOAD, ADDRESS + 4),
            jump(JUMP_EQUAL, (syscallbuf::CALL_END >> 32) as u32, 0, 1),
            statement(RETURN, PASS),
            statement(RETURN, STOP),
        ]);
    }
    for (number, _, class) in &TABLE {
        match class {
            Class::Harmless => {}
            Class::Watched(_) | Class::Reported | Class::Refused => {
                let body = body(&when(*number));
                let skip = u8::try_from(body.len()).expect("bodies are short");
                code.push(jump(JUMP_EQUAL, u32::from(*number), 0, skip));
                code.extend(body);
            }
        }
    }
    code.push(statement(RETURN, PASS));
    code
}

/// What is done once the number is known; always returns.
fn body(when: &When) -> Vec<libc::sock_filter> {
    let argument = |number: u32| statement(LOAD, ARGUMENTS + 8 * number);
    let (stop, pass) = (statement(RETURN, STOP), statement(RETURN, PASS));
    let one_of = |values: &[u32]| {
        let mut code = Vec::new();
        for value in values {
            code.extend([jump(JUMP_EQUAL, *value, 0, 1), stop]);
        }
        code.push(pass);
        code
    };
    match when {
        When::Always => vec![stop],
        When::AnyBit {
            argument: which,
            bits,
        } => {
            vec![
                argument(*which),
                jump(JUMP_ANY_BIT, *bits, 0, 1),
                stop,
                pass,
            ]
        }
        When::AnyBitBut {
            argument: which,
            bits,
            not,
        } => vec![
            argument(*which),
            jump(JUMP_ANY_BIT, *not, 2, 0),
            jump(JUMP_ANY_BIT, *bits, 0, 1),
            stop,
            pass,
        ],
        When::OneOf {
            argument: which,
            values,
        } => {
            let mut code = vec![argument(*which)];
            code.extend(one_of(values));
            code
        }
        When::Masked {
            argument: which,
            mask,
            values,
        } => {
            let mut code = vec![argument(*which), statement(AND, *mask)];
            code.extend(one_of(values));
            code
        }
    }
}

fn statement(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code,
        jt: 0,
        jf: 0,
        k,
    }
}

fn jump(code: u16, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the filter as the kernel would.
    fn verdict(architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
        let verdicts = [false, true].map(|with_syscallbuf| {
            verdict_at(with_syscallbuf, 0x1000, architecture, number, arguments)
        });
        assert_eq!(verdicts[0], verdicts[1]);
        verdicts[0]
    }

    fn verdict_at(
        with_syscallbuf: bool,
        address: u64,
        architecture: u32,
        number: u32,
        arguments: [u64; 6],
    ) -> u32 {
        let program = program(with_syscallbuf);
        let (mut at, mut a) = (0, 0_u32);
        loop {
            let now = program[at];
            at += 1;
            let taken = |yes: bool| usize::from(if yes { now.jt } else { now.jf });
            match now.code {
                LOAD => {
                    a = match now.k {
                        NUMBER => number,
                        ARCHITECTURE => architecture,
                        ADDRESS => address as u32,
                        offset if offset == ADDRESS + 4 => (address >> 32) as u32,
                        offset => arguments[((offset - ARGUMENTS) / 8) as usize] as u32,
                    }
                }
                AND => a &= now.k,
                JUMP_EQUAL => at += taken(a == now.k),
                JUMP_ANY_BIT => at += taken(a & now.k != 0),
                JUMP_ABOVE => at += taken(a > now.k),
                RETURN => return now.k,
                other => panic!("no such instruction: {other}"),
            }
        }
    }

    fn stops(number: i64, arguments: [u64; 6]) -> bool {
        verdict(AUDIT_ARCH_X86_64, number as u32, arguments) == STOP
    }

    #[test]
    fn only_what_may_matter_stops() {
        let creating = (libc::O_WRONLY | libc::O_CREAT) as u64;
        assert!(stops(libc::SYS_openat, [0, 0, creating, 0, 0, 0]));
        assert!(!stops(
            libc::SYS_openat,
            [0, 0, libc::O_CLOEXEC as u64, 0, 0, 0]
        ));
        assert!(stops(libc::SYS_fsync, [0; 6]));
        assert!(!stops(libc::SYS_read, [0; 6]));
        assert!(stops(
            libc::SYS_mmap,
            [0, 0, 3, libc::MAP_SHARED as u64, 4, 0]
        ));
        let anonymous = (libc::MAP_SHARED | libc::MAP_ANONYMOUS) as u64;
        assert!(!stops(libc::SYS_mmap, [0, 0, 3, anonymous, 4, 0]));
        assert!(!stops(
            libc::SYS_mmap,
            [0, 0, 3, libc::MAP_PRIVATE as u64, 4, 0]
        ));
        assert!(stops(libc::SYS_ioctl, [0, 0x4004_9409, 0, 0, 0, 0]));
        assert!(!stops(libc::SYS_ioctl, [0, 0x5401, 0, 0, 0, 0]));
        assert!(stops(
            libc::SYS_fcntl,
            [0, libc::F_DUPFD_CLOEXEC as u64, 0, 0, 0, 0]
        ));
        assert!(!stops(
            libc::SYS_fcntl,
            [0, libc::F_GETFL as u64, 0, 0, 0, 0]
        ));
    }

    #[test]
    fn only_writes_pass_from_the_one_address() {
        let at = |with_syscallbuf, address, number: i64| {
            verdict_at(
                with_syscallbuf,
                address,
                AUDIT_ARCH_X86_64,
                number as u32,
                [3, 0, 0, 0, 0, 0],
            )
        };
        assert_eq!(at(true, syscallbuf::CALL_END, libc::SYS_write), PASS);
        assert_eq!(at(false, syscallbuf::CALL_END, libc::SYS_write), STOP);
        assert_eq!(at(true, syscallbuf::CALL_END + 1, libc::SYS_write), STOP);
        assert_eq!(
            at(true, syscallbuf::CALL_END & 0xffff_ffff, libc::SYS_write),
            STOP
        );
        assert_eq!(at(true, syscallbuf::CALL_END, libc::SYS_pwrite64), STOP);
    }

    #[test]
    fn calls_nobody_knows_stop_and_those_of_other_machines_end_it() {
        assert!(stops(9999, [0; 6]));
        assert!(stops(0x4000_0001, [0; 6]));
        assert_eq!(verdict(0x4000_0003, 4, [0; 6]), FOREIGN);
    }
}
