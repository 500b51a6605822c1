//! Commands with placeholders, such as `./store {pool} {ops}`.
//!
//! A command is split into words by the shell's rules of quoting and started without a shell: what
//! a path holds can't become anything else, and the process that is started is the program itself.
//! Whoever wants a shell writes `sh -c '…'`. `{{` and `}}` stand for braces.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::choice::SettingError;

/// What can be filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placeholder {
    /// The file that is persistent memory.
    Pool,
    /// The folder that the program keeps its files in.
    Dir,
    /// The file with the list of operations.
    Ops,
    /// The file with what the program had printed before the crash.
    Printed,
}

impl Placeholder {
    pub fn name(self) -> &'static str {
        match self {
            Placeholder::Pool => "{pool}",
            Placeholder::Dir => "{dir}",
            Placeholder::Ops => "{ops}",
            Placeholder::Printed => "{printed}",
        }
    }
}

/// What starts the target.
pub const RUN: &[Placeholder] = &[Placeholder::Pool, Placeholder::Dir, Placeholder::Ops];
/// What checks a crashed state.
pub const CHECK: &[Placeholder] = &[Placeholder::Pool, Placeholder::Dir, Placeholder::Printed];
/// What names persistent memory.
pub const PM: &[Placeholder] = &[Placeholder::Pool];

/// One word of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Hole(Placeholder),
}

impl Word {
    /// `known` are the placeholders that can be filled in here.
    pub fn parse(text: &str, known: &[Placeholder]) -> Result<Word, SettingError> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            plain += &rest[..at];
            rest = &rest[at..];
            if rest.starts_with("{{") || rest.starts_with("}}") {
                plain += &rest[..1];
                rest = &rest[2..];
            } else if let Some(length) = placeholder(rest) {
                let name = &rest[..length];
                let hole = known.iter().find(|hole| hole.name() == name);
                let hole = hole.ok_or_else(|| unknown(name, known))?;
                if !plain.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                }
                pieces.push(Piece::Hole(*hole));
                rest = &rest[length..];
            } else {
                plain += &rest[..1];
                rest = &rest[1..];
            }
        }
        plain += rest;
        if !plain.is_empty() || pieces.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Word(pieces))
    }

    pub fn uses(&self, hole: Placeholder) -> bool {
        self.0.contains(&Piece::Hole(hole))
    }

    /// The word with every placeholder replaced.
    pub fn fill(&self, value: impl Fn(Placeholder) -> OsString) -> OsString {
        let mut word = OsString::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => word.push(text),
                Piece::Hole(hole) => word.push(value(*hole)),
            }
        }
        word
    }
}

/// The length of the placeholder that a text begins with, right or wrong. Braces around anything
/// but a small word are just braces.
fn placeholder(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('{')?;
    let length = inside.find('}')?;
    let is_word = inside[..length].bytes().all(|b| b.is_ascii_lowercase());
    (length > 0 && is_word).then_some(length + 2)
}

fn unknown(name: &str, known: &[Placeholder]) -> SettingError {
    let names: Vec<&str> = known.iter().map(|hole| hole.name()).collect();
    let reason = SettingError::unknown("placeholder", name, "placeholders here", &names);
    let literal = format!("{{{name}}}");
    SettingError {
        help: reason
            .help
            .map(|help| format!("{help} For braces, write `{literal}`")),
        ..reason
    }
}

/// A command and where it is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    words: Vec<Word>,
    folder: PathBuf,
}

impl Template {
    /// A line as a user writes it. `folder` is where it is started; empty for the current one.
    pub fn parse(
        line: &str,
        known: &[Placeholder],
        folder: &Path,
    ) -> Result<Template, SettingError> {
        let words = shlex::split(line).ok_or_else(|| SettingError::new("a quote is not closed"))?;
        if words.is_empty() {
            return Err(SettingError::new("write a command"));
        }
        let words = words.iter().map(|word| Word::parse(word, known));
        Ok(Template {
            words: words.collect::<Result<_, _>>()?,
            folder: folder.to_owned(),
        })
    }

    /// Words of the command line; none make no command.
    pub fn from_words(words: &[Word]) -> Option<Template> {
        (!words.is_empty()).then(|| Template {
            words: words.to_vec(),
            folder: PathBuf::new(),
        })
    }

    /// Changes where it is started.
    pub fn start_in(&mut self, folder: &Path) {
        self.folder = folder.to_owned();
    }

    /// The folder in which the command is started; empty for the current folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn uses(&self, hole: Placeholder) -> bool {
        self.words.iter().any(|word| word.uses(hole))
    }

    /// The program and its arguments, with every placeholder replaced.
    pub fn fill(&self, values: &[(Placeholder, &OsStr)]) -> Vec<OsString> {
        let value = |hole| {
            let given = values.iter().find(|(given, _)| *given == hole);
            let given = given.map(|(_, value)| (*value).to_owned());
            given.unwrap_or_else(|| OsString::from(hole.name()))
        };
        self.words.iter().map(|word| word.fill(value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(line: &str) -> Vec<OsString> {
        let template = Template::parse(line, CHECK, Path::new("")).unwrap();
        template.fill(&[
            (Placeholder::Pool, OsStr::new("/p q")),
            (Placeholder::Printed, OsStr::new("out")),
        ])
    }

    #[test]
    fn placeholders_are_filled_in_within_words() {
        let line = "./check --pool={pool} '{printed} {pool}' a\\ b";
        let words = ["./check", "--pool=/p q", "out /p q", "a b"];
        assert_eq!(filled(line), words);
        let template = Template::parse(line, CHECK, Path::new("x")).unwrap();
        assert!(template.uses(Placeholder::Pool) && !template.uses(Placeholder::Ops));
        assert_eq!(template.folder(), Path::new("x"));
    }

    #[test]
    fn other_braces_stay() {
        let words = ["awk", "{print}", "{}", "{A}", "{1,2}", "x}", "{"];
        assert_eq!(filled("awk '{{print}}' {} {A} {1,2} x} {"), words);
    }

    #[test]
    fn what_is_no_command_is_refused() {
        let reason = |line| {
            let error = Template::parse(line, RUN, Path::new("")).unwrap_err();
            error.to_string()
        };
        assert_eq!(
            reason("./store {pol} {ops}"),
            "there is no placeholder `{pol}`; did you mean `{pool}`? For braces, write `{{pol}}`"
        );
        assert!(reason("./store {printed}").contains("are {pool}, {dir}, {ops}"));
        assert_eq!(reason(" "), "write a command");
        assert_eq!(reason("./store '{pool}"), "a quote is not closed");
    }
}
