//! Each fact about command lines, by example.

use super::*;

fn request(line: &str) -> Request {
    let arguments: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    analyse(&arguments)
}

fn runtime(line: &str) -> Runtime {
    match request(line) {
        Request::Build(build) => build.runtime,
        other => panic!("{line}: {other:?}"),
    }
}

fn chooses_debug_information(line: &str) -> bool {
    match request(line) {
        Request::Build(build) => build.debug_chosen,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn one_command_may_compile_and_link() {
    for line in [
        "a.c",
        "a.c -o a",
        "a.c b.cc c.s d.S e.ll f.bc g.o h.a i.so -lm",
        "-O3 -pie a.c",
        "-no-pie a.o -o a",
        "-fuse-ld=lld a.o",
        "-shared -fPIC a.c -o liba.so",
        "-nostartfiles a.c",
        "-nostdlib++ a.c",
        "-v a.c",
        "-x c++ -",
        "-xc -",
        "-- -strange.c",
    ] {
        assert_eq!(runtime(line), Runtime::Shared, "{line}");
    }
}

#[test]
fn static_programs_get_the_static_runtime() {
    for line in ["-static a.c", "a.o -static-pie", "--static a.c"] {
        assert_eq!(runtime(line), Runtime::Static, "{line}");
    }
    assert_eq!(runtime("-static-libgcc a.c"), Runtime::Shared);
}

#[test]
fn objects_and_assembly_are_built_but_not_linked() {
    for line in [
        "-c a.c",
        "a.c -c -o a.o",
        "-S a.c",
        "-S -emit-llvm a.c",
        "--compile a.c",
        "-MD -MF a.d -c a.c",
        "a.h",
        "-x c++-header config.hpp",
        "-x c-header -",
        "-### a.c",
    ] {
        assert_eq!(runtime(line), Runtime::None, "{line}");
    }
}

#[test]
fn links_without_the_standard_libraries_get_no_runtime() {
    for line in [
        "-r a.o b.o -o c.o",
        "-Wl,-r a.o",
        "-Xlinker -r a.o",
        "-Wl,-O1,--relocatable a.o",
        "-nostdlib a.c",
        "-nodefaultlibs a.c",
        "-nolibc a.c",
        "-ffreestanding a.c",
    ] {
        assert_eq!(runtime(line), Runtime::None, "{line}");
    }
}

#[test]
fn what_generates_no_code_is_plain_clang() {
    for line in [
        "",
        "-v",
        "-dumpmachine",
        "-dumpversion",
        "-print-search-dirs",
        "--print-file-name=libc.so",
        "-print-prog-name=ld a.c",
        "--help",
        "-Wl,--version",
        "-lm",
        "-o a",
        "-cc1 -emit-obj a.c",
        "-cc1as a.s",
    ] {
        assert_eq!(request(line), Request::Plain, "{line}");
    }
}

#[test]
fn sources_may_be_read_without_making_code() {
    for line in [
        "-E a.c",
        "-E -dM -",
        "-M a.c",
        "-MM a.c",
        "-fsyntax-only a.c",
        "--analyze a.c",
    ] {
        assert_eq!(request(line), Request::Read, "{line}");
    }
}

#[test]
fn version_is_asked_with_or_without_inputs() {
    assert_eq!(request("--version"), Request::Version);
    assert_eq!(request("--version a.c"), Request::Version);
    assert_eq!(request("-Xlinker --version"), Request::Plain);
}

#[test]
fn values_of_options_are_not_options_or_inputs() {
    for line in [
        "-o -c a.c",
        "-Xclang -c a.c",
        "-MF -E a.c",
        "-include a.h b.c",
        "-Xlinker -static a.c",
        "-D -g a.c",
        "-isystem -S a.c",
    ] {
        assert_eq!(runtime(line), Runtime::Shared, "{line}");
        assert!(!chooses_debug_information(line), "{line}");
    }
    for line in [
        "-include a.c",
        "-o a.c",
        "-MF a.c -MT b.c",
        "-x c",
        "-T a.ld",
    ] {
        assert_eq!(request(line), Request::Plain, "{line}");
    }
}

#[test]
fn after_two_dashes_everything_is_an_input() {
    assert_eq!(runtime("-- a.c -c"), Runtime::Shared);
    assert_eq!(runtime("-c -- a.c"), Runtime::None);
    assert_eq!(request("--"), Request::Plain);
}

#[test]
fn the_language_decides_what_a_header_is() {
    assert_eq!(runtime("-x c a.h"), Runtime::Shared);
    assert_eq!(runtime("-x c-header a.c"), Runtime::None);
    assert_eq!(runtime("-x c-header a.h -x none b.c"), Runtime::Shared);
    assert_eq!(runtime("a.h b.c"), Runtime::Shared);
}

#[test]
fn debug_options_of_the_user_win() {
    for option in [
        "-g",
        "-g0",
        "-g1",
        "-g3",
        "-ggdb",
        "-ggdb3",
        "-gdwarf-4",
        "-gmlt",
        "-gline-tables-only",
    ] {
        assert!(
            chooses_debug_information(&format!("{option} -c a.c")),
            "{option}"
        );
    }
    for option in [
        "-gz",
        "-gsplit-dwarf",
        "-gno-column-info",
        "-O2",
        "-grecord-command-line",
    ] {
        assert!(
            !chooses_debug_information(&format!("{option} -c a.c")),
            "{option}"
        );
    }
}

#[test]
fn other_targets_are_plain_clang() {
    for line in [
        "-m32 a.c",
        "-m16 -c a.c",
        "--target=bpf -c a.c",
        "-target aarch64-linux-gnu a.c",
        "--target=x86_64-pc-windows-msvc -c a.c",
        "--target=x86_64-linux-gnux32 a.c",
    ] {
        assert_eq!(request(line), Request::Plain, "{line}");
    }
    for line in [
        "--target=x86_64-linux-gnu a.c",
        "-target x86_64-pc-linux-gnu a.c",
    ] {
        assert_eq!(runtime(line), Runtime::Shared, "{line}");
    }
}

#[test]
fn a_line_with_our_plugin_is_not_instrumented_twice() {
    let line = "-fpass-plugin=/opt/lib/libcrashpoint_instrument.so a.c";
    assert_eq!(request(line), Request::Plain);
    assert_eq!(
        runtime("-fpass-plugin=/opt/lib/other.so a.c"),
        Runtime::Shared
    );
}
