//! Litmus tests from text.

use super::simulate::{self, Start};
use super::{Expected, Litmus, LitmusFile, LitmusOp, WriteFlags};
use crashpoint_trace::files::Allocation;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use thiserror::Error;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {message}")]
pub struct LitmusError {
    /// From 1.
    pub line: usize,
    pub message: String,
}

/// What the lines that follow are.
enum Section {
    None,
    Setup,
    Program,
    Any(Vec<String>),
    End(Vec<String>),
}

struct Draft {
    litmus: Litmus,
    line: usize,
}

pub(super) fn litmus(text: &str) -> Result<Vec<Litmus>, LitmusError> {
    let mut all: Vec<Litmus> = Vec::new();
    let mut draft: Option<Draft> = None;
    let mut section = Section::None;
    for (line, text) in (1..).zip(text.lines()) {
        let error = |message: String| LitmusError { line, message };
        let text = text.split('#').next().unwrap_or("");
        let words: Vec<&str> = text.split_whitespace().collect();
        let Some((first, rest)) = words.split_first() else {
            continue;
        };
        let names = || rest.iter().map(|word| word.to_string()).collect();
        if let ("litmus", [name]) = (*first, rest) {
            finish(draft.take(), &mut all)?;
            let litmus = Litmus {
                name: name.to_string(),
                rules: Vec::new(),
                setup: Vec::new(),
                program: Vec::new(),
                expected: BTreeMap::new(),
                texts: Vec::new(),
                start: Start::default(),
            };
            draft = Some(Draft { litmus, line });
            section = Section::None;
            continue;
        }
        let Some(Draft { litmus, .. }) = &mut draft else {
            return Err(error(format!("`{first}` before any `litmus NAME`")));
        };
        let indented = text.starts_with(char::is_whitespace);
        match (&section, *first) {
            (_, "rules") if !indented => litmus.rules = names(),
            (_, "setup") if !indented => section = Section::Setup,
            (_, "program") if !indented => section = Section::Program,
            (_, "allow") if !indented => section = Section::Any(begin(litmus, names(), true)),
            (_, "end") if !indented => section = Section::End(begin(litmus, names(), false)),
            (Section::Setup, _) if indented => {
                litmus.setup.extend(op(&words, true).map_err(error)?);
            }
            (Section::Program, _) if indented => {
                litmus.program.extend(op(&words, false).map_err(error)?);
                litmus.texts.push(words.join(" "));
            }
            (Section::Any(models), _) if indented => {
                for model in models {
                    let expected = litmus.expected.entry(model.clone()).or_default();
                    insert(&mut expected.any_time, &words).map_err(error)?;
                }
            }
            (Section::End(models), _) if indented => {
                for model in models {
                    let expected = litmus.expected.entry(model.clone()).or_default();
                    insert(&mut expected.at_end, &words).map_err(error)?;
                }
            }
            (_, first) => return Err(error(format!("`{first}` is not known here"))),
        }
    }
    finish(draft, &mut all)?;
    Ok(all)
}

/// A section may be empty of states only by mistake, but it names its models at once.
fn begin(litmus: &mut Litmus, models: Vec<String>, any: bool) -> Vec<String> {
    for model in &models {
        let expected: &mut Expected = litmus.expected.entry(model.clone()).or_default();
        let states = if any {
            &mut expected.any_time
        } else {
            &mut expected.at_end
        };
        states.get_or_insert_default();
    }
    models
}

fn insert(states: &mut Option<BTreeSet<String>>, words: &[&str]) -> Result<(), String> {
    if states.get_or_insert_default().insert(words.join(" ")) {
        Ok(())
    } else {
        Err("this state was told before".to_owned())
    }
}

fn finish(draft: Option<Draft>, all: &mut Vec<Litmus>) -> Result<(), LitmusError> {
    let Some(Draft { mut litmus, line }) = draft else {
        return Ok(());
    };
    let error = |message| LitmusError { line, message };
    litmus.start = simulate::start(&litmus.setup).map_err(error)?;
    simulate::check(&litmus.start, &litmus.program).map_err(error)?;
    all.push(litmus);
    Ok(())
}

