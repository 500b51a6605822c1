//! What the kernel tells about this process in /proc.

use crate::memory::ScratchBlock;
use crate::sys::{self, File, PAGE_BYTES, Path};

/// Hands over what a symbolic link says; an empty path if it cannot be read.
pub fn with_link<R>(link: &[u8], then: impl FnOnce(&[u8]) -> R) -> R {
    let found = Path::new(link).and_then(|link| {
        let mut block = ScratchBlock::new(PAGE_BYTES).ok()?;
        let length = sys::read_link(link, &mut block).ok()?;
        Some((block, length))
    });
    match found {
        Some((block, length)) => then(&block[..length]),
        None => then(b""),
    }
}

/// The path behind a descriptor, as the kernel resolves it; empty if it has none.
pub fn with_descriptor_path<R>(descriptor: i32, then: impl FnOnce(&[u8]) -> R) -> R {
    let mut link = [0; 32];
    let mut slot = crate::run::Slot {
        bytes: &mut link,
        length: 0,
    };
    let _ = core::fmt::write(&mut slot, format_args!("/proc/self/fd/{descriptor}\0"));
    let length = slot.length;
    with_link(&link[..length], |path| {
        // Pipes, sockets and the like have no path.
        let path = if path.starts_with(b"/") { path } else { b"" };
        then(path)
    })
}

/// Hands over the content of a file; nothing if it cannot be read.
pub fn with_file(path: &[u8], then: impl FnOnce(&[u8])) {
    let content = Path::new(path).and_then(|path| {
        let file = File::open(path, libc::O_RDONLY).ok()?;
        let mut block = ScratchBlock::new(16 * PAGE_BYTES).ok()?;
        let mut length = 0;
        loop {
            if length == block.len() {
                let longer = block.len() * 2;
                block.grow(longer).ok()?;
            }
            match file.read_at(&mut block[length..], length as u64) {
                Ok(0) => break,
                Ok(count) => length += count,
                Err(_) => return None,
            }
        }
        Some((block, length))
    });
    if let Some((block, length)) = content {
        then(&block[..length]);
    }
}
