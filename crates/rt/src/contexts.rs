//! Call stacks, interned.
//!
//! The context of an activation is the sequence of the calls that its callers are in. Contexts form
//! a tree: a context is its parent and one call site, and is numbered in the stream by
//! `DefineContext` when it is first seen. A frame remembers its context once somebody has asked,
//! so that a chain of activations is looked up once, not with every event.
//!
//! In memory a context is its number plus one: 0 stands for "not asked yet", 1 for the bottom.

use crate::memory;
use crashpoint_abi::ShadowFrame;

/// The bottom of the stack, as kept in frames.
pub const BOTTOM: u32 = 1;

#[repr(C)]
#[derive(Clone, Copy)]
struct Entry {
    /// Parent (never 0) above the site; 0: free.
    key: u64,
    context: u64,
}

/// From parent and site to context, open addressing.
#[repr(C)]
pub struct ContextTable {
    entries: *mut Entry,
    /// A power of two, or 0.
    capacity: u64,
    count: u64,
    /// 64 less the logarithm of the capacity.
    shift: u32,
}

/// A context and whether it was unknown until now.
pub struct Interned {
    pub context: u32,
    pub is_new: bool,
}

#[inline(always)]
fn key(parent: u32, site: u32) -> u64 {
    u64::from(parent) << 32 | u64::from(site)
}

const FIRST_CAPACITY: u64 = 1 << 10;

impl ContextTable {
    pub const fn new() -> ContextTable {
        ContextTable {
            entries: core::ptr::null_mut(),
            capacity: 0,
            count: 0,
            shift: 0,
        }
    }

    #[inline(always)]
    fn index(&self, key: u64) -> u64 {
        // The high bits of the product depend on all bits of the key.
        key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift
    }

    /// The context of a call if it is found at first sight; 0 otherwise.
    #[inline(always)]
    fn glance(&self, parent: u32, site: u32) -> u32 {
        let key = key(parent, site);
        // SAFETY: an index is below the capacity, and a context is known, so there are entries.
        let entry = unsafe { &*self.entries.add(self.index(key) as usize) };
        if entry.key == key {
            entry.context as u32
        } else {
            0
        }
    }

    /// As [`ContextTable::resolve`], if all contexts on the way are known and found at first sight.
    /// Otherwise returns 0; what has been found is noted nevertheless.
    ///
    /// # Safety
    /// `bottom..=top` are frames of one stack.
    #[inline(always)]
    pub unsafe fn resolve_known(&self, bottom: *mut ShadowFrame, top: *mut ShadowFrame) -> u32 {
        // SAFETY: all frames between the two are readable and writable.
        unsafe {
            let mut known = top;
            while (*known).context == 0 {
                if known == bottom {
                    return 0;
                }
                known = known.sub(1);
            }
            let mut context = (*known).context;
            while known < top {
                if known == bottom {
                    context = BOTTOM;
                } else if self.capacity == 0 {
                    return 0;
                } else {
                    context = self.glance(context, (*known).site);
                    if context == 0 {
                        return 0;
                    }
                }
                known = known.add(1);
                (*known).context = context;
            }
            context
        }
    }

    /// The entry of a key, or the free one where it belongs.
    ///
    /// # Safety
    /// The table has entries, one of them free.
    unsafe fn find(&self, key: u64) -> *mut Entry {
        let mut at = self.index(key);
        loop {
            // SAFETY: `at` is below the capacity.
            let entry = unsafe { self.entries.add(at as usize) };
            // SAFETY: as above.
            let found = unsafe { (*entry).key };
            if found == key || found == 0 {
                return entry;
            }
            at = (at + 1) & (self.capacity - 1);
        }
    }

    /// The context of a call from `site` in context `parent`. `None`: no memory.
    pub fn intern(&mut self, parent: u32, site: u32) -> Option<Interned> {
        if self.count * 2 >= self.capacity {
            self.grow()?;
        }
        let key = key(parent, site);
        // SAFETY: at most half of the entries are taken.
        let entry = unsafe { &mut *self.find(key) };
        let is_new = entry.key == 0;
        if is_new {
            self.count += 1;
            // Numbers start at 1, and are kept plus one.
            *entry = Entry {
                key,
                context: self.count + 1,
            };
        }
        Some(Interned {
            context: entry.context as u32,
            is_new,
        })
    }

    /// Finds the context of the activation `top` of a shadow stack whose bottom frame is `bottom`,
    /// and of all its callers on the way. `define` is told of each new context.
    ///
    /// # Safety
    /// `bottom..=top` are frames of one stack.
    pub unsafe fn resolve(
        &mut self,
        bottom: *mut ShadowFrame,
        top: *mut ShadowFrame,
        mut define: impl FnMut(u32, u32),
    ) -> u32 {
        // SAFETY: all frames between the two are readable and writable.
        unsafe {
            let mut known = top;
            while known > bottom && (*known).context == 0 {
                known = known.sub(1);
            }
            (*bottom).context = BOTTOM;
            while known < top {
                let (parent, site) = ((*known).context, (*known).site);
                let context = if known == bottom {
                    BOTTOM
                } else {
                    self.callee(parent, site, &mut define)
                };
                known = known.add(1);
                (*known).context = context;
            }
            (*top).context
        }
    }

