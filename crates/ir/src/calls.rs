//! The call graph of a program: who calls whom.
//!
//! A call by name goes to the definition in the same module, or else to every definition of that
//! name that another module makes visible (there are several where the linker chooses one, as for
//! C++ inline functions). A call through a pointer may go to any function whose address is taken
//! somewhere, in code or in an initializer, and whose signature fits: as many parameters, of the
//! same types, and the same result.
//!
//! What it misses: calls from code that is not instrumented (callbacks of `qsort`, threads), calls
//! through a pointer that was cast to another signature, and addresses obtained in ways that no
//! model shows (`dlsym`). What it adds: all functions of one signature are possible everywhere.

use crate::types::ValueTypes;
use crate::{Callee, Constant, Function, FunctionId, InstId, Module, Op, Operand, TypeId};
use std::collections::{BTreeSet, HashMap, HashSet};

/// A function of a program: index of its module, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionRef {
    pub module: usize,
    pub function: FunctionId,
}

/// A call in a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub inst: InstId,
    /// Whether it names its callee.
    pub direct: bool,
    /// Definitions it may go to, and declarations of functions that are defined nowhere.
    pub targets: Vec<FunctionRef>,
}

#[derive(Clone, Debug)]
pub struct CallGraph {
    /// By module and function.
    calls: Vec<Vec<Vec<Call>>>,
    callers: HashMap<FunctionRef, Vec<(FunctionRef, InstId)>>,
    address_taken: BTreeSet<FunctionRef>,
}

/// A signature that can be compared between modules. Types that the model does not tell fit all.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Signature {
    result: String,
    parameters: Vec<Option<String>>,
}

impl CallGraph {
    pub fn new(modules: &[&Module]) -> CallGraph {
        let linker = Linker::new(modules);
        let address_taken = linker.address_taken();
        let candidates: Vec<(FunctionRef, Signature, bool)> = address_taken
            .iter()
            .map(|taken| {
                let (module, function) = linker.get(*taken);
                (*taken, declared(module, function), function.variadic)
            })
            .collect();
        let mut graph = CallGraph {
            calls: Vec::new(),
            callers: HashMap::new(),
            address_taken,
        };
        for (index, module) in modules.iter().enumerate() {
            let mut calls = Vec::new();
            for (id, function) in (0..).map(FunctionId).zip(&module.functions) {
                let here = FunctionRef {
                    module: index,
                    function: id,
                };
                calls.push(graph.function(&linker, &candidates, here, function));
            }
            graph.calls.push(calls);
        }
        graph
    }

    fn function(
        &mut self,
        linker: &Linker<'_>,
        candidates: &[(FunctionRef, Signature, bool)],
        here: FunctionRef,
        function: &Function,
    ) -> Vec<Call> {
        let module = linker.modules[here.module];
        let types = ValueTypes::new(function);
        let mut calls = Vec::new();
        for (inst, _, instruction) in function.instructions() {
            let targets = match instruction.op.callee() {
                None | Some(Callee::Assembly { .. }) => continue,
                Some(Callee::Direct(id)) => linker.definitions(FunctionRef {
                    module: here.module,
                    function: *id,
                }),
                Some(Callee::Indirect(_)) => {
                    let wanted = called(module, &types, instruction.ty, &instruction.op);
                    let fitting = candidates
                        .iter()
                        .filter(|(_, declared, variadic)| fits(&wanted, declared, *variadic));
                    fitting.map(|(target, _, _)| *target).collect()
                }
            };
            for target in &targets {
                self.callers.entry(*target).or_default().push((here, inst));
            }
            let direct = matches!(instruction.op.callee(), Some(Callee::Direct(_)));
            calls.push(Call {
                inst,
                direct,
                targets,
            });
        }
        calls
    }

    /// The calls of a function, in order.
    pub fn calls(&self, function: FunctionRef) -> &[Call] {
        &self.calls[function.module][function.function.index()]
    }

    /// The calls that may reach a definition, or a declaration that is defined nowhere.
    pub fn callers(&self, function: FunctionRef) -> &[(FunctionRef, InstId)] {
        self.callers.get(&function).map_or(&[], Vec::as_slice)
    }

    /// The functions that calls through pointers may reach.
    pub fn address_taken(&self) -> &BTreeSet<FunctionRef> {
        &self.address_taken
    }

