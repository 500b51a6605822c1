//! The program that was recorded: its models, and what a site stands for.
//!
//! Models come from the recording's own folder `models`, where [`save_models`] keeps them, or else
//! from the binaries that the processes ran. A binary that was built again since has other models,
//! which is an error and not a guess.

use crate::sites::SiteTable;
use crate::{Recording, SiteId};
use cpp_demangle::DemangleOptions;
use crashpoint_ir::binary::{self, ModelError};
use crashpoint_ir::elf::{self, ElfError};
use crashpoint_ir::{
    BlockId, Callee, Function, FunctionId, Inst, InstId, LocationId, ModelId, Module,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::io;
use std::path::{Path, PathBuf};

/// Why the program of a recording is not known in whole.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    #[error("{}: {cause}; record again", path.display())]
    Damaged { path: PathBuf, cause: ModelError },
    #[error("{}: holds model {found}, not the one its name says; record again", path.display())]
    Misnamed { path: PathBuf, found: ModelId },
    #[error("{0}")]
    Binary(ElfError),
    #[error(
        "{}: built again since the recording was made (it no longer holds model {model}): record \
         again",
        binary.display()
    )]
    Rebuilt { binary: PathBuf, model: ModelId },
    #[error("{}: {cause}", path.display())]
    Io { path: PathBuf, cause: io::Error },
}

/// The models of a recording, in the order of [`Recording::models`].
#[derive(Debug)]
pub struct Program {
    models: Vec<Option<Module>>,
    sites: SiteTable,
}

/// A place in the source.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourcePlace<'a> {
    /// As the compiler knew it: absolute where it could be.
    pub file: &'a str,
    /// 0 where the compiler made it up.
    pub line: u32,
    pub column: u32,
    /// The function it belongs to, for people.
    pub function: String,
}

/// What a site stands for.
#[derive(Clone, Debug)]
pub struct ResolvedSite<'a> {
    /// Index into [`Recording::models`].
    pub model: usize,
    pub function_id: FunctionId,
    pub function: &'a Function,
    /// None: the function itself.
    pub inst: Option<ResolvedInst<'a>>,
    pub place: SourcePlace<'a>,
    /// Where the place was inlined, innermost first; empty where it was not.
    pub inlined: Vec<SourcePlace<'a>>,
}

#[derive(Clone, Copy, Debug)]
pub struct ResolvedInst<'a> {
    pub id: InstId,
    pub block: BlockId,
    pub inst: &'a Inst,
}

impl Program {
    /// All models of a recording, or the first reason why one is missing.
    pub fn load(recording: &Recording) -> Result<Program, ProgramError> {
        let (program, mut errors) = Program::load_available(recording);
        if errors.is_empty() {
            Ok(program)
        } else {
            Err(errors.swap_remove(0))
        }
    }

    /// The models that can be had, and why the others cannot. Sites of a missing model do not
    /// resolve.
    pub fn load_available(recording: &Recording) -> (Program, Vec<ProgramError>) {
        let mut sources = Sources::new(recording);
        let (mut models, mut errors) = (Vec::new(), Vec::new());
        for model in recording.models() {
            let loaded = sources.find(model.model).and_then(|(path, blob)| {
                let decoded = binary::decode(&blob);
                decoded.map_err(|cause| ProgramError::Damaged { path, cause })
            });
            match loaded {
                Ok((_, module)) => models.push(Some(module)),
                Err(error) => {
                    models.push(None);
                    errors.push(error);
                }
            }
        }
        let sites = recording.sites.clone();
        (Program { models, sites }, errors)
    }

    /// With models that are already at hand; for tests.
    pub fn from_models(recording: &Recording, modules: &[Module]) -> Program {
        let mut known: FxHashMap<ModelId, &Module> = FxHashMap::default();
        for module in modules {
            known.insert(binary::encode(module).0, module);
        }
        let wanted = recording.models().iter();
        let models = wanted.map(|sites| known.get(&sites.model).map(|module| (*module).clone()));
        Program {
            models: models.collect(),
            sites: recording.sites.clone(),
        }
    }

    /// A model by its index in [`Recording::models`].
    pub fn model(&self, index: usize) -> Option<&Module> {
        self.models.get(index)?.as_ref()
    }

    /// What a site stands for; `None` for no site and for those of missing models.
    pub fn resolve(&self, site: SiteId) -> Option<ResolvedSite<'_>> {
        let (model, local) = self.sites.locate(site)?;
        let module = self.model(model)?;
        let entry = module.sites.get(local as usize)?;
        let function = &module.functions[entry.function.index()];
        let inst = entry.instruction.and_then(|id| {
            let (block, inst) = function.instruction(id)?;
            Some(ResolvedInst { id, block, inst })
        });
        let location = inst.and_then(|resolved| resolved.inst.location);
        let mut places = places(module, function, location.or(function.location));
        let place = places.remove(0);
        Some(ResolvedSite {
            model,
            function_id: entry.function,
            function,
            inst,
            place,
            inlined: places,
        })
    }

    /// The linker's name of the function that a site calls; `None` where it calls none, or through
    /// a pointer.
    pub fn callee_name(&self, site: SiteId) -> Option<&str> {
        let (model, local) = self.sites.locate(site)?;
        let module = self.model(model)?;
        let entry = module.sites.get(local as usize)?;
        let function = &module.functions[entry.function.index()];
        let (_, inst) = function.instruction(entry.instruction?)?;
        match inst.op.callee()? {
            Callee::Direct(callee) => Some(&module.functions[callee.index()].name),
            Callee::Indirect(_) | Callee::Assembly { .. } => None,
        }
    }
}

