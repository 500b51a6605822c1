//! Command templates: `./store {pool} {ops}`.
//!
//! Words are split as a POSIX shell splits them, quotes included, but no shell runs: the target
//! itself must be the process that is started, since the fork server lives in it. Leading
//! `NAME=value` words are environment variables.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What stands for a path in a template.
pub const PLACEHOLDERS: [&str; 3] = ["pool", "ops", "printed"];

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("`{0}` has a quote that is not closed")]
    Quote(String),
    #[error("`{0}` names no program")]
    Empty(String),
    #[error("`{{{name}}}` in `{template}` means nothing; there are {{pool}}, {{ops}}, {{printed}}")]
    Placeholder { name: String, template: String },
    #[error("`{template}` has no {{{name}}}, so that {reason}")]
    Missing {
        template: String,
        name: &'static str,
        reason: &'static str,
    },
}

/// A command with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    text: String,
    environment: Vec<(String, String)>,
    words: Vec<String>,
    /// Where it runs; programs with a relative path are found from here.
    pub directory: PathBuf,
}

/// A command that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    pub program: OsString,
    pub arguments: Vec<OsString>,
    pub environment: BTreeMap<OsString, OsString>,
    pub directory: PathBuf,
}

/// The paths that a template is filled with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    pub pool: PathBuf,
    pub ops: PathBuf,
    pub printed: PathBuf,
}

impl Template {
    pub fn parse(text: &str, directory: &Path) -> Result<Template, TemplateError> {
        let words = shlex::split(text).ok_or_else(|| TemplateError::Quote(text.to_owned()))?;
        let mut environment = Vec::new();
        let mut words = words.into_iter().peekable();
        while let Some((name, value)) = words.peek().and_then(|word| variable(word)) {
            environment.push((name.to_owned(), value.to_owned()));
            words.next();
        }
        let words: Vec<String> = words.collect();
        if words.is_empty() {
            return Err(TemplateError::Empty(text.to_owned()));
        }
        for word in &words {
            if let Some(name) = placeholders(word).find(|name| !PLACEHOLDERS.contains(name)) {
                return Err(TemplateError::Placeholder {
                    name: name.to_owned(),
                    template: text.to_owned(),
                });
            }
        }
        Ok(Template {
            text: text.to_owned(),
            environment,
            words,
            directory: directory.to_owned(),
        })
    }

    /// A command given word by word.
    pub fn of_words(words: &[String], directory: &Path) -> Result<Template, TemplateError> {
        let joined = shlex::try_join(words.iter().map(String::as_str));
        Template::parse(&joined.unwrap_or_default(), directory)
    }

    pub fn names(&self, placeholder: &str) -> bool {
        let mut all = self.words.iter().flat_map(|word| placeholders(word));
        all.any(|name| name == placeholder)
    }

    /// Demands a placeholder; `reason` completes "so that".
    pub fn require(&self, name: &'static str, reason: &'static str) -> Result<(), TemplateError> {
        match self.names(name) {
            true => Ok(()),
            false => Err(TemplateError::Missing {
                template: self.text.clone(),
                name,
                reason,
            }),
        }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn fill(&self, paths: &Paths) -> Command {
        let mut words = self.words.iter().map(|word| fill(word, paths));
        let program = words.next().expect("a template names a program");
        let environment = self.environment.iter();
        Command {
            program,
            arguments: words.collect(),
            environment: environment
                .map(|(name, value)| (name.into(), fill(value, paths)))
                .collect(),
            directory: self.directory.clone(),
        }
    }
}

fn variable(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let mut letters = name.chars();
    let first = letters.next()?;
    let valid = (first.is_ascii_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    valid.then_some((name, value))
}

/// Names in braces. What is no name, such as `{}` or `{a b}`, is text.
fn placeholders(word: &str) -> impl Iterator<Item = &str> {
    word.split('{').skip(1).filter_map(|rest| {
        let (name, _) = rest.split_once('}')?;
        let is_name = !name.is_empty() && name.chars().all(|letter| letter.is_ascii_lowercase());
        is_name.then_some(name)
    })
}

fn fill(word: &str, paths: &Paths) -> OsString {
    let values = [&paths.pool, &paths.ops, &paths.printed];
    let mut filled = OsString::new();
    let mut rest = word;
    'words: while !rest.is_empty() {
        for (name, value) in PLACEHOLDERS.iter().zip(values) {
            let marked = format!("{{{name}}}");
            if let Some(after) = rest.strip_prefix(&marked) {
                filled.push(value);
                rest = after;
                continue 'words;
            }
        }
        let next = rest[1..].find('{').map_or(rest.len(), |at| at + 1);
        let next = (next..=rest.len()).find(|at| rest.is_char_boundary(*at));
        let (text, after) = rest.split_at(next.unwrap_or(rest.len()));
        filled.push(text);
        rest = after;
    }
    filled
}

impl Command {
    pub fn to_std(&self) -> std::process::Command {
        let mut command = std::process::Command::new(self.absolute_program());
        command
            .args(&self.arguments)
            .envs(&self.environment)
            .current_dir(&self.directory);
        command
    }

    /// A relative path counts from the directory that the command runs in.
    fn absolute_program(&self) -> OsString {
        let path = Path::new(&self.program);
        match path.is_relative() && path.components().count() > 1 {
            true => self.directory.join(path).into_os_string(),
            false => self.program.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths() -> Paths {
        Paths {
            pool: "/s/pool".into(),
            ops: "/s/a b".into(),
            printed: "/s/out".into(),
        }
    }

    fn words(text: &str) -> Vec<String> {
        let command = Template::parse(text, Path::new("/d"))
            .unwrap()
            .fill(&paths());
        let mut words = vec![command.program];
        words.extend(command.arguments);
        let text = |word: OsString| word.into_string().unwrap();
        words.into_iter().map(text).collect()
    }

    #[test]
    fn placeholders_become_paths_wherever_they_stand() {
        assert_eq!(words("./s {pool} {ops}"), ["./s", "/s/pool", "/s/a b"]);
        assert_eq!(
            words("s --at={pool}.x '{} {A}'"),
            ["s", "--at=/s/pool.x", "{} {A}"]
        );
        assert_eq!(words("é{printed}é"), ["é/s/outé"]);
    }

    #[test]
    fn variables_come_before_the_program() {
        let template = Template::parse("A=1 B={pool} ./s x=y", Path::new("/d")).unwrap();
        let command = template.fill(&paths());
        let value = |name: &str| command.environment.get(&OsString::from(name)).cloned();
        assert_eq!(value("A"), Some("1".into()));
        assert_eq!(value("B"), Some("/s/pool".into()));
        assert_eq!(command.program, "./s");
        assert_eq!(command.arguments, ["x=y"]);
        assert_eq!(command.absolute_program(), "/d/./s");
    }

    #[test]
    fn what_cannot_be_meant_is_an_error() {
        let error = |text| {
            Template::parse(text, Path::new("/"))
                .unwrap_err()
                .to_string()
        };
        assert!(error("./s {pol}").contains("`{pol}`"));
        assert!(error("'a").contains("not closed"));
        assert!(error("A=1").contains("names no program"));
        let template = Template::parse("./s {ops}", Path::new("/")).unwrap();
        assert!(template.require("pool", "nothing can be crashed").is_err());
        assert!(template.require("ops", "").is_ok());
    }
}
