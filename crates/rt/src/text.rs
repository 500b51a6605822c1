//! Text without an allocator: lines of the meta file, paths, messages.

use crate::memory::ScratchBlock;
use crate::sys::{Path, Result};
use core::fmt::{self, Write};

/// Bytes that grow. A text that could not grow stays as long as it was and remembers that.
pub struct Text {
    block: ScratchBlock,
    length: usize,
    cut: bool,
}

impl Text {
    pub fn new() -> Result<Text> {
        Ok(Text {
            block: ScratchBlock::new(crate::sys::PAGE_BYTES)?,
            length: 0,
            cut: false,
        })
    }

    pub fn bytes(&self) -> &[u8] {
        &self.block[..self.length]
    }

    /// Something is missing because there was no memory.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    pub fn clear(&mut self) {
        self.length = 0;
    }

    pub fn push(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        // Room for a zero byte is always kept.
        if end + 1 > self.block.len() && self.block.grow((end + 1).next_power_of_two()).is_err() {
            self.cut = true;
            return;
        }
        self.block[self.length..end].copy_from_slice(bytes);
        self.length = end;
    }

    /// The text as a path; `None` if it holds a zero byte.
    pub fn path(&mut self) -> Option<Path<'_>> {
        let length = self.length;
        self.block[length] = 0;
        Path::new(&self.block[..=length])
    }

    /// Appends a JSON string. Bytes that are not UTF-8 become U+FFFD: JSON cannot carry them.
    pub fn json(&mut self, bytes: &[u8]) {
        self.push(b"\"");
        for chunk in bytes.utf8_chunks() {
            for byte in chunk.valid().bytes() {
                match byte {
                    b'"' => self.push(b"\\\""),
                    b'\\' => self.push(b"\\\\"),
                    0..0x20 => {
                        let _ = write!(self, "\\u{byte:04x}");
                    }
                    plain => self.push(&[plain]),
                }
            }
            if !chunk.invalid().is_empty() {
                self.push("\u{fffd}".as_bytes());
            }
        }
        self.push(b"\"");
    }

    /// Hands the bytes over for the rest of the process's life.
    pub fn leak(self) -> &'static [u8] {
        let (address, length) = (self.block.as_ptr(), self.length);
        core::mem::forget(self);
        // SAFETY: the block is never unmapped now.
        unsafe { core::slice::from_raw_parts(address, length) }
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_strings_escape_what_json_cannot_hold() {
        let mut text = Text::new().unwrap();
        text.json(b"a\"b\\c\n\xff\xc3\xa9");
        assert_eq!(text.bytes(), "\"a\\\"b\\\\c\\u000a\u{fffd}é\"".as_bytes());
    }

    #[test]
    fn a_text_grows_past_a_page() {
        let mut text = Text::new().unwrap();
        for number in 0..2000 {
            write!(text, "{number:05}").unwrap();
        }
        assert_eq!(text.bytes().len(), 10_000);
        assert!(text.bytes().ends_with(b"0199801999"));
        assert!(text.path().is_some());
    }
}
