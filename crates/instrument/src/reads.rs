//! What an instruction reads besides loads: sources of copies, atomics, and what functions of the
//! system's libraries read from where they are told.
//!
//! Reads are reported like loads, before the instruction, where loads are recorded. More may be
//! reported than was read (a comparison ends at the first difference), never less. An address that
//! is handed to code without hooks that is not listed here *escapes*: what that code reads is not
//! known. Whether the callee has hooks is known at run time only, so the runtime decides.

use crate::action::{Action, CallAction, intrinsic_name, is_memory_intrinsic, may_be_persistent};
use crate::formats;
use crate::llvm::{self, Value};

/// How much is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    Bytes(u64),
    /// So many units as an argument says.
    Argument {
        index: u32,
        unit: u64,
    },
    /// The product of two arguments.
    Product {
        left: u32,
        right: u32,
    },
    /// A string with its end.
    String,
    /// As before, but at most so many bytes as an argument says.
    StringAtMost {
        limit: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The operand that is the address.
    pub from: u32,
    pub extent: Extent,
}

/// What an instruction reads.
#[derive(Clone, Debug, Default)]
pub struct Reads {
    pub known: Vec<Read>,
    /// Operands that are addresses and escape.
    pub escaping: Vec<u32>,
}

impl Reads {
    pub fn is_empty(&self) -> bool {
        self.known.is_empty() && self.escaping.is_empty()
    }
}

const fn bytes(from: u32, index: u32) -> Read {
    let extent = Extent::Argument { index, unit: 1 };
    Read { from, extent }
}

const fn string(from: u32) -> Read {
    let extent = Extent::String;
    Read { from, extent }
}

const fn at_most(from: u32, limit: u32) -> Read {
    let extent = Extent::StringAtMost { limit };
    Read { from, extent }
}

const fn product(from: u32, left: u32, right: u32) -> Read {
    let extent = Extent::Product { left, right };
    Read { from, extent }
}

const fn object(from: u32, bytes: u64) -> Read {
    let extent = Extent::Bytes(bytes);
    Read { from, extent }
}

/// Most bytes of the attributes of such an object.
const ATTRIBUTE_BYTES: u64 = 8;

/// Most bytes of an object that threads synchronise by: those of a `pthread_rwlock_t`.
const SYNC_BYTES: u64 = 56;

/// The reads of an instruction that may be from persistent memory.
pub fn of(module: llvm::Module, action: &Action, instruction: Value) -> Reads {
    let mut reads = match action {
        Action::ReadModifyWrite | Action::CompareExchange => {
            let size = instruction.operand(1).ty().store_bytes(module);
            one(0, Extent::Bytes(size))
        }
        Action::Memory | Action::Intrinsic { .. } | Action::Read => {
            intrinsic(module, instruction).map_or_else(Reads::default, only)
        }
        Action::Call(call) => of_call(call, instruction),
        Action::Nothing
        | Action::Load
        | Action::Store(_)
        | Action::Fence(_)
        | Action::Flush(_)
        | Action::Opaque
        | Action::Assembly(_)
        | Action::LandingPad
        | Action::ReturnsTwice => Reads::default(),
    };
    let persistent = |from: u32| may_be_persistent(module, instruction.operand(from));
    reads.known.retain(|read| persistent(read.from));
    reads.escaping.retain(|from| persistent(*from));
    reads
}

fn only(read: Read) -> Reads {
    Reads {
        known: vec![read],
        escaping: Vec::new(),
    }
}

fn one(from: u32, extent: Extent) -> Reads {
    only(Read { from, extent })
}

/// What an intrinsic reads.
pub fn intrinsic(module: llvm::Module, call: Value) -> Option<Read> {
    let name = intrinsic_name(call)?;
    let result = || Extent::Bytes(call.ty().store_bytes(module));
    if is_memory_intrinsic(&name) {
        return (!name.starts_with("llvm.memset.")).then_some(bytes(1, 2));
    }
    let loads_at_first = [
        "llvm.masked.load.",
        "llvm.masked.expandload.",
        "llvm.x86.avx.maskload.",
        "llvm.x86.avx2.maskload.",
        "llvm.x86.sse3.ldu.",
        "llvm.x86.avx.ldu.",
    ];
    if loads_at_first.iter().any(|prefix| name.starts_with(prefix)) {
        return Some(Read {
            from: 0,
            extent: result(),
        });
    }
    (name == "llvm.x86.movdir64b").then_some(Read {
        from: 1,
        extent: Extent::Bytes(64),
    })
}

