//! Cache lines of persistent files, and a table with one entry for each.
//!
//! Bytes of a line are bits of a `u64`, the first byte the lowest bit.

use crashpoint_abi::CACHE_LINE_BYTES;
use crashpoint_trace::PmAddress;

/// A cache line of a persistent file: its address without the lowest bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineId(u64);

impl LineId {
    /// Lines that follow each other have numbers that do.
    pub fn number(self) -> u64 {
        self.0
    }

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

const PAGE_LINES: u64 = 64;
const FAN_OUT: usize = 512;

/// A page of a file: its first line, divided by [`PAGE_LINES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PageId(u64);

impl PageId {
    const BITS: u32 = PmAddress::OFFSET_BITS - 12;

    #[inline]
    fn of(line: LineId) -> PageId {
        PageId(line.0 / PAGE_LINES)
    }

    fn line(self, number: usize) -> LineId {
        LineId(self.0 * PAGE_LINES + number as u64)
    }

    /// File, and then where in its tree.
    fn path(self) -> (usize, usize, usize, usize) {
        let page = (self.0 & ((1 << Self::BITS) - 1)) as usize;
        let file = (self.0 >> Self::BITS) as usize;
        (
            file,
            page / FAN_OUT / FAN_OUT,
            page / FAN_OUT % FAN_OUT,
            page % FAN_OUT,
        )
    }

    fn from_path(file: usize, branch: usize, leaf: usize, page: usize) -> PageId {
        let page = (branch * FAN_OUT + leaf) * FAN_OUT + page;
        PageId((file as u64) << Self::BITS | page as u64)
    }
}

/// Number of a page's entries in the table, plus one; 0 is none.
type Slot = u32;
/// 512 pages: 2 MiB of a file.
type Leaf = Box<[Slot; FAN_OUT]>;
/// 512 leaves: 1 GiB of a file.
type Branch = Box<[Option<Leaf>; FAN_OUT]>;

/// An entry for every cache line, made when it is first asked for: a radix tree over file and
/// offset, so that no hash is needed, and the last page at hand, where most events stay. Memory
/// grows with the pages touched, whatever offsets a damaged recording may hold.
#[derive(Debug)]
pub struct LineTable<T> {
    pages: Vec<Box<[T; PAGE_LINES as usize]>>,
    /// By file, then by GiB.
    files: Vec<Vec<Option<Branch>>>,
    last: (PageId, usize),
}

impl<T> Default for LineTable<T> {
    fn default() -> LineTable<T> {
        LineTable {
            pages: Vec::new(),
            files: Vec::new(),
            // No page has this number: it lies behind the last file.
            last: (PageId(u64::MAX), 0),
        }
    }
}

impl<T: Default> LineTable<T> {
    #[inline]
    pub fn entry(&mut self, id: LineId) -> &mut T {
        let page = PageId::of(id);
        if self.last.0 != page {
            self.last = (page, self.find_or_add(page));
        }
        &mut self.pages[self.last.1][(id.0 % PAGE_LINES) as usize]
    }

    fn find_or_add(&mut self, id: PageId) -> usize {
        let (file, branch, leaf, page) = id.path();
        if self.files.len() <= file {
            self.files.resize_with(file + 1, Vec::new);
        }
        let branches = &mut self.files[file];
        if branches.len() <= branch {
            branches.resize_with(branch + 1, || None);
        }
        let empty = || Box::new([const { None }; FAN_OUT]);
        let branch = branches[branch].get_or_insert_with(empty);
        let leaf = branch[leaf].get_or_insert_with(|| Box::new([0; FAN_OUT]));
        let slot = &mut leaf[page];
        if *slot == 0 {
            self.pages
                .push(Box::new(std::array::from_fn(|_| T::default())));
            *slot = Slot::try_from(self.pages.len()).expect("2^32 pages do not fit into memory");
        }
        *slot as usize - 1
    }
}

impl<T> LineTable<T> {
    /// The entry, if its page was ever touched.
    #[inline]
    pub fn get(&self, id: LineId) -> Option<&T> {
        let (file, branch, leaf, page) = PageId::of(id).path();
        let branch = self.files.get(file)?.get(branch)?.as_ref()?;
        let slot = branch[leaf].as_ref()?[page] as usize;
        let page = self.pages.get(slot.checked_sub(1)?)?;
        Some(&page[(id.0 % PAGE_LINES) as usize])
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
        let pages = leaves.flat_map(move |(file, branch, leaf, slots)| {
            let present = slots.iter().enumerate().filter(|(_, slot)| **slot != 0);
            present.map(move |(page, slot)| {
                let id = PageId::from_path(file, branch, leaf, page);
                (id, &self.pages[*slot as usize - 1])
            })
        });
        pages.flat_map(|(page, entries)| {
            let numbered = entries.iter().enumerate();
            numbered.map(move |(number, entry)| (page.line(number), entry))
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
