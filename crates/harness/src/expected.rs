//! Whole reports, compared with the ones that were accepted. They lie beside each program: those of
//! `crashpoint lint` for every variant in `NAME.expected`, and those of `crashpoint test` for some
//! variants in `NAME.crash.expected`. Such a file has a section for each case, below `==== CASE`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

use similar::TextDiff;

use crate::normalise::normalise;
use crate::{Error, io_error};

/// Set to `1` to accept what is reported.
const BLESS: &str = "CRASHPOINT_BLESS";

/// What the line above a section begins with.
const SECTION: &str = "==== ";

/// Lines around a difference.
const CONTEXT: usize = 3;

/// The accepted reports of one program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExpectedReports {
    path: PathBuf,
}

/// A report of one case, as it was made now.
#[derive(Clone, Copy, Debug)]
pub struct ActualReport<'a> {
    pub case: &'a str,
    pub text: &'a str,
    /// Whether the program runs operations in several threads.
    pub threads: bool,
    /// Whether all marks are met: nothing else may be accepted.
    pub is_right: bool,
}

impl ExpectedReports {
    /// Of `crashpoint lint`, for a source.
    pub fn of_lint(source: &Path) -> ExpectedReports {
        let path = source.with_extension("expected");
        ExpectedReports { path }
    }

    /// Of `crashpoint test`, for a source.
    pub fn of_crashes(source: &Path) -> ExpectedReports {
        let path = source.with_extension("crash.expected");
        ExpectedReports { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Names of the cases that have a section.
    pub fn cases(&self) -> Result<Vec<String>, Error> {
        Ok(self.sections()?.into_keys().collect())
    }

    fn sections(&self) -> Result<BTreeMap<String, String>, Error> {
        match std::fs::read_to_string(&self.path) {
            Ok(text) => Ok(parse(&text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeMap::new()),
            Err(error) => Err(io_error(&self.path)(error)),
        }
    }

    /// Compares with the case's section, or rewrites it where that is asked for; the difference, line
    /// by line, if there is one.
    pub fn compare(&self, actual: &ActualReport<'_>) -> Result<Option<String>, Error> {
        let is_blessed = std::env::var_os(BLESS).is_some_and(|value| value == "1");
        self.compare_or_accept(actual, is_blessed)
    }

    fn compare_or_accept(
        &self,
        actual: &ActualReport<'_>,
        is_blessed: bool,
    ) -> Result<Option<String>, Error> {
        let report = normalise(actual.text, actual.threads);
        let sections = self.sections()?;
        let accepted = sections.get(actual.case);
        if accepted == Some(&report) {
            return Ok(None);
        }
        if is_blessed && actual.is_right {
            self.accept(actual.case, report)?;
            return Ok(None);
        }
        let accepted = accepted.map_or("", String::as_str);
        let diff = TextDiff::from_lines(accepted, &report);
        let mut diff = diff.unified_diff();
        diff.context_radius(CONTEXT).header("expected", "actual");
        Ok(Some(format!(
            "the report differs from `{}`; {BLESS}=1 accepts it once all marks are met\n{diff}",
            self.path.display()
        )))
    }

    /// Other cases may be accepted at the same time, by other threads or processes.
    fn accept(&self, case: &str, report: String) -> Result<(), Error> {
        let in_file = || io_error(&self.path);
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&self.path).map_err(in_file())?;
        file.lock().map_err(in_file())?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(in_file())?;
        let mut sections = parse(&text);
        sections.insert(case.to_owned(), report);
        file.rewind().map_err(in_file())?;
        file.set_len(0).map_err(in_file())?;
        file.write_all(print(&sections).as_bytes())
            .map_err(in_file())
    }
}

/// All files of accepted reports below a folder.
pub fn expected_reports(root: &Path) -> Result<Vec<ExpectedReports>, Error> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(io_error(&folder))? {
            let path = entry.map_err(io_error(&folder))?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "expected") {
                found.push(ExpectedReports { path });
            }
        }
    }
    found.sort();
    Ok(found)
}

fn parse(text: &str) -> BTreeMap<String, String> {
    let mut sections = BTreeMap::new();
    let mut last: Option<&mut String> = None;
    for line in text.lines() {
        match (line.strip_prefix(SECTION), &mut last) {
            (Some(case), _) => last = Some(sections.entry(case.to_owned()).or_default()),
            (None, Some(section)) => {
                section.push_str(line);
                section.push('\n');
            }
            (None, None) => {}
        }
    }
    sections
}

fn print(sections: &BTreeMap<String, String>) -> String {
    let section = |(case, text): (&String, &String)| format!("{SECTION}{case}\n{text}");
    sections.iter().map(section).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actual<'a>(case: &'a str, text: &'a str) -> ActualReport<'a> {
        ActualReport {
            case,
            text,
            threads: false,
            is_right: true,
        }
    }

    #[test]
    fn a_difference_is_told_line_by_line() {
        let folder = tempfile::tempdir().unwrap();
        let reports = ExpectedReports::of_lint(&folder.path().join("a.c"));
        std::fs::write(reports.path(), "==== a\none\ntwo\n==== b\nthree\n").unwrap();
        assert_eq!(reports.cases().unwrap(), ["a", "b"]);
        assert_eq!(
            reports
                .compare_or_accept(&actual("a", "one\ntwo\n"), false)
                .unwrap(),
            None
        );
        let other = reports.compare_or_accept(&actual("a", "one\n2\n"), false);
        let told = other.unwrap().expect("a difference");
        assert!(
            told.ends_with("--- expected\n+++ actual\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"),
            "{told}"
        );
    }

    #[test]
    fn accepting_rewrites_one_section() {
        let folder = tempfile::tempdir().unwrap();
        let reports = ExpectedReports::of_crashes(&folder.path().join("a.c"));
        for (case, text) in [("b", "old"), ("a", "two"), ("b", "three")] {
            assert_eq!(
                reports
                    .compare_or_accept(&actual(case, text), true)
                    .unwrap(),
                None
            );
        }
        let file = std::fs::read_to_string(folder.path().join("a.crash.expected")).unwrap();
        assert_eq!(file, "==== a\ntwo\n==== b\nthree\n");
        assert_eq!(expected_reports(folder.path()).unwrap(), [reports]);
    }

    #[test]
    fn a_report_is_not_accepted_while_a_mark_is_not_met() {
        let folder = tempfile::tempdir().unwrap();
        let reports = ExpectedReports::of_lint(&folder.path().join("a.c"));
        let wrong = ActualReport {
            is_right: false,
            ..actual("a", "one")
        };
        assert!(reports.compare_or_accept(&wrong, true).unwrap().is_some());
        assert!(!reports.path().exists());
    }
}
