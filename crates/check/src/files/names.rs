//! Which kind of file a name stands for.
//!
//! # Model
//!
//! Programs give names to files that are alike by numbers (`000012.log`) and by words that they make
//! up (`.document.x4Qf9a`). Any number is like any other. In the names of one folder that have the
//! same punctuation, a word is like any other if more than [`MAX_WORDS`] stand in its place.
//! A name that was there before the recording began is itself.
//!
//! # What it misses
//!
//! Where made-up names have the same punctuation as others, all of them are one kind, and are told
//! apart by the calls that use them alone. A few made-up names are as many kinds.

use crashpoint_trace::files::Before;
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

/// Words in one place of a name that are told apart.
const MAX_WORDS: usize = 16;

/// The kinds of all names of a recording.
#[derive(Clone, Debug, Default)]
pub struct Names {
    kinds: FxHashMap<Arc<str>, u64>,
}

/// Names of a folder that have the same punctuation.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Form {
    folder: u64,
    punctuation: String,
}

impl Names {
    pub fn new<'p>(paths: impl Iterator<Item = &'p Arc<str>>, before: &Before<'_>) -> Names {
        let fixed: FxHashSet<&[u8]> = before.entries.iter().map(|(slot, _)| slot.name).collect();
        let mut kinds: FxHashMap<Arc<str>, u64> = FxHashMap::default();
        for path in paths {
            if !kinds.contains_key(path) {
                kinds.insert(Arc::clone(path), 0);
            }
        }
        // Folder by folder, from the outermost: what kind a folder is decides whose names are alike.
        for depth in 0.. {
            let at_depth = |path: &str, kind: u64| {
                let name = path.split('/').nth(depth)?;
                Some((form(name, kind), words(name)))
            };
            let mut seen: FxHashMap<(Form, usize), FxHashSet<String>> = FxHashMap::default();
            for (path, kind) in &kinds {
                let Some((form, words)) = at_depth(path, *kind) else {
                    continue;
                };
                for (place, word) in words.into_iter().enumerate() {
                    let there = seen.entry((form.clone(), place)).or_default();
                    if there.len() <= MAX_WORDS {
                        there.insert(word);
                    }
                }
            }
            if seen.is_empty() {
                break;
            }
            for (path, kind) in &mut kinds {
                let Some((form, words)) = at_depth(path, *kind) else {
                    continue;
                };
                let name = path.split('/').nth(depth).unwrap_or_default();
                let is_fixed = fixed.contains(name.as_bytes());
                let mut hasher = FxHasher::default();
                (&form.punctuation, *kind).hash(&mut hasher);
                for (place, word) in words.into_iter().enumerate() {
                    let others = seen[&(form.clone(), place)].len();
                    let told_apart = is_fixed || others <= MAX_WORDS;
                    told_apart.then_some(word).hash(&mut hasher);
                }
                *kind = hasher.finish();
            }
        }
        Names { kinds }
    }

    /// Of a path of the recording; of any other, nothing is known but that it is none of them.
    pub fn kind(&self, path: &str) -> u64 {
        self.kinds.get(path).copied().unwrap_or(0)
    }
}

fn form(name: &str, folder: u64) -> Form {
    Form {
        folder,
        punctuation: name.chars().filter(|c| !is_of_word(*c)).collect(),
    }
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || !c.is_ascii()
}

/// What stands between punctuation, empty or not, any number as any other.
fn words(name: &str) -> Vec<String> {
    let word = |word: &str| {
        let mut plain = String::with_capacity(word.len());
        for c in word.chars() {
            let c = if c.is_ascii_digit() { '#' } else { c };
            if c != '#' || !plain.ends_with('#') {
                plain.push(c);
            }
        }
        plain
    };
    name.split(|c| !is_of_word(c)).map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crashpoint_trace::files::{InodeId, Slot};

    fn names(paths: &[&str], before: &[&str]) -> Names {
        let paths: Vec<Arc<str>> = paths.iter().map(|path| Arc::from(*path)).collect();
        let entries = before.iter().map(|name| {
            let slot = Slot {
                directory: InodeId::ROOT,
                name: name.as_bytes(),
            };
            (slot, InodeId(1))
        });
        let before = Before {
            inodes: Vec::new(),
            entries: entries.collect(),
        };
        Names::new(paths.iter(), &before)
    }

    #[test]
    fn numbers_are_alike_and_words_are_not() {
        let names = names(
            &["000012.log", "9.log", "9.ldb", "CURRENT", "db/9.log"],
            &[],
        );
        assert_eq!(names.kind("000012.log"), names.kind("9.log"));
        let kinds = ["9.log", "9.ldb", "CURRENT", "db/9.log"].map(|path| names.kind(path));
        assert_eq!(kinds.into_iter().collect::<FxHashSet<u64>>().len(), 4);
    }

    /// Words of letters alone, as many as wanted.
    fn made_up(number: usize) -> String {
        let letter = |place: u32| char::from(b'a' + (number / 26_usize.pow(place) % 26) as u8);
        [letter(0), letter(1), 'Q', letter(2)].iter().collect()
    }

    #[test]
    fn made_up_words_are_alike_where_there_are_many() {
        let paths: Vec<String> = (0..40)
            .map(|number| format!("d/.document.{}", made_up(number)))
            .chain((0..40).map(|number| format!("d/{}/data", made_up(number))))
            .chain(["d/document".into(), "d/lock".into()])
            .collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let names = names(&paths, &["document"]);
        let alike = |range: std::ops::Range<usize>| {
            let kinds = paths[range].iter().map(|path| names.kind(path));
            kinds.collect::<FxHashSet<u64>>().len()
        };
        assert_eq!(alike(0..40), 1);
        // In folders with such names, too.
        assert_eq!(alike(40..80), 1);
        assert_ne!(names.kind(paths[0]), names.kind(paths[40]));
        // What was there before is itself.
        assert_ne!(names.kind("d/document"), names.kind("d/lock"));
    }

    #[test]
    fn a_few_words_are_as_many_kinds() {
        let paths: Vec<String> = (0..MAX_WORDS)
            .map(|n| format!("{}.json", made_up(n)))
            .collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let names = names(&paths, &[]);
        let kinds: FxHashSet<u64> = paths.iter().map(|path| names.kind(path)).collect();
        assert_eq!(kinds.len(), MAX_WORDS);
    }
}
