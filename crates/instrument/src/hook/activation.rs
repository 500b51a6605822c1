//! The life of one activation: entering, the values that hooks need, leaving.
//!
//! A body enters at its start. A body that calls nothing enters when it first has something to
//! report, or at its start if the flow stream is written. A body in place enters only if the gate
//! is open. In a function that calls `setjmp` or the like, values must survive a second return, so
//! they live in memory.

use super::{Body, RARELY, may_enter_late};
use crate::action::Action;
use crate::llvm::{Builder, Value};
use crate::lower::FunctionPlan;
use crate::mode::Mode;
use crate::object::Object;
use crashpoint_abi::layout::offsets;
use crashpoint_abi::{Frame, Level};
use llvm_sys::LLVMIntPredicate;

pub struct Activation {
    entry: Entry,
    flow: Held,
    value: Held,
}

/// A value that was computed at the start.
#[derive(Clone, Copy)]
enum Held {
    Directly(Value),
    /// In memory that is read again each time.
    InSlot(Value, crate::llvm::Type),
}

impl Held {
    fn get(self, build: &Builder) -> Value {
        match self {
            Held::Directly(value) => value,
            Held::InSlot(slot, ty) => {
                let value = build.load(ty, slot);
                value.set_volatile();
                value
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Entry {
    /// Entered at the start.
    Early { thread: Held, frame: Held },
    /// Entered on demand: a slot with the thread, null before.
    Late { slot: Value },
    /// Entered at the start if the gate was open.
    Optional {
        active: Held,
        thread: Held,
        frame: Held,
    },
}

impl Activation {
    /// Inserts the beginning of the body before `start`, where the builder stands.
    pub fn begin(
        object: &Object,
        plan: &FunctionPlan,
        instructions: &[Value],
        start: Value,
    ) -> Activation {
        let build = &object.build;
        let hold = Holder {
            build,
            in_slots: returns_twice(plan, instructions),
        };
        let slots: Vec<Value> = match hold.in_slots {
            true => [build.pointer, build.pointer, build.i1, build.i1, build.i1]
                .map(|ty| build.alloca(ty))
                .to_vec(),
            false => Vec::new(),
        };
        let slot = |index: usize| slots.get(index).copied();
        let site = plan.site.expect("a hooked function has a site");
        let late = may_enter_late(plan);
        let late_slot = late.then(|| build.alloca(build.pointer));
        let level = object.level();
        let reaches = |wanted: Level| {
            let wanted = build.number(wanted as u32);
            build.compare(LLVMIntPredicate::LLVMIntUGE, level, wanted)
        };
        let (flow, value) = (reaches(Level::Flow), reaches(Level::Value));
        let enter = || object.call(object.hooks.enter, &[object.site(site)]);
        let frame_of = |thread: Value| {
            let at = build.offset(thread, offsets::THREAD_FRAME as i64);
            build.own(build.load(build.pointer, at))
        };
        let entry = if let Some(slot) = late_slot {
            build.store(build.null(build.pointer), slot);
            let end = build.if_then(flow, start, RARELY);
            build.store(enter(), slot);
            build.before(end);
            build.before(start);
            Entry::Late { slot }
        } else if plan.mode == Mode::InPlace {
            let active = build.is_not_zero(level);
            let null = build.null(build.pointer);
            let head = start.block();
            let end = build.if_then(active, start, RARELY);
            let thread = enter();
            let frame = frame_of(thread);
            build.before(start);
            let inside = end.block();
            let thread = build.phi(build.pointer, &[(null, head), (thread, inside)]);
            let frame = build.phi(build.pointer, &[(null, head), (frame, inside)]);
            Entry::Optional {
                active: hold.value(active, slot(4)),
                thread: hold.value(thread, slot(0)),
                frame: hold.value(frame, slot(1)),
            }
        } else {
            let thread = enter();
            let frame = frame_of(thread);
            Entry::Early {
                thread: hold.value(thread, slot(0)),
                frame: hold.value(frame, slot(1)),
            }
        };
        Activation {
            entry,
            flow: hold.value(flow, slot(2)),
            value: hold.value(value, slot(3)),
        }
    }

    pub fn flow(&self, build: &Builder) -> Value {
        self.flow.get(build)
    }

    pub fn value(&self, build: &Builder) -> Value {
        self.value.get(build)
    }

    /// The thread, where the body has certainly entered.
    pub fn entered(&self, build: &Builder) -> Value {
        match self.entry {
            Entry::Early { thread, .. } | Entry::Optional { thread, .. } => thread.get(build),
            Entry::Late { slot } => build.load(build.pointer, slot),
        }
    }

    /// This activation's own frame. Only for bodies that do not enter late.
    pub fn frame(&self, build: &Builder) -> Value {
        match self.entry {
            Entry::Early { frame, .. } | Entry::Optional { frame, .. } => frame.get(build),
            Entry::Late { .. } => unreachable!("a body that enters late makes no calls"),
        }
    }
}

struct Holder<'a> {
    build: &'a Builder,
    in_slots: bool,
}

impl Holder<'_> {
    fn value(&self, value: Value, slot: Option<Value>) -> Held {
        match slot.filter(|_| self.in_slots) {
            Some(slot) => {
                self.build.store(value, slot).set_volatile();
                Held::InSlot(slot, value.ty())
            }
            None => Held::Directly(value),
        }
    }
}

fn returns_twice(plan: &FunctionPlan, instructions: &[Value]) -> bool {
    plan.instructions
        .iter()
        .zip(instructions)
        .any(|(plan, instruction)| match plan.action {
            Action::Call(_) => instruction.returns_twice(),
            Action::ReturnsTwice => true,
            _ => false,
        })
}

impl Body<'_> {
    /// The thread, entering first if that has not happened yet. The builder stands before `anchor`.
    pub fn thread(&self, anchor: Value) -> Value {
        let build = self.build();
        let Entry::Late { slot } = self.activation.entry else {
            return self.activation.entered(build);
        };
        let known = build.load(build.pointer, slot);
        let head = anchor.block();
        let missing = build.is_zero(build.address(known));
        let end = build.if_then(missing, anchor, (1, 1));
        let site = self.plan.site.expect("a hooked function has a site");
        let entered = self
            .object
            .call(self.object.hooks.enter, &[self.object.site(site)]);
        build.store(entered, slot);
        build.before(anchor);
        build.phi(build.pointer, &[(known, head), (entered, end.block())])
    }

    /// Inserts a check; what is built next runs if the condition holds and the body is active. The
    /// builder stands before the returned branch.
    pub fn only_if(&self, condition: Value, anchor: Value) -> Value {
        let build = self.build();
        let condition = match self.activation.entry {
            Entry::Optional { active, .. } => build.and(active.get(build), condition),
            Entry::Early { .. } | Entry::Late { .. } => condition,
        };
        build.if_then(condition, anchor, RARELY)
    }

    /// The place where something that happens always is built: behind a check in a body in place.
    pub fn if_active(&self, anchor: Value) -> Value {
        let build = self.build();
        match self.activation.entry {
            Entry::Optional { active, .. } => build.if_then(active.get(build), anchor, RARELY),
            Entry::Early { .. } | Entry::Late { .. } => anchor,
        }
    }

    pub fn exit(&self, anchor: Value) {
        let build = self.build();
        let size = size_of::<Frame>() as i64;
        if let Entry::Late { slot } = self.activation.entry {
            let thread = build.load(build.pointer, slot);
            let entered = build.is_not_zero(build.address(thread));
            build.if_then(entered, anchor, RARELY);
            let at = build.offset(thread, offsets::THREAD_FRAME as i64);
            let frame = build.own(build.load(build.pointer, at));
            build.own(build.store(build.offset(frame, -size), at));
            return;
        }
        self.if_active(anchor);
        let frame = self.activation.frame(build);
        let caller = build.offset(frame, -size);
        self.set_frame(caller);
    }

    /// Makes a frame the top of the shadow stack.
    pub fn set_frame(&self, frame: Value) {
        let build = self.build();
        let thread = self.activation.entered(build);
        let at = build.offset(thread, offsets::THREAD_FRAME as i64);
        build.own(build.store(frame, at));
    }

    /// Control came here past calls that did not return.
    pub fn resync(&self, anchor: Value, index: usize) {
        self.if_active(anchor);
        let build = self.build();
        let thread = self.activation.entered(build);
        let frame = self.activation.frame(build);
        let site = self.object.site(self.site(index));
        self.object
            .call(self.object.hooks.resync, &[thread, frame, site]);
    }

    /// A call that returns twice has returned; the second time its result is not zero.
    pub fn returned_again(&self, anchor: Value, index: usize) {
        let build = self.build();
        let (_, call) = self.planned(index);
        let again = build.is_not_zero(call);
        let end = build.if_then(again, anchor, RARELY);
        self.resync(end, index);
    }
}
