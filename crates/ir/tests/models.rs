//! Generated models survive encoding, can be shown and analysed, and damage to them is an error.

mod common;

use common::module;
use crashpoint_ir::binary::{self, ModelErrorKind};
use crashpoint_ir::calls::{CallGraph, FunctionRef};
use crashpoint_ir::cfg::Cfg;
use crashpoint_ir::control::ControlDependence;
use crashpoint_ir::dominance::{Dominators, PostDominators};
use crashpoint_ir::{
    BlockId, Constant, FunctionId, InstId, LocationId, Module, Op, Operand, SiteId, Type, TypeId,
    ValueId, text,
};
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_model_survives_encoding(seed: u64) {
        let module = module(seed);
        prop_assert_eq!(module.validate(), Ok(()));
        let (id, blob) = binary::encode(&module);
        prop_assert_eq!(binary::encode(&module), (id, blob.clone()));
        prop_assert_eq!(binary::decode(&blob), Ok((id, module)));
    }

    #[test]
    fn every_model_can_be_shown_and_analysed(seed: u64) {
        let module = module(seed);
        let shown = text::module(&module).to_string();
        for (index, function) in module.functions.iter().enumerate() {
            let alone = text::function(&module, FunctionId(index as u32)).to_string();
            prop_assert!(shown.contains(&alone));
            let cfg = Cfg::new(function);
            Dominators::new(&cfg);
            ControlDependence::new(&cfg, &PostDominators::new(&cfg));
            let lines = alone.lines().count() - 1 - function.blocks.len();
            prop_assert_eq!(lines, function.instructions().count());
            for (id, block, inst) in function.instructions() {
                prop_assert_eq!(function.instruction(id), Some((block, inst)));
            }
            prop_assert_eq!(function.instruction(InstId(lines as u32)), None);
        }
        let other = common::module(seed.wrapping_add(1));
        let graph = CallGraph::new(&[&module, &other]);
        for index in 0..module.functions.len() {
            let function = FunctionRef { module: 0, function: FunctionId(index as u32) };
            for call in graph.calls(function) {
                for target in &call.targets {
                    prop_assert!(graph.callers(*target).contains(&(function, call.inst)));
                }
            }
        }
    }

    #[test]
    fn damaged_blobs_are_errors_or_the_same(seed: u64, at: prop::sample::Index, flip in 1..=255u8) {
        let (id, mut blob) = binary::encode(&module(seed));
        let at = at.index(blob.len());
        blob[at] ^= flip;
        // A deflated stream has bits that mean nothing, and several forms of one content.
        if let Ok(read) = binary::decode(&blob) {
            prop_assert_eq!(read, (id, module(seed)));
        }
    }

    #[test]
    fn cut_blobs_are_truncated(seed: u64, at: prop::sample::Index) {
        let (_, blob) = binary::encode(&module(seed));
        let error = binary::decode(&blob[..at.index(blob.len())]).unwrap_err();
        prop_assert!(matches!(error.kind, ModelErrorKind::Truncated { .. }), "{}", error);
    }

    #[test]
    fn foreign_bytes_are_errors(bytes: Vec<u8>) {
        let valid = bytes.iter().all(|byte| *byte == 0);
        let failed = binary::split(&bytes).any(|blob| blob.is_err());
        prop_assert_eq!(failed, !valid);
        prop_assert!(binary::decode(&bytes).is_err());
    }
}

#[test]
fn a_section_is_split_into_its_blobs() {
    let blobs: Vec<_> = (0..3).map(|seed| binary::encode(&module(seed))).collect();
    let mut section = Vec::new();
    for (_, blob) in &blobs {
        section.extend(blob);
        section.resize(section.len().next_multiple_of(16), 0);
    }
    let found: Vec<_> = binary::split(&section).map(Result::unwrap).collect();
    assert!(
        found
            .iter()
            .map(|blob| blob.id)
            .eq(blobs.iter().map(|(id, _)| *id))
    );
    section.extend(b"rest");
    let last = binary::split(&section).last().unwrap().unwrap_err();
    assert_eq!(
        (last.kind, last.offset),
        (ModelErrorKind::Foreign, section.len() - 4)
    );
    let twice = binary::decode(&section[..section.len() - 4]).unwrap_err();
    assert!(matches!(twice.kind, ModelErrorKind::Trailing(_)));
}

