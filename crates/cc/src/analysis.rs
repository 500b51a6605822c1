//! What clang will do with a command line.
//!
//! Only as much is read as decides on our additions: is code generated, is something linked and
//! against what, is there debug information already. Options that are not known count as flags
//! without a value, so that a new option of clang can at worst hide an input behind its value or
//! make a value look like an input, never lose an argument.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::options::values_after;

/// What a command line asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Nothing that concerns us; clang gets the arguments as they are.
    Plain,
    /// Sources are read, but no code comes of it: `-E`, `-M`, `-fsyntax-only` and the like.
    Read,
    /// `--version`: clang's answer, then ours.
    Version,
    Build(Build),
}

/// Code is generated or linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// The user chose whether and which debug information is made.
    pub debug_chosen: bool,
    /// How the runtime takes part.
    pub runtime: Runtime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// Nothing is linked, or without the standard libraries.
    None,
    Shared,
    Static,
}

/// Reads a command line (without the name of the program) whose response files are expanded.
pub fn analyse(arguments: &[OsString]) -> Request {
    if arguments
        .first()
        .is_some_and(|first| first.as_bytes().starts_with(b"-cc1"))
    {
        return Request::Plain;
    }
    let mut seen = Seen::default();
    let mut rest = arguments.iter().map(OsString::as_os_str);
    while let Some(argument) = rest.next() {
        let bytes = argument.as_bytes();
        if bytes == b"--" {
            rest.by_ref().for_each(|input| seen.input(input));
        } else if bytes == b"-" || !bytes.starts_with(b"-") {
            seen.input(argument);
        } else {
            let value = match values_after(bytes) {
                0 => None,
                1 => rest.next(),
                more => rest.by_ref().take(more).last(),
            };
            seen.option(bytes, value.map(OsStr::as_bytes));
        }
    }
    seen.request()
}

/// What was met so far, from left to right.
#[derive(Default)]
struct Seen {
    /// The language of the inputs that follow is that of a header (`-x c-header`).
    header_language: Option<bool>,
    inputs: bool,
    /// An input that is compiled or linked, not a header to be precompiled.
    linkable_input: bool,
    asks_version: bool,
    asks_information: bool,
    generates_nothing: bool,
    stops_before_linking: bool,
    only_shows_commands: bool,
    without_runtime: bool,
    static_link: bool,
    debug_chosen: bool,
    foreign_target: bool,
    already_instrumented: bool,
}

impl Seen {
    fn input(&mut self, input: &OsStr) {
        self.inputs = true;
        self.linkable_input |= !self.header_language.unwrap_or_else(|| is_header(input));
    }

    fn option(&mut self, option: &[u8], value: Option<&[u8]>) {
        match option {
            b"--version" => self.asks_version = true,
            b"--help" | b"-help" | b"--help-hidden" | b"-dumpmachine" | b"-dumpversion"
            | b"-dumpspecs" | b"-verify-pch" | b"-module-file-info" => {
                self.asks_information = true;
            }
            b"-E"
            | b"--preprocess"
            | b"-M"
            | b"-MM"
            | b"--dependencies"
            | b"--user-dependencies"
            | b"-fsyntax-only"
            | b"--analyze"
            | b"-emit-ast"
            | b"-rewrite-objc"
            | b"-extract-api" => self.generates_nothing = true,
            b"-c"
            | b"--compile"
            | b"-S"
            | b"--assemble"
            | b"--precompile"
            | b"-emit-interface-stubs"
            | b"-fmodule-header" => self.stops_before_linking = true,
            b"-###" | b"-fdriver-only" => self.only_shows_commands = true,
            b"-r"
            | b"-nostdlib"
            | b"--no-standard-libraries"
            | b"-nodefaultlibs"
            | b"-nolibc"
            | b"-ffreestanding" => self.without_runtime = true,
            b"-static" | b"--static" | b"-static-pie" => self.static_link = true,
            b"-m32" | b"-m16" | b"-mx32" => self.foreign_target = true,
            b"-target" | b"-arch" => self.target(value.unwrap_or_default()),
            b"-x" | b"--language" => self.language(value.unwrap_or_default()),
            b"-Xlinker" | b"--for-linker" => self.linker_option(value.unwrap_or_default()),
            _ => self.joined(option),
        }
    }