/// A location and what it was inlined into, innermost first; at least one.
fn places<'a>(
    module: &'a Module,
    enclosing: &Function,
    location: Option<LocationId>,
) -> Vec<SourcePlace<'a>> {
    let mut places = Vec::new();
    let mut next = location;
    while let Some(id) = next {
        let location = &module.locations[id.index()];
        let function = location.function.as_deref().map(readable_name);
        places.push(SourcePlace {
            file: &module.files[location.file.index()],
            line: location.line,
            column: location.column,
            function: function.unwrap_or_else(|| function_name(enclosing)),
        });
        next = location.inlined_at;
    }
    if places.is_empty() {
        places.push(SourcePlace {
            file: &module.source,
            line: 0,
            column: 0,
            function: function_name(enclosing),
        });
    }
    places
}

/// The name of a function for people: C++ names with their classes and namespaces, without
/// parameters.
pub fn function_name(function: &Function) -> String {
    match &function.source_name {
        Some(name) if !function.name.starts_with("_Z") => name.clone(),
        Some(name) => demangle(&function.name).unwrap_or_else(|| name.clone()),
        None => readable_name(&function.name),
    }
}

/// A linker's name for people; what is not mangled stays as it is.
pub fn readable_name(name: &str) -> String {
    demangle(name).unwrap_or_else(|| name.to_owned())
}

fn demangle(name: &str) -> Option<String> {
    let mangled = name.starts_with("_Z").then_some(name)?;
    let options = DemangleOptions::new().no_params().no_return_type();
    let symbol = cpp_demangle::Symbol::new(mangled).ok()?;
    symbol.demangle_with_options(&options).ok()
}

/// Keeps all models of a recording in its folder, so that it can be read after the program is
/// built again. Returns how many were not there before.
pub fn save_models(recording: &Recording) -> Result<usize, ProgramError> {
    let mut sources = Sources::new(recording);
    let mut saved = 0;
    for model in recording.models() {
        let path = sources.saved(model.model);
        if path.exists() {
            continue;
        }
        let (_, blob) = sources.find(model.model)?;
        write(&path, &blob).map_err(|cause| ProgramError::Io { path, cause })?;
        saved += 1;
    }
    Ok(saved)
}

/// Writes under another name first, so that nobody ever sees half a file.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new(""));
    std::fs::create_dir_all(folder)?;
    let draft = path.with_extension(format!("draft-{}", std::process::id()));
    std::fs::write(&draft, bytes)?;
    std::fs::rename(&draft, path)
}

/// Where models come from.
struct Sources<'a> {
    recording: &'a Recording,
    /// Binaries that were read.
    binaries: FxHashSet<&'a Path>,
    found: FxHashMap<ModelId, (PathBuf, Vec<u8>)>,
}

impl<'a> Sources<'a> {
    fn new(recording: &'a Recording) -> Sources<'a> {
        Sources {
            recording,
            binaries: FxHashSet::default(),
            found: FxHashMap::default(),
        }
    }

    fn saved(&self, model: ModelId) -> PathBuf {
        let folder = self.recording.path().join("models");
        folder.join(format!("{model}.model"))
    }

    /// A model as a blob, and where it was found.
    fn find(&mut self, model: ModelId) -> Result<(PathBuf, Vec<u8>), ProgramError> {
        let path = self.saved(model);
        match std::fs::read(&path) {
            Ok(blob) => return check(model, path, blob),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
            Err(cause) => return Err(ProgramError::Io { path, cause }),
        }
        let modules = self.recording.processes().iter().flat_map(|p| &p.modules);
        let mut last = None;
        for module in modules.filter(|module| module.model == model) {
            let binary = module.binary.as_path();
            if let Err(error) = self.read(binary) {
                last = Some(error);
            } else if let Some((path, blob)) = self.found.get(&model) {
                return Ok((path.clone(), blob.clone()));
            } else {
                let binary = binary.to_owned();
                last = Some(ProgramError::Rebuilt { binary, model });
            }
        }
        Err(last.expect("a recording knows models only from its modules"))
    }

    /// Takes in the models of a binary, once.
    fn read(&mut self, binary: &'a Path) -> Result<(), ProgramError> {
        if self.binaries.contains(binary) {
            return Ok(());
        }
        let models = elf::models(binary).map_err(ProgramError::Binary)?;
        self.binaries.insert(binary);
        for model in models {
            self.found.insert(model.id, (binary.to_owned(), model.blob));
        }
        Ok(())
    }
}

fn check(model: ModelId, path: PathBuf, blob: Vec<u8>) -> Result<(PathBuf, Vec<u8>), ProgramError> {
    let first = binary::split(&blob).next();
    match first {
        Some(Ok(found)) if found.id != model => {
            let found = found.id;
            Err(ProgramError::Misnamed { path, found })
        }
        Some(Err(cause)) => Err(ProgramError::Damaged { path, cause }),
        // An empty file: decoding says so.
        Some(Ok(_)) | None => Ok((path, blob)),
    }
}
