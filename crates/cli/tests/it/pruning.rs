//! States that differ only in what was not read are left out: with and without that, the same is
//! found.

use std::path::Path;
use std::process::Command;

use crate::support::{Stage, essence, succeed, tool};

/// `bug` is what must be found in the variant with it. Few operations, since without pruning every
/// state is tried.
fn compare(source: &str, bug: &str, operations: &str) {
    let stores = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/stores");
    let source = stores.join(source);
    let settings = source.with_extension("toml");
    let compiler = match source.extension().is_some_and(|name| name == "cpp") {
        true => "crashpoint-c++",
        false => "crashpoint-cc",
    };
    for variant in ["", bug] {
        let stage = Stage::new();
        stage.write("list", operations);
        let mut command = Command::new(tool(compiler));
        command.args(["-O1", "-g"]).args(variant.split_whitespace());
        command.arg(&source).arg("-o").arg(stage.path("store"));
        succeed(&mut command);
        let found = |folder: &str, options: &[&str]| {
            let mut command = stage.crashpoint(&["test", "--ops-file", "list"]);
            command.args(["--out", folder, "--config"]).arg(&settings);
            command
                .args(options)
                .args(["--", "./store", "{pool}", "{ops}"]);
            let run = crate::support::run(&mut command);
            assert!(matches!(run.code, Some(0 | 2)), "{run:#?}");
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
    let operations = "insert 1 11\ninsert 2 12\nupdate 1 13\ninsert 3 14\nupdate 2 15\ndelete 1\n";
    compare("two_level_hash.c", "-DBUG_UPDATE_TWO_TOKENS", operations);
}

#[test]
fn pruning_changes_nothing_for_the_b_tree() {
    // Downwards, so that every insertion shifts the others.
    let lines = (1..=9)
        .rev()
        .map(|key| format!("insert {key} {}\n", key + 40));
    let operations: String = lines.collect();
    compare("bptree.cpp", "-DBUG_SHIFT_ONE_FENCE", &operations);
}

#[test]
fn pruning_changes_nothing_for_the_undo_tree() {
    let lines = [4, 2, 6, 1, 3, 5, 7].map(|key| format!("insert {key} {}\n", key + 40));
    let operations = lines.concat() + "delete 1\ndelete 2\ndelete 4\n";
    compare("undo_tree.c", "-DBUG_UNLINK_UNLOGGED", &operations);
}
