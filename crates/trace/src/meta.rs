//! The description of a process: `p<pid>-<run>.meta`, JSON lines that the runtime appends.
//!
//! These are the wire types, for the reader and for [`crate::writer`]. The first line is a
//! [`Head`]; a process that was killed may leave its last line incomplete.

use crate::process::ExitCall;
use crashpoint_ir::ModelId;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Trace version.
    pub crashpoint: u64,
    pub abi: u64,
    pub pid: u32,
    pub run: u32,
    /// Name of the process that forked this one, or that it was before `exec`.
    #[serde(default)]
    pub parent: Option<String>,
    pub level: String,
    pub executable: String,
    pub arguments: Vec<String>,
    pub directory: String,
    pub started_ns: u64,
}

/// Every other line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MetaLine {
    Module(ModuleLine),
    Library(Library),
    File(FileLine),
    End(EndLine),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleLine {
    #[serde(serialize_with = "id_to_text", deserialize_with = "id_from_text")]
    pub model: ModelId,
    pub site_base: u32,
    pub site_count: u32,
    pub binary: String,
    pub bias: u64,
    #[serde(default)]
    pub globals: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Library {
    pub path: String,
    pub base: u64,
    pub end: u64,
    pub instrumented: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileLine {
    pub number: u32,
    pub path: String,
    pub device: u64,
    pub inode: u64,
    pub size: u64,
    #[serde(default)]
    pub image: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndLine {
    pub how: ExitCall,
    pub code: i64,
}

fn id_to_text<S: Serializer>(id: &ModelId, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(id)
}

fn id_from_text<'de, D: Deserializer<'de>>(from: D) -> Result<ModelId, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(serde::de::Error::custom)
}

/// What stands in a description, as far as it can be understood.
pub(crate) struct Meta {
    pub(crate) head: Head,
    pub(crate) lines: Vec<MetaLine>,
    pub(crate) bad: Vec<BadLine>,
}

pub(crate) struct BadLine {
    /// From 1.
    pub(crate) line: usize,
    pub(crate) offset: usize,
    pub(crate) reason: String,
}

/// Parses a description; without a first line there is none. Paths of the target may be any bytes:
/// what is not UTF-8 is replaced.
pub(crate) fn parse(bytes: &[u8]) -> Result<Meta, String> {
    let mut offset = 0;
    let mut head = None;
    let (mut lines, mut bad) = (Vec::new(), Vec::new());
    for (number, raw) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let text = String::from_utf8_lossy(raw);
        let text = text.trim_matches(['\n', '\0', ' ']);
        if head.is_none() {
            let parsed: Head = serde_json::from_str(text).map_err(|cause| cause.to_string())?;
            head = Some(parsed);
        } else if !text.is_empty() {
            match serde_json::from_str(text) {
                Ok(line) => lines.push(line),
                Err(cause) => bad.push(BadLine {
                    line: number + 1,
                    offset,
                    reason: cause.to_string(),
                }),
            }
        }
        offset += raw.len();
    }
    let head = head.ok_or("it is empty")?;
    Ok(Meta { head, lines, bad })
}

/// Only the versions of a first line, to refuse what a newer runtime wrote.
#[derive(Deserialize)]
pub(crate) struct Versions {
    pub(crate) crashpoint: u64,
    pub(crate) abi: u64,
}

pub(crate) fn versions(bytes: &[u8]) -> Option<Versions> {
    let line = bytes.split(|byte| *byte == b'\n').next()?;
    serde_json::from_str(&String::from_utf8_lossy(line)).ok()
}