/// So many bytes from an offset on.
fn range(offset: u64, length: u64) -> Result<Range<u64>, String> {
    let end = offset.checked_add(length);
    let end = end.ok_or_else(|| format!("{length} bytes at {offset} end nowhere"))?;
    Ok(offset..end)
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

/// `A*3,0*5`
fn bytes(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    for run in text.split(',') {
        let (byte, count) = run
            .split_once('*')
            .ok_or_else(|| format!("`{run}` is no run of bytes, such as A*3"))?;
        let byte = match byte.as_bytes() {
            [b'0'] => 0,
            [byte] if byte.is_ascii_alphabetic() => *byte,
            _ => return Err(format!("`{byte}` is neither a letter nor 0")),
        };
        let length = bytes.len() + number(count)? as usize;
        bytes.resize(length, byte);
    }
    Ok(bytes)
}

fn file(text: &str) -> LitmusFile {
    match text.strip_prefix('@') {
        Some(handle) => LitmusFile::Handle(handle.to_owned()),
        None => LitmusFile::Path(text.to_owned()),
    }
}

fn allocation(text: &str) -> Result<Allocation, String> {
    Ok(match text {
        "reserve" => Allocation::Reserve,
        "reserve-keep-size" => Allocation::ReserveKeepSize,
        "punch" => Allocation::PunchHole,
        "zero" => Allocation::Zero,
        "zero-keep-size" => Allocation::ZeroKeepSize,
        "collapse" => Allocation::Collapse,
        "insert" => Allocation::Insert,
        other => return Err(format!("`{other}` is nothing that fallocate does")),
    })
}

fn how(words: &[&str]) -> Result<WriteFlags, String> {
    Ok(match words {
        [] => WriteFlags::Plain,
        ["direct"] => WriteFlags::Direct,
        ["dsync"] => WriteFlags::Dsync,
        ["sync"] => WriteFlags::Sync,
        other => return Err(format!("`{}` is no way to write", other.join(" "))),
    })
}

fn op(words: &[&str], is_setup: bool) -> Result<Vec<LitmusOp>, String> {
    let owned = |text: &str| text.to_owned();
    let one = match words {
        ["create", path] => LitmusOp::Create { path: owned(path) },
        ["create", path, content] if is_setup => {
            let write = LitmusOp::Append {
                file: file(path),
                bytes: bytes(content)?,
                how: WriteFlags::Plain,
            };
            return Ok(vec![LitmusOp::Create { path: owned(path) }, write]);
        }
        ["mkdir", path] => LitmusOp::Mkdir { path: owned(path) },
        ["symlink", target, path] => LitmusOp::Symlink {
            target: owned(target),
            path: owned(path),
        },
        ["link", from, path] => LitmusOp::Link {
            file: file(from),
            path: owned(path),
        },
        ["unlink", path] => LitmusOp::Unlink { path: owned(path) },
        ["rmdir", path] => LitmusOp::Rmdir { path: owned(path) },
        ["rename", from, to] => LitmusOp::Rename {
            from: owned(from),
            to: owned(to),
        },
        ["exchange", first, second] => LitmusOp::Exchange {
            first: owned(first),
            second: owned(second),
        },
        ["open", handle, path] => LitmusOp::Open {
            handle: owned(handle.trim_start_matches('@')),
            path: owned(path),
        },
        ["tmpfile", handle, directory] => LitmusOp::Tmpfile {
            handle: owned(handle.trim_start_matches('@')),
            directory: owned(directory),
        },
        ["close", handle] => LitmusOp::Close {
            handle: owned(handle.trim_start_matches('@')),
        },
        ["write", to, offset, content, rest @ ..] => LitmusOp::Write {
            file: file(to),
            offset: number(offset)?,
            bytes: bytes(content)?,
            how: how(rest)?,
        },
        ["append", to, content, rest @ ..] => LitmusOp::Append {
            file: file(to),
            bytes: bytes(content)?,
            how: how(rest)?,
        },
        ["truncate", of, size] => LitmusOp::Truncate {
            file: file(of),
            size: number(size)?,
        },
        ["fallocate", of, what, offset, length] => LitmusOp::Allocate {
            file: file(of),
            offset: number(offset)?,
            length: number(length)?,
            what: allocation(what)?,
        },
        ["copy", from, to] => LitmusOp::Copy {
            from: owned(from),
            to: file(to),
        },
        ["store", to, offset, content] => LitmusOp::Store {
            file: file(to),
            offset: number(offset)?,
            bytes: bytes(content)?,
        },
        ["msync", of, offset, length, rest @ ..] => LitmusOp::Msync {
            file: file(of),
            range: range(number(offset)?, number(length)?)?,
            waits: match rest {
                [] => true,
                ["async"] => false,
                other => return Err(format!("`{}` is no way to msync", other.join(" "))),
            },
        },
        ["xattr", of, name, value] => LitmusOp::SetXattr {
            file: file(of),
            name: owned(name),
            value: value.as_bytes().to_vec(),
        },
        ["chmod", of, mode] => LitmusOp::Chmod {
            file: file(of),
            mode: u32::from_str_radix(mode, 8).map_err(|_| format!("`{mode}` is no mode"))?,
        },
        ["fsync", of] => LitmusOp::Fsync { file: file(of) },
        ["failed-fsync", of] => LitmusOp::FailedFsync { file: file(of) },
        ["fdatasync", of] => LitmusOp::Fdatasync { file: file(of) },
        ["sync-file-range", of, offset, length] => LitmusOp::SyncFileRange {
            file: file(of),
            offset: number(offset)?,
            length: number(length)?,
        },
        ["sync"] => LitmusOp::Sync,
        ["syncfs"] => LitmusOp::Syncfs,
        other => return Err(format!("`{}` is no operation", other.join(" "))),
    };
    Ok(vec![one])
}
