//! Cache lines of persistent files, and a table with one entry for each.
//!
//! Bytes of a line are bits of a `u64`, the first byte the lowest bit.

use crashpoint_abi::CACHE_LINE_BYTES;
use crashpoint_trace::PmAddress;

/// A cache line of a persistent file: its address without the lowest bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineId(u64);

impl LineId {
    #[inline]
    pub fn of(address: PmAddress) -> LineId {
        LineId(address.0 / CACHE_LINE_BYTES)
    }

    /// First byte.
    #[inline]
    pub fn start(self) -> PmAddress {
        PmAddress(self.0 * CACHE_LINE_BYTES)
    }

    /// The byte at the lowest bit of a mask, and how many bytes it is from there to the highest.
    pub fn span(self, mask: u64) -> (PmAddress, u64) {
        if mask == 0 {
            return (self.start(), 0);
        }
        let low = mask.trailing_zeros();
        let high = 63 - mask.leading_zeros();
        let first = PmAddress(self.start().0 + u64::from(low));
        (first, u64::from(high - low) + 1)
    }
}

/// The part of a range that lies in one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub line: LineId,
    /// Its bytes; never 0.
    pub mask: u64,
}

/// Cuts a range at the boundaries of cache lines. A range that would run past the last address
/// ends there.
#[inline]
pub fn pieces(address: PmAddress, length: u64) -> impl Iterator<Item = Piece> {
    let end = address.0.saturating_add(length);
    let mut next = address.0;
    std::iter::from_fn(move || {
        if next >= end {
            return None;
        }
        let line = LineId(next / CACHE_LINE_BYTES);
        let offset = next % CACHE_LINE_BYTES;
        let count = (end - next).min(CACHE_LINE_BYTES - offset);
        let mask = (u64::MAX >> (64 - count)) << offset;
        next += count;
        Some(Piece { line, mask })
    })
}

const PAGE_LINES: usize = 64;
const FAN_OUT: usize = 512;

type Page<T> = Box<[T; PAGE_LINES]>;
/// 512 pages: 2 MiB of a file.
type Leaf<T> = Box<[Option<Page<T>>; FAN_OUT]>;
/// 512 leaves: 1 GiB of a file.
type Branch<T> = Box<[Option<Leaf<T>>; FAN_OUT]>;

/// An entry for every cache line, made when it is first asked for: a radix tree over file and
/// offset, so that finding one costs four dependent loads and no hash. Memory grows with the pages
/// touched, whatever offsets a damaged recording may hold.
#[derive(Debug)]
pub struct LineTable<T> {
    /// By file, then by GiB.
    files: Vec<Vec<Option<Branch<T>>>>,
}

impl<T> Default for LineTable<T> {
    fn default() -> LineTable<T> {
        LineTable { files: Vec::new() }
    }
}

struct Path {
    file: usize,
    branch: usize,
    leaf: usize,
    page: usize,
    line: usize,
}

impl Path {
    #[inline]
    fn of(id: LineId) -> Path {
        let start = id.start();
        let line = start.offset() / CACHE_LINE_BYTES;
        let page = line as usize / PAGE_LINES;
        Path {
            file: start.file().index(),
            branch: page / FAN_OUT / FAN_OUT,
            leaf: page / FAN_OUT % FAN_OUT,
            page: page % FAN_OUT,
            line: line as usize % PAGE_LINES,
        }
    }

    fn id(&self) -> LineId {
        let page = (self.branch * FAN_OUT + self.leaf) * FAN_OUT + self.page;
        let line = (page * PAGE_LINES + self.line) as u64;
        LineId(((self.file as u64) << PmAddress::OFFSET_BITS) / CACHE_LINE_BYTES + line)
    }
}

