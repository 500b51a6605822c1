//! Labels of ordinary memory: one for each aligned [`CELL_BYTES`].

use rustc_hash::FxHashMap;

pub const CELL_BYTES: u64 = 4;
const PAGE_CELLS: usize = 1024;

/// What is longer than that is not followed cell by cell.
const MAX_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub struct Shadow<L> {
    pages: FxHashMap<u64, Box<[L; PAGE_CELLS]>>,
}

impl<L> Default for Shadow<L> {
    fn default() -> Shadow<L> {
        Shadow {
            pages: FxHashMap::default(),
        }
    }
}

/// First and last cell of a range that is not empty.
fn cells(address: u64, length: u64) -> std::ops::Range<u64> {
    let length = length.min(MAX_BYTES);
    let end = address.saturating_add(length).div_ceil(CELL_BYTES);
    address / CELL_BYTES..end
}

impl<L: Copy + Default + PartialEq> Shadow<L> {
    fn cell(&self, cell: u64) -> L {
        let page = self.pages.get(&(cell / PAGE_CELLS as u64));
        page.map_or(L::default(), |page| page[cell as usize % PAGE_CELLS])
    }

    fn set(&mut self, cell: u64, label: L) {
        let page = cell / PAGE_CELLS as u64;
        if label == L::default() && !self.pages.contains_key(&page) {
            return;
        }
        let page = self.pages.entry(page);
        let page = page.or_insert_with(|| Box::new([L::default(); PAGE_CELLS]));
        page[cell as usize % PAGE_CELLS] = label;
    }

    /// What a range carries.
    pub fn get(&self, address: u64, length: u64, mut join: impl FnMut(L, L) -> L) -> L {
        let mut label = L::default();
        for cell in cells(address, length) {
            let more = self.cell(cell);
            if more != L::default() && more != label {
                label = join(label, more);
            }
        }
        label
    }

    /// A range gets a label. Cells of which it is a part keep what they had too.
    pub fn put(&mut self, address: u64, length: u64, label: L, mut join: impl FnMut(L, L) -> L) {
        let end = address.saturating_add(length.min(MAX_BYTES));
        for cell in cells(address, length) {
            let whole = cell * CELL_BYTES >= address && (cell + 1) * CELL_BYTES <= end;
            let label = if whole {
                label
            } else {
                join(self.cell(cell), label)
            };
            self.set(cell, label);
        }
    }

    /// One range gets what another has; they may overlap.
    pub fn copy(&mut self, to: u64, from: u64, length: u64, mut join: impl FnMut(L, L) -> L) {
        let length = length.min(MAX_BYTES);
        if to % CELL_BYTES == from % CELL_BYTES {
            let labels: Vec<L> = cells(from, length).map(|cell| self.cell(cell)).collect();
            for (cell, label) in cells(to, length).zip(labels) {
                self.set(cell, label);
            }
        } else {
            let label = self.get(from, length, &mut join);
            self.put(to, length, label, join);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn or(one: u32, other: u32) -> u32 {
        one | other
    }

    #[test]
    fn a_whole_cell_is_replaced_and_a_part_is_added_to() {
        let mut shadow = Shadow::default();
        shadow.put(100, 8, 1, or);
        shadow.put(104, 4, 2, or);
        shadow.put(100, 1, 4, or);
        assert_eq!(shadow.get(100, 4, or), 5);
        assert_eq!(shadow.get(104, 1, or), 2);
        assert_eq!(shadow.get(100, 8, or), 7);
        shadow.put(100, 8, 0, or);
        assert_eq!(shadow.get(96, 16, or), 0);
    }

    #[test]
    fn copies_carry_labels_along_also_over_themselves() {
        let mut shadow = Shadow::default();
        for (cell, label) in [1, 2, 4].into_iter().enumerate() {
            shadow.put(4096 + 4 * cell as u64, 4, label, or);
        }
        shadow.copy(4100, 4096, 12, or);
        let labels: Vec<u32> = (0..4).map(|n| shadow.get(4096 + 4 * n, 4, or)).collect();
        assert_eq!(labels, [1, 1, 2, 4]);
        shadow.copy(8193, 4096, 8, or);
        assert_eq!(shadow.get(8192, 4, or), 1);
    }

    #[test]
    fn the_end_of_the_address_space_is_no_trouble() {
        let mut shadow = Shadow::default();
        shadow.put(u64::MAX - 2, u64::MAX, 1, or);
        shadow.copy(u64::MAX - 8, 0, 64, or);
    }
}
