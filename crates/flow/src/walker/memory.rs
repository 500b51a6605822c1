//! Loads, stores and copies, to ordinary and to persistent memory, and functions of libraries.

use super::step::constant;
use super::{Access, AccessKind, Lost, Thread};
use crate::Analysis;
use crate::library::{self, LibraryEffect};
use crashpoint_ir::{Callee, Inst, Op, Operand};
use crashpoint_trace::flow::FlowEvent;
use crashpoint_trace::{PmAddress, SiteId};

/// Bytes of ordinary memory that a function of a library is taken to touch where nothing says how
/// many.
const UNKNOWN_BYTES: u64 = 64;

/// Where an operand points to.
enum At {
    Persistent(u64, PmAddress),
    Ordinary(u64),
    Unknown,
}

impl<'p, A: Analysis, F: Iterator<Item = FlowEvent>> Thread<'_, 'p, '_, '_, A, F> {
    fn at(&self, operand: &Operand) -> At {
        let Some(top) = self.stack.last() else {
            return At::Unknown;
        };
        let globals = self.walker.globals.get(top.code.model);
        let globals = globals.map_or(&[][..], Vec::as_slice);
        match top.code.address(operand, &top.roots, globals) {
            None => At::Unknown,
            Some(address) => match self.walker.mappings.find(address) {
                Some(pm) => At::Persistent(address, pm),
                None => At::Ordinary(address),
            },
        }
    }

    fn site(&self, inst: &Inst) -> SiteId {
        let site = self.stack.last().zip(inst.site).and_then(|(top, local)| {
            let first = self.walker.first_sites.get(top.code.model)?;
            Some(SiteId(first + local.0))
        });
        site.unwrap_or(SiteId::NONE)
    }

    /// The access at an address, as the other stream has it.
    fn access(
        &mut self,
        inst: &Inst,
        kind: AccessKind,
        (address, pm): (u64, PmAddress),
        length: u64,
    ) -> Access {
        let site = self.site(inst);
        let recorded = self.accesses.take(site, kind, address);
        if recorded.is_none() {
            self.walker.followed.unfollowed.unmatched += 1;
        }
        Access {
            pm,
            length: recorded.map_or(length, |recorded| recorded.length.max(1)),
            site,
            thread: self.thread,
            order: recorded.map(|recorded| recorded.order),
        }
    }

    pub(super) fn load(
        &mut self,
        inst: &Inst,
        pointer: &Operand,
        size: u64,
    ) -> Result<A::Label, Lost> {
        let through = self.top()?.label(pointer);
        Ok(match self.at(pointer) {
            At::Persistent(address, pm) => {
                let access = self.access(inst, AccessKind::Read, (address, pm), size);
                let control = self.top()?.regions.current();
                self.walker.analysis.read(&access, through, control)
            }
            At::Ordinary(address) => {
                let analysis = &mut *self.walker.analysis;
                let shadow = &self.walker.shadow;
                let held = shadow.get(address, size, |one, other| analysis.join(one, other));
                analysis.join(held, through)
            }
            At::Unknown => through,
        })
    }

    pub(super) fn store(
        &mut self,
        inst: &Inst,
        pointer: &Operand,
        size: u64,
        value: A::Label,
    ) -> Result<(), Lost> {
        let through = self.top()?.label(pointer);
        let control = self.top()?.regions.current();
        match self.at(pointer) {
            At::Persistent(address, pm) => {
                let access = self.access(inst, AccessKind::Write, (address, pm), size);
                self.walker.analysis.write(&access, through, value, control);
            }
            At::Ordinary(address) => {
                let analysis = &mut *self.walker.analysis;
                let value = analysis.join(value, through);
                let value = analysis.chosen(value, control);
                let join = |one, other| analysis.join(one, other);
                self.walker.shadow.put(address, size, value, join);
            }
            At::Unknown => {}
        }
        Ok(())
    }

    pub(super) fn copy(
        &mut self,
        inst: &Inst,
        to: &Operand,
        from: &Operand,
        length: u64,
    ) -> Result<(), Lost> {
        if length == 0 {
            return Ok(());
        }
        if let (At::Ordinary(to), At::Ordinary(from)) = (self.at(to), self.at(from)) {
            let analysis = &mut *self.walker.analysis;
            let join = |one, other| analysis.join(one, other);
            self.walker.shadow.copy(to, from, length, join);
            return Ok(());
        }
        let value = self.load(inst, from, length)?;
        self.store(inst, to, length, value)
    }

    /// What a call reads from persistent memory before it begins, if it is one of a library.
    pub(super) fn library_reads(&mut self, call: &Inst) -> Result<A::Label, Lost> {
        let site = self.site(call);
        let mut read = A::Label::default();
        while let Some(recorded) = self.accesses.take_next(site, AccessKind::Read) {
            let access = recorded.access(self.thread);
            let through = self.pointer_to(call, recorded.address)?;
            let control = self.top()?.regions.current();
            let label = self.walker.analysis.read(&access, through, control);
            read = self.walker.analysis.join(read, label);
        }
        Ok(read)
    }

    /// What the argument that points to an address carries; all of them, if none is known to.
    fn pointer_to(&mut self, call: &Inst, address: u64) -> Result<A::Label, Lost> {
        let arguments = call.op.arguments().unwrap_or_default();
        for argument in arguments {
            if let At::Persistent(at, _) = self.at(argument)
                && at == address
            {
                return Ok(self.top()?.label(argument));
            }
        }
        self.arguments(call)
    }

    fn arguments(&mut self, call: &Inst) -> Result<A::Label, Lost> {
        let top = self.stack.last().ok_or(Lost)?;
        let arguments = call.op.arguments().unwrap_or_default();
        let labels: Vec<A::Label> = arguments.iter().map(|one| top.label(one)).collect();
        Ok(self.join_all(&labels))
    }

    /// A call of code without hooks has returned: what it leaves in memory, and what its result
    /// carries. `read` is what it read from persistent memory.
    pub(super) fn external(&mut self, call: &Inst, read: A::Label) -> A::Label {
        self.try_external(call, read).unwrap_or_default()
    }

    fn try_external(&mut self, call: &Inst, read: A::Label) -> Result<A::Label, Lost> {
        let arguments = call.op.arguments().unwrap_or_default();
        let effect = match &call.op {
            Op::Call {
                callee: Callee::Direct(callee),
                ..
            }
            | Op::Invoke {
                callee: Callee::Direct(callee),
                ..
            } => {
                let module = self.top()?.code.module;
                library::effect(&module.functions[callee.index()].name)
            }
            _ => None,
        };
        let given = self.arguments(call)?;
        let result = match effect {
            Some(LibraryEffect::Copy { to, from, length }) if to.max(from) < arguments.len() => {
                let length = self.length(arguments, length);
                let value = match self.at(&arguments[from]) {
                    At::Ordinary(_) => self.load(call, &arguments[from], length)?,
                    At::Persistent(..) | At::Unknown => read,
                };
                self.leave_behind(call, &arguments[to], length, value)?;
                return Ok(self.top()?.label(&arguments[to]));
            }
            Some(LibraryEffect::Fill { to, value, length }) if to < arguments.len() => {
                let length = self.length(arguments, Some(length));
                let value = value.and_then(|index| arguments.get(index));
                let value = match value {
                    Some(value) => self.top()?.label(value),
                    None => A::Label::default(),
                };
                self.leave_behind(call, &arguments[to], length, value)?;
                return Ok(self.top()?.label(&arguments[to]));
            }
            Some(LibraryEffect::Print { to }) if to < arguments.len() => {
                let value = self.walker.analysis.join(given, read);
                self.leave_behind(call, &arguments[to], UNKNOWN_BYTES, value)?;
                value
            }
            Some(LibraryEffect::Read { length }) => {
                let length = self.length(arguments, length);
                let mut label = self.walker.analysis.join(given, read);
                for argument in arguments {
                    if let At::Ordinary(_) = self.at(argument) {
                        let held = self.load(call, argument, length)?;
                        label = self.walker.analysis.join(label, held);
                    }
                }
                label
            }
            Some(LibraryEffect::Fresh) => A::Label::default(),
            Some(
                LibraryEffect::Copy { .. }
                | LibraryEffect::Fill { .. }
                | LibraryEffect::Print { .. },
            )
            | None => self.walker.analysis.join(given, read),
        };
        // What it wrote to persistent memory is in the other stream, wherever it lies.
        self.written(call, result)?;
        Ok(result)
    }

    fn leave_behind(
        &mut self,
        call: &Inst,
        to: &Operand,
        length: u64,
        value: A::Label,
    ) -> Result<(), Lost> {
        match self.at(to) {
            At::Ordinary(_) => self.store(call, to, length, value),
            At::Persistent(..) | At::Unknown => self.written(call, value),
        }
    }

    fn written(&mut self, call: &Inst, value: A::Label) -> Result<(), Lost> {
        let site = self.site(call);
        while let Some(recorded) = self.accesses.take_next(site, AccessKind::Write) {
            let access = recorded.access(self.thread);
            let through = self.pointer_to(call, recorded.address)?;
            let control = self.top()?.regions.current();
            self.walker.analysis.write(&access, through, value, control);
        }
        Ok(())
    }

    fn length(&mut self, arguments: &[Operand], index: Option<usize>) -> u64 {
        let known = index
            .and_then(|index| arguments.get(index))
            .and_then(constant);
        known.unwrap_or_else(|| {
            self.walker.followed.unfollowed.lengths += 1;
            UNKNOWN_BYTES
        })
    }
}