#[test]
fn lengths_that_lie_are_refused_before_memory_is_taken() {
    let (_, mut blob) = binary::encode(&module(1));
    blob[28..32].copy_from_slice(&u32::MAX.to_le_bytes());
    let error = binary::decode(&blob).unwrap_err();
    assert!(
        matches!(error.kind, ModelErrorKind::TooLarge { .. }),
        "{error}"
    );
}

#[test]
fn constants_nest_only_so_deep() {
    let nested = |depth: u32| {
        let mut constant = Constant::Null;
        for _ in 0..depth {
            constant = Constant::Aggregate {
                ty: TypeId(0),
                elements: vec![constant],
            };
        }
        let mut module = module(3);
        let inst = &mut module.functions[0].blocks[0].instructions;
        let last = inst.last_mut().unwrap();
        last.op = Op::Return {
            value: Some(Operand::Constant(constant)),
        };
        binary::decode(&binary::encode(&module).1)
    };
    assert!(nested(crashpoint_ir::MAX_CONSTANT_DEPTH).is_ok());
    let error = nested(crashpoint_ir::MAX_CONSTANT_DEPTH + 1).unwrap_err();
    assert!(matches!(error.kind, ModelErrorKind::Decode(_)), "{error}");
    assert!(nested(1).is_ok(), "the depth is reset after an error");
}

type Change = fn(&mut Module);

/// Each change makes one id wrong; all of them are noticed.
#[test]
fn ids_out_of_range_are_noticed() {
    let seed = (0..).find(|seed| rich(&module(*seed))).unwrap();
    let changes: [(&str, Change); 10] = [
        ("type", |module| module.functions[0].result = TypeId(99)),
        ("location", |module| {
            module.functions[0].location = Some(LocationId(99))
        }),
        ("value", |module| {
            module.functions[0].blocks[0].instructions[0].result = Some(ValueId(77))
        }),
        ("block", |module| {
            last_op(module, Op::Branch { to: BlockId(99) })
        }),
        ("operand", |module| {
            let value = Some(Operand::Value(ValueId(99)));
            last_op(module, Op::Return { value });
        }),
        ("function", |module| {
            let function = Operand::Constant(Constant::Function(FunctionId(99)));
            last_op(module, Op::Resume { value: function });
        }),
        ("site", |module| module.functions[0].site = Some(SiteId(99))),
        ("another place", |module| {
            module.sites[0].function = FunctionId(1)
        }),
        ("terminator", |module| {
            last_op(
                module,
                Op::PersistFence {
                    name: String::new(),
                },
            )
        }),
        ("file", |module| module.files.clear()),
    ];
    for (what, change) in changes {
        let mut module = module(seed);
        change(&mut module);
        assert!(module.validate().is_err(), "{what}");
        let error = binary::decode(&binary::encode(&module).1).unwrap_err();
        assert!(
            matches!(error.kind, ModelErrorKind::Invalid(_)),
            "{what}: {error}"
        );
    }
}

fn rich(module: &Module) -> bool {
    let first = &module.functions[0];
    module.functions.len() > 1 && first.site.is_some() && first.blocks[0].instructions.len() > 1
}

fn last_op(module: &mut Module, op: Op) {
    let block = &mut module.functions[0].blocks[0];
    block.instructions.last_mut().unwrap().op = op;
}

#[test]
fn types_that_hold_themselves_are_noticed() {
    let mut module = module(5);
    let element = TypeId(module.types.len() as u32);
    module.types.push(Type::Array { element, count: 2 });
    let error = module.validate().unwrap_err();
    assert_eq!(error.problem, "contains itself");
}
