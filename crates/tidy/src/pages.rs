//! What the pages for readers must keep to: paths that a page names exist, and items that the glossary
//! names are declared in the source.

/// Folders of the repository whose paths are checked wherever a page names one in back ticks.
const TOP_FOLDERS: [&str; 6] = ["crates/", "docs/", "corpus/", "rules/", "bench/", "fuzz/"];

/// The heading of the column of the glossary whose names are checked.
const CODE_COLUMN: &str = "in the code";

/// Paths that a page names and that do not exist. `page` is the page's name in the repository; `exists`
/// answers for a path from the root of the repository.
pub fn missing_paths(page: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let linked = text.lines().flat_map(link_targets);
    let linked = linked.filter_map(|target| from_root(folder, target));
    let named = text.lines().flat_map(code_spans);
    let named = named.filter(|span| TOP_FOLDERS.iter().any(|top| span.starts_with(top)));
    let named = named.map(|span| without_placeholders(span).to_owned());
    let missing = linked.chain(named).filter(|path| !exists(path));
    missing
        .map(|path| format!("{page}: there is no {path}"))
        .collect()
}

/// The targets of `[text](target)`, without those elsewhere on the network.
fn link_targets(line: &str) -> impl Iterator<Item = &str> {
    let ends = line.split("](").skip(1);
    let targets = ends.filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
    targets.filter(|target| !target.contains("://"))
}

/// The text between back ticks.
fn code_spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// A link of a page in a folder, from the root; nothing if it leads to a place in the page itself.
fn from_root(folder: &str, target: &str) -> Option<String> {
    let path = target.split('#').next().unwrap_or_default();
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            other => parts.push(other),
        }
    }
    (!path.is_empty()).then(|| parts.join("/"))
}

/// A path up to the first part that stands for something else, such as `NAME.rs` or `*.litmus`; and
/// without what follows a blank, a comma or a bracket.
fn without_placeholders(span: &str) -> &str {
    let path = span.split([' ', ',', '(', ':']).next().unwrap_or_default();
    let mut end = 0;
    for part in path.split_inclusive('/') {
        if part.contains("NAME") || part.contains(['*', '…', '{']) {
            break;
        }
        end += part.len();
    }
    path[..end].trim_end_matches('/')
}

/// A source file: its name from the root (`crates/…`), and its text.
pub type Source = (String, String);

/// Names in the column "in the code" of the glossary that lead to nothing: `crate::module::Item`,
/// `Item::member`, the path of a file or folder, or a setting that the page of settings knows.
pub fn unknown_code(glossary: &str, settings: &str, sources: &[Source]) -> Vec<String> {
    let mut in_table = false;
    let mut problems = Vec::new();
    for line in glossary.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        if !line.starts_with('|') {
            in_table = false;
        } else if cells.last() == Some(&CODE_COLUMN) {
            in_table = true;
        } else if in_table {
            let spans = cells.last().into_iter().flat_map(|cell| code_spans(cell));
            let unknown = spans.filter(|span| !is_known(span, settings, sources));
            problems.extend(unknown.map(|span| {
                let term = cells.first().unwrap_or(&"");
                format!("docs/glossary.md: {term}: there is no `{span}` in the source")
            }));
        }
    }
    problems
}

