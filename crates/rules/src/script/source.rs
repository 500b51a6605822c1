//! The text of a script, before it is compiled: what is known of the rule without running it.

use super::{Script, ScriptError};
use std::path::Path;

/// The text of a script and the file that it came from, so that it can be compiled anew for each
/// run.
#[derive(Clone, Debug)]
pub struct ScriptSource {
    file: String,
    text: String,
}

impl ScriptSource {
    pub fn new(path: &Path, text: impl Into<String>) -> ScriptSource {
        ScriptSource {
            file: path.display().to_string(),
            text: text.into(),
        }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The rule's name: that of the file, without its ending.
    pub fn id(&self) -> String {
        let name = Path::new(&self.file).file_stem().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// The comment that the script begins with, which is the rule's manual; its first line is the
    /// rule's summary.
    pub fn comment(&self) -> String {
        let lines = self.text.lines();
        let comments = lines.map_while(|line| line.trim().strip_prefix("//"));
        let lines: Vec<&str> = comments
            .map(|line| line.trim_start_matches('/').trim())
            .collect();
        lines.join("\n")
    }

    pub fn compile(&self) -> Result<Script, ScriptError> {
        Script::compile(&self.file, &self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_comment_describes_the_rule() {
        let source = |text| ScriptSource::new(Path::new("rules/my_rule.rhai"), text);
        let rule = source("// Sequence numbers last.\n//\n// Why.\n\nfn on_end() {}\n");
        assert_eq!(rule.id(), "my_rule");
        assert_eq!(rule.comment(), "Sequence numbers last.\n\nWhy.");
        assert_eq!(source("fn on_end() {}").comment(), "");
    }
}
