//! Every way in which objects become programs.

mod support;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Ran, Shop, check, program, replay};

/// Two sources that share inline functions, and how they are put together.
struct Pair {
    shop: Shop,
    expected: Ran,
}

const MAIN: &str = "shared_main.cpp";
const OTHER: &str = "shared_other.cpp";

impl Pair {
    fn new() -> Pair {
        let shop = Shop::new();
        let mut command = shop.native(Path::new(MAIN));
        command
            .args([program(MAIN), program(OTHER)])
            .arg("-o")
            .arg(shop.path("native"));
        shop.link(&mut command);
        shop.run(&mut command);
        let expected = shop.execute(&shop.path("native"), 0, &[]);
        assert_eq!(expected.stdout, "8 101 105 10 3 1 106\n");
        Pair { shop, expected }
    }

    fn object(&self, source: &str, hooked: bool, options: &[&str]) -> PathBuf {
        let source = program(source);
        let stem = source
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let object = self.shop.path(&format!("{stem}.o"));
        let mut command = if hooked {
            self.shop.hooked(&source)
        } else {
            self.shop.native(&source)
        };
        command
            .args(options)
            .arg("-c")
            .arg(&source)
            .arg("-o")
            .arg(&object);
        self.shop.run(&mut command);
        object
    }

    fn link(&self, inputs: &[OsString], options: &[&str]) -> PathBuf {
        let binary = self.shop.path("program");
        let mut command = Command::new("clang++-19");
        command.args(options).args(inputs).arg("-o").arg(&binary);
        self.shop.link(&mut command);
        self.shop.run(&mut command);
        binary
    }

    /// Runs at every level; returns the places of the stores at the last one.
    fn check(&self, binary: &Path, models: &[&Path]) -> Vec<String> {
        let models = self.shop.models(models);
        let mut last = Vec::new();
        for level in 0..=3 {
            let ran = self.shop.execute(binary, level, &[]);
            assert_eq!(ran, self.expected, "{} at level {level}", binary.display());
            if level > 0 {
                let log = self.shop.read_log(&models);
                last = log.describe();
                if level >= 2 {
                    replay::walk(&log, &self.shop.path("log"), &models, level);
                }
            }
        }
        last
    }
}

/// What both objects report when both are hooked.
fn stores(events: &[String]) -> usize {
    events
        .iter()
        .filter(|event| event.starts_with("store"))
        .count()
}

const ALL_STORES: usize = 8;

fn inputs(paths: &[&Path]) -> Vec<OsString> {
    paths.iter().map(OsString::from).collect()
}

#[test]
fn objects_of_any_levels_share_inline_functions() {
    let pair = Pair::new();
    for (first, second) in [("-O0", "-O2"), ("-O2", "-O0"), ("-O3", "-Os")] {
        let main = pair.object(MAIN, true, &[first]);
        let other = pair.object(OTHER, true, &[second]);
        let binary = pair.link(&inputs(&[&main, &other]), &[]);
        assert_eq!(stores(&pair.check(&binary, &[&binary])), ALL_STORES);
    }
}

#[test]
fn objects_of_other_compilers_mix() {
    let pair = Pair::new();
    for (main_hooked, other_hooked) in [(true, false), (false, true)] {
        let main = pair.object(MAIN, main_hooked, &["-O2"]);
        let other = pair.object(OTHER, other_hooked, &["-O1"]);
        for order in [[&main, &other], [&other, &main]] {
            let binary = pair.link(&inputs(&order.map(PathBuf::as_path)), &[]);
            let found = stores(&pair.check(&binary, &[&binary]));
            assert!((1..=ALL_STORES).contains(&found), "{found}");
        }
    }
}

#[test]
fn position_independence_is_the_users_choice() {
    let pair = Pair::new();
    for (compile, link) in [
        (&["-fPIE"][..], &["-pie"][..]),
        (&["-fno-pie"], &["-no-pie"]),
        (&["-fPIC"], &["-pie"]),
        (&["-fPIC", "-fno-plt"], &["-no-pie"]),
        (&["-fno-pie", "-mcmodel=medium"], &["-no-pie"]),
    ] {
        let options: Vec<&str> = ["-O2"].iter().chain(compile).copied().collect();
        let main = pair.object(MAIN, true, &options);
        let other = pair.object(OTHER, true, &options);
        let binary = pair.link(&inputs(&[&main, &other]), link);
        assert_eq!(stores(&pair.check(&binary, &[&binary])), ALL_STORES);
    }
}

#[test]
fn models_survive_archives_relocatable_links_and_strip() {
    let pair = Pair::new();
    let main = pair.object(MAIN, true, &["-O1"]);
    let other = pair.object(OTHER, true, &["-O1"]);
    let archive = pair.shop.path("libother.a");
    pair.shop
        .run(Command::new("ar").arg("rcs").arg(&archive).arg(&other));
    let binary = pair.link(&inputs(&[&main, &archive]), &[]);
    assert_eq!(stores(&pair.check(&binary, &[&binary])), ALL_STORES);

    let joined = pair.shop.path("joined.o");
    pair.shop.run(
        Command::new("ld")
            .arg("-r")
            .arg("-o")
            .arg(&joined)
            .args([&main, &other]),
    );
    let binary = pair.link(&inputs(&[&joined]), &[]);
    assert_eq!(stores(&pair.check(&binary, &[&binary])), ALL_STORES);

    pair.shop
        .run(Command::new("strip").arg("--strip-debug").arg(&binary));
    assert_eq!(stores(&pair.check(&binary, &[&binary])), ALL_STORES);
}

