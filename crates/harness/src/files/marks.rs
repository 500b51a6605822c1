//! The comments of `corpus/files`, at the end of the line that a finding belongs to:
//!
//! ```text
//! //~ BUG_NAME rule needed|ahead [call(file)] on MODELS
//! ```
//!
//! `#~` in Python. `MODELS` is `all`, `all but` some, or some names. Where a language has lines, the
//! line is the place. An interpreted program has none that could be seen from outside; there the mark
//! names the system call and the last part of a path that it is about, with `*` for any text. A line
//! with nothing else belongs to the line above it.

use std::path::{Path, PathBuf};

use crate::expectations::{CRASH_RULES, Side};
use crate::{Error, io_error};

/// The models that are built in.
pub const MODELS: [&str; 6] = [
    "posix",
    "ext4-ordered",
    "ext4-writeback",
    "ext4-journal",
    "xfs",
    "btrfs",
];

/// One side of a finding that is expected of one variant, and under which models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileMark {
    pub variant: String,
    pub rule: String,
    pub side: Side,
    pub spot: Spot,
    pub models: Vec<&'static str>,
}

/// What a finding names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spot {
    Line { file: PathBuf, line: u32 },
    Call { name: String, file: String },
}

/// All marks of a source.
pub fn read(source: &Path) -> Result<Vec<FileMark>, Error> {
    let text = std::fs::read_to_string(source).map_err(io_error(source))?;
    let mut marks = Vec::new();
    let mut code = 0;
    for (index, line) in text.lines().enumerate() {
        let mut parts = line.split("//~").flat_map(|part| part.split("#~"));
        let before = parts.next().unwrap_or_default();
        if !before.trim().is_empty() {
            code = index + 1;
        }
        for part in parts {
            let mark = parse(source, code as u32, part).ok_or_else(|| Error::Expectation {
                path: source.to_owned(),
                line: index + 1,
                reason: format!(
                    "`~{part}` is not `~ BUG_NAME rule needed|ahead [call(file)] on MODELS`"
                ),
            })?;
            marks.push(mark);
        }
    }
    Ok(marks)
}

fn parse(source: &Path, line: u32, text: &str) -> Option<FileMark> {
    let (what, models) = text.split_once(" on ")?;
    let words: Vec<&str> = what.split_whitespace().collect();
    let (variant, rule, side, call) = match words[..] {
        [variant, rule, side] => (variant, rule, side, None),
        [variant, rule, side, call] => (variant, rule, side, Some(call)),
        _ => return None,
    };
    let side = match side {
        "needed" => Side::Needed,
        "ahead" => Side::Ahead,
        _ => return None,
    };
    let spot = match call {
        Some(call) => spot_of(call)?,
        None => Spot::Line {
            file: source.to_owned(),
            line,
        },
    };
    (variant.starts_with("BUG_") && CRASH_RULES.contains(&rule)).then_some(())?;
    Some(FileMark {
        variant: variant.to_owned(),
        rule: rule.to_owned(),
        side,
        spot,
        models: models_of(models)?,
    })
}

/// `call(file)`.
pub(crate) fn spot_of(text: &str) -> Option<Spot> {
    let (name, rest) = text.split_once('(')?;
    let file = rest.strip_suffix(')')?;
    (!name.is_empty() && !file.is_empty()).then(|| Spot::Call {
        name: name.to_owned(),
        file: file.to_owned(),
    })
}

/// `all`, `all but` some, or some names, of which each must be known.
pub(crate) fn models_of(text: &str) -> Option<Vec<&'static str>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let known =
        |names: &[&str]| !names.is_empty() && names.iter().all(|name| MODELS.contains(name));
    let chosen = |keep: &dyn Fn(&str) -> bool| MODELS.into_iter().filter(|m| keep(m)).collect();
    match words[..] {
        ["all"] => Some(MODELS.to_vec()),
        ["all", "but", ref names @ ..] if known(names) => Some(chosen(&|m| !names.contains(&m))),
        ref names if known(names) => Some(chosen(&|m| names.contains(&m))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_names_a_line_or_a_call_and_the_models() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("a.py");
        let text = "import os\nf()\n  #~ BUG_A ordering ahead rename(a*) on all but xfs btrfs\n\
                    g() #~ BUG_B durability needed on posix\n";
        std::fs::write(&source, text).unwrap();
        let marks = read(&source).unwrap();
        assert_eq!(marks.len(), 2);
        assert_eq!(marks[0].models, MODELS[..4]);
        let call = Spot::Call {
            name: "rename".into(),
            file: "a*".into(),
        };
        assert_eq!((&marks[0].spot, marks[0].side), (&call, Side::Ahead));
        assert_eq!(marks[1].models, ["posix"]);
        let line = Spot::Line {
            file: source.clone(),
            line: 4,
        };
        assert_eq!((&marks[1].spot, marks[1].side), (&line, Side::Needed));
    }

    #[test]
    fn a_mark_that_means_nothing_is_an_error() {
        for text in [
            " BUG_A ordering needed",
            " BUG_A ordering needed on",
            " BUG_A ordering needed on ext5",
            " BUG_A ordering needed on all but",
            " BUG_A ordering behind on all",
            " BUG_A missing-flush needed on all",
            " A ordering needed on all",
            " BUG_A ordering needed rename on all",
            " BUG_A ordering needed rename(a b) on all",
        ] {
            assert_eq!(parse(Path::new("a.c"), 1, text), None, "{text}");
        }
    }
}
