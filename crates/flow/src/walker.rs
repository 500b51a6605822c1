//! Goes through the flow stream of a thread over the model.

mod memory;
mod step;

use crate::Analysis;
use crate::accesses::{Access, AccessKind, Accesses, Mappings};
use crate::activation::{Activation, Waiting};
use crate::code::Code;
use crate::shadow::Shadow;
use crashpoint_ir::{BlockId, Callee, FunctionId, Module, Op};
use crashpoint_trace::flow::FlowEvent;
use crashpoint_trace::program::{Program, ResolvedSite};
use crashpoint_trace::{Recording, SiteId, ThreadIndex};
use rustc_hash::FxHashMap;
use std::iter::Peekable;
use std::rc::Rc;

/// What could not be followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unfollowed {
    /// The stream was not what the model says; what was known was dropped.
    pub lost: u64,
    /// Functions that were called by code without hooks: where their arguments come from is not
    /// known.
    pub callbacks: u64,
    /// Control came back by an exception or longjmp.
    pub landings: u64,
    /// Assembly that may touch memory in ways that its text does not tell.
    pub assembly: u64,
    /// Operations that the model knows by name only.
    pub opaque: u64,
    /// Copies to or from ordinary memory by functions of libraries, whose length is not recorded.
    pub lengths: u64,
    /// Accesses to persistent memory that the other stream does not have, or has too much.
    pub unmatched: u64,
    /// Functions whose model is missing.
    pub models: u64,
}

/// What a walk did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    pub instructions: u64,
    pub calls: u64,
    pub unfollowed: Unfollowed,
}

/// Walks all threads of a recording, in the order in which they began.
pub fn walk<A: Analysis>(recording: &Recording, program: &Program, analysis: &mut A) -> Followed {
    let mut walker = Walker::new(program, analysis);
    let models = recording.models().iter();
    walker.first_sites = models.map(|model| model.first.0).collect();
    for thread in (0..recording.threads().len() as u32).map(ThreadIndex) {
        let Some(flow) = recording.flow(thread) else {
            continue;
        };
        let process = recording.process(recording.thread(thread).process);
        let globals = recording.models().iter().map(|model| {
            let mut modules = process.modules.iter();
            let loaded = modules.find(|loaded| loaded.model == model.model);
            loaded.map_or(Vec::new(), |loaded| loaded.globals.clone())
        });
        walker.globals = globals.collect();
        walker.mappings = Mappings::of(recording, thread);
        walker.thread(thread, flow, Accesses::of(recording, thread));
    }
    walker.followed
}

/// Where models come from.
pub trait Models {
    /// What a site stands for.
    fn resolve(&self, site: SiteId) -> Option<ResolvedSite<'_>>;

    fn model(&self, index: usize) -> Option<&Module>;
}

impl Models for Program {
    fn resolve(&self, site: SiteId) -> Option<ResolvedSite<'_>> {
        Program::resolve(self, site)
    }

    fn model(&self, index: usize) -> Option<&Module> {
        Program::model(self, index)
    }
}

/// See the module.
pub struct Walker<'p, 'a, A: Analysis> {
    models: &'p dyn Models,
    analysis: &'a mut A,
    codes: FxHashMap<(usize, FunctionId), Rc<Code<'p>>>,
    /// By model: addresses of its globals.
    pub globals: Vec<Vec<u64>>,
    /// By model: number of its first site in the recording.
    pub first_sites: Vec<u32>,
    pub mappings: Mappings,
    shadow: Shadow<A::Label>,
    pub followed: Followed,
}

type Stack<'p, A> = Vec<Activation<'p, <A as Analysis>::Label, <A as Analysis>::Control>>;

/// The walk of one thread.
struct Thread<'w, 'p, 'a, 'r, A: Analysis, F: Iterator<Item = FlowEvent>> {
    walker: &'w mut Walker<'p, 'a, A>,
    flow: Peekable<F>,
    accesses: Accesses<'r>,
    stack: Stack<'p, A>,
    thread: ThreadIndex,
    /// A record was read since this was last asked, and segments since then.
    heard: bool,
    silent: u32,
}

