//! Every program of `corpus/files` in every variant.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::marks::{self, FileMark};
use crate::{Error, io_error};

/// One program in one variant.
#[derive(Clone, Debug)]
pub struct FileCase {
    /// Such as `files/notes.py BUG_TRUNCATED`.
    pub name: String,
    pub source: PathBuf,
    pub language: Language,
    pub variant: Option<String>,
    /// Of this variant; empty for the correct one.
    pub marks: Vec<FileMark>,
}

impl FileCase {
    /// Whether there is something to find under a model.
    pub fn is_seeded(&self, model: &str) -> bool {
        self.marks.iter().any(|mark| mark.models.contains(&model))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Language {
    C,
    Rust,
    Python,
    JavaScript,
}

impl Language {
    fn of(source: &Path) -> Option<Language> {
        match source.extension()?.to_str()? {
            "c" => Some(Language::C),
            "rs" => Some(Language::Rust),
            "py" => Some(Language::Python),
            "js" => Some(Language::JavaScript),
            _ => None,
        }
    }
}

/// All cases of `corpus/files` below `root`, by name.
pub fn file_cases(root: &Path) -> Result<Vec<FileCase>, Error> {
    let folder = root.join("files");
    let mut cases = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(io_error(&folder))? {
        let source = entry.map_err(io_error(&folder))?.path();
        // A driver is the main of the others.
        let is_driver = source.file_stem().is_some_and(|stem| stem == "driver");
        if let Some(language) = Language::of(&source).filter(|_| !is_driver) {
            cases.extend(variants(&source, language)?);
        }
    }
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(cases)
}

/// The correct form, then each variant.
fn variants(source: &Path, language: Language) -> Result<Vec<FileCase>, Error> {
    let marks = marks::read(source)?;
    let file = source.file_name().unwrap_or_default().to_string_lossy();
    let bugs: BTreeSet<&str> = marks.iter().map(|mark| mark.variant.as_str()).collect();
    let case = |variant: Option<&str>| {
        let is_own = |mark: &&FileMark| Some(mark.variant.as_str()) == variant;
        FileCase {
            name: match variant {
                Some(bug) => format!("files/{file} {bug}"),
                None => format!("files/{file}"),
            },
            source: source.to_owned(),
            language,
            variant: variant.map(str::to_owned),
            marks: marks.iter().filter(is_own).cloned().collect(),
        }
    };
    let variants = [None].into_iter().chain(bugs.into_iter().map(Some));
    Ok(variants.map(case).collect())
}
