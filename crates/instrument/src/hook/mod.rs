//! Inserting hooks into one body.
//!
//! First the body is read: each block yields *events* (a hook before or after an instruction, a
//! group of the flow stream, the end of the activation), each with the instruction it stands
//! before, its anchor. Then the events are emitted, anchors from the last to the first, since every
//! check splits a block and a split costs the length of what follows it.
//!
//! Loads wait: the check whether loads are recorded at all is made once for all loads up to the
//! next instruction that another hook belongs to, together with the check whether the flow stream
//! is written. The order of loads among themselves and against everything else that this thread
//! reports is kept.
//!
//! Hooked bodies are compiled without optimisation: they are several times the size of what they
//! were, and little of their time is spent in what an optimiser could improve. So what is emitted
//! here is what runs; rare paths are kept out of the way and short.

mod activation;
mod assembly;
mod call;
mod events;
mod flow;
mod memory;
mod room;

use crate::action::{Action, HookBefore};
use crate::llvm::{Builder, Value};
use crate::lower::{FunctionPlan, InstructionPlan};
use crate::mode::Mode;
use crate::object::Object;
use activation::Activation;
use crashpoint_ir::SiteId;
use events::Event;
use llvm_sys::LLVMOpcode;

/// Weights of a branch to a hook.
pub const RARELY: (u32, u32) = (1, 2000);
pub const OFTEN: (u32, u32) = (1, 1);

/// One body that is being hooked.
pub struct Body<'a> {
    object: &'a Object,
    plan: &'a FunctionPlan,
    /// The instructions of the program, in the order of the plan.
    instructions: Vec<Value>,
    activation: Activation,
    /// Room for the arguments of a watched call.
    arguments: Option<Value>,
    /// Room for a value that is handed on by address.
    value_room: Option<Value>,
}

/// Inserts the hooks of `plan` into `function`, which has the body that was planned for.
pub fn insert(object: &Object, plan: &FunctionPlan, function: Value) {
    let blocks: Vec<Vec<Value>> = function
        .blocks()
        .into_iter()
        .map(crate::lower::body)
        .collect();
    let instructions: Vec<Value> = blocks.iter().flatten().copied().collect();
    assert_eq!(
        instructions.len(),
        plan.instructions.len(),
        "a copy has the instructions of the original"
    );
    let arrivals = flow::arrivals(&object.build, &blocks);
    let events = events::collect(object.module, plan, &blocks, &arrivals);
    let start = events::start(&blocks[0]);
    let needs_arguments = plan
        .instructions
        .iter()
        .any(|plan| matches!(&plan.action, Action::Call(call) if call.callee.is_some()));
    let needs_room = instructions.iter().any(|instruction| {
        let stored = instruction
            .is_opcode(LLVMOpcode::LLVMStore)
            .then(|| instruction.operand(0));
        memory::is_handed_on(object, stored.unwrap_or(*instruction))
    });
    object.build.before(start);
    let value_room = needs_room.then(|| memory::value_room(&object.build));
    let arguments = needs_arguments.then(|| call::argument_room(&object.build));
    let activation = Activation::begin(object, plan, &instructions, start);
    let mut body = Body {
        object,
        plan,
        instructions,
        activation,
        arguments,
        value_room,
    };
    for at in events.into_iter().rev() {
        for event in at.events {
            body.emit(at.anchor, event);
        }
    }
}

impl Body<'_> {
    fn build(&self) -> &Builder {
        &self.object.build
    }

    fn planned(&self, index: usize) -> (&InstructionPlan, Value) {
        (&self.plan.instructions[index], self.instructions[index])
    }

    fn site(&self, index: usize) -> SiteId {
        self.plan.instructions[index]
            .site
            .expect("an instruction with a hook has a site")
    }

    fn emit(&mut self, anchor: Value, event: Event) {
        self.build().before(anchor);
        match event {
            Event::Before(index) => self.before(anchor, index),
            Event::After(index) => self.after(anchor, index),
            Event::Details(details) => self.details(anchor, &details),
            Event::Arrival(number) => self.arrival(anchor, number),
            Event::Exit => self.exit(anchor),
        }
    }

    fn before(&mut self, anchor: Value, index: usize) {
        let (plan, instruction) = self.planned(index);
        match plan.action.hook_before() {
            Some(HookBefore::Flush(kind)) => {
                self.flush(anchor, index, instruction.operand(0), kind);
            }
            Some(HookBefore::Assembly(effects)) => {
                let effects = effects.to_vec();
                self.assembly_before(anchor, index, &effects);
            }
            Some(HookBefore::Call(call)) => {
                let call = call.clone();
                self.call_before(anchor, index, &call);
            }
            None => {}
        }
    }

    fn after(&mut self, anchor: Value, index: usize) {
        let (plan, instruction) = self.planned(index);
        match &plan.action {
            Action::Store(kind) => {
                let kind = *kind;
                self.store(anchor, index, kind);
            }
            Action::ReadModifyWrite => self.read_modify_write(anchor, index),
            Action::CompareExchange => self.compare_exchange(anchor, index),
            Action::Fence(kind) => {
                let kind = *kind;
                self.fence(anchor, index, kind);
            }
            Action::Memory => self.memory(anchor, index),
            &Action::Intrinsic {
                pointer,
                bytes,
                kind,
                line,
            } => {
                let pointer = self.line_of(instruction.operand(pointer), line);
                let length = self.build().word(bytes);
                self.range(anchor, index, pointer, length, kind);
            }
            Action::Opaque => self.opaque(anchor, index),
            Action::Assembly(effects) => {
                let effects = effects.clone();
                self.assembly_after(anchor, index, &effects);
            }
            Action::Call(call) => {
                let call = call.clone();
                self.call_after(anchor, index, &call);
            }
            Action::LandingPad => self.resync(anchor, index),
            Action::ReturnsTwice => self.returned_again(anchor, index),
            Action::Nothing | Action::Load | Action::Read | Action::Flush(_) => {}
        }
    }
}

/// Whether a body enters only when it has something to report: it calls nothing that could ask for
/// its frame, and nothing in it needs the thread unless a check says so.
pub fn may_enter_late(plan: &FunctionPlan) -> bool {
    plan.mode != Mode::InPlace
        && plan
            .instructions
            .iter()
            .all(|instruction| match &instruction.action {
                Action::Nothing
                | Action::Load
                | Action::Flush(_)
                | Action::Memory
                | Action::Intrinsic { .. }
                | Action::Read
                | Action::Opaque
                | Action::Fence(_) => true,
                Action::Store(kind) => *kind != crashpoint_abi::record::StoreKind::Locked,
                Action::Assembly(effects) => !effects.iter().any(assembly::needs_thread),
                Action::ReadModifyWrite
                | Action::CompareExchange
                | Action::Call(_)
                | Action::LandingPad
                | Action::ReturnsTwice => false,
            })
}