    /// Options whose value is part of the argument.
    fn joined(&mut self, option: &[u8]) {
        let after = |prefix: &str| option.strip_prefix(prefix.as_bytes());
        if let Some(target) = after("--target=") {
            self.target(target);
        } else if let Some(language) = after("-x").or(after("--language=")) {
            self.language(language);
        } else if let Some(list) = after("-Wl,") {
            list.split(|byte| *byte == b',')
                .for_each(|option| self.linker_option(option));
        } else if let Some(plugin) = after("-fpass-plugin=") {
            let name = plugin.rsplit(|byte| *byte == b'/').next();
            self.already_instrumented |= name == Some(crashpoint_install::PLUGIN.as_bytes());
        } else if after("-print-").is_some()
            || after("--print-").is_some()
            || after("--autocomplete=").is_some()
            || after("-ccc-print-").is_some()
        {
            self.asks_information = true;
        } else if after("-g").is_some_and(chooses_debug) {
            self.debug_chosen = true;
        }
    }

    fn language(&mut self, language: &[u8]) {
        self.header_language = match language {
            b"none" => None,
            other => Some(other.ends_with(b"-header")),
        };
    }

    fn linker_option(&mut self, option: &[u8]) {
        self.without_runtime |= matches!(option, b"-r" | b"-i" | b"--relocatable");
    }

    fn target(&mut self, triple: &[u8]) {
        let x86_64 = triple.starts_with(b"x86_64") || triple.starts_with(b"amd64");
        let linux = triple.windows(5).any(|part| part == b"linux") || !triple.contains(&b'-');
        let narrow = triple.ends_with(b"x32");
        self.foreign_target = !(x86_64 && linux) || narrow;
    }

    fn request(self) -> Request {
        if self.asks_version {
            return Request::Version;
        }
        if !self.inputs || self.asks_information || self.foreign_target || self.already_instrumented
        {
            return Request::Plain;
        }
        if self.generates_nothing {
            return Request::Read;
        }
        let links = self.linkable_input
            && !self.stops_before_linking
            && !self.only_shows_commands
            && !self.without_runtime;
        let runtime = match (links, self.static_link) {
            (false, _) => Runtime::None,
            (true, false) => Runtime::Shared,
            (true, true) => Runtime::Static,
        };
        Request::Build(Build {
            debug_chosen: self.debug_chosen,
            runtime,
        })
    }
}

/// Whether `-g` followed by this says if and how much debug information there is. Others, such as
/// `-gz` or `-gsplit-dwarf`, only shape what another option asks for.
fn chooses_debug(after_g: &[u8]) -> bool {
    matches!(
        after_g,
        b"" | b"0"
            | b"1"
            | b"2"
            | b"3"
            | b"line-tables-only"
            | b"line-directives-only"
            | b"mlt"
            | b"full"
            | b"used"
            | b"codeview"
            | b"dwarf"
    ) || after_g.starts_with(b"dwarf-")
        || [b"gdb".as_slice(), b"lldb", b"sce", b"dbx"]
            .iter()
            .any(|debugger| after_g.starts_with(debugger))
}

/// Clang precompiles a header that is an input of its own, instead of linking it.
fn is_header(input: &OsStr) -> bool {
    let name = input.as_bytes();
    let extension = match name.iter().rposition(|byte| *byte == b'.') {
        Some(dot) => &name[dot + 1..],
        None => return false,
    };
    matches!(
        extension,
        b"h" | b"H" | b"hh" | b"hp" | b"hpp" | b"hxx" | b"h++" | b"tcc"
    )
}

#[cfg(test)]
#[path = "analysis_tests.rs"]
mod tests;
