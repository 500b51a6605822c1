//! The models in a binary file: an executable, a shared library, an object, or a static archive
//! of objects (thin ones too).
//!
//! Only the model section is read, so that large binaries cost little. A model that stands in a
//! file several times (an object linked into several members) is listed once.

use crate::binary::{self, ModelError};
use crate::{ModelId, Module};
use crashpoint_abi::MODEL_SECTION;
use object::read::archive::ArchiveFile;
use object::{FileKind, Object, ObjectSection, ReadCache, ReadRef};
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// A model as it stands in a file, not yet inflated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Embedded {
    pub id: ModelId,
    /// The member of an archive that holds it.
    pub member: Option<String>,
    /// With its header: what [`binary::decode`] takes.
    pub blob: Vec<u8>,
}

impl Embedded {
    pub fn decode(&self) -> Result<(ModelId, Module), ModelError> {
        binary::decode(&self.blob)
    }
}

/// Why a file's models cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {kind}", path.display())]
pub struct ElfError {
    pub path: PathBuf,
    pub kind: ElfErrorKind,
}

#[derive(Debug, thiserror::Error)]
pub enum ElfErrorKind {
    #[error("cannot be read: {0}")]
    Io(io::Error),
    #[error("not an ELF binary, object or static archive")]
    NotABinary,
    #[error("damaged: {0}; build it again")]
    Damaged(object::read::Error),
    #[error("no program model in it: build it with crashpoint-cc or crashpoint-c++")]
    NoModel,
    #[error("the program model {}is damaged: {cause}", of_member(.member))]
    Model {
        member: Option<String>,
        cause: ModelError,
    },
}

fn of_member(name: &Option<String>) -> String {
    name.as_ref()
        .map_or(String::new(), |name| format!("of {name} "))
}

/// All models of a file, in its order; at least one.
pub fn models(path: &Path) -> Result<Vec<Embedded>, ElfError> {
    let mut found = Found::default();
    let error = |kind| ElfError {
        path: path.to_owned(),
        kind,
    };
    let file = File::open(path).map_err(|cause| error(ElfErrorKind::Io(cause)))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    found
        .file(&ReadCache::new(file), Some(folder))
        .map_err(error)?;
    match found.models.is_empty() {
        true => Err(error(ElfErrorKind::NoModel)),
        false => Ok(found.models),
    }
}

/// All models of a file's content; none is no error. Members of thin archives are not followed.
pub fn models_in(content: &[u8]) -> Result<Vec<Embedded>, ElfErrorKind> {
    let mut found = Found::default();
    found.file(content, None)?;
    Ok(found.models)
}

#[derive(Default)]
struct Found {
    models: Vec<Embedded>,
    seen: HashSet<ModelId>,
}

impl Found {
    fn file<'a, R: ReadRef<'a>>(
        &mut self,
        data: R,
        folder: Option<&Path>,
    ) -> Result<(), ElfErrorKind> {
        match FileKind::parse(data) {
            Ok(FileKind::Archive) => self.archive(data, folder),
            Ok(FileKind::Elf32 | FileKind::Elf64) => self.object(data, None),
            Ok(_) | Err(_) => Err(ElfErrorKind::NotABinary),
        }
    }

    fn archive<'a, R: ReadRef<'a>>(
        &mut self,
        data: R,
        folder: Option<&Path>,
    ) -> Result<(), ElfErrorKind> {
        let archive = ArchiveFile::parse(data).map_err(ElfErrorKind::Damaged)?;
        for member in archive.members() {
            let member = member.map_err(ElfErrorKind::Damaged)?;
            let name = String::from_utf8_lossy(member.name()).into_owned();
            if member.is_thin() {
                let Some(folder) = folder else { continue };
                let file = File::open(folder.join(&name)).map_err(ElfErrorKind::Io)?;
                self.member(&ReadCache::new(file), name)?;
            } else {
                let content = member.data(data).map_err(ElfErrorKind::Damaged)?;
                self.member(content, name)?;
            }
        }
        Ok(())
    }

