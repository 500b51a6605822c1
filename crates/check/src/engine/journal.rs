//! The journal: every result is written down as it comes, so that a run that is killed at any
//! moment goes on where it was.
//!
//! One line per result, appended by one `write`. A line that the end of the world cut short is the
//! last one, and is left out when the journal is read back. The first line says what the results
//! belong to: a journal of other settings or another recording is refused, since its results would
//! be taken for those of this run.

use crate::engine::crash_points::SuffixId;
use crate::engine::medium::StateHash;
use crate::engine::outcome::Observed;
use crate::engine::result_table::Key;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Version of the file.
const VERSION: u32 = 4;

#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(
        "{} was written by version {found} of its format, this is {VERSION}: start anew, without \
         --resume", path.display()
    )]
    Version { path: PathBuf, found: u32 },
    #[error(
        "{} belongs to a run with other settings ({what} differ): resume with the same settings, \
         or start anew, without --resume", path.display()
    )]
    Other { path: PathBuf, what: &'static str },
    #[error(
        "{} belongs to a run of another {program}: it has changed since, so that what was found \
         may no longer hold. Start anew, without --resume", path.display()
    )]
    Changed { path: PathBuf, program: String },
    #[error("{}:{line}: {reason}; start anew, without --resume", path.display())]
    Damaged {
        path: PathBuf,
        line: usize,
        reason: String,
    },
}

/// What the results depend on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub crashpoint: u32,
    /// Of the settings that decide verdicts.
    pub settings: String,
    /// Of the recording.
    pub recording: String,
    /// Of the files that are run, by path.
    pub programs: BTreeMap<String, String>,
}

impl Identity {
    pub fn new(
        settings: String,
        recording: String,
        programs: BTreeMap<String, String>,
    ) -> Identity {
        Identity {
            crashpoint: VERSION,
            settings,
            recording,
            programs,
        }
    }
}

/// How a result was come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResultOrigin {
    Tried,
    /// Tried though it could have been pruned, and it came out otherwise: pruning is wrong.
    Refutes,
    /// It differs from a tried one only in words that were not read.
    Pruned,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry {
    #[serde(rename = "list")]
    suffix: u32,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    acknowledged: bool,
    image: String,
    pub how: ResultOrigin,
    pub observed: Observed,
}

impl JournalEntry {
    pub fn new(key: Key, how: ResultOrigin, observed: Observed) -> JournalEntry {
        JournalEntry {
            suffix: key.suffix.0,
            acknowledged: key.acknowledged,
            image: format!("{:032x}", key.image.0),
            how,
            observed,
        }
    }

    pub fn key(&self) -> Option<Key> {
        let image = u128::from_str_radix(&self.image, 16).ok()?;
        Some(Key {
            suffix: SuffixId(self.suffix),
            acknowledged: self.acknowledged,
            image: StateHash(image),
        })
    }
}

/// A journal that is being written.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: Mutex<File>,
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> JournalError + '_ {
    move |source| JournalError::Io {
        path: path.to_owned(),
        source,
    }
}

impl Journal {
    /// A new one; whatever was there is replaced.
    pub fn create(path: &Path, identity: &Identity) -> Result<Journal, JournalError> {
        // Under its name it is whole: a run that is killed in here has not begun one.
        let new = path.with_extension("new");
        let mut file = File::create(&new).map_err(io_error(&new))?;
        let mut line = serde_json::to_string(identity).expect("it has a form");
        line.push('\n');
        file.write_all(line.as_bytes()).map_err(io_error(&new))?;
        std::fs::rename(&new, path).map_err(io_error(path))?;
        Ok(Journal {
            path: path.to_owned(),
            file: Mutex::new(file),
        })
    }

    /// Goes on with one: returns what it holds. A last line that was cut short is taken off.
    pub fn resume(
        path: &Path,
        identity: &Identity,
    ) -> Result<(Journal, Vec<JournalEntry>), JournalError> {
        let (results, end) = read(path, identity)?;
        let file = File::options()
            .append(true)
            .open(path)
            .map_err(io_error(path))?;
        file.set_len(end).map_err(io_error(path))?;
        let journal = Journal {
            path: path.to_owned(),
            file: Mutex::new(file),
        };
        Ok((journal, results))
    }

    pub fn write(&self, result: &JournalEntry) -> Result<(), JournalError> {
        let mut line = serde_json::to_string(result).expect("it has a form");
        line.push('\n');
        let mut file = self.file.lock().expect("no panic while it is held");
        file.write_all(line.as_bytes())
            .map_err(io_error(&self.path))
    }
}

