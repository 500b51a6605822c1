//! Whether a folder that a crash left is fine.
//!
//! **A checker** says so by its exit status. **Acknowledged**: the checker lists what it finds, a
//! line for each thing, and the program had printed a line for each thing that it had done. What it
//! finds must be the lines that had been printed, and perhaps some that come next: nothing that was
//! acknowledged is missing, and there is no hole before something that is there.
//!
//! **Whole files** needs no checker: a file that was there before the program ran and is there
//! after it must always be some version of itself. A *version* is what it held before, or when
//! somebody was done with it: closed it, renamed it into place, synced it, or said something to the
//! outside. What was appended to a version, up to the next one, is fine too. Anything else (absent,
//! empty, zeros, a mixture) is told.

use super::layout::Layout;
use crate::process::output::lines;
use crate::process::run::{FinishedRun, RunEnd};
use crashpoint_persist::files::{Content, Object};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileOracle {
    Checker,
    Acknowledged,
    WholeFiles,
}

/// Whether what was found are the first lines of all, at least so many, in whatever order.
pub fn is_acknowledged(all: &[u8], printed: &[u8], found: &[u8]) -> bool {
    let all: Vec<&[u8]> = lines(all).collect();
    let least = lines(printed).count();
    let mut found: Vec<&[u8]> = lines(found).collect();
    if found.len() < least || found.len() > all.len() {
        return false;
    }
    let mut expected = all[..found.len()].to_vec();
    expected.sort_unstable();
    found.sort_unstable();
    expected == found
}

/// What is missing, or too much: for a report.
pub fn acknowledged_output(all: &[u8], printed: &[u8], found: &[u8]) -> String {
    let visit = |line: &[u8]| format!("`{}`", String::from_utf8_lossy(line));
    let found: Vec<&[u8]> = lines(found).collect();
    if let Some(missing) = lines(printed).find(|line| !found.contains(line)) {
        return format!("{} was acknowledged and is not there", visit(missing));
    }
    let all: Vec<&[u8]> = lines(all).collect();
    if let Some(stranger) = found.iter().find(|line| !all.contains(line)) {
        return format!(
            "{} is there, which the program never printed",
            visit(stranger)
        );
    }
    let hole = all
        .iter()
        .take(found.len())
        .find(|line| !found.contains(line));
    match hole {
        Some(hole) => format!(
            "{} is missing, and what came after it is there",
            visit(hole)
        ),
        None => "something is there twice".to_owned(),
    }
}

/// The versions of each file that was there before and after.
#[derive(Clone, Debug, Default)]
pub struct Versions<'a> {
    files: BTreeMap<PathBuf, Vec<Arc<Object<'a>>>>,
}

impl<'a> Versions<'a> {
    /// Notes what files hold at a moment when somebody was done with them.
    pub fn note(&mut self, layout: &Layout<'a>) {
        for item in &layout.items {
            if !item.is_file() {
                continue;
            }
            let known = self.files.entry(item.path.clone()).or_default();
            let content = &item.object.content;
            if known
                .last()
                .is_none_or(|last| !last.content.equals(content))
            {
                known.push(Arc::clone(&item.object));
            }
        }
    }

    /// Keeps the files that both have.
    pub fn only_in(&mut self, before: &Layout<'_>, after: &Layout<'_>) {
        let lasts = |path: &PathBuf| before.get(path).is_some() && after.get(path).is_some();
        self.files.retain(|path, _| lasts(path));
    }

    /// How many files are judged.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// What is wrong with a crashed folder, a line for each file.
    pub fn judge(&self, crashed: &Layout<'_>) -> Vec<String> {
        let wrong = self.files.iter().filter_map(|(path, versions)| {
            let what = match crashed.content(path) {
                None => Some("absent"),
                Some(content) => wrong_with(versions, content),
            };
            what.map(|what| format!("{} is {what}", path.display()))
        });
        wrong.collect()
    }

    /// The same of a folder whose files somebody reads.
    pub fn judge_read(&self, read: impl Fn(&Path) -> Option<Vec<u8>>) -> Vec<String> {
        let wrong = self.files.iter().filter_map(|(path, versions)| {
            let what = match read(path) {
                None => Some("absent"),
                Some(bytes) => wrong_with(versions, &Content::new(&bytes)),
            };
            what.map(|what| format!("{} is {what}", path.display()))
        });
        wrong.collect()
    }