/// The stream is not what the model says.
struct Lost;

impl<'p, 'a, A: Analysis> Walker<'p, 'a, A> {
    pub fn new(models: &'p dyn Models, analysis: &'a mut A) -> Walker<'p, 'a, A> {
        Walker {
            models,
            analysis,
            codes: FxHashMap::default(),
            globals: Vec::new(),
            first_sites: Vec::new(),
            mappings: Mappings::default(),
            shadow: Shadow::default(),
            followed: Followed::default(),
        }
    }

    /// Goes through one thread.
    pub fn thread<'r>(
        &mut self,
        thread: ThreadIndex,
        flow: impl Iterator<Item = FlowEvent>,
        accesses: Accesses<'r>,
    ) {
        let mut walk = Thread {
            walker: self,
            flow: flow.peekable(),
            accesses,
            stack: Vec::new(),
            thread,
            heard: false,
            silent: 0,
        };
        while walk.flow.peek().is_some() {
            if let Err(Lost) = walk.next() {
                walk.walker.followed.unfollowed.lost += 1;
                walk.stack.clear();
                while walk
                    .flow
                    .peek()
                    .is_some_and(|event| !matches!(event, FlowEvent::Enter { .. }))
                {
                    walk.flow.next();
                }
            }
        }
        let skipped = walk.accesses.skipped;
        self.followed.unfollowed.unmatched += skipped;
    }

    fn code(&mut self, site: SiteId) -> Option<Rc<Code<'p>>> {
        let models = self.models;
        let resolved = models.resolve(site)?;
        let module = models.model(resolved.model)?;
        let key = (resolved.model, resolved.function_id);
        let code = self.codes.entry(key).or_insert_with(|| {
            let function = &module.functions[resolved.function_id.index()];
            Rc::new(Code::new(resolved.model, module, function))
        });
        Some(Rc::clone(code))
    }
}

