//! Whether a recording says how a folder came to be what it is.
//!
//! Everything that is concluded rests on the recording. A call that was misunderstood, or a change
//! by somebody who is not watched, would make crash states that cannot exist; so before any verdict
//! the folder as the recording has it is compared with the real one, byte by byte.

use std::collections::BTreeSet;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crashpoint_check::files::{FileMedium, FileOracle, Layout};
use crashpoint_persist::files::Model;
use crashpoint_trace::files::{Call, FileRecording, InodeKind};

use super::FilesError;

pub fn explain(recording: &FileRecording, folder: &Path) -> Result<(), FilesError> {
    let before = recording.before();
    let calls: Vec<Call<'_>> = recording.calls().collect();
    let model = Model::builtin(Model::DEFAULT).expect("it is built in");
    let files = FileMedium::new(&before, &calls, &model, FileOracle::Checker);
    let layout = files.after();
    match compare(&layout, folder) {
        Ok(None) => Ok(()),
        Ok(Some((path, what))) => Err(FilesError::Unexplained { path, what }),
        Err(source) => Err(FilesError::Io {
            path: folder.to_owned(),
            source,
        }),
    }
}

/// The first thing that differs, and how.
fn compare(layout: &Layout<'_>, folder: &Path) -> io::Result<Option<(String, &'static str)>> {
    let mut open = vec![folder.to_owned()];
    let mut there = BTreeSet::new();
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory)? {
            let path = entry?.path();
            if std::fs::symlink_metadata(&path)?.is_dir() {
                open.push(path.clone());
            }
            let inner = path.strip_prefix(folder).expect("found in there");
            there.insert(inner.to_owned());
        }
    }
    let stranger = there.iter().find(|path| layout.get(path).is_none());
    if let Some(path) = stranger {
        return Ok(Some((path.display().to_string(), "nobody made it")));
    }
    for item in layout.items.iter().skip(1) {
        let found = if there.contains(&item.path) {
            differs(item, &folder.join(&item.path))?
        } else {
            Some("it is not there")
        };
        if let Some(what) = found {
            return Ok(Some((item.path.display().to_string(), what)));
        }
    }
    Ok(None)
}

fn differs(
    item: &crashpoint_check::files::layout::Item<'_>,
    path: &Path,
) -> io::Result<Option<&'static str>> {
    let status = std::fs::symlink_metadata(path)?;
    let object = &item.object;
    Ok(match object.kind {
        InodeKind::Directory => (!status.is_dir()).then_some("it is no directory"),
        InodeKind::Symlink { target } => {
            let is_same =
                status.is_symlink() && std::fs::read_link(path)?.as_os_str().as_bytes() == target;
            (!is_same).then_some("it is another link")
        }
        InodeKind::Other => (status.is_file() || status.is_dir()).then_some("it is a file"),
        InodeKind::File if !status.is_file() => Some("it is no file"),
        InodeKind::File if status.len() != object.content.size() => Some("its size differs"),
        InodeKind::File => {
            let mut file = std::fs::File::open(path)?;
            let (mut real, mut ours) = (vec![0; CHUNK], vec![0; CHUNK]);
            let mut offset = 0;
            loop {
                let length = read_some(&mut file, &mut real)?;
                if length == 0 {
                    break None;
                }
                object.content.read(offset, &mut ours[..length]);
                if real[..length] != ours[..length] {
                    break Some("its content differs");
                }
                offset += length as u64;
            }
        }
    })
}

const CHUNK: usize = 1 << 16;

fn read_some(file: &mut std::fs::File, to: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(to) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}