fn is_known(span: &str, settings: &str, sources: &[Source]) -> bool {
    if span.contains('/') {
        let path = format!("crates/{}", span.trim_end_matches('/'));
        return sources.iter().any(|(file, _)| {
            let rest = file.strip_prefix(&path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
    }
    if !span.contains("::") && settings.contains(span) {
        return true;
    }
    resolves(span, sources)
}

/// Whether a path of names leads to an item. Each name is a crate, a module, or an item or member that
/// is declared where the names before it lead.
fn resolves(path: &str, sources: &[Source]) -> bool {
    let mut scope: Vec<&Source> = sources.iter().collect();
    for (index, name) in path.split("::").enumerate() {
        let of_crate = format!("crates/{name}/");
        let is_crate = index == 0 && scope.iter().any(|(file, _)| file.starts_with(&of_crate));
        let (file_of_module, folder) = (format!("/{name}.rs"), format!("/{name}/"));
        let is_module = |file: &str| file.ends_with(&file_of_module) || file.contains(&folder);
        if is_crate {
            scope.retain(|(file, _)| file.starts_with(&of_crate));
        } else if scope.iter().any(|(file, _)| is_module(file)) {
            scope.retain(|(file, _)| is_module(file));
        } else {
            scope.retain(|(_, text)| declares(text, name));
            // A member may be implemented in another file of the crate.
            let crates: Vec<&str> = scope.iter().map(|(file, _)| owner(file)).collect();
            scope = sources.iter().collect();
            scope.retain(|(file, _)| crates.contains(&owner(file)));
        }
    }
    !scope.is_empty()
}

fn owner(file: &str) -> &str {
    let inside = file.strip_prefix("crates/").unwrap_or(file);
    inside.split('/').next().unwrap_or_default()
}

/// Whether a text declares an item, a field or a variant of this name.
fn declares(text: &str, name: &str) -> bool {
    let ends_word = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let item = [
        "struct", "enum", "union", "trait", "type", "fn", "const", "static", "mod",
    ];
    text.lines().map(str::trim_start).any(|line| {
        if line.starts_with("//") {
            return false;
        }
        let is_item = item.iter().any(|keyword| {
            let declared = line.split_once(&format!("{keyword} {name}"));
            declared.is_some_and(|(_, rest)| ends_word(rest))
        });
        let member = line.strip_prefix("pub ").unwrap_or(line).strip_prefix(name);
        let is_type = name.starts_with(|c: char| c.is_uppercase());
        is_item
            || member.is_some_and(|rest| {
                let is_field = rest.starts_with(": ");
                let is_variant = rest.starts_with([',', '(']) || rest.starts_with(" {");
                if is_type { is_variant } else { is_field }
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "See [a](b.md#top), [c](../README.md), [web](https://example.org/x.md), [d](#e).\n\
                        `crates/a/src/lib.rs`, `crates/a/NAME.rs`, `crates/a/*.c` and `other/x`.\n";

    #[test]
    fn paths_that_exist_are_fine_and_others_are_found() {
        let known = ["docs/b.md", "README.md", "crates/a/src/lib.rs", "crates/a"];
        let exists = |path: &str| known.contains(&path);
        assert_eq!(missing_paths("docs/p.md", PAGE, exists), [""; 0]);
        for gone in known {
            let exists = |path: &str| path != gone && known.contains(&path);
            let problems = missing_paths("docs/p.md", PAGE, exists);
            let expected = format!("docs/p.md: there is no {gone}");
            assert!(problems.contains(&expected), "{problems:?}");
        }
    }

    fn sources() -> Vec<Source> {
        let source = |file: &str, text: &str| (file.to_owned(), text.to_owned());
        vec![
            source(
                "crates/check/src/engine/minimise.rs",
                "pub struct Cause {\n    pub needed: u8,\n}",
            ),
            source("crates/check/src/engine.rs", "pub mod minimise;"),
            source(
                "crates/check/src/lib.rs",
                "impl Cause {\n    pub fn fails(&self) {}\n}",
            ),
            source(
                "crates/trace/src/event.rs",
                "pub enum StoreKind {\n    Foreign,\n}\n// Gone,",
            ),
        ]
    }

    fn problems(cell: &str) -> Vec<String> {
        let table =
            format!("| term | definition | in the code |\n|---|---|---|\n| t | d | {cell} |\n");
        unknown_code(&table, "`test.check`", &sources())
    }

    #[test]
    fn names_that_lead_somewhere_are_fine() {
        for name in [
            "`check::engine::minimise::Cause`, `Cause::needed`, `Cause::fails`",
            "crate `trace`; `StoreKind::Foreign`, `check::engine`",
            "`check/src/engine.rs`, `check/src/engine`, `test.check`, words",
        ] {
            assert_eq!(problems(name), [""; 0], "{name}");
        }
    }

    #[test]
    fn names_that_lead_nowhere_are_found() {
        for name in [
            "`check::minimise::Caus`",
            "`trace::Cause`",
            "`Cause::ahead`",
            "`StoreKind::Gone`",
            "`check::engine::table`",
            "`check/src/table.rs`",
            "`check/src/eng`",
            "`test.none`",
        ] {
            assert_eq!(problems(name).len(), 1, "{name}");
        }
    }

    #[test]
    fn other_tables_and_columns_are_left_alone() {
        let text = "| model | `Nothing` |\n|---|---|\n| `Nothing` | `Nothing` |\n";
        assert_eq!(unknown_code(text, "", &sources()), [""; 0]);
        let table = "| term | in the code |\n|---|---|\n| `Nothing` | `Cause` |\n";
        assert_eq!(unknown_code(table, "", &sources()), [""; 0]);
    }
}
