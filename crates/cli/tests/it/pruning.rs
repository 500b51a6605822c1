//! States that differ only in what was not read are left out: with and without that, the same is
//! found.

use std::path::Path;
use std::process::Command;

use crate::support::{Stage, essence, succeed, tool};

/// `bug` selects the variant in which something must be found, with the operations that the corpus
/// has for crashes.
fn compare(source: &str, bug: &str) {
    let stores = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/stores");
    let source = stores.join(source);
    let settings = source.with_extension("toml");
    let compiler = match source.extension().is_some_and(|name| name == "cpp") {
        true => "crashpoint-c++",
        false => "crashpoint-cc",
    };
    for variant in ["", bug] {
        let stage = Stage::new();
        let mut command = Command::new(tool(compiler));
        command.args(["-O1", "-g"]).args(variant.split_whitespace());
        command.arg(&source).arg("-o").arg(stage.path("store"));
        succeed(&mut command);
        let found = |folder: &str, options: &[&str]| {
            let mut command = stage.crashpoint(&["test"]);
            command.args(["--time", "120s", "--out", folder, "--config"]);
            command.arg(&settings);
            command
                .args(options)
                .args(["--", "./store", "{pool}", "{ops}"]);
            let run = crate::support::run(&mut command);
            // Their settings limit the states of a crash point.
            assert!(matches!(run.code, Some(2 | 3)), "{run:#?}");
            let report = stage.json(&format!("{folder}/findings.json"));
            (essence(&report), report["test"].clone())
        };
        let (pruned, with) = found("pruned", &[]);
        let (whole, without) = found("whole", &["--no-prune"]);
        assert_eq!(pruned, whole, "{variant}: {with:#} {without:#}");
        assert_eq!(without["pruned_states"], 0);
        assert!(
            with["tried_states"].as_u64() <= without["tried_states"].as_u64(),
            "{variant}: {with:#} {without:#}"
        );
        assert_eq!(
            pruned.is_empty(),
            variant.is_empty(),
            "{variant}: {pruned:#?}"
        );
    }
}

#[test]
fn pruning_changes_nothing_for_the_two_level_hash() {
    compare("two_level_hash.c", "-DBUG_UPDATE_TWO_TOKENS");
}

#[test]
fn pruning_changes_nothing_for_the_b_tree() {
    compare("bptree.cpp", "-DBUG_SHIFT_ONE_FENCE");
}

#[test]
fn pruning_changes_nothing_for_the_undo_tree() {
    compare("undo_tree.c", "-DBUG_UNLINK_UNLOGGED");
}
