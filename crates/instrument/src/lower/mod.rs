//! Lowering of a module to the program model, before anything is inserted.
//!
//! Every instruction becomes exactly one [`Inst`]; debug records are not instructions. While
//! lowering, each instruction of a hooked function is also given its [`Action`], its site, and
//! whether it is a root, so that what is emitted later agrees with the model by construction.

mod constants;
mod instructions;
mod layouts;
mod locations;
mod types;

use crate::action::{self, Action};
use crate::llvm::{self, BasicBlock, Value};
use crate::mode::{Mode, Modes};
use crate::quiet;
use crashpoint_ir::{
    BlockId, Function, FunctionId, Global, GlobalId, Hooks, Inst, InstId, Module, Operand,
    Parameter, Site, SiteId, TypeId, ValueId,
};
use layouts::Layouts;
use locations::Locations;
use rustc_hash::{FxHashMap, FxHashSet};
use types::Types;

/// What will be done to one function.
pub struct FunctionPlan {
    pub function: Value,
    pub mode: Mode,
    /// Of hooked functions.
    pub site: Option<SiteId>,
    /// It has nothing to report at level pm; see [`crate::quiet`].
    pub quiet: bool,
    pub parameter_roots: Vec<bool>,
    /// In the order of the blocks; empty for functions that are not hooked.
    pub instructions: Vec<InstructionPlan>,
}

pub struct InstructionPlan {
    pub action: Action,
    pub site: Option<SiteId>,
    pub root: bool,
}

pub struct Lowered {
    pub model: Module,
    pub plans: Vec<FunctionPlan>,
    /// The globals of the model, in its order.
    pub globals: Vec<Value>,
}

pub struct Lowering {
    module: llvm::Module,
    types: Types,
    layouts: Layouts,
    locations: Locations,
    functions: FxHashMap<Value, FunctionId>,
    globals: FxHashMap<Value, GlobalId>,
    sites: Vec<Site>,
    /// Of the function being lowered.
    values: FxHashMap<Value, ValueId>,
    blocks: FxHashMap<BasicBlock, BlockId>,
}

/// Lowers the whole module.
pub fn lower(module: llvm::Module, modes: &Modes, producer: String) -> Lowered {
    let mut locations = Locations::default();
    let layouts = Layouts::collect(module, &mut locations);
    let mut lowering = Lowering {
        module,
        types: Types::new(module),
        layouts,
        locations,
        functions: FxHashMap::default(),
        globals: FxHashMap::default(),
        sites: Vec::new(),
        values: FxHashMap::default(),
        blocks: FxHashMap::default(),
    };
    let globals: Vec<Value> = named_outside_llvm(module.globals());
    let functions = named_outside_llvm(module.functions());
    let ifuncs = module.ifuncs();
    for (index, &function) in functions.iter().chain(&ifuncs).enumerate() {
        lowering
            .functions
            .insert(function, FunctionId(index as u32));
    }
    for (index, &global) in globals.iter().enumerate() {
        lowering.globals.insert(global, GlobalId(index as u32));
    }
    let mut plans = Vec::new();
    let mut lowered = Vec::new();
    for &function in &functions {
        let (one, plan) = lowering.function(function, modes.of(function));
        lowered.push(one);
        plans.push(plan);
    }
    let quiet = quiet::find(&plans);
    for plan in &mut plans {
        plan.quiet = quiet.contains(&plan.function);
    }
    lowered.extend(ifuncs.iter().map(|&ifunc| lowering.ifunc(ifunc)));
    let lowered_globals = globals
        .iter()
        .map(|&global| lowering.global(global))
        .collect();
    Lowered {
        model: Module {
            source: module.source(),
            producer,
            files: lowering.locations.files,
            types: lowering.types.list,
            layouts: lowering.layouts.list,
            globals: lowered_globals,
            functions: lowered,
            locations: lowering.locations.list,
            sites: lowering.sites,
        },
        plans,
        globals,
    }
}

/// Intrinsics and LLVM's tables are no part of the program.
fn named_outside_llvm(values: Vec<Value>) -> Vec<Value> {
    values
        .into_iter()
        .filter(|value| !value.name().starts_with("llvm."))
        .collect()
}

impl Lowering {
    fn ty(&mut self, ty: llvm::Type) -> TypeId {
        self.types.id(ty, &self.layouts)
    }

    fn global(&mut self, global: Value) -> Global {
        Global {
            name: global.name(),
            ty: self.ty(global.value_type()),
            thread_local: global.is_thread_local(),
            constant: global.is_global_constant(),
            defined: !global.is_declaration(),
            location: global
                .global_variable()
                .and_then(|node| self.locations.of_declaration(node)),
            functions: self.functions_in(global),
        }
    }

    /// An indirect function is known by name only.
    fn ifunc(&mut self, ifunc: Value) -> Function {
        let ty = ifunc.value_type();
        Function {
            name: ifunc.name(),
            source_name: None,
            internal: false,
            location: None,
            result: self.ty(ty.function_result()),
            parameters: self.parameters(ty.function_parameters()),
            variadic: ty.is_variadic(),
            hooks: Hooks::Declaration,
            site: None,
            blocks: Vec::new(),
        }
    }

