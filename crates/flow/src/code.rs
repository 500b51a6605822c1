//! A function, prepared for walking: where its pointers lie and where its branches end.

use crashpoint_ir::cfg::Cfg;
use crashpoint_ir::dominance::PostDominators;
use crashpoint_ir::{BlockId, Constant, Function, GlobalId, Inst, InstId, Module, Op, Operand};
use crashpoint_ir::{Type, TypeId, ValueId};

/// What an address is a constant away from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    Unknown,
    /// A root, whose address is recorded.
    Root(ValueId),
    Global(GlobalId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pointer {
    base: Base,
    offset: i64,
}

const UNKNOWN: Pointer = Pointer {
    base: Base::Unknown,
    offset: 0,
};

#[derive(Debug)]
pub struct Code<'p> {
    pub model: usize,
    pub module: &'p Module,
    pub function: &'p Function,
    pub values: usize,
    /// By value.
    pointers: Vec<Pointer>,
    /// By block; none where that is the end of the function.
    meets: Vec<Option<BlockId>>,
    /// By block: whether it has more than one way on.
    forks: Vec<bool>,
    /// By block: for each instruction the next one that ends a segment.
    ends: Vec<Vec<u32>>,
    /// Number of the first instruction of each block.
    first: Vec<u32>,
    /// Parameters whose addresses are recorded.
    pub root_parameters: Vec<ValueId>,
}

