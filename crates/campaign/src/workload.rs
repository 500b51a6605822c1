//! The operations of a test: where they come from, and which of them run after each crash.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crashpoint_check::engine::outcome::MAX_OVERLAPPING;
use crashpoint_check::memory::plan::{SuffixText, Suffixes};
use crashpoint_check::process::output::lines;
use crashpoint_search::workload::{self as search, Operation};

use crate::settings::Settings;

/// Questions after one crash, and operations that remove and ask again. The newest keys come first,
/// so that what is left out is old.
const PROBES: usize = 128;
const REMOVALS: usize = 128;

#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    #[error("cannot read the operations in {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} holds no operations", path.display())]
    Empty { path: PathBuf },
    #[error(
        "`{line}`: {MAX_OVERLAPPING} operations at once can be judged, not {found}: each order of them \
         is run"
    )]
    TooManyAtOnce { line: String, found: usize },
}

/// The operations of a run, in order.
#[derive(Clone, Debug)]
pub struct Workload {
    pub operations: Vec<Operation>,
    /// The text of a file that a user can keep.
    pub text: String,
}

impl Workload {
    pub fn new(settings: &Settings) -> Result<Workload, WorkloadError> {
        let kinds = &settings.operations;
        if let Some(path) = &settings.test.workload.ops_file {
            let text = std::fs::read_to_string(path).map_err(|source| WorkloadError::Read {
                path: path.clone(),
                source,
            })?;
            let operations = search::parse(&text, kinds);
            if operations.is_empty() {
                return Err(WorkloadError::Empty { path: path.clone() });
            }
            let mut counts = operations.iter().map(|line| (line, line.parts().count()));
            if let Some((line, found)) = counts.find(|(_, count)| *count > MAX_OVERLAPPING) {
                let line = line.line.clone();
                return Err(WorkloadError::TooManyAtOnce { line, found });
            }
            return Ok(Workload { operations, text });
        }
        let generator = settings.test.workload.generator(kinds);
        let operations = search::generate(&generator);
        let text = search::write(&operations, Some(&generator));
        Ok(Workload { operations, text })
    }

    /// Whether some operations run at once.
    pub fn has_threads(&self) -> bool {
        self.operations.iter().any(|line| line.parts().count() > 1)
    }

    /// All operations, one after the other.
    pub fn one_by_one(&self) -> String {
        lines_of(&self.operations)
    }

    /// What runs after a crash in each operation: questions about all that was touched, what would
    /// have followed, and the removal of everything, with questions again. `printed` is the output
    /// of a run without a crash.
    pub fn lists<'a>(&'a self, settings: &'a Settings, printed: &[u8]) -> Suffixes<'a> {
        let by_line = LinePerOperation::of(printed, self.operations.len());
        let suffix = settings.test.after_crash.suffix;
        let list = move |number: usize| {
            let probes = match number.checked_sub(1) {
                Some(upto) if settings.test.after_crash.probe => {
                    search::probes(&self.operations, upto, &settings.operations, PROBES)
                }
                _ => Vec::new(),
            };
            let rest = &self.operations[number..];
            let after = &rest[..rest.len().min(suffix)];
            let touched = (number + after.len()).checked_sub(1);
            let removals = match touched {
                Some(upto) if settings.test.after_crash.probe => {
                    search::removals(&self.operations, upto, &settings.operations, REMOVALS)
                }
                _ => Vec::new(),
            };
            let before = number.checked_sub(1).map(|line| &self.operations[line]);
            let parts = before.into_iter().flat_map(Operation::parts);
            let at_once: Vec<String> = parts.map(str::to_owned).collect();
            SuffixText {
                // Whoever recovers is alone.
                text: lines_of(probes.iter().chain(after).chain(&removals)),
                probes: probes.len(),
                operations: after.iter().map(|line| line.parts().count()).sum(),
                removals: removals.len(),
                printed: Arc::clone(&by_line.printed),
                printed_before: by_line.ends[number.saturating_sub(1)],
                printed_after: by_line.ends[number],
                overlapping: match at_once.len() {
                    1 => Vec::new(),
                    _ => at_once,
                },
            }
        };
        Suffixes::new(self.operations.len() + 1, list)
    }

