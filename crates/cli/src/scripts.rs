//! Rules of the user's own: scripts, read from files and named by them.

use std::io;
use std::path::{Path, PathBuf};

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use crashpoint_report::{Rule, Severity};
use crashpoint_rules::{Script, ScriptError};

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("cannot read the rule {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// Already rendered, with an excerpt.
    #[error("{0}")]
    Content(String),
}

/// The text of a script, so that it can be compiled anew for each run.
#[derive(Clone, Debug)]
pub struct Source {
    file: String,
    text: String,
}

impl Source {
    pub fn read(path: &Path) -> Result<Source, LoadError> {
        let text = std::fs::read_to_string(path).map_err(|source| LoadError::Read {
            path: path.to_owned(),
            source,
        })?;
        Ok(Source {
            file: path.display().to_string(),
            text,
        })
    }

    /// The rule's name.
    pub fn id(&self) -> String {
        let name = Path::new(&self.file).file_stem().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    pub fn compile(&self, colours: bool) -> Result<Script, LoadError> {
        Script::compile(&self.file, &self.text)
            .map_err(|error| LoadError::Content(excerpt(&self.text, &error, colours)))
    }

    /// What is told about the rule: the comment that it begins with.
    pub fn describe(&self) -> Rule {
        let lines = self
            .text
            .lines()
            .map_while(|line| line.trim().strip_prefix("//"));
        let comment: Vec<&str> = lines
            .map(|line| line.trim_start_matches('/').trim())
            .collect();
        let manual = comment.join("\n");
        Rule {
            id: self.id(),
            severity: Severity::Warning,
            summary: comment
                .first()
                .map(|line| line.to_string())
                .unwrap_or_default(),
            manual,
        }
    }
}

fn excerpt(text: &str, error: &ScriptError, colours: bool) -> String {
    let title = Level::ERROR.primary_title(error.message.as_str());
    let span = error
        .line
        .and_then(|line| span(text, line, error.column.unwrap_or(1)));
    let Some(span) = span else {
        return format!("error: {error}");
    };
    let snippet = Snippet::source(text).path(error.file.as_str());
    let group = title.element(snippet.annotation(AnnotationKind::Primary.span(span)));
    let renderer = if colours {
        Renderer::styled()
    } else {
        Renderer::plain()
    };
    renderer.render(&[group])
}

/// From the column to the end of the line.
fn span(text: &str, line: usize, column: usize) -> Option<std::ops::Range<usize>> {
    let starts = crashpoint_report::source::line_starts(text);
    let start = *starts.get(line.checked_sub(1)?)?;
    let content = text[start..].lines().next().unwrap_or_default();
    let skipped: usize = content
        .chars()
        .take(column.max(1) - 1)
        .map(char::len_utf8)
        .sum();
    Some(start + skipped..start + content.len().max(skipped))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source {
            file: "rules/my_rule.rhai".into(),
            text: text.into(),
        }
    }

    #[test]
    fn the_first_comment_describes_the_rule() {
        let rule = source("// Sequence numbers last.\n//\n// Why.\n\nfn on_end() {}\n").describe();
        assert_eq!(rule.id, "my_rule");
        assert_eq!(rule.summary, "Sequence numbers last.");
        assert_eq!(rule.manual, "Sequence numbers last.\n\nWhy.");
        assert_eq!(source("fn on_end() {}").describe().summary, "");
    }

    #[test]
    fn a_script_that_does_not_compile_is_shown_in_its_line() {
        let broken = source("// Broken.\nfn on_store(e) {\n    let x = ;\n}\n");
        let Err(error) = broken.compile(false) else {
            panic!("it compiled");
        };
        let text = error.to_string();
        assert!(text.contains("rules/my_rule.rhai:3"), "{text}");
        assert!(text.contains("let x = ;"), "{text}");
    }
}