    fn callee(&mut self, parent: u32, site: u32, define: &mut impl FnMut(u32, u32)) -> u32 {
        match self.intern(parent, site) {
            Some(Interned { context, is_new }) => {
                if is_new {
                    define(parent, site);
                }
                context
            }
            // Without memory, deep stacks look like shallow ones.
            None => parent,
        }
    }

    fn bytes(capacity: u64) -> usize {
        capacity as usize * size_of::<Entry>()
    }

    fn grow(&mut self) -> Option<()> {
        let capacity = (self.capacity * 2).max(FIRST_CAPACITY);
        let larger = ContextTable {
            entries: memory::anonymous(Self::bytes(capacity)).ok()? as *mut Entry,
            capacity,
            count: self.count,
            shift: 64 - capacity.trailing_zeros(),
        };
        for at in 0..self.capacity as usize {
            // SAFETY: below the capacity of the old table; the new one has room.
            unsafe {
                let entry = *self.entries.add(at);
                if entry.key != 0 {
                    *larger.find(entry.key) = entry;
                }
            }
        }
        self.release();
        *self = larger;
        Some(())
    }

    /// Forgets all contexts.
    pub fn release(&mut self) {
        if self.capacity != 0 {
            // SAFETY: the entries are ours.
            let _ = unsafe { memory::unmap(self.entries as usize, Self::bytes(self.capacity)) };
        }
        *self = ContextTable::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn frame(site: u32) -> ShadowFrame {
        ShadowFrame { site, context: 0 }
    }

    fn resolved(table: &mut ContextTable, frames: &mut [ShadowFrame]) -> (u32, Vec<(u32, u32)>) {
        let mut defined = Vec::new();
        let range = frames.as_mut_ptr_range();
        // SAFETY: the frames of the slice.
        let context = unsafe {
            table.resolve(range.start, range.end.sub(1), |parent, site| {
                defined.push((parent, site));
            })
        };
        (context, defined)
    }

    #[test]
    fn the_bottom_and_the_first_function_have_no_callers() {
        let mut table = ContextTable::new();
        assert_eq!(resolved(&mut table, &mut [frame(0)]), (BOTTOM, Vec::new()));
        let mut frames = [frame(0), frame(7)];
        assert_eq!(resolved(&mut table, &mut frames), (BOTTOM, Vec::new()));
    }

    #[test]
    fn a_chain_of_callers_is_defined_once() {
        let mut table = ContextTable::new();
        let mut frames = [frame(0), frame(7), frame(8), frame(9)];
        assert_eq!(
            resolved(&mut table, &mut frames),
            (3, std::vec![(1, 7), (2, 8)])
        );
        let mut again = [frame(0), frame(7), frame(8), frame(10)];
        assert_eq!(resolved(&mut table, &mut again), (3, Vec::new()));
        let mut other = [frame(0), frame(7), frame(11), frame(10)];
        assert_eq!(resolved(&mut table, &mut other), (4, std::vec![(2, 11)]));
        table.release();
    }

    #[test]
    fn known_chains_are_found_without_interning() {
        let mut table = ContextTable::new();
        let chain = [frame(0), frame(7), frame(8), frame(9)];
        let known = |table: &ContextTable, mut frames: [ShadowFrame; 4]| {
            let range = frames.as_mut_ptr_range();
            // SAFETY: the frames of the array.
            unsafe { table.resolve_known(range.start, range.end.sub(1)) }
        };
        assert_eq!(known(&table, chain), 0);
        let mut frames = chain;
        let (context, _) = resolved(&mut table, &mut frames);
        assert_eq!(known(&table, frames), context);
        // The bottom alone is known.
        let mut fresh = chain;
        fresh[0].context = BOTTOM;
        assert_eq!(known(&table, fresh), context);
        let mut other = fresh;
        other[2].site = 77;
        assert_eq!(known(&table, other), 0);
        table.release();
    }

    #[test]
    fn contexts_survive_growth() {
        let mut table = ContextTable::new();
        for site in 1..100_000u32 {
            let interned = table.intern(site % 5 + 1, site).unwrap();
            assert!(interned.is_new);
            assert_eq!(interned.context, site + 1);
        }
        for site in 1..100_000u32 {
            let interned = table.intern(site % 5 + 1, site).unwrap();
            assert!(!interned.is_new);
            assert_eq!(interned.context, site + 1);
            let glance = table.glance(site % 5 + 1, site);
            assert!([0, site + 1].contains(&glance));
        }
        table.release();
    }
}
