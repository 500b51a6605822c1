//! The watched folder as it was before the program ran.
//!
//! Each file that is not empty lies as `before/N`, N its inode, so that a copy can share blocks
//! with the original where the file system can; everything else stands in `before/index`.

use super::format::{self, BadHeader, BeforeRecord, Next};
use super::writer::Stream;
use super::{Before, Initial, InodeId, InodeKind, OpenError, OpenErrorKind, Slot};
use crate::mapped::Bytes;
use serde_bytes::Bytes as Raw;
use std::io;
use std::path::{Path, PathBuf};

/// Below `files`.
pub const FOLDER: &str = "before";
const INDEX: &str = "index";

/// Files up to this length are read instead of mapped: a process may have only so many mappings.
const MAPPED_BYTES: u64 = 64 << 10;

/// Writes what the folder held.
#[derive(Debug)]
pub struct BeforeWriter {
    folder: PathBuf,
    index: Stream,
}

impl BeforeWriter {
    pub fn create(out: &Path) -> io::Result<BeforeWriter> {
        let folder = out.join(format::FOLDER).join(FOLDER);
        std::fs::create_dir_all(&folder)?;
        let index = Stream::create(&folder.join(INDEX), 64 << 10)?;
        Ok(BeforeWriter { folder, index })
    }

    /// Where the bytes of a file belong; the caller puts them there if there are any.
    pub fn content(&self, inode: InodeId) -> PathBuf {
        self.folder.join(inode.0.to_string())
    }

    /// An inode; the folder itself comes first. `length` is that of a file, else 0.
    pub fn inode(
        &mut self,
        inode: InodeId,
        kind: InodeKind<'_>,
        mode: u32,
        xattrs: &[(Vec<u8>, Vec<u8>)],
        length: u64,
    ) -> io::Result<()> {
        let named = |(name, value): &'_ (Vec<u8>, Vec<u8>)| name.len() + value.len() + 16;
        let estimate: usize = 4200 + xattrs.iter().map(named).sum::<usize>();
        let xattrs = xattrs
            .iter()
            .map(|(name, value)| (Raw::new(name), Raw::new(value)))
            .collect();
        let record = BeforeRecord::Inode {
            inode,
            kind,
            mode,
            xattrs,
            length,
        };
        self.index.push(&record, estimate)
    }

    pub fn entry(&mut self, slot: Slot<'_>, inode: InodeId) -> io::Result<()> {
        let record = BeforeRecord::Entry { slot, inode };
        self.index.push(&record, slot.name.len() + 32)
    }

    pub fn finish(mut self) -> io::Result<()> {
        self.index.push(&BeforeRecord::Complete, 16)?;
        self.index.finish()
    }
}

/// The opened files of `before`.
#[derive(Debug)]
pub(super) struct BeforeFiles {
    index: Bytes,
    /// By the position of their inode in the index.
    contents: Vec<Option<Bytes>>,
}

impl BeforeFiles {
    pub(super) fn open(files: &Path) -> Result<BeforeFiles, OpenError> {
        let folder = files.join(FOLDER);
        let path = folder.join(INDEX);
        let index = Bytes::map(&path).map_err(|error| OpenErrorKind::Io(error).at(&path))?;
        let mut contents = Vec::new();
        let mut records = Records::new(&index).map_err(|kind| kind.at(&path))?;
        while let Some(record) = records.next().map_err(|kind| kind.at(&path))? {
            let BeforeRecord::Inode { inode, length, .. } = record else {
                continue;
            };
            let content = (length > 0).then(|| {
                let path = folder.join(inode.0.to_string());
                let bytes = if length > MAPPED_BYTES {
                    Bytes::map(&path)
                } else {
                    std::fs::read(&path).map(Bytes::Owned)
                };
                match bytes {
                    Ok(bytes) if bytes.len() as u64 == length => Ok(bytes),
                    Ok(_) => Err(OpenErrorKind::Before {
                        reason: "this copy has another length than the file had",
                    }
                    .at(path)),
                    Err(error) => Err(OpenErrorKind::Io(error).at(path)),
                }
            });
            contents.push(content.transpose()?);
        }
        Ok(BeforeFiles { index, contents })
    }

    pub(super) fn empty() -> BeforeFiles {
        BeforeFiles {
            index: Bytes::Owned(Vec::new()),
            contents: Vec::new(),
        }
    }

    pub(super) fn before(&self) -> Before<'_> {
        let mut before = Before::default();
        let mut contents = self.contents.iter();
        let Ok(mut records) = Records::new(&self.index) else {
            return before;
        };
        // The index was read to its end when it was opened.
        while let Ok(Some(record)) = records.next() {
            match record {
                BeforeRecord::Inode {
                    inode,
                    kind,
                    mode,
                    xattrs,
                    length: _,
                } => before.inodes.push(Initial {
                    inode,
                    kind,
                    mode,
                    xattrs: xattrs
                        .into_iter()
                        .map(|(name, value)| (&name[..], &value[..]))
                        .collect(),
                    bytes: contents.next().and_then(Option::as_deref).unwrap_or(&[]),
                }),
                BeforeRecord::Entry { slot, inode } => before.entries.push((slot, inode)),
                BeforeRecord::Complete => break,
            }
        }
        before
    }
}

/// The records of an index, which must be there to the last one.
struct Records<'a> {
    stream: &'a [u8],
    offset: usize,
    complete: bool,
}

impl<'a> Records<'a> {
    fn new(stream: &'a [u8]) -> Result<Records<'a>, OpenErrorKind> {
        let offset = format::check_header(stream).map_err(|bad| match bad {
            BadHeader::Foreign => OpenErrorKind::Foreign,
            BadHeader::Version(found) => OpenErrorKind::Version { found },
        })?;
        Ok(Records {
            stream,
            offset,
            complete: false,
        })
    }

    fn next(&mut self) -> Result<Option<BeforeRecord<'a>>, OpenErrorKind> {
        if self.complete {
            return Ok(None);
        }
        let reason = match format::next(self.stream, self.offset) {
            Next::Content { bytes, end } => match postcard::from_bytes(bytes) {
                Ok(record) => {
                    self.offset = end;
                    self.complete = record == BeforeRecord::Complete;
                    return Ok(Some(record));
                }
                Err(_) => "its index has something that is no record",
            },
            Next::End => "its index is not complete: the watcher was killed as it copied",
            Next::Truncated => "its index ends within a record",
            Next::BadChecksum => "its index does not fit a checksum",
        };
        Err(OpenErrorKind::Before { reason })
    }
}
