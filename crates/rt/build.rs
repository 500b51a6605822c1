//! Link options of the shared library that code cannot express.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Programs name the library by this, not by the path it had when they were linked.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcrashpoint_rt.so");
    // Exit handlers, fork handlers and signal handlers point into it: it never goes away.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // Hooks are called often, and a lazily bound symbol would be resolved inside one.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,now");
}
