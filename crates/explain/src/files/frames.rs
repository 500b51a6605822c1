//! Which frames of a call stack are not the program's own: interpreters, and the libraries through
//! which every program calls the system.

/// Libraries through which every program calls the system, by how their names begin.
const SYSTEM_LIBRARIES: [&str; 8] = [
    "libcrashpoint_rt",
    "libc.so",
    "libc-",
    "libpthread",
    "ld-linux",
    "libstdc++",
    "[vdso]",
    "libgcc",
];

/// Programs and libraries that run other programs, by how their names begin. Their own code says
/// nothing about the program that they run.
const INTERPRETERS: [&str; 16] = [
    "python",
    "libpython",
    "pypy",
    "node",
    "libnode",
    "bun",
    "deno",
    "java",
    "libjvm",
    "libjava",
    "libjli",
    "ruby",
    "libruby",
    "perl",
    "libperl",
    "php",
];

fn begins_with_one_of(module: &str, names: &[&str]) -> bool {
    let file = module.rsplit('/').next().unwrap_or_default();
    names.iter().any(|name| file.starts_with(name))
}

/// Whether a module, given by its path, is a library through which every program calls the system.
pub fn is_system_library(module: &str) -> bool {
    begins_with_one_of(module, &SYSTEM_LIBRARIES)
}

/// Whether a module, given by its path, is an interpreter or a part of one.
pub fn is_interpreter(module: &str) -> bool {
    begins_with_one_of(module, &INTERPRETERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_known_by_the_names_of_their_files() {
        assert!(is_interpreter("/usr/bin/python3.11"));
        assert!(is_interpreter("/usr/lib/libruby-3.1.so"));
        assert!(!is_interpreter("/usr/lib/libjpeg.so.8"));
        assert!(is_system_library("/lib/x86_64-linux-gnu/libc.so.6"));
        assert!(!is_system_library("/python/libc.so.d/store"));
    }
}
