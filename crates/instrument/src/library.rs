//! Functions of the system's libraries that write to where they are told, and those that
//! synchronise threads. They are known by name; the prototype must fit, since a program may have a
//! function of its own by that name.
//!
//! A write is reported after the call, with the bytes that were really written. Lengths that need
//! a look at memory (a string's end) are computed only if the destination is persistent memory.
//! Scattered reads (`readv`, `recvmsg`) are not listed; the runtime finds what they wrote by
//! comparing images, as it does for every library that is not instrumented.

use crashpoint_abi::record::ThreadSync;

/// How much a function wrote, in terms of its arguments and its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
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
    /// The tail of the string that equals the string in an argument, with the end.
    AppendedString {
        source: u32,
    },
    /// As before, of at most so many bytes of the source as an argument says.
    AppendedAtMost {
        source: u32,
        limit: u32,
    },
    /// The result, if it is positive.
    Result,
    /// The result times an argument.
    ResultTimes {
        index: u32,
    },
    /// The result and an end of string, if it is not negative.
    ResultAndEnd,
    /// The same, at most what an argument says.
    ResultAndEndAtMost {
        limit: u32,
    },
    Fixed(u64),
}

/// When the write took place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum If {
    Always,
    /// The result is zero.
    Zero,
    /// The result is a pointer and not null.
    NotNull,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// The argument that points to the destination.
    pub to: u32,
    pub length: Length,
    pub when: If,
    /// An argument that points to what is copied.
    pub from: Option<u32>,
}

const fn copy(index: u32, unit: u64) -> Write {
    Write {
        to: 0,
        length: Length::Argument { index, unit },
        when: If::Always,
        from: Some(1),
    }
}

const fn fill(to: u32, length: Length) -> Write {
    Write {
        to,
        length,
        when: If::Always,
        from: None,
    }
}

const fn when(when: If, write: Write) -> Write {
    Write { when, ..write }
}

const fn from(source: u32, write: Write) -> Write {
    Write {
        from: Some(source),
        ..write
    }
}

const fn argument(index: u32) -> Length {
    Length::Argument { index, unit: 1 }
}

/// What a function of this name with so many parameters writes.
pub fn write(name: &str) -> Option<Write> {
    let name = name.strip_prefix("__builtin_").unwrap_or(name);
    Some(match name {
        "memcpy" | "memmove" | "mempcpy" | "__mempcpy" | "__memcpy_chk" | "__memmove_chk"
        | "__mempcpy_chk" | "memccpy" => copy(2, 1),
        "wmemcpy" | "wmemmove" | "wmempcpy" | "__wmemcpy_chk" | "__wmemmove_chk"
        | "__wmempcpy_chk" => copy(2, 4),
        "bcopy" => from(0, fill(1, argument(2))),
        "swab" => from(0, fill(1, argument(2))),
        "memset" | "__memset_chk" | "memset_explicit" => fill(0, argument(2)),
        "wmemset" | "__wmemset_chk" => fill(0, Length::Argument { index: 2, unit: 4 }),
        "bzero" | "__bzero" | "explicit_bzero" | "__explicit_bzero_chk" => fill(0, argument(1)),
        "strcpy" | "stpcpy" | "__stpcpy" | "__strcpy_chk" | "__stpcpy_chk" => {
            from(1, fill(0, Length::String))
        }
        "strncpy" | "stpncpy" | "__stpncpy" | "__strncpy_chk" | "__stpncpy_chk" => copy(2, 1),
        "strlcpy" => from(1, fill(0, Length::String)),
        "strcat" | "__strcat_chk" => from(1, fill(0, Length::AppendedString { source: 1 })),
        "strncat" | "__strncat_chk" => from(
            1,
            fill(
                0,
                Length::AppendedAtMost {
                    source: 1,
                    limit: 2,
                },
            ),
        ),
        "sprintf" | "vsprintf" | "__sprintf_chk" | "__vsprintf_chk" => {
            fill(0, Length::ResultAndEnd)
        }
        "snprintf" | "vsnprintf" | "__snprintf_chk" | "__vsnprintf_chk" => {
            fill(0, Length::ResultAndEndAtMost { limit: 1 })
        }
        "read" | "pread" | "pread64" | "recv" | "recvfrom" | "__read_chk" | "__pread_chk"
        | "__pread64_chk" | "__recv_chk" | "__recvfrom_chk" | "readlink" | "__readlink_chk" => {
            fill(1, Length::Result)
        }
        "readlinkat" | "__readlinkat_chk" => fill(2, Length::Result),
        "getrandom" => fill(0, Length::Result),
        "getentropy" => when(If::Zero, fill(0, argument(1))),
        "arc4random_buf" => fill(0, argument(1)),
        "fread" | "fread_unlocked" => fill(0, Length::ResultTimes { index: 1 }),
        "__fread_chk" | "__fread_unlocked_chk" => fill(0, Length::ResultTimes { index: 2 }),
        "fgets"
        | "fgets_unlocked"
        | "__fgets_chk"
        | "__fgets_unlocked_chk"
        | "getcwd"
        | "__getcwd_chk" => when(If::NotNull, fill(0, Length::String)),
        "realpath" | "__realpath_chk" => when(If::NotNull, fill(1, Length::String)),
        "inet_ntop" => when(If::NotNull, fill(2, Length::String)),
        "ctime_r" | "asctime_r" => when(If::NotNull, fill(1, Length::String)),
        "gethostname" | "__gethostname_chk" => when(If::Zero, fill(0, Length::String)),
        "strftime" => fill(0, Length::ResultAndEnd),
        "qsort" | "qsort_r" => fill(0, Length::Product { left: 1, right: 2 }),
        "gettimeofday" => when(If::Zero, fill(0, Length::Fixed(16))),
        "clock_gettime" => when(If::Zero, fill(1, Length::Fixed(16))),
        "time" => fill(0, Length::Fixed(8)),
        "localtime_r" | "gmtime_r" => when(If::NotNull, fill(1, Length::Fixed(56))),
        "stat" | "lstat" | "fstat" | "stat64" | "lstat64" | "fstat64" => {
            when(If::Zero, fill(1, Length::Fixed(144)))
        }
        "uuid_generate" | "uuid_generate_random" | "uuid_generate_time" => {
            fill(0, Length::Fixed(16))
        }
        "uuid_unparse" | "uuid_unparse_lower" | "uuid_unparse_upper" => fill(1, Length::String),
        "__atomic_store" | "__atomic_exchange" | "__atomic_compare_exchange" => {
            fill(1, argument(0))
        }
        _ => return None,
    })
}

