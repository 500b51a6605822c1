//! What the text of one source file must keep to. Each check takes the file's name in the repository
//! and its text, and returns one line for each problem.

/// A file longer than this holds more than one thing.
pub const MAX_LINES: usize = 600;
/// rustfmt keeps code at 100; strings, tables and macros that it leaves alone get a little more.
pub const MAX_COLUMNS: usize = 112;

/// Where `unsafe` may be written: folders end with a slash, files do not.
pub const UNSAFE_HOMES: &[&str] = &[
    "crates/abi/",
    "crates/rt/",
    "crates/syscallbuf/",
    "crates/instrument/",
    "crates/watch/",
    "crates/trace/src/mapped.rs",
    "crates/blockdev/src/kernel.rs",
];

/// What may print: the command line, the compiler drivers (their errors are a compiler's), and the
/// benchmarks. Tests, examples and build scripts lie outside of `src` and may as well; a unit test of
/// `blockdev` says what this machine's kernel cannot do.
pub const PRINTERS: &[&str] = &[
    "crates/cli/",
    "crates/cc/src/main.rs",
    "crates/bench/",
    "crates/blockdev/src/execute.rs",
];

/// Words that must not stand in code, and what to do instead. They are split so that this file
/// does not contain them.
const BANNED: [(&str, &str); 7] = [
    (concat!("todo", "!("), "write it, or open an issue"),
    (
        concat!("unimplemented", "!("),
        "write it, or return a typed error",
    ),
    (concat!("dbg", "!("), "remove it"),
    (concat!("#[ig", "nore"), "a test runs or does not exist"),
    (concat!("#[should_", "panic"), "test the typed error"),
    (concat!("#[al", "low("), "use #[expect(…, reason = …)]"),
    (concat!("FIX", "ME"), "fix it, or open an issue"),
];

/// Lines that are too long, end with white space, or contain a banned word.
pub fn columns_and_words(file: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for (number, line) in numbered(text) {
        let place = format!("{file}:{number}");
        // Addresses may be longer than a line.
        if line.chars().count() > MAX_COLUMNS && !line.contains("://") {
            problems.push(format!("{place}: longer than {MAX_COLUMNS} columns"));
        }
        if line.ends_with([' ', '\t']) {
            problems.push(format!("{place}: white space at the end"));
        }
        for (word, advice) in BANNED {
            if line.contains(word) {
                problems.push(format!("{place}: {word} … : {advice}"));
            }
        }
    }
    problems
}

/// A file that should be several.
pub fn length(file: &str, text: &str) -> Vec<String> {
    let lines = text.lines().count();
    let too_long = lines > MAX_LINES;
    let problem = || format!("{file}: {lines} lines, more than {MAX_LINES}: split it");
    too_long.then(problem).into_iter().collect()
}

/// A module that does not say what it is.
pub fn module_comment(file: &str, text: &str) -> Vec<String> {
    let first = text.lines().find(|line| !line.trim().is_empty());
    let missing = !first.is_some_and(|line| line.starts_with("//!"));
    let problem = || format!("{file}: does not begin with a `//!` comment");
    missing.then(problem).into_iter().collect()
}

/// Uses of `unsafe` outside of its homes: blocks, functions, traits, implementations.
pub fn unsafe_code(file: &str, text: &str) -> Vec<String> {
    if homes_contain(UNSAFE_HOMES, file) {
        return Vec::new();
    }
    let uses = numbered(text).filter(|(_, line)| {
        let words = ["{", "fn ", "impl", "trait ", "extern "];
        let code = code_of(line);
        words
            .iter()
            .any(|after| code.contains(&format!("{} {after}", concat!("un", "safe"))))
            || code.trim_end().ends_with(concat!(" un", "safe"))
            || code.contains(concat!("#[un", "safe("))
    });
    uses.map(|(number, _)| format!("{file}:{number}: unsafe code outside of its homes"))
        .collect()
}