impl<'p, A: Analysis, F: Iterator<Item = FlowEvent>> Thread<'_, 'p, '_, '_, A, F> {
    fn take(&mut self) -> Option<FlowEvent> {
        self.heard = true;
        self.flow.next()
    }

    fn top(&mut self) -> Result<&mut Activation<'p, A::Label, A::Control>, Lost> {
        self.stack.last_mut().ok_or(Lost)
    }

    /// From a state in which some activation waits for a call (or none exists).
    fn next(&mut self) -> Result<(), Lost> {
        match self.take() {
            None => Ok(()),
            Some(FlowEvent::Enter { site }) => self.enter(site),
            Some(FlowEvent::AfterCall) => self.returned(),
            Some(FlowEvent::Landed { depth, site }) => self.land(depth, site),
            Some(
                FlowEvent::Branch { .. }
                | FlowEvent::Address(_)
                | FlowEvent::Word(_)
                | FlowEvent::Return
                | FlowEvent::Value(_),
            ) => Err(Lost),
        }
    }

    fn enter(&mut self, site: SiteId) -> Result<(), Lost> {
        let Some(code) = self.walker.code(site) else {
            self.walker.followed.unfollowed.models += 1;
            return Err(Lost);
        };
        self.walker.followed.calls += 1;
        let control = self.stack.last().map(|caller| caller.regions.current());
        let mut activation = Activation::new(Rc::clone(&code), control.unwrap_or_default());
        if let Some(caller) = self.stack.last() {
            if caller.call.is_none() {
                return Err(Lost);
            }
            let call = caller.code.inst(caller.block, caller.next);
            let arguments = call.op.arguments().unwrap_or_default();
            let labels: Vec<A::Label> = arguments.iter().map(|one| caller.label(one)).collect();
            if is_called(caller, &code) {
                let parameters = code.function.parameters.len();
                activation.labels[..parameters.min(labels.len())]
                    .copy_from_slice(&labels[..parameters.min(labels.len())]);
            } else {
                // Somebody in between called back, with something that came from our arguments.
                self.walker.followed.unfollowed.callbacks += 1;
                let all = self.join_all(&labels);
                activation.labels[..code.function.parameters.len()].fill(all);
            }
        }
        self.stack.push(activation);
        self.run(code.root_parameters.len(), true)
    }

    /// A call has returned.
    fn returned(&mut self) -> Result<(), Lost> {
        let top = self.stack.last_mut().ok_or(Lost)?;
        let waiting = top.call.take().ok_or(Lost)?;
        let call = top.code.inst(top.block, top.next);
        let label = match waiting.returned {
            Some(label) => label,
            None => self.external(call, waiting.read),
        };
        let top = self.stack.last_mut().ok_or(Lost)?;
        top.set(call.result, label);
        if let Op::Invoke { normal, .. } = call.op {
            // The result of an invoke comes right after it.
            if call.root {
                let address = self.address()?;
                let top = self.top()?;
                if let Some(value) = call.result {
                    top.roots[value.index()] = address;
                }
            }
            self.skip_value();
            self.jump(normal)?;
            return self.run(0, false);
        }
        top.next += 1;
        self.run(usize::from(call.root), false)
    }

    fn land(&mut self, depth: u32, site: SiteId) -> Result<(), Lost> {
        self.walker.followed.unfollowed.landings += 1;
        self.stack.truncate(depth as usize);
        let models = self.walker.models;
        let inst = models.resolve(site).and_then(|resolved| resolved.inst);
        let inst = inst.ok_or(Lost)?;
        let top = self.stack.last_mut().ok_or(Lost)?;
        let (block, index) = top.code.find(inst.id).ok_or(Lost)?;
        let before = top.block;
        top.block = block;
        top.next = index;
        match inst.inst.op {
            Op::LandingPad { .. } => {
                top.call = None;
                // Roots before the landing pad are phis.
                top.block = before;
                self.jump(block)?;
                self.run(0, false)
            }
            // `setjmp` returns once more, or somebody else caught an exception.
            Op::Call { .. } | Op::Invoke { .. } | Op::Intrinsic { .. } => {
                top.call = Some(Waiting {
                    read: A::Label::default(),
                    returned: None,
                });
                Ok(())
            }
            _ => Err(Lost),
        }
    }

    fn address(&mut self) -> Result<u64, Lost> {
        match self.take() {
            Some(FlowEvent::Address(address)) => Ok(address),
            _ => Err(Lost),
        }
    }

    /// Values are recorded at level value only; nothing here needs them.
    fn skip_value(&mut self) {
        while self
            .flow
            .next_if(|event| matches!(event, FlowEvent::Value(_)))
            .is_some()
        {}
    }

    fn join_all(&mut self, labels: &[A::Label]) -> A::Label {
        let mut all = A::Label::default();
        for label in labels {
            all = self.walker.analysis.join(all, *label);
        }
        all
    }

    /// Goes to the start of a block, whose phis get their values.
    fn jump(&mut self, to: BlockId) -> Result<(), Lost> {
        let top = self.stack.last_mut().ok_or(Lost)?;
        let from = top.block;
        // What decided that control came this way decided for the phis.
        let control = top.regions.current();
        top.regions.enter(to);
        top.block = to;
        top.next = 0;
        let code = Rc::clone(&top.code);
        let mut phis = Vec::new();
        for inst in &code.function.blocks[to.index()].instructions {
            let Op::Phi { incoming } = &inst.op else {
                break;
            };
            let mut edges = incoming.iter();
            if let Some((_, value)) = edges.find(|(block, _)| *block == from) {
                let label = self.walker.analysis.chosen(top.label(value), control);
                phis.push((inst.result, label));
            }
        }
        for (result, label) in phis {
            top.set(result, label);
        }
        Ok(())
    }
}

/// Whether the function that begins is the one that the caller called.
fn is_called<L: Copy + Default, C: Copy>(caller: &Activation<'_, L, C>, code: &Code<'_>) -> bool {
    let call = caller.code.inst(caller.block, caller.next);
    match call.op.callee() {
        Some(Callee::Direct(callee)) => {
            let callee = &caller.code.module.functions[callee.index()];
            callee.name == code.function.name
        }
        Some(Callee::Indirect(_)) => true,
        Some(Callee::Assembly { .. }) | None => false,
    }
}