    fn parameters(&mut self, types: Vec<llvm::Type>) -> Vec<Parameter> {
        types
            .into_iter()
            .map(|ty| Parameter {
                ty: self.ty(ty),
                name: None,
                root: false,
            })
            .collect()
    }

    fn function(&mut self, function: Value, mode: Mode) -> (Function, FunctionPlan) {
        let id = self.functions[&function];
        let ty = function.value_type();
        let subprogram = function.subprogram();
        let mut parameters = self.parameters(ty.function_parameters());
        for (index, name) in function.parameter_names() {
            parameters[index as usize].name.get_or_insert(name);
        }
        let site = mode.is_hooked().then(|| self.site(id, None));
        let mut plan = FunctionPlan {
            function,
            mode,
            site,
            quiet: false,
            parameter_roots: vec![false; parameters.len()],
            instructions: Vec::new(),
        };
        let blocks = self.body(function, &mut plan);
        for (parameter, root) in parameters.iter_mut().zip(&plan.parameter_roots) {
            parameter.root = *root;
        }
        let lowered = Function {
            name: function.name(),
            source_name: subprogram
                .map(|node| node.name())
                .filter(|name| !name.is_empty()),
            internal: function.has_local_linkage(),
            location: subprogram.and_then(|node| self.locations.of_declaration(node)),
            result: self.ty(ty.function_result()),
            parameters,
            variadic: ty.is_variadic(),
            hooks: match mode {
                Mode::Declaration => Hooks::Declaration,
                Mode::Copies(_) | Mode::HookedOnly(_) | Mode::InPlace => Hooks::Hooked,
                Mode::Unhooked(reason) => Hooks::Unhooked(reason.to_owned()),
            },
            site,
            blocks,
        };
        (lowered, plan)
    }

    fn site(&mut self, function: FunctionId, instruction: Option<InstId>) -> SiteId {
        let id = SiteId(self.sites.len() as u32);
        self.sites.push(Site {
            function,
            instruction,
        });
        id
    }

    fn body(&mut self, function: Value, plan: &mut FunctionPlan) -> Vec<crashpoint_ir::Block> {
        let id = self.functions[&function];
        let hooked = plan.mode.is_hooked();
        let blocks = function.blocks();
        let bodies: Vec<Vec<Value>> = blocks.iter().map(|block| body(*block)).collect();
        let parameters = function.parameters();
        self.number(&blocks, &bodies, &parameters);
        let actions: Vec<Action> = bodies
            .iter()
            .flatten()
            .map(|&instruction| Action::of(self.module, instruction))
            .collect();
        let all = bodies.iter().flatten().copied();
        let roots = if hooked {
            roots(self.module, all.zip(&actions))
        } else {
            FxHashSet::default()
        };
        for (parameter, root) in parameters.iter().zip(&mut plan.parameter_roots) {
            *root = roots.contains(parameter);
        }
        let mut actions = actions.into_iter();
        let mut lowered = Vec::with_capacity(blocks.len());
        let mut next = 0;
        for instructions in bodies {
            let mut block = Vec::with_capacity(instructions.len());
            for instruction in instructions {
                let action = actions.next().expect("one action for each instruction");
                let reports = hooked && !matches!(action, Action::Nothing);
                let site = reports.then(|| self.site(id, Some(InstId(next))));
                let root = roots.contains(&instruction);
                block.push(Inst {
                    result: self.values.get(&instruction).copied(),
                    ty: self.ty(instruction.ty()),
                    op: self.op(instruction, &action),
                    location: instruction
                        .debug_location()
                        .and_then(|node| self.locations.of_instruction(node)),
                    site,
                    root,
                });
                if hooked {
                    plan.instructions
                        .push(InstructionPlan { action, site, root });
                }
                next += 1;
            }
            lowered.push(crashpoint_ir::Block {
                instructions: block,
            });
        }
        lowered
    }

    /// Numbers the values and blocks of a function, which becomes the current one.
    fn number(&mut self, blocks: &[BasicBlock], bodies: &[Vec<Value>], parameters: &[Value]) {
        self.values.clear();
        self.blocks.clear();
        for (index, &block) in blocks.iter().enumerate() {
            self.blocks.insert(block, BlockId(index as u32));
        }
        let results = bodies
            .iter()
            .flatten()
            .filter(|instruction| !instruction.ty().is_void());
        for (index, &value) in parameters.iter().chain(results).enumerate() {
            self.values.insert(value, ValueId(index as u32));
        }
    }

    fn block(&self, block: BasicBlock) -> BlockId {
        self.blocks[&block]
    }

    fn operand_at(&mut self, instruction: Value, index: u32) -> Operand {
        self.operand(instruction.operand(index))
    }
}

/// The instructions of a block that are the program's.
pub fn body(block: BasicBlock) -> Vec<Value> {
    block
        .instructions()
        .into_iter()
        .filter(|instruction| !instruction.is_debug_intrinsic())
        .collect()
}

/// The roots of a function: values from which an access is a constant offset away.
fn roots<'a>(
    module: llvm::Module,
    instructions: impl Iterator<Item = (Value, &'a Action)>,
) -> FxHashSet<Value> {
    instructions
        .flat_map(|(instruction, action)| action::accessed(module, action, instruction))
        .map(action::root_of)
        .filter(|root| root.is_instruction() || root.is_argument())
        .filter(|root| root.ty().is_pointer() && root.ty().address_space() == 0)
        .collect()
}
