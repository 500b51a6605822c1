//! Whatever claims to be a model is refused or holds together: it can be encoded again to the same
//! bytes, shown and analysed.
//!
//! The first bit of the input chooses: a section as it stands in a file, or the raw content, which
//! is then wrapped as a writer would, so that the fuzzer need not guess hashes.
#![no_main]

use crashpoint_fuzz::wrap_model;
use crashpoint_ir::calls::CallGraph;
use crashpoint_ir::cfg::Cfg;
use crashpoint_ir::control::ControlDependence;
use crashpoint_ir::dominance::{Dominators, PostDominators};
use crashpoint_ir::{Module, binary, elf, text};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&how, rest)) = input.split_first() else {
        return;
    };
    match how % 3 {
        0 => {
            for blob in binary::split(rest).flatten() {
                check(blob.decode().map(|(_, module)| module).ok());
            }
        }
        1 => check(
            binary::decode(&wrap_model(rest))
                .map(|(_, module)| module)
                .ok(),
        ),
        _ => drop(elf::models_in(rest)),
    }
});

fn check(module: Option<Module>) {
    let Some(module) = module else { return };
    let (id, blob) = binary::encode(&module);
    // Floating-point constants are bits, so that equality is exact.
    assert!(binary::decode(&blob) == Ok((id, module.clone())));
    assert!(!text::module(&module).to_string().is_empty());
    CallGraph::new(&[&module]);
    for function in &module.functions {
        let cfg = Cfg::new(function);
        Dominators::new(&cfg);
        ControlDependence::new(&cfg, &PostDominators::new(&cfg));
    }
}