/// Least parameters that the entry of [`write`] needs.
pub fn parameters_needed(write: &Write) -> u32 {
    let length = match write.length {
        Length::Argument { index, .. } | Length::ResultTimes { index } => index,
        Length::Product { left, right } => left.max(right),
        Length::AppendedString { source } => source,
        Length::AppendedAtMost { source, limit } => source.max(limit),
        Length::ResultAndEndAtMost { limit } => limit,
        Length::String | Length::Result | Length::ResultAndEnd | Length::Fixed(_) => 0,
    };
    length.max(write.to).max(write.from.unwrap_or(0)) + 1
}

/// What a call does to other threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncCall {
    /// The argument that is, or points to, the object.
    pub object: u32,
    /// Reported before the call.
    pub before: Option<ThreadSync>,
    /// Reported after the call, if it succeeded.
    pub after: Option<ThreadSync>,
    /// What the result must be for the second one.
    pub success: If,
    /// The object is what the argument points to, not the address.
    pub indirect: bool,
}

/// Synchronisation by functions of POSIX, C11 and C++. Reader locks are acquisitions too: what
/// matters is the order they make.
pub fn sync(name: &str) -> Option<SyncCall> {
    use ThreadSync::{Acquire, Barrier, Join, Release, Signal, Wait};
    let sync = |before, after, success| SyncCall {
        object: 0,
        before,
        after,
        success,
        indirect: false,
    };
    Some(match name {
        "pthread_mutex_lock"
        | "pthread_mutex_trylock"
        | "pthread_mutex_timedlock"
        | "pthread_mutex_clocklock"
        | "pthread_rwlock_rdlock"
        | "pthread_rwlock_wrlock"
        | "pthread_rwlock_tryrdlock"
        | "pthread_rwlock_trywrlock"
        | "pthread_rwlock_timedrdlock"
        | "pthread_rwlock_timedwrlock"
        | "pthread_spin_lock"
        | "pthread_spin_trylock"
        | "mtx_lock"
        | "mtx_trylock"
        | "mtx_timedlock"
        | "sem_wait"
        | "sem_trywait"
        | "sem_timedwait"
        | "sem_clockwait" => sync(None, Some(Acquire), If::Zero),
        "pthread_mutex_unlock"
        | "pthread_rwlock_unlock"
        | "pthread_spin_unlock"
        | "mtx_unlock"
        | "sem_post" => sync(Some(Release), None, If::Always),
        "pthread_cond_wait"
        | "pthread_cond_timedwait"
        | "pthread_cond_clockwait"
        | "cnd_wait"
        | "cnd_timedwait" => sync(None, Some(Wait), If::Zero),
        "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE" => {
            sync(None, Some(Wait), If::Always)
        }
        "pthread_cond_signal"
        | "pthread_cond_broadcast"
        | "cnd_signal"
        | "cnd_broadcast"
        | "_ZNSt18condition_variable10notify_oneEv"
        | "_ZNSt18condition_variable10notify_allEv" => sync(Some(Signal), None, If::Always),
        "pthread_barrier_wait" => sync(Some(Barrier), Some(Barrier), If::Always),
        "pthread_join" | "pthread_tryjoin_np" | "pthread_timedjoin_np" | "thrd_join" => {
            sync(None, Some(Join), If::Zero)
        }
        "_ZNSt6thread4joinEv" => SyncCall {
            indirect: true,
            ..sync(None, Some(Join), If::Always)
        },
        _ => return None,
    })
}

/// Functions that return a second time when somebody jumps to where they were called, with a
/// result that is not zero then.
pub fn is_setjmp(name: &str) -> bool {
    matches!(
        name,
        "setjmp" | "_setjmp" | "__sigsetjmp" | "sigsetjmp" | "__setjmp"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checked_variants_write_like_the_plain_ones() {
        for (plain, checked) in [
            ("memcpy", "__memcpy_chk"),
            ("memset", "__memset_chk"),
            ("strcpy", "__strcpy_chk"),
            ("strncat", "__strncat_chk"),
            ("snprintf", "__snprintf_chk"),
            ("read", "__read_chk"),
        ] {
            assert_eq!(write(plain), write(checked), "{plain}");
        }
    }

    #[test]
    fn the_needed_parameters_cover_every_index() {
        let write = write("bcopy").unwrap();
        assert_eq!(parameters_needed(&write), 3);
        assert_eq!(parameters_needed(&super::write("fread").unwrap()), 2);
    }

    #[test]
    fn a_mutex_is_acquired_after_and_released_before() {
        let lock = sync("pthread_mutex_lock").unwrap();
        assert_eq!((lock.before, lock.after), (None, Some(ThreadSync::Acquire)));
        let unlock = sync("pthread_mutex_unlock").unwrap();
        assert_eq!(
            (unlock.before, unlock.after),
            (Some(ThreadSync::Release), None)
        );
    }
}
