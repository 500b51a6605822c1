//! One small module, by hand: how it is shown, and who calls whom in it.

use crashpoint_ir::calls::{CallGraph, FunctionRef};
use crashpoint_ir::*;

const VOID: TypeId = TypeId(0);
const I64: TypeId = TypeId(1);
const PTR: TypeId = TypeId(2);
const BUCKET: TypeId = TypeId(5);

fn types() -> Vec<Type> {
    let field = |ty: u32, offset_bytes, name: Option<&str>| Field {
        ty: TypeId(ty),
        offset_bytes,
        name: name.map(str::to_owned),
    };
    let structure = |name: &str, size_bytes, fields| Type::Struct {
        name: Some(name.to_owned()),
        size_bytes,
        fields,
        layout: None,
    };
    vec![
        Type::Void,
        Type::Integer { bits: 64 },
        Type::Pointer { address_space: 0 },
        structure(
            "struct.slot",
            16,
            vec![field(1, 0, Some("key")), field(1, 8, None)],
        ),
        Type::Array {
            element: TypeId(3),
            count: 4,
        },
        structure(
            "struct.bucket",
            72,
            vec![field(1, 0, Some("token")), field(4, 8, Some("slots"))],
        ),
    ]
}

fn integer(value: u64) -> Operand {
    Operand::Constant(Constant::Integer { bits: 64, value })
}

fn value(id: u32) -> Operand {
    Operand::Value(ValueId(id))
}

fn inst(result: Option<u32>, ty: TypeId, op: Op) -> Inst {
    Inst {
        result: result.map(ValueId),
        ty,
        op,
        location: None,
        site: None,
        root: false,
    }
}

fn call(callee: Callee, arguments: Vec<Operand>) -> Inst {
    let tail = false;
    let op = Op::Call {
        callee,
        arguments,
        tail,
    };
    inst(None, VOID, op)
}

fn done() -> Inst {
    inst(None, VOID, Op::Return { value: None })
}

fn function(name: &str, parameters: &[(TypeId, &str)], instructions: Vec<Inst>) -> Function {
    let parameters = parameters.iter().map(|(ty, name)| Parameter {
        ty: *ty,
        name: Some((*name).to_owned()),
        root: false,
    });
    let declaration = instructions.is_empty();
    Function {
        name: name.to_owned(),
        source_name: None,
        internal: false,
        location: None,
        result: VOID,
        parameters: parameters.collect(),
        variadic: false,
        hooks: match declaration {
            true => Hooks::Declaration,
            false => Hooks::Hooked,
        },
        site: None,
        blocks: match declaration {
            true => Vec::new(),
            false => vec![Block { instructions }],
        },
    }
}

fn module(functions: Vec<Function>) -> Module {
    Module {
        source: "s.c".to_owned(),
        producer: "clang 19.1.7 -O1".to_owned(),
        files: vec!["/src/s.c".to_owned()],
        types: types(),
        functions,
        ..Module::default()
    }
}

fn store_module() -> Module {
    let index = |value| Operand::Constant(Constant::Integer { bits: 32, value });
    let mut address = inst(
        Some(2),
        PTR,
        Op::Address {
            source: BUCKET,
            base: value(0),
            indices: vec![integer(0), index(1), integer(2), index(0)],
            inbounds: true,
        },
    );
    address.root = true;
    address.location = Some(LocationId(1));
    let mut store = inst(
        None,
        VOID,
        Op::Store {
            value: value(1),
            pointer: value(2),
            size_bytes: 8,
            ordering: Ordering::Release,
            volatile: false,
            nontemporal: true,
        },
    );
    store.site = Some(SiteId(1));
    store.location = Some(LocationId(0));
    let flush = call(
        Callee::Assembly {
            text: ".byte 0x66; clflush $0".to_owned(),
            constraints: "+m".to_owned(),
            effects: vec![AssemblyEffect::Flush {
                name: "clflushopt".to_owned(),
                argument: 0,
            }],
        },
        vec![value(2)],
    );
    let mut insert = function(
        "insert",
        &[(PTR, "b"), (I64, "key")],
        vec![address, store, flush, done()],
    );
    insert.site = Some(SiteId(0));
    insert.location = Some(LocationId(0));
    let mut module = module(vec![insert]);
    let location = |line, column, function: Option<&str>, inlined_at| Location {
        file: FileId(0),
        line,
        column,
        function: function.map(str::to_owned),
        inlined_at,
    };
    module.locations = vec![
        location(12, 5, None, None),
        location(3, 9, Some("slot_of"), Some(LocationId(0))),
    ];
    module.sites = vec![
        Site {
            function: FunctionId(0),
            instruction: None,
        },
        Site {
            function: FunctionId(0),
            instruction: Some(InstId(1)),
        },
    ];
    module.globals = vec![Global {
        name: "root".to_owned(),
        ty: PTR,
        thread_local: false,
        constant: false,
        defined: true,
        location: None,
        functions: vec![FunctionId(0)],
    }];
    module
}