    /// As a check that ran would show it.
    pub fn check(&self, crashed: &Layout<'_>) -> FinishedRun {
        let wrong = self.judge(crashed);
        let end = RunEnd::Exited(i32::from(!wrong.is_empty()));
        FinishedRun::new(end, Vec::new(), wrong.join("\n").into_bytes())
    }
}

fn wrong_with(versions: &[Arc<Object<'_>>], content: &Content<'_>) -> Option<&'static str> {
    if versions
        .iter()
        .any(|version| version.content.equals(content))
    {
        return None;
    }
    let grown = versions.windows(2).any(|pair| {
        let (old, new) = (&pair[0].content, &pair[1].content);
        is_prefix(old, content) && is_prefix(content, new)
    });
    if grown {
        return None;
    }
    let bytes = read(content);
    Some(match () {
        () if bytes.is_empty() => "empty",
        () if bytes.iter().all(|byte| *byte == 0) => "full of zeros",
        () => "neither what it was before nor what was saved",
    })
}

fn read(content: &Content<'_>) -> Vec<u8> {
    let mut bytes = vec![0; content.size() as usize];
    content.read(0, &mut bytes);
    bytes
}

fn is_prefix(short: &Content<'_>, long: &Content<'_>) -> bool {
    short.size() <= long.size() && {
        let long = read(long);
        short.holds(0, &long[..short.size() as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crashpoint_persist::files::{Filler, Model, Trees};
    use crashpoint_trace::files::{Before, Initial, InodeId, InodeKind, Slot};

    #[test]
    fn acknowledged_lines_must_be_there_and_have_no_hole_before_them() {
        let all = b"a\nb\nc\n";
        let fine = |printed: &[u8], found: &[u8]| is_acknowledged(all, printed, found);
        assert!(fine(b"a\n", b"a\n"));
        assert!(fine(b"a\n", b"b\na\n"), "in flight, and in any order");
        assert!(!fine(b"a\nb\n", b"a\n"), "acknowledged and lost");
        assert!(!fine(b"a\n", b"a\nc\n"), "a hole");
        assert!(!fine(b"", b"x\n"), "never printed");
        assert!(!fine(b"", b"a\na\n"), "twice");
        let story = |printed: &[u8], found: &[u8]| acknowledged_output(all, printed, found);
        assert!(story(b"a\nb\n", b"a\n").contains("`b` was acknowledged"));
        assert!(story(b"a\n", b"a\nc\n").contains("`b` is missing"));
        assert!(story(b"", b"x\n").contains("`x` is there"));
    }

    fn layout(bytes: Option<&[u8]>) -> Layout<'_> {
        let initial = |inode, kind, bytes| Initial::new(inode, kind, 0o755, bytes);
        let (root, file) = (InodeId::ROOT, InodeId(1));
        let mut before = Before {
            inodes: vec![initial(root, InodeKind::Directory, &[])],
            entries: Vec::new(),
        };
        if let Some(bytes) = bytes {
            before.inodes.push(initial(file, InodeKind::File, bytes));
            let (directory, name) = (root, b"f".as_slice());
            before.entries.push((Slot { directory, name }, file));
        }
        let model = Model::builtin(Model::DEFAULT).unwrap();
        Layout::of(&Trees::new(&model, &before).tree(&[], &[], Filler::Zeros))
    }

    #[test]
    fn a_saved_file_is_always_one_of_its_versions() {
        let mut versions = Versions::default();
        let [old, new, more] =
            ["old", "newer", "newer and more"].map(|text| layout(Some(text.as_bytes())));
        for version in [&old, &new, &more] {
            versions.note(version);
        }
        versions.only_in(&old, &more);
        let wrong = |bytes: &[u8]| versions.judge(&layout(Some(bytes))).join(";");
        assert_eq!(wrong(b"old"), "");
        assert_eq!(wrong(b"newer"), "");
        assert_eq!(wrong(b"newer and"), "", "appended in part");
        assert_eq!(wrong(b""), "f is empty");
        assert_eq!(wrong(b"\0\0\0"), "f is full of zeros");
        assert_eq!(
            wrong(b"new"),
            "f is neither what it was before nor what was saved"
        );
        let absent = layout(None);
        assert_eq!(versions.judge(&absent), ["f is absent"]);
    }
}
