//! Where persistent files are mapped when the program leaves the address open.
//!
//! Programs that keep raw pointers in persistent memory work only if a file comes back to its
//! address. The kernel gives addresses at random, so we choose: first what the user's placement
//! file says, then the program's own hint if it is free, as the kernel would; then the place where
//! this process had the file before; then the lowest free place in an area of our own, so that the
//! same program mapping the same files in the same order finds them where they were. The area is
//! far from heap, stack and libraries: the envelope of persistent memory stays tight.

use crate::config::Config;
use crate::files::FileEntry;
use crate::memory;
use crate::proc;
use crate::regions::{REGIONS, Region};
use crate::sys::{Errno, PAGE_BYTES, Result};
use crate::text::Text;
use libc::c_int;

pub const AREA_START: u64 = 0x1000_0000_0000;
const AREA_END: u64 = 0x5000_0000_0000;
const ALIGNMENT: u64 = 2 << 20;
/// Mappings may grow in place, and stray pointers do not reach the next one.
const GAP: u64 = 1 << 30;
/// Places to try before the kernel is asked after all.
const ATTEMPTS: usize = 64;

/// A mapping as the program asks for it.
#[derive(Clone, Copy)]
pub struct MapRequest {
    pub address: usize,
    pub length: usize,
    pub protection: c_int,
    pub flags: c_int,
    pub descriptor: c_int,
    pub offset: u64,
    /// Where the call came from.
    pub caller: u64,
}

impl MapRequest {
    /// # Safety
    /// As `mmap`.
    pub unsafe fn map(&self) -> Result<usize> {
        let MapRequest {
            address,
            length,
            protection,
            flags,
            descriptor,
            offset,
            caller: _,
        } = *self;
        // SAFETY: passed on.
        unsafe { memory::map(address, length, protection, flags, descriptor, offset) }
    }

    /// Maps at an address if that is free.
    fn map_at(&self, address: u64) -> Result<usize> {
        let at = MapRequest {
            address: address as usize,
            flags: self.flags | libc::MAP_FIXED_NOREPLACE,
            ..*self
        };
        // SAFETY: nothing is replaced.
        let mapped = unsafe { at.map() }?;
        if mapped as u64 == address {
            return Ok(mapped);
        }
        // A kernel that does not know the flag takes the address for a hint.
        // SAFETY: mapped just now.
        let _ = unsafe { memory::unmap(mapped, self.length) };
        Err(Errno(libc::EEXIST))
    }

    /// Replaces what this request has mapped by a mapping of the same that keeps its changes to
    /// itself. The request was made as it stands first: it fails where it would have failed, and a
    /// program that tries `MAP_SYNC` learns the truth.
    pub fn make_private(&self, address: usize) -> Result<usize> {
        // What is filled in advance would be copied in advance.
        let dropped = libc::MAP_TYPE
            | libc::MAP_SYNC
            | libc::MAP_POPULATE
            | libc::MAP_LOCKED
            | libc::MAP_FIXED_NOREPLACE;
        let private = MapRequest {
            address,
            flags: self.flags & !dropped
                | libc::MAP_PRIVATE
                | libc::MAP_NORESERVE
                | libc::MAP_FIXED,
            ..*self
        };
        // SAFETY: the range was mapped just now, and nobody has it yet.
        unsafe {
            let mapped = private.map();
            if mapped.is_err() {
                let _ = memory::unmap(address, self.length);
            }
            mapped
        }
    }

    pub fn is_fixed(&self) -> bool {
        self.flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) != 0
    }
}

pub struct Places {
    /// The user's placement file, once it has been read.
    wanted: Option<&'static [u8]>,
}

impl Places {
    pub const fn new() -> Places {
        Places { wanted: None }
    }

