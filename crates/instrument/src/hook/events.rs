//! Reading a body: which hooks stand where.

use super::flow::{self, Arrivals, Group};
use super::room;
use crate::action::{Action, intrinsic_name, is_memory_intrinsic};
use crate::llvm::{self, BasicBlock, Value};
use crate::lower::FunctionPlan;
use crate::reads;
use llvm_sys::LLVMOpcode;
use rustc_hash::FxHashMap;

/// Something to insert. Numbers are instructions of the plan.
#[derive(Debug)]
pub enum Event {
    Before(usize),
    After(usize),
    Details(Details),
    /// Control came from an indirect branch: the number of the successor taken, negative if it came
    /// from elsewhere.
    Arrival(Value),
    Exit,
}

/// What is recorded only if the gate asks for more than level pm has: loads since the last event
/// and what the instruction that follows reads, and the end of a segment.
#[derive(Debug, Default)]
pub struct Details {
    pub loads: Vec<usize>,
    pub group: Option<Group>,
}

/// Events that stand before one instruction, in order.
#[derive(Debug)]
pub struct EventsBefore {
    pub anchor: Value,
    pub events: Vec<Event>,
}

/// The first instruction behind the fixed allocations of the entry block, which are moved to the
/// front: what stands behind a split would be allocated at run time.
pub fn start(entry: &[Value]) -> Value {
    let fixed = |instruction: &Value| instruction.is_fixed_allocation();
    let first = *entry
        .iter()
        .find(|instruction| !fixed(instruction))
        .expect("a block ends with a terminator");
    for &instruction in entry
        .iter()
        .skip_while(|i| **i != first)
        .filter(|i| fixed(i))
    {
        instruction.move_before(first);
    }
    first
}

/// The events of all blocks, in order.
pub fn collect(
    module: llvm::Module,
    plan: &FunctionPlan,
    blocks: &[Vec<Value>],
    arrivals: &Arrivals,
) -> Vec<EventsBefore> {
    let all: Vec<Value> = blocks.iter().flatten().copied().collect();
    let (carried, edges) = invokes(&all);
    let mut list = Vec::new();
    let mut next = 0;
    for (number, block) in blocks.iter().enumerate() {
        let mut reader = Reader::new(module, plan, &mut list);
        let first = block
            .iter()
            .copied()
            .find(|instruction| !is_head(*instruction))
            .expect("a block ends with a terminator");
        if number == 0 {
            reader.group.roots = parameter_roots(plan, first);
        }
        if let Some(&index) = carried.get(&first.block()) {
            reader.returned(index, all[index], first);
        }
        if let Some(&number) = arrivals.get(&first.block()) {
            reader.push(first, Event::Arrival(number));
        }
        for &instruction in block {
            reader.read(next, instruction);
            next += 1;
        }
    }
    for (edge, index) in edges {
        let mut reader = Reader::new(module, plan, &mut list);
        let end = edge.terminator();
        reader.returned(index, all[index], end);
        if let Some(group) = reader.close(end, false) {
            let loads = Vec::new();
            let group = Some(group);
            reader.push(end, Event::Details(Details { loads, group }));
        }
    }
    room::decide(&mut list, blocks);
    list
}

/// Instructions that must stay at the front of their block.
fn is_head(instruction: Value) -> bool {
    matches!(
        instruction.opcode(),
        LLVMOpcode::LLVMPHI | LLVMOpcode::LLVMLandingPad
    )
}

fn parameter_roots(plan: &FunctionPlan, first: Value) -> Vec<Value> {
    first
        .block()
        .function()
        .parameters()
        .into_iter()
        .zip(&plan.parameter_roots)
        .filter_map(|(parameter, root)| root.then_some(parameter))
        .collect()
}

/// Where what follows an invoke is inserted: the normal destination, by block, where nobody else
/// leads there; otherwise a new block on the edge.
fn invokes(all: &[Value]) -> (FxHashMap<BasicBlock, usize>, Vec<(BasicBlock, usize)>) {
    let mut carried = FxHashMap::default();
    let mut edges = Vec::new();
    for (index, &instruction) in all.iter().enumerate() {
        if instruction.is_opcode(LLVMOpcode::LLVMInvoke) {
            let to = instruction.invoke_normal();
            if to.predecessor_count() > 1 {
                edges.push((instruction.split_normal_edge(), index));
            } else {
                carried.insert(to, index);
            }
        }
    }
    (carried, edges)
}

