//! The binaries and libraries in a process.

use crate::ptrace::Tid;
use crashpoint_trace::files::Writer;
use framehop::{ExplicitModuleSectionInfo, Module};
use memmap2::Mmap;
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Object as _, ObjectSection as _};
use rustc_hash::FxHashMap;
use std::io;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Addresses at which a file's code lies.
#[derive(Clone, Debug)]
pub struct Region {
    pub addresses: Range<u64>,
    /// What to subtract to get an address as the file counts.
    pub bias: u64,
    /// In [`CodeFiles`].
    pub file: usize,
}

/// Part of a mapped file.
#[derive(Clone)]
pub struct Section {
    map: Arc<Mmap>,
    range: Range<usize>,
}

impl Deref for Section {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map[self.range.clone()]
    }
}

/// A file with code, over all processes.
struct CodeFile {
    path: String,
    /// In the recording, once it is in a stack.
    number: Option<u32>,
    parsed: Option<Parsed>,
}

/// What unwinding needs of it.
struct Parsed {
    map: Arc<Mmap>,
    /// Loaded parts: where in the file, and at which address as the file counts.
    loads: Vec<(Range<u64>, u64)>,
    /// `.text`, `.eh_frame`, `.eh_frame_hdr`: where in the file, and the addresses.
    sections: [Option<(Range<usize>, Range<u64>)>; 3],
}

const SECTIONS: [&str; 3] = [".text", ".eh_frame", ".eh_frame_hdr"];

#[derive(Default)]
pub struct CodeFiles {
    all: Vec<CodeFile>,
    by_path: FxHashMap<(String, u64), usize>,
    /// In the order of their numbers in the recording.
    numbered: Vec<usize>,
}

/// A line of `/proc/PID/maps`, of executable pages of a file.
struct Line<'a> {
    addresses: Range<u64>,
    offset: u64,
    inode: u64,
    path: &'a str,
}

/// `start-end perms offset device inode path`.
fn line(text: &str) -> Option<Line<'_>> {
    let mut fields = text.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?;
    let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
    let _device = fields.next()?;
    let inode = fields.next()?.parse().ok()?;
    let path = fields.next()?.trim_start();
    if !permissions.contains('x') || !path.starts_with('/') {
        return None;
    }
    let hex = |text| u64::from_str_radix(text, 16).ok();
    Some(Line {
        addresses: hex(start)?..hex(end)?,
        offset,
        inode,
        path,
    })
}

impl CodeFiles {
    /// The code of a process, by address.
    pub fn regions(&mut self, leader: Tid) -> Vec<Region> {
        let Ok(maps) = std::fs::read(format!("/proc/{}/maps", leader.0)) else {
            return Vec::new();
        };
        let maps = String::from_utf8_lossy(&maps);
        let mut regions = Vec::new();
        for line in maps.lines().filter_map(line) {
            let file = self.file(&line);
            let parsed = self.all[file].parsed.as_ref();
            let loaded = parsed.and_then(|parsed| {
                // Where two segments share a page of the file, code is in the later one.
                let load = parsed
                    .loads
                    .iter()
                    .rev()
                    .find(|(range, _)| range.contains(&line.offset))?;
                Some(load.1 + (line.offset - load.0.start))
            });
            // Of a file that is no ELF file, an address is as good as its place in the file.
            let counted = loaded.unwrap_or(line.offset);
            regions.push(Region {
                bias: line.addresses.start.wrapping_sub(counted),
                addresses: line.addresses,
                file,
            });
        }
        regions
    }

    fn file(&mut self, line: &Line<'_>) -> usize {
        let path = line.path.trim_end_matches(" (deleted)");
        let key = (path.to_owned(), line.inode);
        if let Some(known) = self.by_path.get(&key) {
            return *known;
        }
        self.all.push(CodeFile {
            path: path.to_owned(),
            number: None,
            parsed: Parsed::open(path),
        });
        self.by_path.insert(key, self.all.len() - 1);
        self.all.len() - 1
    }

