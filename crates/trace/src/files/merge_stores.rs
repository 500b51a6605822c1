//! One trace of both kinds: stores into mapped files, put between the calls where they happened.
//!
//! From outside, stores are found by comparing pages, at the next call: which values were there in
//! between, and in which order, is lost. A program that was built with `crashpoint-cc` records its
//! stores itself, each with a number (`trace/`, see [`Recording`]). The watcher notes which numbers
//! were taken whenever it looks at mappings ([`Record::Stores`]), before the call that made it look.
//! So each store has its place, and becomes a call of its own: [`SystemCall::STORE`].
//!
//! What was found by comparison is left out as far as the stores explain it. What they do not
//! explain was stored by code that does not record, and stays.

mod contents;

use super::format::{CALLS, FOLDER, Record, SYMBOLS};
use super::{
    Call, Effect, FileRecording, InodeId, OpenError, RawFrame, SourceLine, StackFrame, StackId,
    SystemCall, Through, Writer,
};
use crate::program::Program;
use crate::{ContextId, Event, PmPlace, Recording, SiteId, WrittenData};
use contents::Contents;
use rustc_hash::{FxHashMap, FxHashSet};
use std::io;
use std::iter::Peekable;
use std::path::Path;

/// Where the new recording grows, in its folder, until it takes the place of the old one.
pub const MERGED_FOLDER: &str = "merged";

