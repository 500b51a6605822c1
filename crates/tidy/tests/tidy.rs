//! Style is tested, not reviewed: what every file of the repository must keep to.

use crashpoint_tidy::public_types::shared_names;
use crashpoint_tidy::{pages, source};
use std::path::{Path, PathBuf};
use std::process::Command;

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

fn assert_none(problems: Vec<String>) {
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

/// Names in the repository, and texts.
fn texts(suffixes: &[&str]) -> Vec<(String, String)> {
    let root = root();
    let read = |path: PathBuf| {
        let relative = path.strip_prefix(&root).expect("inside the root");
        let text = std::fs::read_to_string(&path);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (relative.to_string_lossy().into_owned(), text)
    };
    tracked(suffixes).into_iter().map(read).collect()
}

fn check_each(suffixes: &[&str], check: impl Fn(&str, &str) -> Vec<String>) {
    let texts = texts(suffixes);
    let problems = texts.iter().flat_map(|(file, text)| check(file, text));
    assert_none(problems.collect());
}

#[test]
fn code_keeps_to_its_columns_and_its_words() {
    let suffixes = [".rs", ".c", ".cpp", ".h", ".rhai"];
    check_each(&suffixes, source::columns_and_words);
}

#[test]
fn a_file_is_one_thing() {
    check_each(&[".rs"], source::length);
}

#[test]
fn every_module_says_what_it_is() {
    check_each(&[".rs"], source::module_comment);
}

#[test]
fn unsafe_code_stays_where_it_belongs() {
    check_each(&[".rs"], source::unsafe_code);
}

#[test]
fn only_the_command_line_prints() {
    check_each(&[".rs"], source::printing);
}

#[test]
fn no_public_type_name_stands_in_three_crates() {
    let texts = texts(&[".rs"]);
    let files = texts.iter().filter_map(|(file, text)| {
        let (owner, inside) = file.strip_prefix("crates/")?.split_once('/')?;
        inside.starts_with("src/").then_some((owner, text.as_str()))
    });
    assert_none(shared_names(files, &[]));
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
fn paths_that_pages_name_exist() {
    let root = root();
    let of_readers = |page: &str| page.starts_with("docs/") || !page.contains('/');
    let pages = texts(&[".md"])
        .into_iter()
        .filter(|(page, _)| of_readers(page));
    let exists = |path: &str| root.join(path).exists();
    let problems = pages.flat_map(|(page, text)| pages::missing_paths(&page, &text, exists));
    assert_none(problems.collect());
}

#[test]
fn code_that_the_glossary_names_exists() {
    let read = |page: &str| std::fs::read_to_string(root().join(page)).expect("a page");
    let (glossary, settings) = (read("docs/glossary.md"), read("docs/configuration.md"));
    let sources = texts(&[".rs"]);
    assert_none(pages::unknown_code(&glossary, &settings, &sources));
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
