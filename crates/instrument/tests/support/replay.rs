//! Walks a flow stream over the model: every record must be what the model says comes next.

use super::log::Log;
use crashpoint_abi::flow::{self, Flow};
use crashpoint_ir::{
    BlockId, Callee, Constant, Function, FunctionId, Inst, ModelId, Module, Op, Operand, Type,
};
use std::collections::HashMap;
use std::path::Path;

struct Activation<'a> {
    module: &'a Module,
    function: &'a Function,
    block: BlockId,
    /// The next instruction of the block.
    next: usize,
    /// In a call that has not returned.
    in_call: bool,
}

struct Walk<'a> {
    log: &'a Log<'a>,
    bytes: &'a [u8],
    at: usize,
    stack: Vec<Activation<'a>>,
    level: u32,
    what: String,
}

pub fn walk(log: &Log<'_>, path: &Path, _models: &HashMap<ModelId, Module>, level: u32) {
    for thread in 0.. {
        let name = format!("{}.flow.{thread}", path.display());
        let Ok(bytes) = std::fs::read(&name) else {
            assert!(thread > 0, "there is a flow stream");
            break;
        };
        let mut walk = Walk {
            log,
            bytes: &bytes,
            at: 0,
            stack: Vec::new(),
            level,
            what: name,
        };
        while walk.at < bytes.len() {
            walk.step();
        }
        if log.depths.get(thread) == Some(&0) {
            assert!(
                walk.stack.is_empty(),
                "{}: all activations ended",
                walk.what
            );
        }
    }
}

impl<'a> Walk<'a> {
    fn peek(&self) -> Option<Flow> {
        let rest = &self.bytes[self.at..];
        (!rest.is_empty()).then(|| flow::decode(rest).expect("a record").0)
    }

    fn take(&mut self) -> Flow {
        let (record, size) = flow::decode(&self.bytes[self.at..]).expect("a record");
        self.at += size;
        record
    }

    fn fail(&self, expected: &str, found: Flow) -> ! {
        let place = self.stack.last().map_or("nowhere".to_owned(), |top| {
            format!(
                "{} block {} before {}",
                top.function.name, top.block.0, top.next
            )
        });
        panic!(
            "{} at byte {}: {place}: expected {expected}, found {found:?}",
            self.what, self.at
        )
    }

    /// From a state in which some activation waits for a call (or none exists).
    fn step(&mut self) {
        match self.take() {
            Flow::Enter { site } => self.enter(site),
            Flow::AfterCall => {
                let Some(top) = self.stack.last_mut() else {
                    panic!("{}: a call returned to nobody", self.what);
                };
                assert!(
                    top.in_call,
                    "{}: {} was in no call",
                    self.what, top.function.name
                );
                top.in_call = false;
                let call = &top.function.blocks[top.block.index()].instructions[top.next];
                if let Op::Invoke { normal, .. } = call.op {
                    // The result of an invoke comes right after it.
                    if call.root {
                        self.address();
                    }
                    self.value(call);
                    self.jump(normal);
                } else {
                    let root = call.root;
                    let call = call.clone();
                    self.stack.last_mut().expect("it is there").next += 1;
                    self.run(root as usize, Some(call));
                }
            }
            Flow::Landed { depth, site } => self.land(depth, site),
            other => self.fail("the start of something", other),
        }
    }

    fn enter(&mut self, number: u32) {
        let (module, site) = self.log.site(number);
        let site = &module.sites[site.index()];
        assert!(
            site.instruction.is_none(),
            "{}: enters at a function",
            self.what
        );
        let FunctionId(index) = site.function;
        let function = &module.functions[index as usize];
        self.stack.push(Activation {
            module,
            function,
            block: BlockId(0),
            next: 0,
            in_call: false,
        });
        let roots = function.parameters.iter().filter(|p| p.root).count();
        self.run(roots, None);
    }

    fn land(&mut self, depth: u32, number: u32) {
        self.stack.truncate(depth as usize);
        let (module, site) = self.log.site(number);
        let site = &module.sites[site.index()];
        let top = self.stack.last_mut().expect("somebody landed");
        let index = site.instruction.expect("at an instruction").index();
        let mut first = 0;
        for (number, block) in top.function.blocks.iter().enumerate() {
            if index < first + block.instructions.len() {
                top.block = BlockId(number as u32);
                top.next = index - first;
                break;
            }
            first += block.instructions.len();
        }
        let here = &top.function.blocks[top.block.index()].instructions[top.next];
        match here.op {
            Op::LandingPad { .. } => {
                top.in_call = false;
                // Roots before the landing pad are phis.
                let block = top.block;
                self.jump(block);
            }
            // `setjmp` returns once more, or somebody else caught an exception.
            Op::Call { .. } | Op::Invoke { .. } | Op::Intrinsic { .. } => top.in_call = true,
            ref other => panic!("{}: landed at {other:?}", self.what),
        }
    }

    fn jump(&mut self, to: BlockId) {
        self.go(to);
        self.run(0, None);
    }

