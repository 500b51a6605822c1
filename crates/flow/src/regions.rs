//! Which branches decide that a block runs, while it runs.
//!
//! A region opens at a branch and ends at the branch's immediate post-dominator. Regions nest. A
//! branch whose region would end where the innermost one ends (the next round of a loop) goes on
//! within it, so that their number is bounded by the nesting of the source.

use crashpoint_ir::BlockId;

#[derive(Clone, Copy, Debug)]
struct Region<C> {
    /// Where it ends; none for the end of the function.
    end: Option<BlockId>,
    /// What decided before it opened.
    outer: C,
}

/// The open regions of an activation.
#[derive(Clone, Debug)]
pub struct Regions<C> {
    open: Vec<Region<C>>,
    current: C,
}

impl<C: Copy> Regions<C> {
    pub fn new(control: C) -> Regions<C> {
        Regions {
            open: Vec::new(),
            current: control,
        }
    }

    pub fn current(&self) -> C {
        self.current
    }

    /// A block begins.
    pub fn enter(&mut self, block: BlockId) {
        while let Some(region) = self.open.last()
            && region.end == Some(block)
        {
            self.current = region.outer;
            self.open.pop();
        }
    }

    /// A branch was taken that ends at `end`; what runs in its region is decided by `control`.
    pub fn branch(&mut self, end: Option<BlockId>, control: C) {
        if self.open.last().is_none_or(|region| region.end != end) {
            let outer = self.current;
            self.open.push(Region { end, outer });
        }
        self.current = control;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_ends_where_its_ways_meet() {
        let mut regions = Regions::new("start");
        regions.branch(Some(BlockId(9)), "outer");
        regions.branch(Some(BlockId(5)), "inner");
        regions.enter(BlockId(4));
        assert_eq!(regions.current(), "inner");
        regions.enter(BlockId(5));
        assert_eq!(regions.current(), "outer");
        regions.enter(BlockId(9));
        assert_eq!(regions.current(), "start");
    }

    #[test]
    fn rounds_of_a_loop_are_one_region() {
        let mut regions = Regions::new(0);
        for round in 1..=1000 {
            regions.branch(Some(BlockId(3)), round);
        }
        assert_eq!(regions.open.len(), 1);
        assert_eq!(regions.current(), 1000);
        regions.enter(BlockId(3));
        assert_eq!(regions.current(), 0);
    }

    #[test]
    fn what_ends_with_the_function_stays() {
        let mut regions = Regions::new(0);
        regions.branch(None, 1);
        regions.enter(BlockId(0));
        assert_eq!(regions.current(), 1);
    }
}
