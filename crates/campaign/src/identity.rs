//! What the results of a run depend on, by content: a run is resumed only where all of it is the same.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::settings::template::Template;

/// Scripts and interpreters of a command, whichever word they are.
pub fn files_of(command: &Template) -> Vec<PathBuf> {
    let words = command.fill(&[]).into_iter();
    words.map(|word| command.folder().join(word)).collect()
}

/// Files by their content, as far as there are such.
pub fn contents(files: impl Iterator<Item = PathBuf>) -> BTreeMap<String, String> {
    let content = |path: PathBuf| {
        let bytes = std::fs::read(&path).ok()?;
        Some((path.display().to_string(), format!("{:016x}", hash(&bytes))))
    };
    files.filter_map(content).collect()
}

/// FNV-1a, as its definition is two lines and it never changes.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