impl<'p> Code<'p> {
    pub fn new(model: usize, module: &'p Module, function: &'p Function) -> Code<'p> {
        let cfg = Cfg::new(function);
        let post = PostDominators::new(&cfg);
        let mut code = Code {
            model,
            module,
            function,
            values: function.value_count(),
            pointers: Vec::new(),
            meets: cfg.blocks().map(|block| post.immediate(block)).collect(),
            forks: cfg
                .blocks()
                .map(|block| cfg.successors(block).len() > 1)
                .collect(),
            ends: Vec::new(),
            first: Vec::new(),
            root_parameters: Vec::new(),
        };
        code.prepare();
        code
    }

    fn prepare(&mut self) {
        self.pointers = vec![UNKNOWN; self.values];
        for (value, parameter) in self
            .function
            .parameter_values()
            .zip(&self.function.parameters)
        {
            if parameter.root {
                self.root_parameters.push(value);
                self.pointers[value.index()].base = Base::Root(value);
            }
        }
        // A definition may stand in a later block than its use: those that are not constant
        // offsets first, the others in as many rounds as they build on each other.
        let mut steps = Vec::new();
        for (_, _, inst) in self.function.instructions() {
            let Some(value) = inst.result else { continue };
            if inst.root {
                self.pointers[value.index()].base = Base::Root(value);
            } else if let Op::Address {
                source,
                base,
                indices,
                ..
            } = &inst.op
                && let Some(offset) = self.constant_offset(*source, indices)
            {
                steps.push((value, base, offset));
            }
        }
        let mut changed = true;
        while changed {
            changed = false;
            for (value, base, offset) in &steps {
                let from = self.pointer(base);
                if from.base != Base::Unknown && self.pointers[value.index()] == UNKNOWN {
                    self.pointers[value.index()] = Pointer {
                        base: from.base,
                        offset: from.offset + offset,
                    };
                    changed = true;
                }
            }
        }
        let mut next = 0;
        for block in &self.function.blocks {
            self.first.push(next);
            next += block.instructions.len() as u32;
            let mut ends = vec![0; block.instructions.len()];
            let mut end = block.instructions.len() - 1;
            for (index, inst) in block.instructions.iter().enumerate().rev() {
                if ends_segment(inst) {
                    end = index;
                }
                ends[index] = end as u32;
            }
            self.ends.push(ends);
        }
    }

    fn pointer(&self, operand: &Operand) -> Pointer {
        match operand {
            Operand::Value(value) => self.pointers[value.index()],
            Operand::Constant(Constant::Global {
                global,
                offset_bytes,
            }) => Pointer {
                base: Base::Global(*global),
                offset: *offset_bytes,
            },
            Operand::Constant(_) => UNKNOWN,
        }
    }

    /// Where an operand points, given the addresses of roots and globals; 0 is not known.
    pub fn address(&self, operand: &Operand, roots: &[u64], globals: &[u64]) -> Option<u64> {
        let pointer = self.pointer(operand);
        let base = match pointer.base {
            Base::Unknown => 0,
            Base::Root(value) => roots[value.index()],
            Base::Global(global) => globals.get(global.index()).copied().unwrap_or(0),
        };
        (base != 0).then(|| base.wrapping_add_signed(pointer.offset))
    }

    /// Whether a block has more than one way on: a branch whose ways are the same decides nothing.
    pub fn forks(&self, block: BlockId) -> bool {
        self.forks[block.index()]
    }

    /// Where the ways of a branch at the end of a block meet.
    pub fn meets(&self, block: BlockId) -> Option<BlockId> {
        self.meets[block.index()]
    }

    /// The instruction that ends the segment that an instruction lies in.
    pub fn segment_end(&self, block: BlockId, next: usize) -> usize {
        self.ends[block.index()][next] as usize
    }

    pub fn inst(&self, block: BlockId, index: usize) -> &'p Inst {
        &self.function.blocks[block.index()].instructions[index]
    }

    /// Block and place in it of an instruction.
    pub fn find(&self, inst: InstId) -> Option<(BlockId, usize)> {
        let block = self.first.partition_point(|first| *first <= inst.0) - 1;
        let index = (inst.0 - self.first[block]) as usize;
        let count = self.function.blocks[block].instructions.len();
        (index < count).then_some((BlockId(block as u32), index))
    }

    /// How far constant indices lead.
    fn constant_offset(&self, source: TypeId, indices: &[Operand]) -> Option<i64> {
        let (first, inner) = indices.split_first()?;
        let mut offset = constant(first)?.wrapping_mul(self.stride(source)?);
        let mut ty = source;
        for index in inner {
            let index = constant(index)?;
            match self.module.ty(ty) {
                Type::Array { element, .. } | Type::Vector { element, .. } => {
                    offset = offset.wrapping_add(index.wrapping_mul(self.stride(*element)?));
                    ty = *element;
                }
                Type::Struct { fields, .. } => {
                    let field = fields.get(usize::try_from(index).ok()?)?;
                    offset = offset.wrapping_add(i64::try_from(field.offset_bytes).ok()?);
                    ty = field.ty;
                }
                Type::Void
                | Type::Integer { .. }
                | Type::Float { .. }
                | Type::Pointer { .. }
                | Type::Function { .. }
                | Type::Other(_) => return None,
            }
        }
        Some(offset)
    }

    /// Bytes from one element of a type to the next.
    fn stride(&self, ty: TypeId) -> Option<i64> {
        let bytes = match self.module.ty(ty) {
            Type::Integer { bits } | Type::Float { bits, .. } => {
                u64::from(bits.div_ceil(8)).next_power_of_two()
            }
            Type::Pointer { .. } => 8,
            Type::Array { element, count } => {
                let element = u64::try_from(self.stride(*element)?).ok()?;
                element.checked_mul(*count)?
            }
            Type::Vector { element, count, .. } => {
                let element = u64::try_from(self.stride(*element)?).ok()?;
                element
                    .checked_mul(u64::from(*count))?
                    .checked_next_power_of_two()?
            }
            Type::Struct { size_bytes, .. } => *size_bytes,
            Type::Void | Type::Function { .. } | Type::Other(_) => return None,
        };
        i64::try_from(bytes).ok()
    }
}

/// A constant index, sign extended.
fn constant(operand: &Operand) -> Option<i64> {
    match operand {
        Operand::Constant(Constant::Integer { bits, value }) => {
            let unused = 64 - (*bits).clamp(1, 64);
            Some(((value << unused) as i64) >> unused)
        }
        Operand::Constant(Constant::Zero(_)) => Some(0),
        Operand::Constant(_) | Operand::Value(_) => None,
    }
}

/// See `crashpoint_abi::flow`.
fn ends_segment(inst: &Inst) -> bool {
    match &inst.op {
        Op::Call { callee, .. } => !matches!(callee, crashpoint_ir::Callee::Assembly { .. }),
        op => op.successors().is_some(),
    }
}

/// Whether the stream has a word for the length of a memory intrinsic.
pub fn has_dynamic_length(inst: &Inst) -> bool {
    match &inst.op {
        Op::MemoryCopy { length, .. } | Op::MemorySet { length, .. } => {
            !matches!(length, Operand::Constant(Constant::Integer { .. }))
        }
        _ => false,
    }
}
