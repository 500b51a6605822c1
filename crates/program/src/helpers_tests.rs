//! Small models by hand: one function for each thing that makes a helper or does not.

use super::*;
use crashpoint_ir::{Block, GlobalId, Hooks, Ordering, TypeId};

const POINTER: Operand = Operand::Value(ValueId(0));

fn function(name: &str, ops: Vec<Op>) -> Function {
    let mut instructions: Vec<Inst> = ops
        .into_iter()
        .enumerate()
        .map(|(index, op)| Inst {
            result: Some(ValueId(index as u32 + 1)),
            ty: TypeId(0),
            op,
            location: None,
            site: None,
            root: false,
        })
        .collect();
    instructions.push(Inst {
        result: None,
        ty: TypeId(0),
        op: Op::Return { value: None },
        location: None,
        site: None,
        root: false,
    });
    Function {
        name: name.into(),
        source_name: None,
        internal: false,
        location: None,
        result: TypeId(0),
        parameters: Vec::new(),
        variadic: false,
        hooks: Hooks::Hooked,
        site: None,
        blocks: vec![Block { instructions }],
    }
}

fn declaration(name: &str) -> Function {
    Function {
        blocks: Vec::new(),
        hooks: Hooks::Declaration,
        ..function(name, Vec::new())
    }
}

fn flush() -> Op {
    Op::Flush {
        name: "clwb".into(),
        pointer: POINTER,
    }
}

fn fence() -> Op {
    Op::PersistFence {
        name: "sfence".into(),
    }
}

fn store_to(pointer: Operand) -> Op {
    store(pointer, Operand::Constant(Constant::Null))
}

fn store(pointer: Operand, value: Operand) -> Op {
    Op::Store {
        value,
        pointer,
        size_bytes: 8,
        ordering: Ordering::NotAtomic,
        volatile: false,
        nontemporal: false,
    }
}

fn alloca() -> Op {
    Op::Alloca {
        allocated: TypeId(0),
        count: Operand::Constant(Constant::Null),
    }
}

fn call(function: u32) -> Op {
    Op::Call {
        callee: Callee::Direct(FunctionId(function)),
        arguments: Vec::new(),
        tail: false,
    }
}

fn assembly(effects: Vec<AssemblyEffect>) -> Op {
    Op::Call {
        callee: Callee::Assembly {
            text: String::new(),
            constraints: String::new(),
            effects,
        },
        arguments: vec![POINTER],
        tail: false,
    }
}

fn module(functions: Vec<Function>) -> Module {
    Module {
        functions,
        ..Module::default()
    }
}

fn helpers_in(modules: &[Module]) -> Vec<&str> {
    let helpers = Helpers::find(modules.iter().enumerate());
    let mut names = Vec::new();
    for (model, module) in modules.iter().enumerate() {
        for (id, function) in defined(module) {
            if helpers.contains(model, id) {
                names.push(function.name.as_str());
            }
        }
    }
    names
}

#[test]
fn functions_that_only_flush_or_fence_are_helpers() {
    let clflush = AssemblyEffect::Flush {
        name: "clflush".into(),
        argument: 0,
    };
    let model = module(vec![
        function("flush", vec![flush()]),
        function("fence", vec![fence()]),
        function("by_assembly", vec![assembly(vec![clflush])]),
        function("both", vec![call(0), call(1)]),
        function("neither", vec![alloca()]),
    ]);
    assert_eq!(
        helpers_in(&[model]),
        ["flush", "fence", "by_assembly", "both"]
    );
}

#[test]
fn a_store_elsewhere_makes_a_function_its_own_master() {
    let local = Operand::Value(ValueId(1));
    let unknown = AssemblyEffect::Unknown {
        text: "rep stosb".into(),
    };
    let model = module(vec![
        function("update", vec![store_to(POINTER), flush()]),
        function("keeps_a_local", vec![alloca(), store_to(local), flush()]),
        function("unknown", vec![assembly(vec![unknown]), flush()]),
        function("calls_update", vec![call(0), flush()]),
        function("barrier", vec![assembly(Vec::new()), fence()]),
    ]);
    assert_eq!(helpers_in(&[model]), ["keeps_a_local", "barrier"]);
}

#[test]
fn counting_flushes_in_a_global_is_no_update() {
    let counter = Operand::Constant(Constant::Global {
        global: GlobalId(0),
        offset_bytes: 0,
    });
    let load = Op::Load {
        pointer: counter.clone(),
        size_bytes: 8,
        ordering: Ordering::NotAtomic,
        volatile: false,
    };
    let plus = Op::Arithmetic {
        name: "add".into(),
        operands: vec![
            Operand::Value(ValueId(1)),
            Operand::Constant(Constant::Null),
        ],
    };
    let count = store(counter.clone(), Operand::Value(ValueId(2)));
    let model = module(vec![
        function("counts", vec![load, plus, count, flush()]),
        function("sets", vec![store_to(counter), flush()]),
    ]);
    assert_eq!(helpers_in(&[model]), ["counts"]);
}

#[test]
fn other_objects_are_looked_into_by_name() {
    let library = module(vec![
        function("persist", vec![flush(), fence()]),
        function("update", vec![store_to(POINTER), flush()]),
    ]);
    let program = module(vec![
        declaration("persist"),
        declaration("update"),
        declaration("pmem_persist"),
        declaration("somewhere"),
        declaration("usleep"),
        function("uses_persist", vec![call(0)]),
        function("uses_update", vec![call(1), fence()]),
        function("uses_libpmem", vec![call(2)]),
        function("calls_out", vec![call(3), fence()]),
        function("waits", vec![call(4), fence()]),
    ]);
    assert_eq!(
        helpers_in(&[library, program]),
        ["persist", "uses_persist", "uses_libpmem", "waits"]
    );
}

#[test]
fn a_static_function_of_another_object_is_not_meant() {
    let mut persist = function("persist", vec![flush()]);
    persist.internal = true;
    let caller = function("caller", vec![call(0), fence()]);
    let modules = [
        module(vec![persist]),
        module(vec![declaration("persist"), caller]),
    ];
    assert_eq!(helpers_in(&modules), ["persist"]);
}

#[test]
fn recursion_comes_to_an_end() {
    let model = module(vec![
        function("a", vec![call(1), flush()]),
        function("b", vec![call(0)]),
        function("c", vec![call(2)]),
    ]);
    assert_eq!(helpers_in(&[model]), ["a", "b"]);
}