/// Output that a library prints: only the command line talks to people.
pub fn printing(file: &str, text: &str) -> Vec<String> {
    let is_library = file.starts_with("crates/") && file.contains("/src/");
    if !is_library || homes_contain(PRINTERS, file) {
        return Vec::new();
    }
    let macros = [concat!("print", "ln!("), concat!("print", "!(")];
    let uses = numbered(text).filter(|(_, line)| {
        let code = code_of(line);
        macros.iter().any(|name| code.contains(name))
    });
    uses.map(|(number, _)| format!("{file}:{number}: a library prints nothing; return it"))
        .collect()
}

fn homes_contain(homes: &[&str], file: &str) -> bool {
    homes.iter().any(|home| {
        if home.ends_with('/') {
            file.starts_with(home)
        } else {
            file == *home
        }
    })
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
}

/// A line without its comment.
fn code_of(line: &str) -> &str {
    line.find("//").map_or(line, |comment| &line[..comment])
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "crates/states/src/random.rs";

    #[test]
    fn long_lines_blanks_and_banned_words_are_found() {
        assert_eq!(columns_and_words(FILE, "fn main() {}\n"), [""; 0]);
        let link = format!("// https://{}", "x".repeat(200));
        assert_eq!(columns_and_words(FILE, &link), [""; 0]);
        for line in [
            "x".repeat(MAX_COLUMNS + 1),
            "let x = 1; ".to_owned(),
            concat!("to", "do!()").to_owned(),
            concat!("db", "g!(x)").to_owned(),
            concat!("#[al", "low(dead_code)]").to_owned(),
        ] {
            assert_eq!(columns_and_words(FILE, &line).len(), 1, "{line}");
        }
    }

    #[test]
    fn a_file_of_601_lines_is_too_long() {
        assert_eq!(length(FILE, &"x\n".repeat(600)), [""; 0]);
        let problems = length(FILE, &"x\n".repeat(601));
        assert_eq!(
            problems,
            ["crates/states/src/random.rs: 601 lines, more than 600: split it"]
        );
    }

    #[test]
    fn a_module_without_its_comment_is_found() {
        assert_eq!(
            module_comment(FILE, "\n//! Random states.\nuse a;\n"),
            [""; 0]
        );
        assert_eq!(module_comment(FILE, "use a;\n//! Too late.\n").len(), 1);
        assert_eq!(module_comment(FILE, "").len(), 1);
    }

    #[test]
    fn unsafe_code_is_found_outside_of_its_homes_only() {
        let word = concat!("un", "safe");
        for code in [
            format!("let x = {word} {{ f() }};"),
            format!("pub {word} fn f() {{}}"),
            format!("{word} impl Send for X {{}}"),
            format!("{word} extern \"C\" {{"),
            format!("#[{word}(no_mangle)]"),
            format!("    let x = {word}"),
        ] {
            assert_eq!(unsafe_code(FILE, &code).len(), 1, "{code}");
            assert_eq!(
                unsafe_code("crates/rt/src/fork.rs", &code),
                [""; 0],
                "{code}"
            );
            assert_eq!(unsafe_code("crates/trace/src/mapped.rs", &code), [""; 0]);
            assert_eq!(unsafe_code("crates/trace/src/reader.rs", &code).len(), 1);
        }
        assert_eq!(
            unsafe_code(FILE, &format!("#![forbid({word}_code)]")),
            [""; 0]
        );
        assert_eq!(unsafe_code(FILE, &format!("// {word} {{ }}")), [""; 0]);
    }

    #[test]
    fn a_library_that_prints_is_found() {
        for name in ["print", "eprint"] {
            for code in [format!("{name}ln!(\"x\");"), format!("{name}!(\"x\");")] {
                assert_eq!(printing(FILE, &code).len(), 1, "{code}");
                assert_eq!(printing("crates/cli/src/main.rs", &code), [""; 0]);
                assert_eq!(printing("crates/states/tests/it.rs", &code), [""; 0]);
                assert_eq!(printing("crates/rt/build.rs", &code), [""; 0]);
                assert_eq!(printing(FILE, &format!("/// {code}")), [""; 0]);
            }
        }
    }
}
