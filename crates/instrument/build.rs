//! Compiles the C++ half of the plugin against the headers of the LLVM that clang 19 itself uses.
//!
//! The plugin must share clang's libLLVM, so that no second copy is linked; `llvm-sys` sees to
//! that. The headers come from the same prefix.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=src/shim");
    println!("cargo::rerun-if-env-changed=LLVM_SYS_191_PREFIX");
    let prefix = env::var("LLVM_SYS_191_PREFIX").unwrap_or_else(|_| "/usr/lib/llvm-19".into());
    let prefix = Path::new(&prefix);
    cc::Build::new()
        .cpp(true)
        .compiler(prefix.join("bin/clang++"))
        .std("c++17")
        .files(["pass", "copies", "code", "debug"].map(|name| format!("src/shim/{name}.cpp")))
        .flag("-isystem")
        .flag(prefix.join("include"))
        .flag("-fno-rtti")
        .flag("-fno-exceptions")
        .flag("-fvisibility=hidden")
        .define("_GNU_SOURCE", None)
        .define("__STDC_CONSTANT_MACROS", None)
        .define("__STDC_FORMAT_MACROS", None)
        .define("__STDC_LIMIT_MACROS", None)
        .opt_level(2)
        .warnings(true)
        .compile("crashpoint_instrument_shim");
}