    /// Archives may hold anything; what is not ELF has no model.
    fn member<'a, R: ReadRef<'a>>(&mut self, data: R, name: String) -> Result<(), ElfErrorKind> {
        match FileKind::parse(data) {
            Ok(FileKind::Elf32 | FileKind::Elf64) => self.object(data, Some(name)),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn object<'a, R: ReadRef<'a>>(
        &mut self,
        data: R,
        member: Option<String>,
    ) -> Result<(), ElfErrorKind> {
        let file = object::File::parse(data).map_err(ElfErrorKind::Damaged)?;
        for section in file.sections() {
            if section.name_bytes() != Ok(MODEL_SECTION.as_bytes()) {
                continue;
            }
            let content = section.data().map_err(ElfErrorKind::Damaged)?;
            for blob in binary::split(content) {
                let blob = blob.map_err(|cause| ElfErrorKind::Model {
                    member: member.clone(),
                    cause,
                })?;
                if self.seen.insert(blob.id) {
                    self.models.push(Embedded {
                        id: blob.id,
                        member: member.clone(),
                        blob: blob.bytes.to_vec(),
                    });
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes an ELF64 relocatable file by hand: a header, one section, its name table.
    fn object_with(section: &[u8]) -> Vec<u8> {
        let names = [b"\0", MODEL_SECTION.as_bytes(), b"\0.shstrtab\0"].concat();
        let header = |name: u32, kind: u32, offset: usize, size: usize| {
            let mut header = Vec::new();
            header.extend(name.to_le_bytes());
            header.extend(kind.to_le_bytes());
            header.extend([0; 16]);
            header.extend((offset as u64).to_le_bytes());
            header.extend((size as u64).to_le_bytes());
            header.extend([0; 24]);
            header
        };
        let names_at = 64 + section.len();
        let table_at = names_at + names.len();
        let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\x3e\0\x01\0\0\0".to_vec();
        file.extend([0; 16]);
        file.extend((table_at as u64).to_le_bytes());
        file.extend([0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 64, 0, 3, 0, 2, 0]);
        file.extend(section);
        file.extend(&names);
        file.extend(header(0, 0, 0, 0));
        file.extend(header(1, 1, 64, section.len()));
        file.extend(header(
            2 + MODEL_SECTION.len() as u32,
            3,
            names_at,
            names.len(),
        ));
        file
    }

    fn archive(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let mut file = b"!<arch>\n".to_vec();
        for (name, content) in members {
            let name = format!("{name}/");
            let head = format!(
                "{name:<16}0           0     0     644     {:<10}`\n",
                content.len()
            );
            file.extend(head.into_bytes());
            file.extend(content);
            if content.len() % 2 == 1 {
                file.push(b'\n');
            }
        }
        file
    }

    fn model(source: &str) -> (ModelId, Vec<u8>) {
        binary::encode(&Module {
            source: source.to_owned(),
            ..Module::default()
        })
    }

    #[test]
    fn linked_models_are_found_once_each() {
        let ((a, a_blob), (b, b_blob)) = (model("a.c"), model("b.c"));
        let section = [&a_blob[..], &[0; 5], &b_blob, &a_blob].concat();
        let found = models_in(&object_with(&section)).unwrap();
        let ids: Vec<ModelId> = found.iter().map(|model| model.id).collect();
        assert_eq!(ids, [a, b]);
        assert_eq!(found[1].decode().unwrap().1.source, "b.c");
    }

    #[test]
    fn archives_tell_the_member() {
        let members = [
            ("readme", b"text".to_vec()),
            ("a.o", object_with(&model("a.c").1)),
        ];
        let found = models_in(&archive(&members)).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].member.as_deref(), Some("a.o"));
    }

    #[test]
    fn each_error_says_what_to_do() {
        let message = |content: &[u8]| models_in(content).unwrap_err().to_string();
        assert_eq!(
            message(b"text"),
            "not an ELF binary, object or static archive"
        );
        let mut blob = model("a.c").1;
        blob.truncate(blob.len() - 1);
        let broken = message(&archive(&[("a.o", object_with(&blob))]));
        assert!(
            broken.starts_with("the program model of a.o is damaged: at byte 0"),
            "{broken}"
        );
        let path = std::env::current_exe().unwrap();
        let error = models(&path).unwrap_err().to_string();
        assert!(
            error.ends_with("build it with crashpoint-cc or crashpoint-c++"),
            "{error}"
        );
    }
}