fn of_call(call: &CallAction, instruction: Value) -> Reads {
    let arguments = instruction.arguments();
    let pointers = || {
        let numbered = arguments.iter().enumerate();
        numbered
            .filter(|(_, argument)| argument.ty().is_pointer())
            .map(|(index, _)| index as u32)
    };
    // What is passed by value in memory is read by the call itself.
    let by_value = pointers().filter_map(|from| match instruction.by_value_bytes(from) {
        0 => None,
        size => Some(Read {
            from,
            extent: Extent::Bytes(size),
        }),
    });
    let mut reads = Reads {
        known: by_value.collect(),
        escaping: Vec::new(),
    };
    if call.is_here {
        return reads;
    }
    let name = call.callee.map(Value::name).unwrap_or_default();
    if call.sync.is_some() {
        let extent = Extent::Bytes(SYNC_BYTES);
        reads
            .known
            .extend(pointers().map(|from| Read { from, extent }));
        return reads;
    }
    let fits = |read: &Read| {
        let number = |index: u32| {
            let argument = arguments.get(index as usize);
            argument.is_some_and(|argument| argument.ty().integer_bits().is_some())
        };
        let extent = match read.extent {
            Extent::Bytes(_) | Extent::String => true,
            Extent::Argument { index, .. } | Extent::StringAtMost { limit: index } => number(index),
            Extent::Product { left, right } => number(left) && number(right),
        };
        extent && pointers().any(|from| from == read.from)
    };
    match library_reads(&name).or_else(|| formatted_reads(&name, &arguments)) {
        Some(list) if list.iter().all(fits) => reads.known.extend(list),
        Some(_) | None if only_addresses(&name) => {}
        // Where a function of the library writes it does not read, if it is the one we know.
        Some(_) | None => {
            let written = call.write.map(|write| write.to);
            let is_known = |from: u32| reads.known.iter().any(|read| read.from == from);
            reads.escaping = pointers()
                .filter(|from| written != Some(*from) && !is_known(*from))
                .collect();
        }
    }
    reads
}

/// Functions that are handed addresses and read nothing there.
fn only_addresses(name: &str) -> bool {
    matches!(
        name,
        "munmap"
            | "mmap"
            | "mmap64"
            | "mremap"
            | "msync"
            | "mprotect"
            | "madvise"
            | "mlock"
            | "munlock"
            | "free"
            | "pmem_persist"
            | "pmem_flush"
            | "pmem_msync"
            | "pmem_unmap"
            | "pmem_is_pmem"
            | "pmem_deep_persist"
            | "pmem_deep_flush"
            | "pmem_deep_drain"
            | "pmem_memset"
            | "pmem_memset_persist"
            | "pmem_memset_nodrain"
            | "_ZdlPv"
            | "_ZdlPvm"
            | "_ZdaPv"
            | "_ZdaPvm"
    )
}

/// What a function that prints by a format reads.
fn formatted_reads(name: &str, arguments: &[Value]) -> Option<Vec<Read>> {
    let format = formats::format_of(name)?;
    let text = arguments.get(format as usize)?.constant_text()?;
    let printed = (format + 1..).zip(formats::uses(&text)?);
    let strings = printed.filter(|(_, used)| *used == formats::Use::String);
    Some(strings.map(|(from, _)| string(from)).collect())
}

