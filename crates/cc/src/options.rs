//! The options of clang 19's driver whose value is the next argument.
//!
//! An argument that does not begin with `-` is an input, unless it is such a value. The list was
//! made by asking clang itself: `clang -### OPTION` complains about the missing value. Options
//! that only take a joined value (`-std=c11`) need no entry, nor do those of other driver modes.

/// How many of the following arguments belong to `option`.
pub fn values_after(option: &[u8]) -> usize {
    if let Ok(name) = std::str::from_utf8(option) {
        if SEPARATE.binary_search(&name).is_ok() {
            return 1;
        }
        match name {
            "-segaddr" => return 2,
            "-sectcreate" | "-sectobjectsymbols" | "-segprot" => return 3,
            _ => {}
        }
    }
    let prefixes: [&[u8]; 3] = [b"-Xarch_", b"-Xopenmp-target=", b"-Xoffload-linker-"];
    usize::from(prefixes.iter().any(|prefix| option.starts_with(prefix)))
}

/// In byte order, for the binary search.
const SEPARATE: &[&str] = &[
    "--CLASSPATH",
    "--analyzer-output",
    "--assert",
    "--bootclasspath",
    "--classpath",
    "--config",
    "--define-macro",
    "--dyld-prefix",
    "--encoding",
    "--extdirs",
    "--for-linker",
    "--force-link",
    "--imacros",
    "--include",
    "--include-directory",
    "--include-directory-after",
    "--include-prefix",
    "--include-with-prefix",
    "--include-with-prefix-after",
    "--include-with-prefix-before",
    "--language",
    "--library-directory",
    "--no-system-header-prefix",
    "--output",
    "--param",
    "--prefix",
    "--print-file-name",
    "--print-prog-name",
    "--resource",
    "--rtlib",
    "--serialize-diagnostics",
    "--specs",
    "--std",
    "--stdlib",
    "--sysroot",
    "--system-header-prefix",
    "--undefine-macro",
    "--vfsoverlay",
    "-A",
    "-B",
    "-D",
    "-F",
    "-G",
    "-I",
    "-L",
    "-MF",
    "-MJ",
    "-MQ",
    "-MT",
    "-T",
    "-U",
    "-Xanalyzer",
    "-Xarch_device",
    "-Xarch_host",
    "-Xassembler",
    "-Xclang",
    "-Xcuda-fatbinary",
    "-Xcuda-ptxas",
    "-Xlinker",
    "-Xoffload-linker",
    "-Xopenmp-target",
    "-Xpreprocessor",
    "-allowable_client",
    "-arch",
    "-arcmt-migrate-report-output",
    "-b",
    "-bundle_loader",
    "-ccc-arcmt-migrate",
    "-ccc-gcc-name",
    "-ccc-install-dir",
    "-ccc-objcmt-migrate",
    "-client_name",
    "-compatibility_version",
    "-current_version",
    "-cxx-isystem",
    "-darwin-target-variant",
    "-darwin-target-variant-triple",
    "-dependency-dot",
    "-dependency-file",
    "-dsym-dir",
    "-dumpdir",
    "-dylib_file",
    "-e",
    "-exported_symbols_list",
    "-fdebug-compilation-dir",
    "-fexperimental-openacc-macro-override",
    "-filelist",
    "-fmodules-user-build-path",
    "-framework",
    "-ftrapv-handler",
    "-gen-cdb-fragment-path",
    "-hlsl-entry",
    "-iapinotes-modules",
    "-idirafter",
    "-iframework",
    "-iframeworkwithsysroot",
    "-imacros",
    "-image_base",
    "-imultilib",
    "-include",
    "-include-pch",
    "-init",
    "-install_name",
    "-iprefix",
    "-iquote",
    "-isysroot",
    "-isystem",
    "-isystem-after",
    "-ivfsoverlay",
    "-iwithprefix",
    "-iwithprefixbefore",
    "-iwithsysroot",
    "-l",
    "-meabi",
    "-mllvm",
    "-mmlir",
    "-module-dependency-dir",
    "-mthread-model",
    "-multiply_defined",
    "-o",
    "-object-file-name",
    "-pagezero_size",
    "-read_only_relocs",
    "-resource-dir",
    "-rpath",
    "-seg1addr",
    "-serialize-diagnostics",
    "-specs",
    "-stdlib++-isystem",
    "-target",
    "-u",
    "-umbrella",
    "-undefined",
    "-unexported_symbols_list",
    "-validator-version",
    "-vfsoverlay",
    "-weak_framework",
    "-weak_library",
    "-working-directory",
    "-x",
    "-z",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(SEPARATE.is_sorted());
    }

    #[test]
    fn values_are_counted() {
        for (option, count) in [
            ("-o", 1),
            ("-ofile", 0),
            ("-x", 1),
            ("-include", 1),
            ("-MF", 1),
            ("-MD", 0),
            ("-Xclang", 1),
            ("-Xarch_x86_64", 1),
            ("-Xopenmp-target=amdgcn", 1),
            ("-sectcreate", 3),
            ("-std=c11", 0),
            ("-c", 0),
        ] {
            assert_eq!(values_after(option.as_bytes()), count, "{option}");
        }
    }
}