#[test]
fn a_module_is_shown_with_fields_sites_roots_and_lines() {
    let module = store_module();
    assert_eq!(module.validate(), Ok(()));
    let expected = "\
module s.c
producer \"clang 19.1.7 -O1\"

%struct.slot = 16 bytes {
  0: i64 .key
  8: i64 .1
}

%struct.bucket = 72 bytes {
  0: i64 .token
  8: [4 x %struct.slot] .slots
}

@root = global ptr of @insert

function @insert(ptr %b, i64 %key) -> void  #0   ; s.c:12:5
b0:
  %2 = address %struct.bucket %b, .slots[2].key  root   ; s.c:3:9 in slot_of inlined at s.c:12:5
  store nontemporal release %key to %2, 8  #1   ; s.c:12:5
  call void asm \".byte 0x66; clflush $0\" \"+m\"(%2) does [flush clflushopt %2]
  return
";
    assert_eq!(text::module(&module).to_string(), expected);
}

fn at(module: usize, function: u32) -> FunctionRef {
    FunctionRef {
        module,
        function: FunctionId(function),
    }
}

#[test]
fn calls_by_name_cross_modules_but_not_into_static_functions() {
    let calls = |callee| vec![call(Callee::Direct(FunctionId(callee)), Vec::new()), done()];
    let main = module(vec![
        function("main", &[], calls(1)),
        function("help", &[], Vec::new()),
        function("printf", &[], Vec::new()),
    ]);
    let mut hidden = function("help", &[], vec![done()]);
    hidden.internal = true;
    let with_static = module(vec![hidden, function("other", &[], calls(0))]);
    let visible = module(vec![
        function("help", &[], calls(1)),
        function("printf", &[], Vec::new()),
    ]);
    let graph = CallGraph::new(&[&main, &with_static, &visible]);
    assert_eq!(graph.calls(at(0, 0))[0].targets, [at(2, 0)]);
    assert_eq!(graph.calls(at(1, 1))[0].targets, [at(1, 0)]);
    // Nobody defines it: the declaration stands for itself.
    assert_eq!(graph.calls(at(2, 0))[0].targets, [at(2, 1)]);
    assert_eq!(graph.callers(at(2, 0)), [(at(0, 0), InstId(0))]);
    assert!(
        graph
            .reachable(at(0, 0))
            .into_iter()
            .eq([at(0, 0), at(2, 0), at(2, 1)])
    );
}

#[test]
fn calls_through_pointers_reach_what_fits_and_has_its_address_taken() {
    let pointer = |argument: Operand| call(Callee::Indirect(value(0)), vec![argument]);
    let mut code = vec![
        pointer(integer(1)),
        pointer(Operand::Constant(Constant::Null)),
        pointer(Operand::Constant(Constant::Undef)),
    ];
    // The address of `by_code` is taken by storing it.
    code.push(inst(
        None,
        VOID,
        Op::Store {
            value: Operand::Constant(Constant::Function(FunctionId(1))),
            pointer: value(0),
            size_bytes: 8,
            ordering: Ordering::NotAtomic,
            volatile: false,
            nontemporal: false,
        },
    ));
    code.push(done());
    let mut main = module(vec![
        function("main", &[(PTR, "f")], code),
        function("by_code", &[(I64, "x")], vec![done()]),
        function("by_table", &[(PTR, "x")], Vec::new()),
        function("never", &[(I64, "x")], vec![done()]),
    ]);
    main.globals = vec![Global {
        name: "table".to_owned(),
        ty: PTR,
        thread_local: false,
        constant: true,
        defined: true,
        location: None,
        functions: vec![FunctionId(2)],
    }];
    let other = module(vec![function("by_table", &[(PTR, "x")], vec![done()])]);
    let graph = CallGraph::new(&[&main, &other]);
    let targets: Vec<_> = graph
        .calls(at(0, 0))
        .iter()
        .map(|call| &call.targets[..])
        .collect();
    assert_eq!(targets[0], [at(0, 1)], "by type");
    assert_eq!(targets[1], [at(1, 0)], "where it is defined");
    assert_eq!(
        targets[2],
        [at(0, 1), at(1, 0)],
        "what is not known fits all"
    );
    assert!(graph.address_taken().iter().eq(&[at(0, 1), at(1, 0)]));
}
