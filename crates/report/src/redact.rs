//! Makes reports comparable: everything that depends on the machine or on luck is replaced.
//!
//! It works on the report, before it is rendered, so that every renderer's output can be compared
//! and none has to know. What is erased, and why:
//!
//! | what | becomes | because |
//! |---|---|---|
//! | a known folder at the start of a path | a word such as `$CORPUS` | checkouts differ |
//! | seconds | 0 | time differs |
//! | orders and threads (on request) | 0 | threads take turns as they like |

use crate::finding::{Finding, Frame, Report, Step};

#[derive(Clone, Debug, Default)]
pub struct Redactor {
    folders: Vec<(String, String)>,
    orders: bool,
}

impl Redactor {
    pub fn new() -> Redactor {
        Redactor::default()
    }

    /// Replaces `folder` at the start of paths by `word`. The first folder that fits wins.
    pub fn folder(mut self, folder: impl Into<String>, word: impl Into<String>) -> Redactor {
        self.folders.push((folder.into(), word.into()));
        self
    }

    /// Also erases numbers that depend on how threads interleave.
    pub fn orders(mut self) -> Redactor {
        self.orders = true;
        self
    }

    pub fn apply(&self, mut report: Report) -> Report {
        let recording = report.recording.display().to_string();
        report.recording = self.text(&recording).into();
        report.figures.seconds = 0.0;
        for argument in report.command.iter_mut().chain(&mut report.problems) {
            *argument = self.text(argument);
        }
        for finding in &mut report.findings {
            self.finding(finding);
        }
        report
    }

    fn finding(&self, finding: &mut Finding) {
        finding.message = self.text(&finding.message);
        finding.help = self.text(&finding.help);
        if let Some(location) = &mut finding.location {
            location.file = self.text(&location.file);
        }
        if let Some(place) = &mut finding.place {
            place.file = self.text(&place.file);
        }
        for Frame { location, .. } in &mut finding.stack {
            if let Some(location) = location {
                location.file = self.text(&location.file);
            }
        }
        for Step {
            location,
            order,
            thread,
            ..
        } in &mut finding.history
        {
            if let Some(location) = location {
                location.file = self.text(&location.file);
            }
            if self.orders {
                *order = 0;
                *thread = thread.map(|_| 0);
            }
        }
        if self.orders {
            finding.first_order = 0;
        }
    }

    /// Replaces the known folders wherever they stand as whole path components.
    pub fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (folder, word) in &self.folders {
            let mut from = 0;
            while let Some(found) = text[from..].find(folder.as_str()) {
                let start = from + found;
                let end = start + folder.len();
                let whole = matches!(text[end..].chars().next(), None | Some('/'))
                    || text[end..].starts_with(|c: char| !c.is_alphanumeric() && c != '.');
                if whole {
                    text.replace_range(start..end, word);
                    from = start + word.len();
                } else {
                    from = end;
                }
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples;

    #[test]
    fn folders_become_words() {
        let redactor = Redactor::new()
            .folder("/src", "$SRC")
            .folder("/dev/shm", "$PM");
        let report = redactor.apply(examples::report());
        let finding = &report.findings[1];
        assert_eq!(finding.location.as_ref().unwrap().file, "$SRC/store.c");
        assert_eq!(
            finding.stack[0].location.as_ref().unwrap().file,
            "$SRC/pm.h"
        );
        assert_eq!(finding.place.as_ref().unwrap().file, "$PM/pool");
        assert_eq!(report.command, ["./store", "$PM/pool"]);
        assert_eq!(report.figures.seconds, 0.0);
        assert_eq!(finding.first_order, 7);
    }

    #[test]
    fn only_whole_components_are_replaced() {
        let redactor = Redactor::new().folder("/tmp/a", "$A");
        assert_eq!(redactor.text("/tmp/a/b and /tmp/ab"), "$A/b and /tmp/ab");
        assert_eq!(redactor.text("in `/tmp/a`"), "in `$A`");
    }

    #[test]
    fn orders_go_on_request() {
        let report = Redactor::new().orders().apply(examples::report());
        assert_eq!(report.findings[1].first_order, 0);
        assert_eq!(report.findings[1].history[1].order, 0);
    }
}