struct Reader<'a> {
    module: llvm::Module,
    plan: &'a FunctionPlan,
    list: &'a mut Vec<EventsBefore>,
    group: Group,
    loads: Vec<usize>,
    /// A guaranteed tail call ended the activation.
    left: bool,
}

impl<'a> Reader<'a> {
    fn new(
        module: llvm::Module,
        plan: &'a FunctionPlan,
        list: &'a mut Vec<EventsBefore>,
    ) -> Reader<'a> {
        Reader {
            module,
            plan,
            list,
            group: Group::default(),
            loads: Vec::new(),
            left: false,
        }
    }

    fn push(&mut self, anchor: Value, event: Event) {
        match self.list.last_mut() {
            Some(last) if last.anchor == anchor => last.events.push(event),
            _ => self.list.push(EventsBefore {
                anchor,
                events: vec![event],
            }),
        }
    }

    /// Ends a segment before `instruction`.
    fn close(&mut self, instruction: Value, tail: bool) -> Option<Group> {
        let mut group = std::mem::take(&mut self.group);
        group.end = flow::SegmentEnd::of(instruction, tail);
        (!group.is_empty()).then_some(group)
    }

    fn read(&mut self, index: usize, instruction: Value) {
        let plan = &self.plan.instructions[index];
        let terminator = instruction.is_terminator();
        let quiet = matches!(plan.action, Action::Nothing | Action::Load);
        let tail = instruction.is_opcode(LLVMOpcode::LLVMCall) && instruction.must_tail();
        let mut details = Details::default();
        let reads = !reads::of(self.module, &plan.action, instruction).is_empty();
        if terminator || !quiet {
            details.loads = std::mem::take(&mut self.loads);
        }
        if reads {
            details.loads.push(index);
        }
        if (terminator || plan.action.runs_other_code()) && !self.left {
            details.group = self.close(instruction, tail);
        }
        if !details.loads.is_empty() || details.group.is_some() {
            self.push(instruction, Event::Details(details));
        }
        if plan.action.hook_before().is_some() {
            self.push(instruction, Event::Before(index));
        }
        let leaves = matches!(
            instruction.opcode(),
            LLVMOpcode::LLVMRet | LLVMOpcode::LLVMResume
        );
        if (tail || leaves) && !self.left {
            self.push(instruction, Event::Exit);
            self.left = true;
        }
        let stays = plan.action.runs_other_code() && instruction.does_not_return();
        let returns = !tail && !stays;
        if terminator || !returns {
            return;
        }
        self.note(index, instruction);
        if plan.action.has_hook_after() {
            self.push(anchor_after(instruction), Event::After(index));
        }
    }

    /// What the flow stream records of an instruction.
    fn note(&mut self, index: usize, instruction: Value) {
        let plan = &self.plan.instructions[index];
        if plan.action.runs_other_code() {
            self.group.after_call = true;
        }
        if plan.root {
            self.group.roots.push(instruction);
        }
        if let Some(name) = intrinsic_name(instruction)
            && is_memory_intrinsic(&name)
            && !instruction.operand(2).is_constant_integer()
        {
            self.group.words.push(instruction.operand(2));
        }
        if flow::records_value(self.module, &plan.action, instruction) {
            self.group.values.push(instruction);
        }
        if matches!(plan.action, Action::Load) {
            self.loads.push(index);
        }
    }

    /// What follows an invoke, at the place where its normal edge leads.
    fn returned(&mut self, index: usize, invoke: Value, first: Value) {
        let plan = &self.plan.instructions[index];
        if plan.action.runs_other_code() {
            self.group.after_call = true;
            self.group.head_root = plan.root.then_some(invoke);
            let recorded = flow::records_value(self.module, &plan.action, invoke);
            self.group.head_value = recorded.then_some(invoke);
        }
        if plan.action.has_hook_after() {
            self.push(first, Event::After(index));
        }
    }
}

/// The instruction before which something that follows `instruction` may stand.
fn anchor_after(instruction: Value) -> Value {
    let mut next = instruction.next().expect("a terminator follows");
    while is_head(next) || next.is_debug_intrinsic() {
        next = next.next().expect("a terminator follows");
    }
    next
}
