//! The content of a persistent file at the moment it is first mapped: copied to the recording and
//! to the shadow, data only, holes and zeros left out.

use crate::memory::ScratchBlock;
use crate::proc;
use crate::sys::{self, Errno, File, PAGE_BYTES, Path};
use core::fmt::Write;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use libc::c_int;

const BUFFER_BYTES: usize = 256 << 10;

/// A file for reading, without moving the position of the target's own descriptor.
pub struct Reader {
    file: ManuallyDrop<File>,
    /// The descriptor is the target's: the position to go back to.
    borrowed_at: Option<u64>,
}

impl Reader {
    pub fn new(descriptor: c_int) -> Reader {
        match reopen(descriptor) {
            Ok(file) => Reader {
                file: ManuallyDrop::new(file),
                borrowed_at: None,
            },
            // The path may be closed to us although the descriptor is open.
            Err(_) => Reader {
                file: ManuallyDrop::new(File::borrow(descriptor)),
                borrowed_at: Some(sys::seek(descriptor, 0, libc::SEEK_CUR).unwrap_or(0)),
            },
        }
    }
}

impl Deref for Reader {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        match self.borrowed_at {
            Some(position) => {
                let _ = sys::seek(self.file.number(), position, libc::SEEK_SET);
            }
            // SAFETY: dropped once, here.
            None => unsafe { ManuallyDrop::drop(&mut self.file) },
        }
    }
}

/// Opens what is behind a descriptor a second time.
fn reopen(descriptor: c_int) -> Result<File, Errno> {
    let mut link = [0; 32];
    let mut slot = crate::run::Slot {
        bytes: &mut link,
        length: 0,
    };
    let _ = write!(slot, "/proc/self/fd/{descriptor}\0");
    let length = slot.length;
    let path = Path::new(&link[..length]).ok_or(Errno(libc::EINVAL))?;
    File::open(path, libc::O_RDONLY)
}

/// Calls `then` with each extent of data in a range of a file. Where the file system knows no
/// holes, all is data.
pub fn each_extent(file: &File, start: u64, end: u64, mut then: impl FnMut(u64, u64)) {
    let mut at = start;
    while at < end {
        let data = match sys::seek(file.number(), at, libc::SEEK_DATA) {
            Ok(data) => data,
            Err(Errno(libc::ENXIO)) => return,
            Err(_) => return then(at, end),
        };
        if data >= end {
            return;
        }
        let hole = sys::seek(file.number(), data, libc::SEEK_HOLE)
            .unwrap_or(end)
            .min(end);
        if hole <= data {
            return;
        }
        then(data, hole);
        at = hole;
    }
}

/// Copies the data of a file to `shadow` (0: nowhere) and to the file that `create` makes, which
/// is asked for only if there is a byte that is not zero. Returns whether it was.
pub fn capture(
    file: &File,
    size: u64,
    shadow: u64,
    create: impl Fn() -> Result<File, Errno>,
) -> Result<bool, Errno> {
    let mut buffer = ScratchBlock::new(BUFFER_BYTES)?;
    let mut image: Option<File> = None;
    let mut result = Ok(());
    each_extent(file, 0, size, |from, to| {
        let mut at = from;
        while at < to && result.is_ok() {
            let wanted = (to - at).min(BUFFER_BYTES as u64) as usize;
            let read = match file.read_at(&mut buffer[..wanted], at) {
                Ok(0) => return,
                Ok(read) => read,
                Err(error) => {
                    result = Err(error);
                    return;
                }
            };
            for (index, page) in buffer[..read].chunks(PAGE_BYTES).enumerate() {
                if page.iter().all(|byte| *byte == 0) {
                    continue;
                }
                let place = at + (index * PAGE_BYTES) as u64;
                result = keep(page, place, shadow, &mut image, &create);
                if result.is_err() {
                    return;
                }
            }
            at += read as u64;
        }
    });
    result?;
    if let Some(image) = &image {
        image.truncate(size)?;
    }
    Ok(image.is_some())
}

fn keep(
    page: &[u8],
    place: u64,
    shadow: u64,
    image: &mut Option<File>,
    create: impl Fn() -> Result<File, Errno>,
) -> Result<(), Errno> {
    if shadow != 0 {
        let to = (shadow + place) as *mut u8;
        // SAFETY: the shadow of a file spans its size.
        unsafe { core::ptr::copy_nonoverlapping(page.as_ptr(), to, page.len()) };
    }
    let image = match image {
        Some(image) => image,
        None => image.insert(create()?),
    };
    if place + page.len() as u64 > sys::file_size_limit() {
        return Err(Errno(libc::EFBIG));
    }
    image.write_at(page, place)
}

/// The path of a descriptor as text of its own, for good; empty if it has none.
pub fn path_of(descriptor: i32) -> &'static [u8] {
    proc::with_descriptor_path(descriptor, |path| {
        let Ok(mut text) = crate::text::Text::new() else {
            return &b""[..];
        };
        text.push(path);
        text.leak()
    })
}
