//! From sites and contexts to source lines: helpers, libraries, system headers, missing models.

use crashpoint_ir::{
    Block, Callee, FileId, Function, FunctionId, Hooks, Inst, InstId, Location, LocationId, Module,
    Op, Operand, Site, Type, TypeId, ValueId, binary,
};
use crashpoint_report::resolve::Resolver;
use crashpoint_report::{Finding, Severity};
use crashpoint_rules as rules;
use crashpoint_trace::program::Program;
use crashpoint_trace::writer::{FileSpec, ProcessSpec, RecordingBuilder};
use crashpoint_trace::{
    ContextId, EventKind, FileIndex, PmAddress, Recording, SiteId, ThreadIndex,
};

/// What each function does, by index, with the line of it. Site `n` is the one instruction of
/// function `n`.
const FUNCTIONS: [(&str, Does); 6] = [
    ("flush_line", Does::Flush),
    ("persist", Does::Call(0)),
    ("put", Does::Store),
    ("main", Does::Call(2)),
    ("pmem_memcpy_persist", Does::Store),
    ("std_store", Does::Store),
];

#[derive(Clone, Copy)]
enum Does {
    Flush,
    Store,
    Call(u32),
}

fn module() -> Module {
    let pointer = Operand::Value(ValueId(0));
    let op = |does| match does {
        Does::Flush => Op::Flush {
            name: "clwb".into(),
            pointer: pointer.clone(),
        },
        Does::Store => Op::Store {
            value: pointer.clone(),
            pointer: pointer.clone(),
            size_bytes: 8,
            ordering: crashpoint_ir::Ordering::NotAtomic,
            volatile: false,
            nontemporal: false,
        },
        Does::Call(function) => Op::Call {
            callee: Callee::Direct(FunctionId(function)),
            arguments: Vec::new(),
            tail: false,
        },
    };
    let inst = |op, location, site| Inst {
        result: None,
        ty: TypeId(0),
        op,
        location,
        site,
        root: false,
    };
    let function = |(index, (name, does)): (usize, &(&str, Does))| {
        let index = index as u32;
        let site = Some(crashpoint_ir::SiteId(index));
        let instructions = vec![
            inst(op(*does), Some(LocationId(index)), site),
            inst(Op::Return { value: None }, None, None),
        ];
        Function {
            name: (*name).into(),
            source_name: None,
            internal: true,
            location: None,
            result: TypeId(0),
            parameters: vec![crashpoint_ir::Parameter {
                ty: TypeId(0),
                name: None,
                root: false,
            }],
            variadic: false,
            hooks: Hooks::Hooked,
            site: None,
            blocks: vec![Block { instructions }],
        }
    };
    let location = |index: usize| Location {
        file: FileId(u32::from(FUNCTIONS[index].0 == "std_store")),
        line: 10 * (index as u32 + 1),
        column: 5,
        function: None,
        inlined_at: None,
    };
    let site = |index: usize| Site {
        function: FunctionId(index as u32),
        instruction: Some(InstId(0)),
    };
    Module {
        source: "store.c".into(),
        files: vec!["/src/store.c".into(), "/usr/include/c++/12/atomic".into()],
        types: vec![Type::Pointer { address_space: 0 }],
        functions: FUNCTIONS.iter().enumerate().map(function).collect(),
        locations: (0..FUNCTIONS.len()).map(location).collect(),
        sites: (0..FUNCTIONS.len()).map(site).collect(),
        ..Module::default()
    }
}

/// A store for each stack; stacks are names of functions, innermost first.
fn recording(stacks: &[&[&str]]) -> Recording {
    let number = |name: &str| {
        let index = FUNCTIONS.iter().position(|(known, _)| *known == name);
        index.expect("a known function") as u32
    };
    let mut builder = RecordingBuilder::new();
    let process = builder.process(ProcessSpec::default());
    let count = FUNCTIONS.len() as u32;
    let base = builder.module(process, binary::encode(&module()).0, count, "/bin/store");
    let spec = FileSpec {
        path: "/pm/pool".into(),
        device: 1,
        inode: 1,
        size_bytes: 4096,
        image: None,
    };
    let file = builder.file(process, spec);
    let thread = builder.thread(process);
    let map = crashpoint_abi::record::Payload::Map {
        address: 0x1000,
        length: 4096,
        file,
        file_offset: 0,
        shared: true,
    };
    builder.event(thread, 0, map);
    for stack in stacks {
        let sites: Vec<u32> = stack.iter().map(|name| base + number(name)).collect();
        let callers: Vec<u32> = sites[1..].iter().rev().copied().collect();
        builder.stack(thread, &callers);
        builder.store(thread, sites[0], 0x1040, &[1; 8]);
    }
    builder.build().expect("a good recording")
}