/// Why stores and calls could not be brought together; the recording is as it was.
#[derive(Debug, thiserror::Error)]
pub enum MergeStoresError {
    #[error(transparent)]
    Memory(#[from] crate::OpenError),
    #[error(transparent)]
    Files(#[from] OpenError),
    #[error("the folder cannot be written: {0}")]
    Io(#[from] io::Error),
}

/// Puts the stores of `out/trace` between the calls of `out/files`; returns how many calls there
/// are then, stores counted. A recording that did not come to its end is left as it is.
pub fn merge_stores(out: &Path) -> Result<u64, MergeStoresError> {
    let memory = Recording::open(out)?;
    let calls = FileRecording::open(out)?;
    let Some(ended) = calls.ended() else {
        return Ok(calls.count());
    };
    let (program, _) = Program::load_available(&memory);
    let draft = out.join(MERGED_FOLDER);
    let mut merger = StoreMerger {
        writer: Writer::create(&draft, &calls.start)?,
        memory: &memory,
        program,
        events: memory.events().peekable(),
        contents: Contents::new(&calls.before(), shown(&calls)),
        files: FxHashMap::default(),
        paths: FxHashMap::default(),
        threads: FxHashMap::default(),
        modules: FxHashMap::default(),
        stacks: FxHashMap::default(),
        symbols: Vec::new(),
        order: 0,
        races: memory.threads().len() > 1,
    };
    // Numbers of modules and stacks stay as they were: theirs come first.
    for path in &calls.modules {
        merger.writer.module(path)?;
    }
    for stack in &calls.stacks {
        merger.writer.stack(stack)?;
    }
    for record in calls.records() {
        merger.take(record)?;
    }
    merger.stores_before(u64::MAX)?;
    let count = merger.writer.count();
    let known = calls.symbols.iter();
    let symbols = known.map(|(at, frames)| (*at, frames.clone()));
    let symbols: Vec<_> = symbols.chain(merger.symbols).collect();
    merger.writer.finish(ended, symbols)?;
    // Those of before are among the symbols: whoever reads in between finds what it needs.
    for name in [SYMBOLS, CALLS] {
        let from = draft.join(FOLDER).join(name);
        std::fs::rename(from, out.join(FOLDER).join(name))?;
    }
    std::fs::remove_dir_all(&draft)?;
    Ok(count)
}

/// The inodes that are ever mapped.
fn shown(calls: &FileRecording) -> FxHashSet<InodeId> {
    let inodes = calls.records().filter_map(|record| match record {
        Record::Shown { inode, .. } => Some(inode),
        Record::Start(_)
        | Record::Module { .. }
        | Record::Stack { .. }
        | Record::Call(_)
        | Record::Remark(_)
        | Record::Thread { .. }
        | Record::Stores { .. }
        | Record::End(_) => None,
    });
    inodes.collect()
}

struct StoreMerger<'a, Events: Iterator<Item = Event<'a>>> {
    writer: Writer,
    memory: &'a Recording,
    program: Program,
    events: Peekable<Events>,
    contents: Contents,
    /// By device and number; the last file that had them.
    files: FxHashMap<(u64, u64), InodeId>,
    /// As they were mapped.
    paths: FxHashMap<InodeId, String>,
    /// Process and thread by the system's number of the thread.
    threads: FxHashMap<u32, (u32, u32)>,
    /// Numbers of the models as modules of the recording.
    modules: FxHashMap<usize, u32>,
    stacks: FxHashMap<(SiteId, ContextId), StackId>,
    symbols: Vec<(RawFrame, Vec<StackFrame>)>,
    order: u64,
    /// Whether something may have been stored while pages were compared.
    races: bool,
}

impl<'a, Events: Iterator<Item = Event<'a>>> StoreMerger<'a, Events> {
    fn take(&mut self, record: Record<'_>) -> io::Result<()> {
        match record {
            // Written already, or at the end.
            Record::Start(_) | Record::Module { .. } | Record::Stack { .. } | Record::End(_) => {
                Ok(())
            }
            Record::Call(call) => self.call(call),
            Record::Remark(remark) => self.writer.remark(&remark),
            Record::Thread {
                process,
                thread,
                system_thread,
            } => {
                self.threads.insert(system_thread, (process, thread));
                Ok(())
            }
            Record::Shown {
                inode,
                path,
                device,
                number,
            } => {
                self.files.insert((device, number), inode);
                self.paths.insert(inode, path);
                Ok(())
            }
            Record::Stores { before } => self.stores_before(before),
        }
    }

    fn call(&mut self, mut call: Call<'_>) -> io::Result<()> {
        let was_found = |effect: &Effect<'_>| {
            matches!(
                effect,
                Effect::Write {
                    through: Through::Mapping,
                    ..
                }
            )
        };
        if !call.effects.is_empty() && call.effects.iter().all(was_found) {
            let races = self.races;
            let unexplained = |effect| self.contents.unexplained(effect, races);
            call.effects = call.effects.into_iter().filter_map(unexplained).collect();
            if call.effects.is_empty() {
                return Ok(());
            }
        }
        for effect in &call.effects {
            self.contents.apply(effect);
        }
        call.order = self.order;
        self.order += 1;
        self.writer.call(call)
    }

    fn stores_before(&mut self, number: u64) -> io::Result<()> {
        self.contents.forget_stored();
        while let Some(event) = self.events.next_if(|event| event.order < number) {
            let Some(write) = event.kind.as_write() else {
                continue;
            };
            match write.data {
                WrittenData::Bytes(bytes) => self.store(&event, write.place, bytes)?,
                WrittenData::Filled(byte) => {
                    let longest = self.contents.longest() as u64;
                    let bytes = vec![byte; write.length.min(longest) as usize];
                    self.store(&event, write.place, &bytes)?;
                }
            }
        }
        Ok(())
    }

    fn store(&mut self, event: &Event<'_>, place: PmPlace, bytes: &[u8]) -> io::Result<()> {
        let file = self.memory.file(place.pm.file());
        let Some(&inode) = self.files.get(&(file.device, file.inode)) else {
            return Ok(());
        };
        if file.private {
            return Ok(());
        }
        let offset = place.pm.offset();
        // What lies behind the end of the file, in its last page, is nowhere.
        let bytes = self.contents.within(inode, offset, bytes);
        if !self.contents.store(inode, offset, bytes) {
            return Ok(());
        }
        let stack = self.stack(event.site, event.context)?;
        let thread = self.memory.thread(event.thread);
        let known = self.threads.get(&thread.system_thread).copied();
        let (process, thread) = known.unwrap_or_default();
        let path = self.paths.get(&inode).map_or("?", String::as_str);
        let text = format!("store(\"{path}\", {} bytes at {offset})", bytes.len());
        let call = Call {
            order: self.order,
            process,
            thread,
            number: SystemCall::STORE,
            stack,
            text: &text,
            effects: vec![Effect::Write {
                inode,
                offset,
                bytes,
                through: Through::Mapping,
            }],
        };
        self.order += 1;
        self.writer.call(call)
    }

    /// The stack of a store, as its model tells it.
    fn stack(&mut self, site: SiteId, context: ContextId) -> io::Result<StackId> {
        if let Some(stack) = self.stacks.get(&(site, context)) {
            return Ok(*stack);
        }
        let mut callers = self.memory.stack(context);
        callers.reverse();
        let mut stack = Vec::new();
        for at in std::iter::once(site).chain(callers) {
            stack.extend(self.frame(at)?);
        }
        let id = if stack.is_empty() {
            StackId::NONE
        } else {
            self.writer.stack(&stack)?
        };
        self.stacks.insert((site, context), id);
        Ok(id)
    }

    /// A site has no address. Its number, counted down from the end, is none of any code.
    fn frame(&mut self, site: SiteId) -> io::Result<Option<RawFrame>> {
        let Some(resolved) = self.program.resolve(site) else {
            return Ok(None);
        };
        let models = self.memory.models();
        let of_model = |module: &&crate::LoadedModule| module.model == models[resolved.model].model;
        let mut loaded = self.memory.processes().iter().flat_map(|p| &p.modules);
        let binary = loaded.find(of_model).map(|module| &module.binary);
        let path = binary.map_or_else(String::new, |path| path.to_string_lossy().into_owned());
        let module = match self.modules.get(&resolved.model) {
            Some(module) => *module,
            None => {
                let module = self.writer.module(&path)?;
                self.modules.insert(resolved.model, module);
                module
            }
        };
        let at = RawFrame {
            module,
            offset: u64::MAX - u64::from(site.0),
        };
        let places = std::iter::once(&resolved.place).chain(&resolved.inlined);
        let frames = places.map(|place| StackFrame {
            module: path.clone(),
            offset: at.offset,
            function: place.function.clone(),
            source: (place.line != 0).then(|| SourceLine {
                file: place.file.to_owned(),
                line: place.line,
                column: place.column,
            }),
        });
        self.symbols.push((at, frames.collect()));
        Ok(Some(at))
    }
}