    fn go(&mut self, to: BlockId) {
        let top = self.stack.last_mut().expect("somebody runs");
        top.block = to;
        top.next = 0;
    }

    /// Reads segments until a call or the end of the activation.
    fn run(&mut self, roots: usize, returned: Option<Inst>) {
        let mut more = self.segment(roots, returned);
        while more {
            more = self.segment(0, None);
        }
    }

    fn address(&mut self) {
        match self.take() {
            Flow::Address(_) => {}
            other => self.fail("an address", other),
        }
    }

    fn value(&mut self, inst: &Inst) {
        let top = self.stack.last().expect("somebody runs");
        if self.level < 3 || !records_value(top.module, inst) {
            return;
        }
        match self.take() {
            Flow::Value { .. } => {}
            other => self.fail("a value", other),
        }
    }

    /// Reads what a segment wrote, from the current position on. `roots` were defined before it.
    /// Returns whether another one follows in this activation.
    fn segment(&mut self, roots: usize, returned: Option<Inst>) -> bool {
        let top = self.stack.last().expect("somebody runs");
        let function = top.function;
        let block = &function.blocks[top.block.index()].instructions;
        let end = (top.next..block.len())
            .find(|&i| ends_segment(&block[i]))
            .expect("a block ends");
        let inside: Vec<Inst> = returned
            .into_iter()
            .chain(block[top.next..end].iter().cloned())
            .collect();
        let skip = inside.len() - (end - top.next);
        let roots = roots + inside[skip..].iter().filter(|inst| inst.root).count();
        for _ in 0..roots {
            self.address();
        }
        for inst in inside.iter().filter(|inst| has_dynamic_length(inst)) {
            match self.take() {
                Flow::Word(_) => {}
                other => self.fail(&format!("the length of {inst:?}"), other),
            }
        }
        for inst in &inside {
            self.value(inst);
        }
        self.stack.last_mut().expect("somebody runs").next = end;
        self.end(&block[end])
    }

    fn end(&mut self, inst: &Inst) -> bool {
        let successor = |walk: &mut Self| match walk.take() {
            Flow::Switch { successor } => usize::from(successor),
            other => walk.fail("the number of a successor", other),
        };
        let to = match &inst.op {
            Op::Call { tail: true, .. } | Op::Return { .. } => match self.take() {
                Flow::Return => {
                    self.stack.pop();
                    return false;
                }
                other => self.fail("a return", other),
            },
            // A resumed exception lands in somebody else.
            Op::Resume { .. } => {
                self.stack.pop();
                return false;
            }
            Op::Call { .. } | Op::Invoke { .. } | Op::Unreachable => {
                self.stack.last_mut().expect("somebody runs").in_call = true;
                return false;
            }
            Op::Branch { to } => *to,
            Op::ConditionalBranch {
                then, otherwise, ..
            } => match self.take() {
                Flow::Branch { successor: 0 } => *then,
                Flow::Branch { .. } => *otherwise,
                other => self.fail("a branch", other),
            },
            Op::Switch { default, cases, .. } => match successor(self) {
                0 => *default,
                number => cases[number - 1].1,
            },
            Op::IndirectBranch { targets, .. } => targets[successor(self)],
            Op::CallBranch {
                default, indirect, ..
            } => match successor(self) {
                0 => *default,
                number => indirect[number - 1],
            },
            other => panic!("{}: cannot walk over {other:?}", self.what),
        };
        self.go(to);
        true
    }
}

fn ends_segment(inst: &Inst) -> bool {
    match &inst.op {
        Op::Call { callee, .. } => !matches!(callee, Callee::Assembly { .. }),
        op => op.successors().is_some(),
    }
}

fn has_dynamic_length(inst: &Inst) -> bool {
    match &inst.op {
        Op::MemoryCopy { length, .. } | Op::MemorySet { length, .. } => {
            !matches!(length, Operand::Constant(Constant::Integer { .. }))
        }
        _ => false,
    }
}

fn records_value(module: &Module, inst: &Inst) -> bool {
    matches!(
        inst.op,
        Op::Load { .. }
            | Op::ReadModifyWrite { .. }
            | Op::CompareExchange { .. }
            | Op::VaArg { .. }
            | Op::Call { .. }
            | Op::Invoke { .. }
    ) && matches!(size_bytes(module, &module.types[inst.ty.index()]), 1..=64)
}

/// Bytes of a type, padding included; 0 where it has none.
fn size_bytes(module: &Module, ty: &Type) -> u64 {
    match ty {
        Type::Integer { bits } | Type::Float { bits, .. } => u64::from(bits.div_ceil(8)),
        Type::Pointer { .. } => 8,
        Type::Array { element, count } => {
            size_bytes(module, &module.types[element.index()]) * count
        }
        Type::Vector { element, count, .. } => {
            size_bytes(module, &module.types[element.index()]) * u64::from(*count)
        }
        Type::Struct { size_bytes, .. } => *size_bytes,
        Type::Void | Type::Function { .. } | Type::Other(_) => 0,
    }
}
