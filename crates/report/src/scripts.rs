//! Rules of the user's own: scripts, read from files, told about like built-in rules, and shown with
//! an excerpt where they do not compile.

use crate::source::line_starts;
use crate::{Rule, Severity};
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use crashpoint_rules::{Script, ScriptError, ScriptSource};
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("cannot read the rule {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// Already rendered, with an excerpt.
    #[error("{0}")]
    Content(String),
}

pub fn read(path: &Path) -> Result<ScriptSource, LoadError> {
    let text = std::fs::read_to_string(path).map_err(|source| LoadError::Read {
        path: path.to_owned(),
        source,
    })?;
    Ok(ScriptSource::new(path, text))
}

pub fn compile(source: &ScriptSource, colours: bool) -> Result<Script, LoadError> {
    let compiled = source.compile();
    compiled.map_err(|error| LoadError::Content(excerpt(source.text(), &error, colours)))
}

/// The rule as its users know it: by the comment that the script begins with.
pub fn describe(source: &ScriptSource) -> Rule {
    let manual = source.comment();
    Rule {
        id: source.id(),
        severity: Severity::Warning,
        summary: manual.lines().next().unwrap_or_default().to_owned(),
        manual,
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

/// The span from the column to the end of the line.
fn span(text: &str, line: usize, column: usize) -> Option<std::ops::Range<usize>> {
    let starts = line_starts(text);
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

    fn source(text: &str) -> ScriptSource {
        ScriptSource::new(Path::new("rules/my_rule.rhai"), text)
    }

    #[test]
    fn the_first_line_of_the_comment_is_the_summary() {
        let rule = describe(&source("// Sequence numbers last.\n//\n// Why.\n"));
        assert_eq!(rule.id, "my_rule");
        assert_eq!(rule.summary, "Sequence numbers last.");
        assert_eq!(rule.manual, "Sequence numbers last.\n\nWhy.");
        assert_eq!(describe(&source("fn on_end() {}")).summary, "");
    }

    #[test]
    fn a_script_that_does_not_compile_is_shown_in_its_line() {
        let broken = source("// Broken.\nfn on_store(e) {\n    let x = ;\n}\n");
        let Err(error) = compile(&broken, false) else {
            panic!("it compiled");
        };
        let text = error.to_string();
        assert!(text.contains("rules/my_rule.rhai:3"), "{text}");
        assert!(text.contains("let x = ;"), "{text}");
    }
}