    /// All functions that a call of `root` may run, with itself.
    pub fn reachable(&self, root: FunctionRef) -> BTreeSet<FunctionRef> {
        let mut found = BTreeSet::from([root]);
        let mut work = vec![root];
        while let Some(function) = work.pop() {
            for target in self.calls(function).iter().flat_map(|call| &call.targets) {
                if found.insert(*target) {
                    work.push(*target);
                }
            }
        }
        found
    }
}

/// Finds functions by name over modules.
struct Linker<'a> {
    modules: &'a [&'a Module],
    /// Definitions that other modules may see.
    visible: HashMap<&'a str, Vec<FunctionRef>>,
}

impl<'a> Linker<'a> {
    fn new(modules: &'a [&'a Module]) -> Linker<'a> {
        let mut visible: HashMap<&str, Vec<FunctionRef>> = HashMap::new();
        for (module, content) in modules.iter().enumerate() {
            for (function, entry) in (0..).map(FunctionId).zip(&content.functions) {
                if !entry.is_declaration() && !entry.internal {
                    let here = FunctionRef { module, function };
                    visible.entry(&entry.name).or_default().push(here);
                }
            }
        }
        Linker { modules, visible }
    }

    fn get(&self, function: FunctionRef) -> (&'a Module, &'a Function) {
        let module = self.modules[function.module];
        (module, &module.functions[function.function.index()])
    }

    /// What a name in a module stands for; itself if nobody defines it.
    fn definitions(&self, named: FunctionRef) -> Vec<FunctionRef> {
        let (_, function) = self.get(named);
        match self.visible.get(function.name.as_str()) {
            Some(definitions) if function.is_declaration() => definitions.clone(),
            Some(_) | None => vec![named],
        }
    }

    fn address_taken(&self) -> BTreeSet<FunctionRef> {
        let mut named = HashSet::new();
        for (index, module) in self.modules.iter().enumerate() {
            let mut take = |function: FunctionId| {
                named.insert(FunctionRef {
                    module: index,
                    function,
                });
            };
            for global in &module.globals {
                global.functions.iter().copied().for_each(&mut take);
            }
            let functions = module.functions.iter();
            for (_, _, inst) in functions.flat_map(Function::instructions) {
                inst.op.for_each_operand(|operand| {
                    if let Operand::Constant(constant) = operand {
                        constant.for_each(&mut |part| {
                            if let Constant::Function(function) = part {
                                take(*function);
                            }
                        });
                    }
                });
            }
        }
        named
            .into_iter()
            .flat_map(|function| self.definitions(function))
            .collect()
    }
}

fn declared(module: &Module, function: &Function) -> Signature {
    let parameters = function.parameters.iter();
    Signature {
        result: module.type_name(function.result),
        parameters: parameters
            .map(|parameter| Some(module.type_name(parameter.ty)))
            .collect(),
    }
}

/// The signature that a call implies by its arguments.
fn called(module: &Module, types: &ValueTypes, result: TypeId, op: &Op) -> Signature {
    let arguments = op.arguments().unwrap_or_default().iter();
    Signature {
        result: module.type_name(result),
        parameters: arguments
            .map(|argument| operand_type(module, types, argument))
            .collect(),
    }
}

fn operand_type(module: &Module, types: &ValueTypes, operand: &Operand) -> Option<String> {
    match operand {
        Operand::Value(value) => Some(module.type_name(types.of(*value))),
        Operand::Constant(constant) => match constant {
            Constant::Integer { bits, .. } | Constant::WideInteger { bits, .. } => {
                Some(format!("i{bits}"))
            }
            Constant::Float { name, .. } => Some(name.clone()),
            Constant::Zero(ty) | Constant::Aggregate { ty, .. } => Some(module.type_name(*ty)),
            Constant::Null
            | Constant::Global { .. }
            | Constant::Function(_)
            | Constant::Block { .. } => Some(POINTER.to_owned()),
            Constant::Undef | Constant::Poison | Constant::Data(_) | Constant::Text(_) => None,
        },
    }
}

const POINTER: &str = "ptr";

fn fits(called: &Signature, declared: &Signature, variadic: bool) -> bool {
    let (given, wanted) = (called.parameters.len(), declared.parameters.len());
    let count = given == wanted || (variadic && given > wanted);
    let mut pairs = called.parameters.iter().zip(&declared.parameters);
    count
        && called.result == declared.result
        && pairs.all(|(given, wanted)| given.is_none() || given == wanted)
}
