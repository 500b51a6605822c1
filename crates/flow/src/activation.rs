//! A call of a function that is under way.

use crate::code::Code;
use crate::regions::Regions;
use crashpoint_ir::{BlockId, Operand, ValueId};
use std::rc::Rc;

#[derive(Debug)]
pub struct Activation<'p, L, C> {
    pub code: Rc<Code<'p>>,
    /// By value.
    pub labels: Vec<L>,
    /// Addresses of roots, by value; 0 where none was recorded yet.
    pub roots: Vec<u64>,
    pub block: BlockId,
    /// The next instruction of the block.
    pub next: usize,
    pub regions: Regions<C>,
    /// The call that it waits for, if it does.
    pub call: Option<Waiting<L>>,
}

/// A call that has not returned.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<L> {
    /// What the callee read from persistent memory, for functions of libraries.
    pub read: L,
    /// What the callee's result carries, once an instrumented one has returned.
    pub returned: Option<L>,
}

impl<'p, L: Copy + Default, C: Copy> Activation<'p, L, C> {
    pub fn new(code: Rc<Code<'p>>, control: C) -> Activation<'p, L, C> {
        Activation {
            labels: vec![L::default(); code.values],
            roots: vec![0; code.values],
            block: BlockId(0),
            next: 0,
            regions: Regions::new(control),
            call: None,
            code,
        }
    }

    pub fn label(&self, operand: &Operand) -> L {
        match operand {
            Operand::Value(value) => self.labels[value.index()],
            Operand::Constant(_) => L::default(),
        }
    }

    pub fn set(&mut self, value: Option<ValueId>, label: L) {
        if let Some(value) = value {
            self.labels[value.index()] = label;
        }
    }
}
