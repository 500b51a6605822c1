//! Which words a check read: the checker's side of [`crashpoint_abi::serve::ReadsHeader`].

use crate::memory::image::WordId;
use crate::memory::pool::PoolFile;
use crashpoint_abi::serve::{
    READS_FILES, READS_HEADER_BYTES, READS_MAGIC, ReadsFile, ReadsHeader, VERSION,
};
use crashpoint_trace::{FileIndex, create_for_mapping};
use rustix::fs::FallocateFlags;
use std::fs::File;
use std::io;
use std::mem::{offset_of, size_of};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// The file in which a server's children mark what they read.
#[derive(Debug)]
pub struct Reads {
    pub path: PathBuf,
    file: File,
    /// Where the marks of a file begin, and how many bytes of marks there are.
    marks: Vec<(FileIndex, u64, u64)>,
    end: u64,
}

impl Reads {
    pub fn create(path: &Path, files: &[PoolFile]) -> io::Result<Reads> {
        let mut header = vec![0u8; READS_HEADER_BYTES];
        let mut put = |at: usize, field: &[u8]| header[at..at + field.len()].copy_from_slice(field);
        let count = files.len().min(READS_FILES);
        put(offset_of!(ReadsHeader, magic), &READS_MAGIC);
        put(offset_of!(ReadsHeader, version), &VERSION.to_ne_bytes());
        put(
            offset_of!(ReadsHeader, file_count),
            &(count as u32).to_ne_bytes(),
        );
        let mut end = READS_HEADER_BYTES as u64;
        let mut marks = Vec::new();
        for (number, file) in files.iter().take(count).enumerate() {
            let at = offset_of!(ReadsHeader, files) + number * size_of::<ReadsFile>();
            let length = file.size_bytes.div_ceil(64);
            let stored = end + length.next_multiple_of(8);
            let fields = [file.device, file.inode, end, stored, file.size_bytes];
            for (index, field) in fields.iter().enumerate() {
                put(at + index * 8, &field.to_ne_bytes());
            }
            marks.push((file.index, end, length));
            end = (stored + length).next_multiple_of(READS_HEADER_BYTES as u64);
        }
        let file = create_for_mapping(path)?;
        file.set_len(end)?;
        file.write_all_at(&header, 0)?;
        Ok(Reads {
            path: path.to_owned(),
            file,
            marks,
            end,
        })
    }

    /// Forgets all marks.
    pub fn clear(&self) -> io::Result<()> {
        let start = READS_HEADER_BYTES as u64;
        if self.end == start {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&self.file, flags, start, self.end - start)?;
        Ok(())
    }

    /// Of some words, sorted, those that were read; a word whose marks are not kept counts as read.
    pub fn among(&self, words: impl Iterator<Item = WordId>) -> io::Result<Vec<WordId>> {
        let mut read = Vec::new();
        let mut block = [0u8; 512];
        let mut block_at = u64::MAX;
        for word in words {
            let address = word.address();
            let known = self
                .marks
                .iter()
                .find(|(file, _, _)| *file == address.file());
            let Some((_, start, length)) = known else {
                read.push(word);
                continue;
            };
            let bit = address.offset() / 8;
            if bit / 8 >= *length {
                read.push(word);
                continue;
            }
            let at = start + bit / 8;
            let base = at / 512 * 512;
            if base != block_at {
                block_at = base;
                let count = self.file.read_at(&mut block, base)?;
                block[count..].fill(0);
            }
            if block[(at - base) as usize] >> (bit % 8) & 1 == 1 {
                read.push(word);
            }
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::image::{FileShape, Image};
    use crate::memory::pool::Pool;

    #[test]
    fn a_mark_is_one_bit_of_one_word() {
        let folder = tempfile::tempdir().unwrap();
        let shape = FileShape {
            index: FileIndex(0),
            path: "/r".into(),
            size_bytes: 1 << 20,
        };
        let path = folder.path().join("pool");
        let pool = Pool::create(&[shape], Path::new("/r"), &path, Image::default()).unwrap();
        let reads = Reads::create(&folder.path().join("reads"), pool.files()).unwrap();
        let words = [0, 5, 8, 4097, 131_071, 131_072].map(WordId);
        let among = || reads.among(words.iter().copied()).unwrap();
        assert_eq!(among(), [WordId(131_072)], "beyond the file");
        let start = READS_HEADER_BYTES as u64;
        reads.file.write_all_at(&[0b10_0000], start).unwrap();
        reads.file.write_all_at(&[0b10], start + 512).unwrap();
        // What was stored is kept behind.
        reads.file.write_all_at(&[0xff], start + 16384).unwrap();
        assert_eq!(among(), [5, 4097, 131_072].map(WordId));
        reads.clear().unwrap();
        assert_eq!(among(), [WordId(131_072)]);
    }
}