/// All that a function of this name reads from where its arguments point, if that is known.
fn library_reads(name: &str) -> Option<Vec<Read>> {
    let name = name.strip_prefix("__builtin_").unwrap_or(name);
    Some(match name {
        "memcpy"
        | "memmove"
        | "mempcpy"
        | "__mempcpy"
        | "__memcpy_chk"
        | "__memmove_chk"
        | "__mempcpy_chk"
        | "pmem_memcpy"
        | "pmem_memcpy_persist"
        | "pmem_memcpy_nodrain"
        | "pmem_memmove"
        | "pmem_memmove_persist"
        | "pmem_memmove_nodrain" => vec![bytes(1, 2)],
        "wmemcpy" | "wmemmove" | "wmempcpy" | "__wmemcpy_chk" | "__wmemmove_chk"
        | "__wmempcpy_chk" => {
            let extent = Extent::Argument { index: 2, unit: 4 };
            vec![Read { from: 1, extent }]
        }
        // Where it stops, the destination is left as it was.
        "memccpy" => vec![bytes(0, 2), bytes(1, 2)],
        "bcopy" | "swab" => vec![bytes(0, 2)],
        "memset"
        | "__memset_chk"
        | "memset_explicit"
        | "wmemset"
        | "__wmemset_chk"
        | "bzero"
        | "__bzero"
        | "explicit_bzero"
        | "__explicit_bzero_chk"
        | "read"
        | "pread"
        | "pread64"
        | "recv"
        | "__read_chk"
        | "__pread_chk"
        | "__pread64_chk"
        | "__recv_chk"
        | "getrandom"
        | "getentropy"
        | "arc4random_buf"
        | "clock_gettime"
        | "gettimeofday"
        | "time"
        | "uuid_generate"
        | "uuid_generate_random"
        | "uuid_generate_time" => Vec::new(),
        "strcpy" | "stpcpy" | "__stpcpy" | "__strcpy_chk" | "__stpcpy_chk" | "strlcpy" => {
            vec![string(1)]
        }
        "strncpy" | "stpncpy" | "__stpncpy" | "__strncpy_chk" | "__stpncpy_chk" => {
            vec![at_most(1, 2)]
        }
        "strcat" | "__strcat_chk" => vec![string(0), string(1)],
        "strncat" | "__strncat_chk" => vec![string(0), at_most(1, 2)],
        "memcmp" | "bcmp" => vec![bytes(0, 2), bytes(1, 2)],
        "memchr" | "memrchr" => vec![bytes(0, 2)],
        "memmem" => vec![bytes(0, 1), bytes(2, 3)],
        "strcmp" | "strcasecmp" | "strcoll" | "strstr" | "strcasestr" | "strspn" | "strcspn"
        | "strpbrk" => vec![string(0), string(1)],
        "strncmp" | "strncasecmp" => vec![at_most(0, 2), at_most(1, 2)],
        "strlen" | "strdup" | "__strdup" | "strchr" | "strrchr" | "strchrnul" | "index"
        | "rindex" | "atoi" | "atol" | "atoll" | "atof" | "strtol" | "strtoul" | "strtoll"
        | "strtoull" | "strtod" | "strtof" | "__isoc23_strtol" | "__isoc23_strtoul"
        | "__isoc23_strtoll" | "__isoc23_strtoull" | "puts" | "perror" => vec![string(0)],
        "strnlen" | "strndup" | "__strndup" => vec![at_most(0, 1)],
        "fputs" | "fputs_unlocked" => vec![string(0)],
        "write" | "pwrite" | "pwrite64" | "send" => vec![bytes(1, 2)],
        "fwrite" | "fwrite_unlocked" => vec![product(0, 1, 2)],
        "qsort" => vec![product(0, 1, 2)],
        // Locks in persistent memory are made anew whenever it is mapped.
        "pthread_mutex_init" | "pthread_rwlock_init" | "pthread_cond_init" => {
            vec![object(1, ATTRIBUTE_BYTES)]
        }
        "pthread_spin_init" => Vec::new(),
        "pthread_mutex_destroy"
        | "pthread_rwlock_destroy"
        | "pthread_cond_destroy"
        | "pthread_spin_destroy" => vec![object(0, SYNC_BYTES)],
        "bsearch" => vec![bytes(0, 3), product(1, 2, 3)],
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_copies_reads_its_source_and_not_its_destination() {
        for name in ["memcpy", "memmove", "__memcpy_chk", "__builtin_memcpy"] {
            assert_eq!(library_reads(name), Some(vec![bytes(1, 2)]), "{name}");
        }
        assert_eq!(library_reads("bcopy"), Some(vec![bytes(0, 2)]));
        assert_eq!(library_reads("memset"), Some(Vec::new()));
    }

    #[test]
    fn making_a_lock_does_not_read_it() {
        for name in ["pthread_mutex_init", "pthread_rwlock_init"] {
            let reads = library_reads(name).unwrap();
            assert!(reads.iter().all(|read| read.from == 1), "{name}");
        }
        let destroyed = library_reads("pthread_mutex_destroy");
        assert_eq!(destroyed, Some(vec![object(0, SYNC_BYTES)]));
    }

    #[test]
    fn functions_that_nobody_knows_have_no_entry() {
        for name in ["printf", "snprintf", "apply", ""] {
            assert_eq!(library_reads(name), None, "{name}");
            assert!(!only_addresses(name), "{name}");
        }
    }
}
