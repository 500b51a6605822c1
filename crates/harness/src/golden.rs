//! Whole reports, compared with the ones that were accepted: a file `NAME.expected` beside each
//! program, with the reports of all its variants.
//!
//! Numbers that shift with every change to the instrumentation are erased before:
//!
//! | what | because |
//! |---|---|
//! | `first as event 123` | numbers of events count everything that is recorded |
//! | `in 123 events` | as above |

use std::path::{Path, PathBuf};

use crate::{Error, io_error};

/// The accepted reports of one program.
pub struct Golden {
    path: PathBuf,
    text: String,
}

/// Set to `1` to accept what is reported.
const BLESS: &str = "CRASHPOINT_BLESS";

impl Golden {
    pub fn of(source: &Path) -> Golden {
        Golden {
            path: source.with_extension("expected"),
            text: String::new(),
        }
    }

    /// The report of the next variant.
    pub fn add(&mut self, name: &str, report: &str) {
        self.text
            .push_str(&format!("==== {name}\n{}\n", normalise(report).trim_end()));
    }
}

/// Compares with the file, or writes it where that is asked for; the complaint, if they differ.
pub fn compare(golden: &Golden) -> Result<Option<String>, Error> {
    let path = &golden.path;
    if std::env::var_os(BLESS).is_some_and(|value| value == "1") {
        std::fs::write(path, &golden.text).map_err(io_error(path))?;
        return Ok(None);
    }
    let accepted = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(io_error(path)(error)),
    };
    Ok((accepted != golden.text).then(|| {
        format!(
            "{} differs from what is reported, first in line {}. Look at the difference and accept \
             it with {BLESS}=1:\n{}",
            path.display(),
            first_difference(&accepted, &golden.text),
            golden.text
        )
    }))
}

fn first_difference(a: &str, b: &str) -> usize {
    let same = a.lines().zip(b.lines()).take_while(|(a, b)| a == b).count();
    same + 1
}

/// Erases what changes without meaning anything.
pub fn normalise(report: &str) -> String {
    let mut lines = Vec::new();
    for line in report.lines() {
        let line = erase_number_after(line, "first as event ");
        lines.push(erase_number_after(&line, " in "));
    }
    lines.join("\n") + "\n"
}

/// Replaces the number that follows `word` by `…`, if one does.
fn erase_number_after(line: &str, word: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(word) {
        let (before, after) = rest.split_at(at + word.len());
        out.push_str(before);
        let digits = after
            .find(|c: char| !c.is_ascii_digit() && c != ',')
            .unwrap_or(after.len());
        let number = &after[..digits];
        let is_count =
            !number.is_empty() && (word != " in " || after[digits..].starts_with(" event"));
        if is_count {
            out.push('…');
            rest = &after[digits..];
        } else {
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_events_are_erased() {
        let report = "\
3 findings in 1,234 events: 3 errors
 = note: happened 2 times of 40, first as event 17
x in 3 lines
";
        let expected = "\
3 findings in … events: 3 errors
 = note: happened 2 times of 40, first as event …
x in 3 lines
";
        assert_eq!(normalise(report), expected);
    }
}