    fn wanted(&mut self, config: &Config) -> &'static [u8] {
        self.wanted.get_or_insert_with(|| {
            let mut content: &'static [u8] = b"";
            if config.placement.is_empty() {
                return content;
            }
            if let (Ok(mut path), Ok(mut text)) = (Text::new(), Text::new()) {
                path.push(config.placement);
                path.push(b"\0");
                proc::with_file(path.bytes(), |bytes| text.push(bytes));
                content = text.leak();
            }
            content
        })
    }

    /// Maps a persistent file where it should be.
    pub fn map(
        &mut self,
        config: &Config,
        request: &MapRequest,
        file: &FileEntry,
    ) -> Result<usize> {
        let asks_for_low = request.flags & libc::MAP_32BIT != 0;
        if request.is_fixed() || asks_for_low {
            // SAFETY: what the target asked for.
            return unsafe { request.map() };
        }
        let lines = self.wanted(config);
        if let Some(address) = placement(lines, file.path, request.offset, request.length as u64)
            && let Ok(mapped) = request.map_at(address)
        {
            return Ok(mapped);
        }
        let hint = request.address as u64 & !(PAGE_BYTES as u64 - 1);
        if hint != 0
            && let Ok(mapped) = request.map_at(hint)
        {
            return Ok(mapped);
        }
        if file.home != 0
            && file.home_offset == request.offset
            && let Ok(mapped) = request.map_at(file.home)
        {
            return Ok(mapped);
        }
        let mut from = AREA_START;
        for _ in 0..ATTEMPTS {
            let Some(address) = free_place(from, request.length as u64) else {
                break;
            };
            match request.map_at(address) {
                Err(Errno(libc::EEXIST)) => from = address + GAP,
                other => return other,
            }
        }
        // SAFETY: what the target asked for.
        unsafe { request.map() }
    }
}

/// The lowest place in the area, from an address on, that is free of persistent memory.
pub fn free_place(from: u64, length: u64) -> Option<u64> {
    let regions = (0..REGIONS.count()).filter_map(|index| REGIONS.get(index));
    first_fit(from, length, regions)
}

/// `regions` are sorted.
fn first_fit(from: u64, length: u64, regions: impl Iterator<Item = Region>) -> Option<u64> {
    let mut candidate = from.next_multiple_of(ALIGNMENT);
    for region in regions {
        if region.end + GAP <= candidate {
            continue;
        }
        if candidate.checked_add(length)?.checked_add(GAP)? <= region.base {
            break;
        }
        candidate = candidate.max((region.end + GAP).next_multiple_of(ALIGNMENT));
    }
    (candidate.checked_add(length)? <= AREA_END).then_some(candidate)
}

/// The address that a placement file wants for a mapping. A line of the same length is preferred.
fn placement(lines: &[u8], path: &[u8], offset: u64, length: u64) -> Option<u64> {
    let wanted = |any_length: bool| {
        lines.split(|byte| *byte == b'\n').find_map(|line| {
            let line = core::str::from_utf8(line).ok()?;
            let mut fields = line.trim_start().splitn(4, ' ');
            let address = number(fields.next()?)?;
            let wanted_length = number(fields.next()?)?;
            let wanted_offset = number(fields.next()?)?;
            let fits = fields.next()?.as_bytes() == path
                && wanted_offset == offset
                && (any_length || wanted_length == length);
            fits.then_some(address)
        })
    };
    wanted(false).or_else(|| wanted(true))
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(base: u64, end: u64) -> Region {
        Region {
            base,
            end,
            ..Region::default()
        }
    }

    #[test]
    fn the_first_place_is_the_start_of_the_area() {
        assert_eq!(
            first_fit(AREA_START, 1 << 30, [].into_iter()),
            Some(AREA_START)
        );
    }

    #[test]
    fn places_keep_their_distance_and_gaps_are_reused() {
        let gib = 1 << 30;
        let first = region(AREA_START, AREA_START + 4096);
        let next = first_fit(AREA_START, gib, [first].into_iter()).unwrap();
        assert_eq!(next, AREA_START + gib + ALIGNMENT);
        let far = region(AREA_START + 8 * gib, AREA_START + 9 * gib);
        assert_eq!(
            first_fit(AREA_START, gib, [first, far].into_iter()),
            Some(next)
        );
        assert_eq!(
            first_fit(AREA_START, gib, [far].into_iter()),
            Some(AREA_START)
        );
        let large = first_fit(AREA_START, 8 * gib, [far].into_iter());
        assert_eq!(large, Some(AREA_START + 10 * gib));
    }

    #[test]
    fn what_does_not_fit_has_no_place() {
        assert_eq!(first_fit(AREA_START, AREA_END, [].into_iter()), None);
        assert_eq!(first_fit(AREA_START, u64::MAX, [].into_iter()), None);
    }

    #[test]
    fn placement_lines_name_address_length_offset_and_path() {
        let lines = b"# comment\n0x7000000 4096 0 /a b\n8192 100 0 /a b\n1 2 3 /c\n";
        assert_eq!(placement(lines, b"/a b", 0, 100), Some(8192));
        assert_eq!(placement(lines, b"/a b", 0, 5), Some(0x700_0000));
        assert_eq!(placement(lines, b"/a b", 4096, 5), None);
        assert_eq!(placement(lines, b"/c", 3, 2), Some(1));
        assert_eq!(placement(b"", b"/c", 3, 2), None);
    }
}