impl<T: Default> LineTable<T> {
    #[inline]
    pub fn entry(&mut self, id: LineId) -> &mut T {
        let at = Path::of(id);
        if self.files.len() <= at.file {
            self.files.resize_with(at.file + 1, Vec::new);
        }
        let branches = &mut self.files[at.file];
        if branches.len() <= at.branch {
            branches.resize_with(at.branch + 1, || None);
        }
        let branch = branches[at.branch].get_or_insert_with(empty);
        let leaf = branch[at.leaf].get_or_insert_with(empty);
        let page = leaf[at.page].get_or_insert_with(new_page);
        &mut page[at.line]
    }
}

#[cold]
fn empty<T>() -> Box<[Option<T>; FAN_OUT]> {
    Box::new([const { None }; FAN_OUT])
}

#[cold]
fn new_page<T: Default>() -> Page<T> {
    Box::new(std::array::from_fn(|_| T::default()))
}

impl<T> LineTable<T> {
    /// The entry, if its page was ever touched.
    #[inline]
    pub fn get(&self, id: LineId) -> Option<&T> {
        let at = Path::of(id);
        let branch = self.files.get(at.file)?.get(at.branch)?.as_ref()?;
        let page = branch[at.leaf].as_ref()?[at.page].as_ref()?;
        Some(&page[at.line])
    }

    /// All entries of touched pages, by file and offset.
    pub fn iter(&self) -> impl Iterator<Item = (LineId, &T)> {
        let branches = self.files.iter().enumerate().flat_map(|(file, branches)| {
            let present = branches.iter().enumerate();
            present.filter_map(move |(at, branch)| Some((file, at, branch.as_ref()?)))
        });
        let leaves = branches.flat_map(|(file, branch, leaves)| {
            let present = leaves.iter().enumerate();
            present.filter_map(move |(at, leaf)| Some((file, branch, at, leaf.as_ref()?)))
        });
        let pages = leaves.flat_map(|(file, branch, leaf, pages)| {
            let present = pages.iter().enumerate();
            present.filter_map(move |(at, page)| Some((file, branch, leaf, at, page.as_ref()?)))
        });
        pages.flat_map(|(file, branch, leaf, page, entries)| {
            entries.iter().enumerate().map(move |(line, entry)| {
                let path = Path {
                    file,
                    branch,
                    leaf,
                    page,
                    line,
                };
                (path.id(), entry)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crashpoint_trace::FileIndex;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn address() -> impl Strategy<Value = PmAddress> {
        let offsets = prop_oneof![0..100_000u64, 0..=PmAddress::MAX_OFFSET];
        (0..3u32, offsets).prop_map(|(file, offset)| PmAddress::new(FileIndex(file), offset))
    }

    proptest! {
        #[test]
        fn a_table_is_a_map_from_lines_in_order(at in prop::collection::vec((address(), any::<u8>()), 0..40)) {
            let mut table = LineTable::<u8>::default();
            let mut model = BTreeMap::new();
            for (address, value) in at {
                let id = LineId::of(address);
                prop_assert_eq!(id.start(), address.line());
                *table.entry(id) = value;
                model.insert(id, value);
            }
            for (id, value) in &model {
                prop_assert_eq!(table.get(*id), Some(value));
            }
            let mut seen = table.iter().filter(|(id, value)| **value != 0 || model.contains_key(id));
            for (id, value) in &model {
                prop_assert_eq!(seen.next(), Some((*id, value)));
            }
            prop_assert_eq!(seen.next(), None);
        }

        #[test]
        fn pieces_are_the_bytes_of_the_range(start in 0..300u64, length in 0..300u64) {
            let mut bytes = Vec::new();
            for piece in pieces(PmAddress(start), length) {
                prop_assert_ne!(piece.mask, 0);
                let in_line = (0..64).filter(|bit| piece.mask >> bit & 1 == 1);
                bytes.extend(in_line.map(|bit| piece.line.start().0 + bit));
                let (first, count) = piece.line.span(piece.mask);
                prop_assert_eq!(bytes.last().copied(), Some(first.0 + count - 1));
            }
            prop_assert_eq!(bytes, (start..start + length).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_range_that_runs_past_the_last_address_ends_there() {
        let found: Vec<Piece> = pieces(PmAddress(u64::MAX - 1), 10).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].mask, 1 << 62);
    }
}