/// What is told about a finding at each of the stores.
fn told(recording: &Recording, program: &Program) -> Vec<Finding> {
    let stores = recording
        .events()
        .filter(|event| matches!(event.kind, EventKind::Store { .. }));
    let finding = |order: u64, site: SiteId, context: ContextId| rules::RuleFinding {
        rule: rules::RuleId::built_in("extra-flush"),
        severity: Severity::Warning,
        site,
        context,
        count: 1,
        total: 2,
        first_order: order,
        place: PmAddress::new(FileIndex(0), 0x40),
        length: 8,
        message: "message".into(),
        help: "help".into(),
        history: vec![rules::HistoryStep {
            order,
            what: "it happened".into(),
            site,
            context,
            thread: ThreadIndex(0),
        }],
        model: rules::MODEL,
    };
    let found: Vec<rules::RuleFinding> = stores
        .map(|event| finding(event.order, event.site, event.context))
        .collect();
    Resolver::new(recording, program).findings(&found)
}

fn told_for(stack: &[&str]) -> Finding {
    let recording = recording(&[stack]);
    let program = Program::from_models(&recording, &[module()]);
    told(&recording, &program).remove(0)
}

fn told_at(stack: &[&str]) -> String {
    told_for(stack)
        .location
        .map(|at| at.to_string())
        .unwrap_or_default()
}

#[test]
fn findings_are_told_outside_of_helpers() {
    assert_eq!(
        told_at(&["flush_line", "persist", "put", "main"]),
        "/src/store.c:30:5"
    );
    assert_eq!(told_at(&["put", "main"]), "/src/store.c:30:5");
    // Where all are helpers, at the outermost.
    assert_eq!(told_at(&["flush_line", "persist"]), "/src/store.c:20:5");
}

#[test]
fn a_librarys_functions_are_helpers_with_all_they_call() {
    let finding = told_for(&["put", "pmem_memcpy_persist", "main"]);
    assert_eq!(finding.location.as_ref().unwrap().line, 40);
    let helpers: Vec<bool> = finding.stack.iter().map(|frame| frame.helper).collect();
    assert_eq!(helpers, [true, true, false]);
}

#[test]
fn system_headers_are_skipped() {
    assert_eq!(told_at(&["std_store", "put", "main"]), "/src/store.c:30:5");
}

#[test]
fn everything_is_carried_over() {
    let finding = told_for(&["flush_line", "put", "main"]);
    assert_eq!(finding.rule, "extra-flush");
    assert_eq!(finding.severity, Severity::Warning);
    assert_eq!((finding.count, finding.total), (1, 2));
    let place = finding.place.as_ref().unwrap();
    assert_eq!(
        (place.file.as_str(), place.offset, place.length),
        ("/pm/pool", 0x40, 8)
    );
    let functions: Vec<&str> = finding.stack.iter().map(|f| f.function.as_str()).collect();
    assert_eq!(functions, ["flush_line", "put", "main"]);
    // Steps are told where the finding is, not inside the helper.
    assert_eq!(finding.history[0].location, finding.location);
    assert_eq!(finding.own_step(), Some(0));
}

#[test]
fn ways_through_helpers_are_one_finding() {
    let recording = recording(&[
        &["flush_line", "put", "main"],
        &["flush_line", "persist", "put", "main"],
        &["flush_line", "put"],
    ]);
    let program = Program::from_models(&recording, &[module()]);
    let counts: Vec<u64> = told(&recording, &program).iter().map(|f| f.count).collect();
    assert_eq!(counts, [2, 1]);
}

#[test]
fn without_a_model_there_are_no_places() {
    let recording = recording(&[&["put", "main"], &["std_store", "main"]]);
    let program = Program::from_models(&recording, &[]);
    let findings = told(&recording, &program);
    assert_eq!(findings.len(), 2);
    assert_eq!(findings[0].location, None);
    assert_eq!(
        findings[0].stack[0].function,
        "site 3 of an unknown function"
    );
    assert!(findings[0].place.is_some());
}