    /// The line of an operation, as a user knows it.
    pub fn line(&self, operation: u32) -> &str {
        let known = self.operations.get(operation as usize);
        known.map_or("", |operation| operation.line.trim())
    }
}

/// One operation per line, those that run at once too.
fn lines_of<'a>(operations: impl IntoIterator<Item = &'a Operation>) -> String {
    let mut text = String::new();
    for part in operations.into_iter().flat_map(Operation::parts) {
        text += part;
        text.push('\n');
    }
    text
}

/// What a program had printed when so many operations were done. Known where it prints one line for
/// each; otherwise nothing is claimed to have been printed, and nothing is acknowledged.
struct LinePerOperation {
    printed: Arc<[u8]>,
    /// How much of it, by the number of operations.
    ends: Vec<usize>,
}

impl LinePerOperation {
    fn of(printed: &[u8], operations: usize) -> LinePerOperation {
        let mut text = Vec::new();
        let mut ends = vec![0];
        for line in lines(printed) {
            text.extend(line);
            text.push(b'\n');
            ends.push(text.len());
        }
        if ends.len() != operations + 1 {
            ends = vec![0; operations + 1];
        }
        LinePerOperation {
            printed: text.into(),
            ends,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crashpoint_check::engine::crash_points::SuffixId;
    use crashpoint_search::workload::{ArgumentKind, OperationKind};

    fn settings() -> Settings {
        let mut settings = Settings::default();
        settings.test.after_crash.suffix = 1;
        settings.operations = vec![
            OperationKind::new("put", vec![ArgumentKind::NewKey, ArgumentKind::Value]),
            OperationKind {
                read_only: true,
                ..OperationKind::new("get", vec![ArgumentKind::UsedKey])
            },
        ];
        settings
    }

    fn workload_of(text: String, settings: &Settings) -> Workload {
        let operations = search::parse(&text, &settings.operations);
        Workload { operations, text }
    }

    #[test]
    fn after_a_crash_everything_touched_is_asked_for_and_the_rest_goes_on() {
        let settings = settings();
        let text = "put 1 5\nput 2 6\nput 3 7\n".to_owned();
        let workload = workload_of(text, &settings);
        let lists = workload.lists(&settings, b"a\nb\nc\n");
        let list = |number: u32| lists.get(SuffixId(number));
        let texts: Vec<String> = (0..4).map(|number| list(number).text.clone()).collect();
        assert_eq!(
            texts,
            [
                "put 1 5\n",
                "get 1\nput 2 6\n",
                "get 2\nget 1\nput 3 7\n",
                "get 3\nget 2\nget 1\n"
            ]
        );
        let second = list(2);
        assert_eq!(second.suffix(SuffixId(2), false).printed, b"a\n");
        assert_eq!(second.suffix(SuffixId(2), true).printed, b"a\nb\n");
        assert_eq!((second.probes, second.operations), (2, 1));
    }

    #[test]
    fn after_a_crash_operations_run_one_by_one() {
        let settings = settings();
        let text = "put 1 5 || put 2 6\nput 3 7 || get 1\n".to_owned();
        let operations = search::parse(&text, &settings.operations);
        let workload = Workload { operations, text };
        assert!(workload.has_threads());
        assert_eq!(workload.one_by_one(), "put 1 5\nput 2 6\nput 3 7\nget 1\n");
        let lists = workload.lists(&settings, b"");
        let first = lists.get(SuffixId(1));
        assert_eq!(first.text, "get 2\nget 1\nput 3 7\nget 1\n");
        assert_eq!(first.overlapping, ["put 1 5", "put 2 6"]);
        assert!(lists.get(SuffixId(0)).overlapping.is_empty());
    }

    #[test]
    fn output_that_is_not_one_line_each_acknowledges_nothing() {
        let settings = settings();
        let text = "put 1 5\nput 2 6\n".to_owned();
        let workload = workload_of(text, &settings);
        let lists = workload.lists(&settings, b"one line\n");
        let claimed = |number| lists.get(SuffixId(number)).printed_after;
        assert_eq!([0, 1, 2].map(claimed), [0; 3]);
    }
}