    /// For the unwinder.
    pub fn module(&self, region: &Region) -> Option<Module<Section>> {
        let file = &self.all[region.file];
        let parsed = file.parsed.as_ref()?;
        let [text, eh_frame, eh_frame_hdr] = &parsed.sections;
        let bytes = |section: &Option<(Range<usize>, Range<u64>)>| {
            section.as_ref().map(|(range, _)| Section {
                map: Arc::clone(&parsed.map),
                range: range.clone(),
            })
        };
        let addresses = |section: &Option<(Range<usize>, Range<u64>)>| {
            section.as_ref().map(|(_, addresses)| addresses.clone())
        };
        let sections = ExplicitModuleSectionInfo {
            base_svma: 0,
            text_svma: addresses(text),
            text: bytes(text),
            eh_frame_svma: addresses(eh_frame),
            eh_frame: bytes(eh_frame),
            eh_frame_hdr_svma: addresses(eh_frame_hdr),
            eh_frame_hdr: bytes(eh_frame_hdr),
            stubs_svma: None,
            stub_helper_svma: None,
            got_svma: None,
            unwind_info: None,
            debug_frame: None,
            text_segment_svma: None,
            text_segment: None,
        };
        let range = region.addresses.clone();
        Some(Module::new(file.path.clone(), range, region.bias, sections))
    }

    /// The number of a file in the recording.
    pub fn number(&mut self, file: usize, writer: &mut Writer) -> io::Result<u32> {
        let known = &mut self.all[file];
        if let Some(number) = known.number {
            return Ok(number);
        }
        let number = writer.module(&known.path)?;
        known.number = Some(number);
        self.numbered.push(file);
        Ok(number)
    }

    /// The path of a module of the recording.
    pub fn path(&self, number: u32) -> &str {
        &self.all[self.numbered[number as usize]].path
    }
}

impl Parsed {
    fn open(path: &str) -> Option<Parsed> {
        let file = std::fs::File::open(path).ok()?;
        // SAFETY: read-only and private. A binary that is changed in place while it runs would show
        // other bytes: wrong frames at worst, every access is checked. One that is cut short ends
        // us with SIGBUS, as it does the program that runs it.
        let map = Arc::new(unsafe { Mmap::map(&file) }.ok()?);
        let elf = object::File::parse(&map[..]).ok()?;
        let header = object::elf::FileHeader64::<object::Endianness>::parse(&map[..]).ok()?;
        let endian = header.endian().ok()?;
        let loads = header
            .program_headers(endian, &map[..])
            .ok()?
            .iter()
            .filter(|segment| segment.p_type(endian) == object::elf::PT_LOAD)
            .map(|segment| {
                let start = segment.p_offset(endian);
                // A mapping starts at a page.
                let down = start % 4096;
                let range = start - down..start + segment.p_filesz(endian);
                (range, segment.p_vaddr(endian).wrapping_sub(down))
            })
            .collect();
        let sections = SECTIONS.map(|name| {
            let section = elf.section_by_name(name)?;
            let (start, size) = section.file_range()?;
            let range = start as usize..(start + size) as usize;
            map.get(range.clone())?;
            let address = section.address();
            Some((range, address..address + section.size()))
        });
        drop(elf);
        Some(Parsed {
            map: Arc::clone(&map),
            loads,
            sections,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_of_files_is_a_region() {
        let text = "7f00-8000 r-xp 00001000 08:01 42                 /usr/lib/my lib.so";
        let found = line(text).unwrap();
        assert_eq!((found.addresses, found.offset), (0x7f00..0x8000, 0x1000));
        assert_eq!((found.path, found.inode), ("/usr/lib/my lib.so", 42));
        assert!(line("7f00-8000 rw-p 00001000 08:01 42   /usr/lib/x.so").is_none());
        assert!(line("7f00-8000 r-xp 00000000 00:00 0   [vdso]").is_none());
        assert!(line("7f00-8000 rwxp 00000000 00:00 0 ").is_none());
    }
}
