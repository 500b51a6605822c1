//! The command line that clang gets.
//!
//! Ours comes first, so that the user's options win where both speak of the same, nothing of ours
//! falls behind a `--` or under a `-x`, and the runtime precedes every library whose functions it
//! stands in front of. It is fenced by `--start-no-unused-arguments`: whatever clang does not need
//! of it (the plugin at a link step, say) gives no warning.
//!
//! The runtime is named by its path instead of `-l`, because a `-L` of ours could shadow a library
//! of the user's, and because build systems that read `-v` would take it for one of the compiler's
//! own. Linker options go by `-Xlinker`, which knows no commas.
//!
//! The folder of `crashpoint.h` is searched last, so that no header of the user's, or of the
//! system's, can be shadowed by ours.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crashpoint_install::Mode;

use crate::analysis::{Build, Runtime};
use crate::libraries::Libraries;

/// The arguments for clang: ours, then the user's.
pub fn arguments(
    build: Build,
    mode: Mode,
    clang: &Path,
    libraries: &Libraries,
    user: &[OsString],
) -> Vec<OsString> {
    let mut line = Line(driver_mode(mode, clang));
    line.add("--start-no-unused-arguments");
    if !build.debug_chosen {
        line.add("-g");
    }
    let mut plugin = OsString::from("-fpass-plugin=");
    plugin.push(&libraries.plugin);
    line.add(plugin);
    line.headers(libraries.headers.as_deref());
    match (build.runtime, &libraries.runtime) {
        (Runtime::Shared, Some(runtime)) => {
            line.link(["--push-state", "--no-as-needed"]);
            line.add(runtime);
            line.link(["--pop-state", "-rpath"]);
            line.link([runtime.parent().unwrap_or(Path::new("/"))]);
        }
        (Runtime::Static, Some(runtime)) => {
            // Weak references do not pull a member out of an archive. This name does, and with it
            // all of the runtime, which is one member: its part of the build has one unit.
            line.link(["-u", crashpoint_abi::hooks::REGISTER]);
            line.add(runtime);
            // What the runtime needs where these are not part of libc yet.
            for library in ["-lpthread", "-ldl", "-lm"] {
                line.add(library);
            }
        }
        (Runtime::None, _) | (Runtime::Shared | Runtime::Static, None) => {}
    }
    line.add("--end-no-unused-arguments");
    line.0.extend_from_slice(user);
    line.0
}

/// The arguments for clang where it reads sources without making code: the headers are as much
/// needed as when it does.
pub fn reading(
    mode: Mode,
    clang: &Path,
    headers: Option<&Path>,
    user: &[OsString],
) -> Vec<OsString> {
    let mut line = Line(driver_mode(mode, clang));
    if headers.is_some() {
        line.add("--start-no-unused-arguments");
        line.headers(headers);
        line.add("--end-no-unused-arguments");
    }
    line.0.extend_from_slice(user);
    line.0
}

/// Clang takes the language from its own name; this says it where the name does not.
pub fn driver_mode(mode: Mode, clang: &Path) -> Vec<OsString> {
    let named_so = clang
        .file_name()
        .is_some_and(|name| name.to_string_lossy().contains("++"));
    match mode {
        Mode::Cxx if !named_so => vec!["--driver-mode=g++".into()],
        Mode::C | Mode::Cxx => Vec::new(),
    }
}

struct Line(Vec<OsString>);

impl Line {
    fn add(&mut self, argument: impl AsRef<OsStr>) {
        self.0.push(argument.as_ref().to_owned());
    }

    fn headers(&mut self, folder: Option<&Path>) {
        if let Some(folder) = folder {
            self.add("-idirafter");
            self.add(folder);
        }
    }

    fn link<const N: usize>(&mut self, options: [impl AsRef<OsStr>; N]) {
        for option in options {
            self.add("-Xlinker");
            self.add(option);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(debug_chosen: bool, runtime: Runtime, user: &str) -> String {
        let library = match runtime {
            Runtime::None => None,
            Runtime::Shared => Some("/l,ib/libcrashpoint_rt.so".into()),
            Runtime::Static => Some("/l,ib/libcrashpoint_rt.a".into()),
        };
        let libraries = Libraries {
            plugin: "/l,ib/p.so".into(),
            runtime: library,
            headers: None,
        };
        let user: Vec<OsString> = user.split_whitespace().map(OsString::from).collect();
        let build = Build {
            debug_chosen,
            runtime,
        };
        arguments(build, Mode::C, Path::new("clang-19"), &libraries, &user)
            .join(OsStr::new(" "))
            .into_string()
            .unwrap()
    }

    #[test]
    fn the_users_line_follows_unchanged() {
        assert_eq!(
            line(false, Runtime::None, "-c -- a.c"),
            "--start-no-unused-arguments -g -fpass-plugin=/l,ib/p.so --end-no-unused-arguments \
             -c -- a.c"
        );
    }

    #[test]
    fn our_headers_are_searched_last() {
        let headers = Some(Path::new("/h"));
        let read = |headers| {
            let line = reading(Mode::C, Path::new("clang-19"), headers, &["-E".into()]);
            line.join(OsStr::new(" ")).into_string().unwrap()
        };
        let ours = "--start-no-unused-arguments -idirafter /h --end-no-unused-arguments";
        assert_eq!(read(headers), format!("{ours} -E"));
        assert_eq!(read(None), "-E");
    }

    #[test]
    fn the_shared_runtime_is_kept_and_found_by_rpath() {
        assert_eq!(
            line(true, Runtime::Shared, "a.c"),
            "--start-no-unused-arguments -fpass-plugin=/l,ib/p.so \
             -Xlinker --push-state -Xlinker --no-as-needed /l,ib/libcrashpoint_rt.so \
             -Xlinker --pop-state -Xlinker -rpath -Xlinker /l,ib \
             --end-no-unused-arguments a.c"
        );
    }

    #[test]
    fn the_static_runtime_is_asked_for_by_name() {
        assert_eq!(
            line(true, Runtime::Static, "-static a.c"),
            "--start-no-unused-arguments -fpass-plugin=/l,ib/p.so \
             -Xlinker -u -Xlinker __crashpoint_register /l,ib/libcrashpoint_rt.a \
             -lpthread -ldl -lm \
             --end-no-unused-arguments -static a.c"
        );
    }

    #[test]
    fn the_language_is_said_where_the_compilers_name_does_not() {
        assert_eq!(driver_mode(Mode::Cxx, Path::new("/x/clang++-19")), [""; 0]);
        assert_eq!(
            driver_mode(Mode::Cxx, Path::new("/x/clang-19")),
            ["--driver-mode=g++"]
        );
        assert_eq!(driver_mode(Mode::C, Path::new("/x/clang-19")), [""; 0]);
    }
}
