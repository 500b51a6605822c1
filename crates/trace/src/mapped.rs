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
