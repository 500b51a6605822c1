//! Files as slices of bytes: memory-mapped, or held in memory.
//!
//! Mapping is what lets a recording of many gigabytes be read at the speed of memory and lets
//! events borrow the bytes of stores. The price: another process may change or cut the file while
//! it is mapped.
//!
//! - The runtime only appends records, and cuts off only what lies behind the position in a
//!   stream's header; readers never look behind the position that they found when they opened the
//!   recording. The two windows at the head of a stream are written again and again by a target
//!   that still runs: what is read there then may be torn.
//! - Contents are validated wherever they are decoded, on every pass, so that bytes which change
//!   under a reader can lead to wrong events or an early end, never to a wrong memory access.
//! - Somebody who truncates a file of a recording by hand while it is read ends the reader with
//!   SIGBUS. That is not guarded against.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::Path;

#[derive(Debug)]
pub(crate) enum Bytes {
    Mapped(memmap2::Mmap),
    Owned(Vec<u8>),
}

impl Bytes {
    #[expect(
        unsafe_code,
        reason = "mapping a file is the one thing here that the compiler cannot check"
    )]
    pub(crate) fn map(path: &Path) -> io::Result<Bytes> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        if metadata.len() == 0 {
            return Ok(Bytes::Owned(Vec::new()));
        }
        // SAFETY: the mapping is read-only and private to this value. Who may change the bytes
        // behind it, and why that does no harm, is argued at the top of this file.
        let map = unsafe { memmap2::Mmap::map(&file)? };
        Ok(Bytes::Mapped(map))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Owned(bytes) => bytes,
        }
    }
}

/// A file that grows through a shared mapping: what was appended is in the file even if the writer
/// is killed at once. The file is longer than what was appended, and ends in zeros, until
/// [`Appender::finish`].
#[derive(Debug)]
pub(crate) struct Appender {
    file: File,
    map: memmap2::MmapMut,
    /// Where the mapping begins in the file.
    base: u64,
    /// Where the next byte goes, in the mapping.
    position: usize,
    chunk_bytes: usize,
}

/// An empty file that can be written and mapped, in the place of what was there.
pub fn create_for_mapping(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(true);
    options.open(path)
}

/// A mapping begins at a page.
const PAGE_BYTES: usize = 4096;

impl Appender {
    /// `chunk_bytes`: how much is reserved at a time.
    pub(crate) fn create(path: &Path, chunk_bytes: usize) -> io::Result<Appender> {
        let file = create_for_mapping(path)?;
        let map = Appender::map(&file, 0, chunk_bytes)?;
        Ok(Appender {
            file,
            map,
            base: 0,
            position: 0,
            chunk_bytes,
        })
    }

    #[expect(
        unsafe_code,
        reason = "mapping a file is the one thing here that the compiler cannot check"
    )]
    fn map(file: &File, base: u64, length: usize) -> io::Result<memmap2::MmapMut> {
        let end = base + length as u64;
        // Reserved, so that a full disk is an error here and no SIGBUS at some store; what lies
        // before it was, and to go over that again would take longer each time.
        match rustix::fs::fallocate(
            file,
            rustix::fs::FallocateFlags::empty(),
            base,
            length as u64,
        ) {
            Ok(()) => {}
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => file.set_len(end)?,
            Err(error) => return Err(error.into()),
        }
        // SAFETY: the file was created by us for writing, and nobody reads it as Rust memory
        // before `finish`; readers map it on their own and check what they find.
        unsafe {
            memmap2::MmapOptions::new()
                .offset(base)
                .len(length)
                .map_mut(file)
        }
    }

    /// At least `length` bytes of room at the end, all zeros.
    pub(crate) fn room(&mut self, length: usize) -> io::Result<&mut [u8]> {
        if self.map.len() - self.position < length {
            let kept = self.position % PAGE_BYTES;
            let base = self.base + (self.position - kept) as u64;
            let wanted = (kept + length).max(self.chunk_bytes);
            let length = wanted.next_multiple_of(PAGE_BYTES);
            self.map = Appender::map(&self.file, base, length)?;
            self.base = base;
            self.position = kept;
        }
        Ok(&mut self.map[self.position..])
    }

    /// Keeps what was put at the beginning of the room.
    pub(crate) fn advance(&mut self, length: usize) {
        self.position += length;
        assert!(
            self.position <= self.map.len(),
            "only what there was room for"
        );
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.room(bytes.len())?[..bytes.len()].copy_from_slice(bytes);
        self.advance(bytes.len());
        Ok(())
    }

    /// Cuts off what was reserved and not used.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.file.set_len(self.base + self.position as u64)
    }
}
