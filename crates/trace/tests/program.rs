//! From sites to source lines: models in the recording's folder, in binaries, and missing ones.

use crashpoint_ir::{
    Block, Callee, FileId, Function, FunctionId, Hooks, Inst, InstId, Location, LocationId, Module,
    Op, Site, Type, TypeId, binary,
};
use crashpoint_trace::program::{Program, ProgramError, readable_name, save_models};
use crashpoint_trace::writer::{ProcessSpec, RecordingBuilder};
use crashpoint_trace::{Recording, SiteId};
use std::path::Path;

/// `Tree::insert` calls `persist`, in code that was inlined from `helper`.
fn module() -> Module {
    let inst = |op, location, site| Inst {
        result: None,
        ty: TypeId(0),
        op,
        location,
        site,
        root: false,
    };
    let call = Op::Call {
        callee: Callee::Direct(FunctionId(1)),
        arguments: Vec::new(),
        tail: false,
    };
    let function = |name: &str, blocks: Vec<Block>, site| Function {
        name: name.to_owned(),
        source_name: Some("insert".to_owned()),
        internal: false,
        location: Some(LocationId(0)),
        result: TypeId(0),
        parameters: Vec::new(),
        variadic: false,
        hooks: Hooks::Hooked,
        site,
        blocks,
    };
    let location = |line, function: Option<&str>, inlined_at| Location {
        file: FileId(0),
        line,
        column: 7,
        function: function.map(str::to_owned),
        inlined_at,
    };
    let instructions = vec![
        inst(call, Some(LocationId(2)), Some(crashpoint_ir::SiteId(1))),
        inst(Op::Return { value: None }, None, None),
    ];
    let site = |instruction: Option<u32>| Site {
        function: FunctionId(0),
        instruction: instruction.map(InstId),
    };
    let body = vec![Block { instructions }];
    Module {
        source: "tree.cpp".to_owned(),
        files: vec!["/src/tree.cpp".to_owned()],
        types: vec![Type::Void],
        functions: vec![
            function("_ZN4Tree6insertEi", body, Some(crashpoint_ir::SiteId(0))),
            function("persist", Vec::new(), None),
        ],
        locations: vec![
            location(10, None, None),
            location(12, None, None),
            location(3, Some("helper"), Some(LocationId(1))),
        ],
        sites: vec![site(None), site(Some(0))],
        ..Module::default()
    }
}

fn recording(binary: &str) -> RecordingBuilder {
    let mut builder = RecordingBuilder::new();
    let process = builder.process(ProcessSpec::default());
    builder.module(process, binary::encode(&module()).0, 2, binary);
    builder.thread(process);
    builder
}

#[test]
fn sites_resolve_to_lines_through_inlining() {
    let recording = recording("/bin/store").build().unwrap();
    let program = Program::from_models(&recording, &[module()]);
    let call = program.resolve(SiteId(2)).unwrap();
    assert_eq!(
        (call.place.line, call.place.function.as_str()),
        (3, "helper")
    );
    let outer: Vec<_> = call
        .inlined
        .iter()
        .map(|p| (p.line, p.function.as_str()))
        .collect();
    assert_eq!(outer, [(12, "Tree::insert")]);
    assert_eq!(call.inst.unwrap().id, InstId(0));
    assert_eq!(program.callee_name(SiteId(2)), Some("persist"));
    let own = program.resolve(SiteId(1)).unwrap();
    assert!(own.inst.is_none());
    assert_eq!((own.place.file, own.place.line), ("/src/tree.cpp", 10));
    assert_eq!(program.callee_name(SiteId(1)), None);
    assert!(program.resolve(SiteId::NONE).is_none());
    assert!(program.resolve(SiteId(3)).is_none());
}

#[test]
fn models_in_the_folder_are_used_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    recording("/nonexistent/store")
        .write(folder.path())
        .unwrap();
    let recording = Recording::open(folder.path()).unwrap();
    let (id, blob) = binary::encode(&module());
    let saved = folder.path().join(format!("models/{id}.model"));
    std::fs::create_dir(saved.parent().unwrap()).unwrap();

    let refused = |content: &[u8]| {
        std::fs::write(&saved, content).unwrap();
        Program::load(&recording).unwrap_err()
    };
    assert!(matches!(refused(&blob[..40]), ProgramError::Damaged { .. }));
    assert!(matches!(refused(b""), ProgramError::Damaged { .. }));
    let (_, other) = binary::encode(&Module::default());
    assert!(matches!(refused(&other), ProgramError::Misnamed { .. }));

    std::fs::write(&saved, &blob).unwrap();
    let program = Program::load(&recording).unwrap();
    assert_eq!(program.model(0), Some(&module()));
    assert_eq!(save_models(&recording).unwrap(), 0);
}

#[test]
fn a_missing_binary_is_named_and_the_rest_is_usable() {
    let recording = recording("/nonexistent/store").build().unwrap();
    let error = Program::load(&recording).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("/nonexistent/store: cannot be read"),
        "{error}"
    );
    let (program, errors) = Program::load_available(&recording);
    assert_eq!(errors.len(), 1);
    assert!(program.resolve(SiteId(1)).is_none());
}

#[test]
fn models_are_taken_from_binaries_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("store.o");
    let out = folder.path().join("out");
    recording(object.to_str().unwrap()).write(&out).unwrap();
    let recording = Recording::open(&out).unwrap();

    write_object(&object, &binary::encode(&Module::default()).1);
    let error = save_models(&recording).unwrap_err();
    assert!(matches!(error, ProgramError::Rebuilt { .. }), "{error}");
    assert!(error.to_string().contains("record again"));

    write_object(&object, &binary::encode(&module()).1);
    assert_eq!(save_models(&recording).unwrap(), 1);
    std::fs::remove_file(&object).unwrap();
    let program = Program::load(&recording).unwrap();
    assert_eq!(program.model(0), Some(&module()));
    let kept: Vec<_> = std::fs::read_dir(out.join("models")).unwrap().collect();
    assert_eq!(kept.len(), 1, "no drafts are left");
}

#[test]
fn names_are_for_people() {
    assert_eq!(readable_name("_ZN4CCEH6InsertERmm"), "CCEH::Insert");
    assert_eq!(readable_name("clht_put"), "clht_put");
    assert_eq!(readable_name("_Znonsense"), "_Znonsense");
}

/// An ELF object with one section, by hand.
fn write_object(path: &Path, section: &[u8]) {
    let names = b"\0.crashpoint.model\0.shstrtab\0";
    let header = |name: u32, kind: u32, offset: usize, size: usize| {
        let mut header = [name.to_le_bytes(), kind.to_le_bytes()].concat();
        header.extend([0; 16]);
        header.extend((offset as u64).to_le_bytes());
        header.extend((size as u64).to_le_bytes());
        header.extend([0; 24]);
        header
    };
    let names_at = 64 + section.len();
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\x3e\0\x01\0\0\0".to_vec();
    file.extend([0; 16]);
    file.extend(((names_at + names.len()) as u64).to_le_bytes());
    file.extend([0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 64, 0, 3, 0, 2, 0]);
    file.extend(section);
    file.extend(names);
    file.extend(header(0, 0, 0, 0));
    file.extend(header(1, 1, 64, section.len()));
    file.extend(header(19, 3, names_at, names.len()));
    std::fs::write(path, file).unwrap();
}
