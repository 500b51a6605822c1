//! Functions of the system's libraries, by what their results and what they leave in memory depend
//! on. What is not listed here is taken to depend on its arguments and to leave nothing.

/// What a function does. Numbers are arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LibraryEffect {
    /// Copies from one argument to another, so many bytes as an argument says; its result is the
    /// destination or lies near it.
    Copy {
        to: usize,
        from: usize,
        length: Option<usize>,
    },
    /// Fills with an argument, or with nothing.
    Fill {
        to: usize,
        value: Option<usize>,
        length: usize,
    },
    /// Its result depends on what its arguments point to: at most so many bytes as an argument says.
    Read { length: Option<usize> },
    /// Writes what its other arguments, and what they point to, say.
    Print { to: usize },
    /// Its result depends on nothing that the program knows.
    Fresh,
}

/// What a function of this name does.
pub fn effect(name: &str) -> Option<LibraryEffect> {
    let name = name.strip_prefix("__builtin_").unwrap_or(name);
    let name = name.strip_prefix("__").unwrap_or(name);
    let name = name.strip_suffix("_chk").unwrap_or(name);
    Some(match name {
        "memcpy"
        | "memmove"
        | "mempcpy"
        | "memccpy"
        | "strncpy"
        | "stpncpy"
        | "strncat"
        | "pmem_memcpy"
        | "pmem_memcpy_persist"
        | "pmem_memcpy_nodrain"
        | "pmem_memmove"
        | "pmem_memmove_persist"
        | "pmem_memmove_nodrain" => copy(0, 1, Some(2)),
        "strcpy" | "stpcpy" | "strcat" | "strlcpy" | "strlcat" => copy(0, 1, None),
        "bcopy" => copy(1, 0, Some(2)),
        "memset"
        | "memset_explicit"
        | "pmem_memset"
        | "pmem_memset_persist"
        | "pmem_memset_nodrain" => LibraryEffect::Fill {
            to: 0,
            value: Some(1),
            length: 2,
        },
        "bzero" | "explicit_bzero" => LibraryEffect::Fill {
            to: 0,
            value: None,
            length: 1,
        },
        "memcmp" | "bcmp" | "strncmp" | "strncasecmp" | "memchr" | "memrchr" => {
            LibraryEffect::Read { length: Some(2) }
        }
        "strnlen" | "strndup" => LibraryEffect::Read { length: Some(1) },
        "strcmp" | "strcasecmp" | "strcoll" | "strlen" | "strdup" | "strchr" | "strrchr"
        | "strchrnul" | "strstr" | "strcasestr" | "strspn" | "strcspn" | "strpbrk" | "index"
        | "rindex" | "atoi" | "atol" | "atoll" | "atof" | "strtol" | "strtoul" | "strtoll"
        | "strtoull" | "strtod" | "strtof" | "isoc23_strtol" | "isoc23_strtoul"
        | "isoc23_strtoll" | "isoc23_strtoull" => LibraryEffect::Read { length: None },
        "sprintf" | "vsprintf" | "snprintf" | "vsnprintf" => LibraryEffect::Print { to: 0 },
        "malloc" | "calloc" | "aligned_alloc" | "memalign" | "valloc" | "_Znwm" | "_Znam"
        | "time" | "clock" | "rand" | "random" | "getpid" | "pthread_self" | "errno_location"
        | "fopen" | "open" | "fgets" | "fgetc" | "getc" | "read" => LibraryEffect::Fresh,
        _ => return None,
    })
}

const fn copy(to: usize, from: usize, length: Option<usize>) -> LibraryEffect {
    LibraryEffect::Copy { to, from, length }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checked_and_builtin_names_are_the_same_functions() {
        let memcpy = effect("memcpy");
        assert!(memcpy.is_some());
        for name in ["__memcpy_chk", "__builtin_memcpy"] {
            assert_eq!(effect(name), memcpy, "{name}");
        }
        assert_eq!(effect("apply"), None);
    }
}
