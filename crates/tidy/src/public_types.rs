//! A public type name that several crates share makes a reader ask which one is meant. Two crates may
//! (a wire type and the type inside); three may not.

use std::collections::{BTreeMap, BTreeSet};

/// So many crates may not share a name.
pub const TOO_MANY: usize = 3;

/// The public types that a file declares: `pub struct NAME`, and the same for `enum`, `union`,
/// `trait` and `type`. What is public within its crate only (`pub(crate)`) does not count.
pub fn declared_types(text: &str) -> Vec<&str> {
    let declared = text.lines().filter_map(|line| {
        let item = line.trim_start().strip_prefix("pub ")?;
        let item = item.strip_prefix("unsafe ").unwrap_or(item);
        let (keyword, rest) = item.split_once(' ')?;
        let is_type = matches!(keyword, "struct" | "enum" | "union" | "trait" | "type");
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        let name = &rest[..end.unwrap_or(rest.len())];
        (is_type && !name.is_empty()).then_some(name)
    });
    declared.collect()
}

/// Names that too many crates declare, and exceptions that are not needed. `files` are pairs of a
/// crate's name and the text of one of its source files.
pub fn shared_names<'a>(
    files: impl IntoIterator<Item = (&'a str, &'a str)>,
    exceptions: &[&str],
) -> Vec<String> {
    let mut crates_by_name: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (owner, text) in files {
        for name in declared_types(text) {
            crates_by_name.entry(name).or_default().insert(owner);
        }
    }
    crates_by_name.retain(|_, owners| owners.len() >= TOO_MANY);
    let mut problems = Vec::new();
    for (name, owners) in &crates_by_name {
        if !exceptions.contains(name) {
            let owners: Vec<&str> = owners.iter().copied().collect();
            problems.push(format!(
                "`{name}` is a public type of {}: rename it",
                owners.join(", ")
            ));
        }
    }
    for name in exceptions {
        if !crates_by_name.contains_key(name) {
            problems.push(format!("`{name}` needs no exception any more: remove it"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_told_from_other_items() {
        let text = "\
pub struct Plain;
    pub enum Inner<'a> {
pub UNSAFE trait Careful: Sized {}
pub type Alias<T> = Vec<T>;
pub union Word { a: u8 }
pub struct Tuple(u8);
pub(crate) struct Hidden;
pub fn struct_of() {}
struct Private;
// pub struct Commented;
"
        .replace("UNSAFE", concat!("un", "safe"));
        assert_eq!(
            declared_types(&text),
            ["Plain", "Inner", "Careful", "Alias", "Word", "Tuple"]
        );
    }

    #[test]
    fn a_name_in_three_crates_is_found() {
        let mut files = vec![("a", "pub struct Place;"), ("b", "pub enum Place {}")];
        files.push(("b", "pub struct Place;"));
        assert_eq!(shared_names(files.iter().copied(), &[]), [""; 0]);
        files.push(("c", "pub type Place = u8;"));
        assert_eq!(
            shared_names(files.iter().copied(), &[]),
            ["`Place` is a public type of a, b, c: rename it"]
        );
        assert_eq!(shared_names(files.iter().copied(), &["Place"]), [""; 0]);
    }

    #[test]
    fn an_exception_that_is_not_needed_is_found() {
        let files = [("a", "pub struct Place;"), ("b", "pub struct Place;")];
        assert_eq!(
            shared_names(files, &["Place"]),
            ["`Place` needs no exception any more: remove it"]
        );
    }
}