#[test]
fn unused_sections_may_be_collected() {
    let pair = Pair::new();
    let options = ["-O2", "-ffunction-sections", "-fdata-sections"];
    let main = pair.object(MAIN, true, &options);
    let other = pair.object(OTHER, true, &options);
    let binary = pair.link(&inputs(&[&main, &other]), &["-Wl,--gc-sections"]);
    assert_eq!(stores(&pair.check(&binary, &[&binary])), ALL_STORES);
}

#[test]
fn assembly_and_bitcode_carry_everything() {
    let pair = Pair::new();
    let other = pair.object(OTHER, true, &["-O2"]);
    let source = program(MAIN);
    for (option, name) in [("-S", "main.s"), ("-emit-llvm", "main.bc")] {
        let between = pair.shop.path(name);
        let mut command = pair.shop.hooked(&source);
        command
            .args(["-O2", option])
            .arg(&source)
            .arg("-o")
            .arg(&between);
        if option == "-emit-llvm" {
            command.arg("-c");
        }
        pair.shop.run(&mut command);
        // Bitcode is not instrumented a second time.
        let object = pair.shop.path("again.o");
        let mut command = pair.shop.hooked(&source);
        command.arg("-c").arg(&between).arg("-o").arg(&object);
        pair.shop.run(&mut command);
        let binary = pair.link(&inputs(&[&object, &other]), &[]);
        assert_eq!(
            stores(&pair.check(&binary, &[&binary])),
            ALL_STORES,
            "{name}"
        );
    }
}

#[test]
fn a_shared_library_and_its_user_record_together() {
    let pair = Pair::new();
    let main = pair.object(MAIN, true, &["-O2"]);
    let other = pair.object(OTHER, true, &["-O2", "-fPIC"]);
    let library = pair.shop.path("libother.so");
    pair.shop.run(
        Command::new("clang++-19")
            .arg("-shared")
            .arg(&other)
            .arg("-o")
            .arg(&library),
    );
    let mut rpath = OsString::from("-Wl,-rpath,");
    rpath.push(pair.shop.folder.path());
    let mut all = inputs(&[&main, &library]);
    all.push(rpath);
    let binary = pair.link(&all, &[]);
    assert_eq!(
        stores(&pair.check(&binary, &[&binary, &library])),
        ALL_STORES
    );
}

#[test]
fn link_time_optimisation_keeps_hooks_and_models() {
    let pair = Pair::new();
    for kind in ["-flto=full", "-flto=thin"] {
        let main = pair.object(MAIN, true, &["-O2", kind]);
        let other = pair.object(OTHER, true, &["-O2", kind]);
        let binary = pair.link(&inputs(&[&main, &other]), &["-O2", kind]);
        assert_eq!(
            stores(&pair.check(&binary, &[&binary])),
            ALL_STORES,
            "{kind}"
        );
    }
}

#[test]
fn a_program_without_the_runtime_runs() {
    let shop = Shop::new();
    let source = shop.path("plain.c");
    std::fs::write(
        &source,
        "#include <stdio.h>\nint main(void) { puts(\"here\"); return 3; }\n",
    )
    .expect("a source file");
    let binary = shop.path("plain");
    for options in [
        &["-O2"][..],
        &["-O0", "-static"],
        &["-O1", "-static-pie", "-fPIE"],
    ] {
        let mut command = shop.hooked(&source);
        command.args(options).arg(&source).arg("-o").arg(&binary);
        shop.run(&mut command);
        let ran = shop.execute(&binary, 3, &[]);
        assert_eq!(
            (ran.stdout.as_str(), ran.code),
            ("here\n", Some(3)),
            "{options:?}"
        );
    }
}

#[test]
fn the_same_source_gives_the_same_object() {
    let pair = Pair::new();
    let object = |name: &str| {
        let path = pair.object(name, true, &["-O2"]);
        std::fs::read(path).expect("an object")
    };
    assert!(object(MAIN) == object(MAIN));
}

#[test]
fn sanitizers_profiles_and_protectors_work_on_both_copies() {
    for options in [
        &["-fsanitize=address"][..],
        &["-fsanitize=undefined"],
        &["-fstack-protector-all"],
        &["-fprofile-instr-generate", "-fcoverage-mapping"],
        &["-fprofile-generate"],
        &["-fno-strict-aliasing", "-fwrapv", "-fno-omit-frame-pointer"],
        &["-march=x86-64-v3", "-ffast-math"],
        &["-fcf-protection=full", "-D_FORTIFY_SOURCE=2"],
    ] {
        check("basic.c", options);
    }
}

#[test]
fn symbols_of_every_kind_keep_their_meaning() {
    check("linkage.c", &[]);
    check("linkage.c", &["-fPIC"]);
}

#[test]
fn coroutines_run_unhooked() {
    let events = check("coroutine.cpp", &["-std=c++20"]);
    assert_eq!(stores(&events), 4);
}

#[test]
fn errors_read_as_clangs_own() {
    let shop = Shop::new();
    let source = shop.path("wrong.c");
    std::fs::write(&source, "int f(void) { return missing; }\n").expect("a source file");
    let output = |mut command: Command| {
        let output = command
            .arg("-c")
            .arg(&source)
            .output()
            .expect("clang starts");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert_eq!(output(shop.native(&source)), output(shop.hooked(&source)));
}

#[test]
fn other_machines_are_compiled_without_hooks_and_told_so() {
    let shop = Shop::new();
    let source = shop.path("other.c");
    std::fs::write(&source, "int f(int *p) { return *p = 1; }\n").expect("a source file");
    let mut command = shop.hooked(&source);
    command
        .args(["-m32", "-c"])
        .arg(&source)
        .arg("-o")
        .arg(shop.path("other.o"));
    let output = shop.run(&mut command);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        text.contains("warning: crashpoint instruments 64-bit x86 only"),
        "{text}"
    );
}
