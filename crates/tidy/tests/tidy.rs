//! Style is tested, not reviewed: what every file of the repository must keep to.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A file longer than this is more than one thing.
const MAX_LINES: usize = 600;
/// rustfmt keeps code at 100; strings, tables and macros that it leaves alone get a little more.
const MAX_COLUMNS: usize = 112;

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
    (concat!("FIX", "ME"), "mend it, or open an issue"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the repository")
}

/// Files that git tracks; in an export without git, every file outside `target`.
fn tracked(suffixes: &[&str]) -> Vec<PathBuf> {
    let root = root();
    let listed = Command::new("git")
        .arg("-C")
        .arg(&root)
        .args(["ls-files", "-z"])
        .output();
    let names = match listed {
        Ok(output) if output.status.success() => {
            String::from_utf8(output.stdout).expect("file names are UTF-8")
        }
        _ => walk(&root, &root).join("\0"),
    };
    names
        .split('\0')
        .filter(|name| suffixes.iter().any(|suffix| name.ends_with(suffix)))
        .map(|name| root.join(name))
        .filter(|path| path.exists())
        .collect()
}

fn walk(root: &Path, folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a folder entry").path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if path.is_dir() {
            if !name.starts_with("target") && !name.starts_with('.') {
                names.extend(walk(root, &path));
            }
        } else {
            let relative = path.strip_prefix(root).expect("inside the root");
            names.push(relative.to_string_lossy().into_owned());
        }
    }
    names
}

fn lines_of(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.lines().map(str::to_owned).collect()
}

fn assert_none(problems: Vec<String>) {
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn code_keeps_to_its_columns_and_its_words() {
    let mut problems = Vec::new();
    for path in tracked(&[".rs", ".c", ".cpp", ".h", ".rhai"]) {
        for (number, line) in lines_of(&path).iter().enumerate() {
            let place = format!("{}:{}", path.display(), number + 1);
            // Addresses and expected output may be longer than a line.
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
    }
    assert_none(problems);
}

#[test]
fn a_file_is_one_thing() {
    let mut problems = Vec::new();
    for path in tracked(&[".rs"]) {
        let lines = lines_of(&path).len();
        if lines > MAX_LINES {
            problems.push(format!("{}: {lines} lines; split it", path.display()));
        }
    }
    assert_none(problems);
}

#[test]
fn every_module_says_what_it_is() {
    let mut problems = Vec::new();
    for path in tracked(&[".rs"]) {
        let first = lines_of(&path)
            .into_iter()
            .find(|line| !line.trim().is_empty());
        if !first.is_some_and(|line| line.starts_with("//!")) {
            problems.push(format!(
                "{}: does not begin with a `//!` comment",
                path.display()
            ));
        }
    }
    assert_none(problems);
}

#[test]
fn unsafe_code_stays_where_it_belongs() {
    let homes = [
        "crates/abi/",
        "crates/rt/",
        "crates/near/",
        "crates/instrument/",
        "crates/watch/",
        "crates/trace/src/mapped.rs",
        "crates/blocks/src/kernel.rs",
    ];
    let root = root();
    let mut problems = Vec::new();
    for path in tracked(&[".rs"]) {
        let relative = path
            .strip_prefix(&root)
            .expect("inside the root")
            .to_string_lossy();
        let at_home = homes.iter().any(|home| relative.starts_with(home));
        let needle = concat!("un", "safe {");
        if !at_home && lines_of(&path).iter().any(|line| line.contains(needle)) {
            problems.push(format!("{relative}: {needle} outside of {homes:?}"));
        }
    }
    assert_none(problems);
}

#[test]
fn the_architecture_page_names_every_crate() {
    let root = root();
    let page = std::fs::read_to_string(root.join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let mut problems = Vec::new();
    for manifest in tracked(&["Cargo.toml"]) {
        let folder = manifest.parent().expect("a folder");
        if folder
            .parent()
            .is_some_and(|parent| parent.ends_with("crates"))
        {
            let name = folder.file_name().expect("a name").to_string_lossy();
            if !page.contains(&format!("`{name}`")) {
                problems.push(format!("ARCHITECTURE.md does not speak of `{name}`"));
            }
        }
    }
    assert_none(problems);
}

#[test]
fn the_changelog_begins_with_what_is_not_released() {
    let text = std::fs::read_to_string(root().join("CHANGELOG.md")).expect("CHANGELOG.md");
    let first = text
        .lines()
        .find(|line| line.starts_with("## "))
        .expect("a section");
    assert_eq!(first, "## Unreleased");
}
