//! Compares what was found under a model with the marks.

use std::path::Path;

use super::cases::FileCase;
use super::marks::Spot;
use crate::crash::{CrashOutcome, CrashPlace, CrashVerdict};
use crate::expectations::Side;
use crate::lint::same_file;

/// A finding is expected if each place that it names is marked so, for its rule and under this
/// model; the bug is found if at least one is expected.
pub fn judge_files(case: &FileCase, model: &str, outcome: &CrashOutcome) -> CrashVerdict {
    let is_marked = |rule: &str, side: Side, place: &CrashPlace| {
        case.marks.iter().any(|mark| {
            let is_meant = mark.rule == rule && mark.side == side && mark.models.contains(&model);
            is_meant && mark.spot.is_at(place)
        })
    };
    CrashVerdict::by_marks(outcome, case.is_seeded(model), is_marked)
}

impl Spot {
    pub fn is_at(&self, place: &CrashPlace) -> bool {
        match self {
            Spot::Line { file, line } => {
                *line == place.line && same_file(file, Path::new(&place.file))
            }
            Spot::Call { name, file } => {
                let (called, paths) = parts(&place.call);
                let folders = file.matches('/').count();
                let is_it = |path: &&str| matches(file, last(path, folders));
                plain(called) == name && paths.iter().any(is_it)
            }
        }
    }
}

/// The name of a call, and what stands in quotes in it.
fn parts(call: &str) -> (&str, Vec<&str>) {
    let (name, arguments) = call.split_once('(').unwrap_or((call, ""));
    (name, arguments.split('"').skip(1).step_by(2).collect())
}

/// A file's name, and so many folders that it lies in.
fn last(path: &str, folders: usize) -> &str {
    let begin = path.rmatch_indices('/').nth(folders);
    begin.map_or(path, |(slash, _)| &path[slash + 1..])
}

/// Which of several calls for one thing a program uses is up to its libraries.
fn plain(call: &str) -> &str {
    match call {
        "openat" | "openat2" | "creat" => "open",
        "pwrite64" | "pwrite" | "writev" | "pwritev" | "pwritev2" => "write",
        "renameat" | "renameat2" => "rename",
        "linkat" => "link",
        "unlinkat" | "rmdir" => "unlink",
        "mkdirat" => "mkdir",
        "ftruncate" => "truncate",
        other => other,
    }
}

/// `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((begin, rest)) => text.strip_prefix(begin).is_some_and(|text| {
            let mut ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            ends.any(|at| matches(rest, &text[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash::CrashFinding;
    use crate::files::{FileMark, Language};

    fn place(line: u32, call: &str) -> CrashPlace {
        CrashPlace {
            file: if line == 0 {
                String::new()
            } else {
                "/somewhere/a.c".into()
            },
            line,
            call: call.into(),
        }
    }

    #[test]
    fn a_spot_may_name_the_folder_of_a_file() {
        let spot = |file: &str| Spot::Call {
            name: "write".into(),
            file: file.into(),
        };
        let blob = place(0, "write(\"db/blobs/206\", 9 bytes at 0)");
        let other = place(0, "write(\"db/db\", 9 bytes at 0)");
        assert!(spot("blobs/*").is_at(&blob) && spot("206").is_at(&blob));
        assert!(!spot("blobs/*").is_at(&other) && spot("db").is_at(&other));
    }

    fn case() -> FileCase {
        let mark = |side, spot| FileMark {
            variant: "BUG_A".into(),
            rule: "ordering".into(),
            side,
            spot,
            models: vec!["posix", "xfs"],
        };
        let line = Spot::Line {
            file: "a.c".into(),
            line: 3,
        };
        let call = Spot::Call {
            name: "rename".into(),
            file: "CUR*T".into(),
        };
        FileCase {
            name: "a".into(),
            source: "a.c".into(),
            language: Language::C,
            variant: Some("BUG_A".into()),
            marks: vec![mark(Side::Needed, line), mark(Side::Ahead, call)],
        }
    }

    fn complaints(model: &str, needed: CrashPlace, ahead: CrashPlace) -> usize {
        let finding = CrashFinding {
            rule: "ordering".into(),
            category: "inconsistent".into(),
            needed: vec![needed],
            ahead: Some(ahead),
        };
        let outcome = CrashOutcome {
            findings: vec![finding],
            ..CrashOutcome::default()
        };
        judge_files(&case(), model, &outcome).complaints().len()
    }

    #[test]
    fn a_finding_is_expected_under_the_models_that_its_marks_name() {
        let written = || place(3, "write(4, 20 bytes)");
        let renamed = || place(0, "renameat(\"db/CURRENT.tmp\", \"db/CURRENT\")");
        assert_eq!(complaints("posix", written(), renamed()), 0);
        assert_eq!(complaints("btrfs", written(), renamed()), 1);
        assert_eq!(complaints("posix", place(4, "write"), renamed()), 2);
        assert_eq!(
            complaints("xfs", written(), place(0, "rename(\"a\", \"CURRENT.tmp\")")),
            2
        );
        assert_eq!(
            complaints("xfs", written(), place(0, "unlink(\"CURRENT\")")),
            2
        );
    }

    #[test]
    fn silence_is_a_complaint_only_where_a_mark_names_the_model() {
        let silent = CrashOutcome::default();
        assert_eq!(judge_files(&case(), "xfs", &silent).complaints().len(), 1);
        assert_eq!(
            judge_files(&case(), "ext4-journal", &silent)
                .complaints()
                .len(),
            0
        );
    }
}
