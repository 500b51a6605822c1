//! Names for code addresses: from debug information, else from symbol tables, else where the unwind
//! table says a function begins.

use addr2line::Loader;
use addr2line::gimli::{self, UnwindSection as _};
use crashpoint_trace::files::{RawFrame, SourceLine, StackFrame};
use object::{Object as _, ObjectSection as _};
use std::borrow::Cow;

/// Resolves addresses, which must be sorted by module.
pub fn resolve<'a>(
    frames: &[RawFrame],
    path: impl Fn(u32) -> &'a str,
) -> Vec<(RawFrame, Vec<StackFrame>)> {
    let mut all = Vec::with_capacity(frames.len());
    for group in frames.chunk_by(|a, b| a.module == b.module) {
        let path = path(group[0].module);
        let loader = Loader::new(path).ok();
        // Only for those that have nothing else.
        let mut bytes = None;
        for frame in group {
            let found = loader
                .as_ref()
                .map(|loader| by_debug(loader, path, frame.offset));
            let mut found = found.unwrap_or_default();
            if found.is_empty() {
                let symbol = loader
                    .as_ref()
                    .and_then(|loader| loader.find_symbol(frame.offset));
                let function = match symbol {
                    Some(symbol) => demangled(symbol.into()),
                    None => {
                        let bytes = bytes.get_or_insert_with(|| std::fs::read(path));
                        let bytes = bytes.as_ref().map_or(&[][..], |bytes| bytes);
                        Bounds::new(bytes).name(frame.offset)
                    }
                };
                found.push(StackFrame {
                    module: path.to_owned(),
                    offset: frame.offset,
                    function,
                    source: None,
                });
            }
            all.push((*frame, found));
        }
    }
    all
}

fn demangled(name: Cow<'_, str>) -> String {
    addr2line::demangle_auto(name, None).into_owned()
}

/// Innermost first; empty without debug information.
fn by_debug(loader: &Loader, path: &str, offset: u64) -> Vec<StackFrame> {
    let mut found = Vec::new();
    let Ok(mut frames) = loader.find_frames(offset) else {
        return found;
    };
    while let Ok(Some(frame)) = frames.next() {
        let named = frame
            .function
            .as_ref()
            .and_then(|name| name.demangle().ok());
        let symbol = || {
            loader
                .find_symbol(offset)
                .map(|symbol| demangled(symbol.into()).into())
        };
        let Some(function) = named.or_else(symbol) else {
            continue;
        };
        let source = frame.location.and_then(|location| {
            Some(SourceLine {
                file: location.file?.to_owned(),
                line: location.line.filter(|line| *line > 0)?,
                column: location.column.unwrap_or(0),
            })
        });
        found.push(StackFrame {
            module: path.to_owned(),
            offset,
            function: function.into_owned(),
            source,
        });
    }
    match found.pop_if(|outermost| is_runtime(outermost)) {
        // Linked into the program, it stands in front of the C library as a part of it.
        Some(function) => vec![StackFrame {
            module: RUNTIME.to_owned(),
            source: None,
            ..function
        }],
        None => found,
    }
}

/// What the code of the runtime is said to lie in.
const RUNTIME: &str = "libcrashpoint_rt";

fn is_runtime(function: &StackFrame) -> bool {
    let source = function.source.as_ref();
    source.is_some_and(|source| source.file.contains("crates/rt/src/"))
}

/// Where functions begin, by the unwind table.
struct Bounds<'a> {
    table: Option<gimli::EhFrame<gimli::EndianSlice<'a, gimli::LittleEndian>>>,
    header: Option<gimli::ParsedEhFrameHdr<gimli::EndianSlice<'a, gimli::LittleEndian>>>,
    bases: gimli::BaseAddresses,
}

impl<'a> Bounds<'a> {
    fn new(bytes: &'a [u8]) -> Bounds<'a> {
        let mut bases = gimli::BaseAddresses::default();
        let file = object::File::parse(bytes).ok();
        let section = |name| {
            let section = file.as_ref()?.section_by_name(name)?;
            Some((section.address(), section.data().ok()?))
        };
        if let Some((address, _)) = section(".text") {
            bases = bases.set_text(address);
        }
        let table = section(".eh_frame").map(|(address, data)| {
            bases = std::mem::take(&mut bases).set_eh_frame(address);
            gimli::EhFrame::new(data, gimli::LittleEndian)
        });
        let header = section(".eh_frame_hdr").and_then(|(address, data)| {
            bases = std::mem::take(&mut bases).set_eh_frame_hdr(address);
            gimli::EhFrameHdr::new(data, gimli::LittleEndian)
                .parse(&bases, 8)
                .ok()
        });
        Bounds {
            table,
            header,
            bases,
        }
    }

    fn name(&self, offset: u64) -> String {
        let found = || {
            let (table, header) = (self.table.as_ref()?, self.header.as_ref()?);
            let index = header.table()?;
            let entry =
                index.fde_for_address(table, &self.bases, offset, gimli::EhFrame::cie_from_offset);
            Some(entry.ok()?.initial_address())
        };
        match found() {
            Some(start) => format!("fn@{start:#x}"),
            None => format!("fn@{offset:#x}"),
        }
    }
}
