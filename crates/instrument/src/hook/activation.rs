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
use crashpoint_abi::ShadowFrame;
use crashpoint_abi::layout::{detail, offsets};

pub struct Activation {
    entry: Entry,
    /// Something beyond level pm is recorded.
    busy: Held,
    flow: Held,
    value: Held,
    loads: Held,
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
        let in_slots = returns_twice(plan, instructions);
        let late_slot = may_enter_late(plan).then(|| build.alloca(build.pointer));
        let mut hold = Holder::new(build, in_slots);
        let site = plan.site.expect("a hooked function has a site");
        let enter = || object.call(object.hooks.enter, &[object.site(site)]);
        let frame_of = |thread: Value| {
            let at = build.offset(thread, offsets::THREAD_FRAME as i64);
            build.own(build.load(build.pointer, at))
        };
        let mut detail = object.detail();
        let entry = if let Some(slot) = late_slot {
            build.store(build.null(build.pointer), slot);
            build.if_then(build.is_not_zero(detail), start, RARELY);
            build.store(enter(), slot);
            build.before(start);
            Entry::Late { slot }
        } else if plan.mode == Mode::InPlace {
            let active = build.is_not_zero(object.level());
            // Both were read at different times.
            detail = build.select(active, detail, build.number(0));
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
                active: hold.value(active),
                thread: hold.value(thread),
                frame: hold.value(frame),
            }
        } else {
            let thread = enter();
            let frame = frame_of(thread);
            Entry::Early {
                thread: hold.value(thread),
                frame: hold.value(frame),
            }
        };
        let bit = |mask: u32| build.is_not_zero(build.and(detail, build.number(mask)));
        let (flow, value, loads) = (bit(detail::FLOW), bit(detail::VALUE), bit(detail::LOADS));
        Activation {
            entry,
            busy: hold.value(build.is_not_zero(detail)),
            flow: hold.value(flow),
            value: hold.value(value),
            loads: hold.value(loads),
        }
    }

    pub fn busy(&self, build: &Builder) -> Value {
        self.busy.get(build)
    }

    pub fn loads(&self, build: &Builder) -> Value {
        self.loads.get(build)
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

/// Keeps values in slots where that is needed. The slots are made first, at the start.
struct Holder<'a> {
    build: &'a Builder,
    pointers: Vec<Value>,
    flags: Vec<Value>,
}

impl Holder<'_> {
    fn new(build: &Builder, in_slots: bool) -> Holder<'_> {
        let slots = |ty, count| {
            if in_slots {
                (0..count).map(|_| build.alloca(ty)).collect()
            } else {
                Vec::new()
            }
        };
        Holder {
            build,
            pointers: slots(build.pointer, 2),
            flags: slots(build.i1, 5),
        }
    }

    fn value(&mut self, value: Value) -> Held {
        let slot = if value.ty().is_pointer() {
            self.pointers.pop()
        } else {
            self.flags.pop()
        };
        match slot {
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
        let size = size_of::<ShadowFrame>() as i64;
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
        let caller = build.offset(self.activation.frame(build), -size);
        let thread = self.activation.entered(build);
        let at = build.offset(thread, offsets::THREAD_FRAME as i64);
        build.own(build.store(caller, at));
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
