//! Conditions that the user adds to those that are inferred, or suppresses among them.

use std::path::Path;

use crashpoint_infer::Rule;

/// A line of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// The end of its path.
    pub file: String,
    pub line: u32,
}

impl SourceLine {
    /// Whether a path, as the compiler knew it, is that of the file.
    pub fn is_file(&self, path: &str) -> bool {
        Path::new(path).ends_with(&self.file)
    }
}

/// What is stored on the first line persists before what is stored on the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedCondition {
    pub first: SourceLine,
    pub later: SourceLine,
}

/// Which hints are not wanted; a field that is none fits all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SuppressedCondition {
    pub rule: Option<Rule>,
    pub first: Option<SourceLine>,
    pub later: Option<SourceLine>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConditionSettings {
    pub add: Vec<AddedCondition>,
    pub suppress: Vec<SuppressedCondition>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_the_end_of_its_path() {
        let at = |file: &str| SourceLine {
            file: file.to_owned(),
            line: 1,
        };
        assert!(at("src/a.c").is_file("/home/me/src/a.c"));
        assert!(!at("a.c").is_file("/home/me/ba.c"));
    }
}