/// All results, and where the last whole line ends.
fn read(path: &Path, identity: &Identity) -> Result<(Vec<JournalEntry>, u64), JournalError> {
    let file = File::open(path).map_err(io_error(path))?;
    let mut reader = BufReader::new(file);
    let mut results = Vec::new();
    let (mut end, mut number) = (0, 0);
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = reader
            .read_until(b'\n', &mut line)
            .map_err(io_error(path))?;
        if length == 0 || line.last() != Some(&b'\n') {
            break;
        }
        number += 1;
        let damaged = |cause: serde_json::Error| JournalError::Damaged {
            path: path.to_owned(),
            line: number,
            reason: cause.to_string(),
        };
        if number == 1 {
            let found: Identity = serde_json::from_slice(&line).map_err(damaged)?;
            check(path, identity, &found)?;
        } else {
            results.push(serde_json::from_slice(&line).map_err(damaged)?);
        }
        end += length as u64;
    }
    if number == 0 {
        return Err(JournalError::Damaged {
            path: path.to_owned(),
            line: 1,
            reason: "it is empty".to_owned(),
        });
    }
    Ok((results, end))
}

fn check(path: &Path, wanted: &Identity, found: &Identity) -> Result<(), JournalError> {
    let path = path.to_owned();
    if found.crashpoint != VERSION {
        let found = found.crashpoint;
        return Err(JournalError::Version { path, found });
    }
    let other = |what| JournalError::Other {
        path: path.clone(),
        what,
    };
    if found.settings != wanted.settings {
        return Err(other("the settings of the test"));
    }
    if found.recording != wanted.recording {
        return Err(other("the recordings"));
    }
    let is_same = |program: &&String| found.programs.get(*program) == wanted.programs.get(*program);
    let mut all = wanted.programs.keys().chain(found.programs.keys());
    if let Some(program) = all.find(|program| !is_same(program)) {
        return Err(JournalError::Changed {
            path,
            program: program.clone(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::outcome::{OutcomeSet, RecoveryOutcome};
    use crate::process::message::MessageKind;
    use crate::process::run::RunEnd;

    fn identity() -> Identity {
        let programs = BTreeMap::from([("./store".to_owned(), "1".to_owned())]);
        Identity::new("s".into(), "r".into(), programs)
    }

    fn result(image: u128) -> JournalEntry {
        let key = Key {
            suffix: SuffixId(3),
            acknowledged: image.is_multiple_of(2),
            image: StateHash(image),
        };
        let observed = Observed {
            outcomes: OutcomeSet::ALL.without(RecoveryOutcome::COMMITTED),
            end: RunEnd::Killed { signal: 11 },
            message: MessageKind(7),
        };
        JournalEntry::new(key, ResultOrigin::Tried, observed)
    }

    #[test]
    fn a_journal_that_was_cut_anywhere_loses_its_last_line_at_most() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let journal = Journal::create(&path, &identity()).unwrap();
        for image in 0..4 {
            journal.write(&result(image)).unwrap();
        }
        let whole = std::fs::read(&path).unwrap();
        let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for cut in first..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let lines = whole[first..cut]
                .iter()
                .filter(|byte| **byte == b'\n')
                .count();
            let (journal, found) = Journal::resume(&path, &identity()).unwrap();
            let expected: Vec<JournalEntry> = (0..lines as u128).map(result).collect();
            assert_eq!(found, expected, "{cut}");
            journal.write(&result(99)).unwrap();
            let (_, again) = Journal::resume(&path, &identity()).unwrap();
            assert_eq!(again.len(), lines + 1, "{cut}");
            assert_eq!(again[lines].key().unwrap().image, StateHash(99));
        }
    }

    #[test]
    fn a_journal_of_something_else_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        Journal::create(&path, &identity()).unwrap();
        let other = Identity {
            settings: "other".into(),
            ..identity()
        };
        let error = Journal::resume(&path, &other).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("the settings of the test differ"),
            "{error}"
        );
        let mut rebuilt = identity();
        rebuilt.programs.insert("./store".into(), "2".into());
        let error = Journal::resume(&path, &rebuilt).unwrap_err();
        assert!(error.to_string().contains("another ./store"), "{error}");
        std::fs::write(&path, "").unwrap();
        let error = Journal::resume(&path, &identity()).unwrap_err();
        assert!(error.to_string().contains("it is empty"), "{error}");
        std::fs::write(&path, "{}\n").unwrap();
        assert!(Journal::resume(&path, &identity()).is_err());
    }
}
