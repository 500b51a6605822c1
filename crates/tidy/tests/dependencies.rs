//! Every dependency comes from the registry, under a licence that ours can live with; our own crates
//! depend on each other as the table of layers says.

use crashpoint_tidy::crates::{
    COMING, LAYERS, LINKED_ONCE, faults_of_the_table, forbidden_edges, forbidden_links,
    workspace_packages,
};
use serde_json::Value;
use std::process::Command;

/// Licences that `MIT OR Apache-2.0` software may be shipped with.
const ACCEPTED: [&str; 15] = [
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT-0",
    "MPL-2.0",
    "MPL-2.0+",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
    "0BSD",
];

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--manifest-path",
        ])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .expect("cargo metadata runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("cargo prints JSON")
}

fn packages() -> Vec<Value> {
    metadata()["packages"].as_array().expect("packages").clone()
}

fn assert_none(problems: Vec<String>) {
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

/// An SPDX expression is accepted if one side of each OR, and both of each AND, are.
fn accepted(expression: &str) -> bool {
    let plain = expression.replace(['(', ')'], "").replace('/', " OR ");
    plain
        .split(" AND ")
        .all(|part| part.split(" OR ").any(|one| ACCEPTED.contains(&one.trim())))
}

#[test]
fn every_licence_is_accepted() {
    let refused: Vec<String> = packages()
        .iter()
        .filter(|package| !accepted(package["license"].as_str().unwrap_or("none")))
        .map(|package| format!("{}: {}", package["name"], package["license"]))
        .collect();
    assert!(
        refused.is_empty(),
        "licences to look at:\n{}",
        refused.join("\n")
    );
}

#[test]
fn every_dependency_comes_from_the_registry() {
    for package in packages() {
        let source = package["source"].as_str();
        let ours = source.is_none();
        let registry = source.is_some_and(|source| source.starts_with("registry+"));
        assert!(
            ours || registry,
            "{} comes from {source:?}",
            package["name"]
        );
    }
}

#[test]
fn our_crates_depend_on_each_other_as_the_table_says() {
    let packages = workspace_packages(&metadata());
    let mut problems = forbidden_edges(&packages, LAYERS);
    problems.extend(faults_of_the_table(&packages, LAYERS, COMING));
    assert_none(problems);
}

#[test]
fn llvm_and_z3_are_linked_in_one_crate_each() {
    assert_none(forbidden_links(
        &workspace_packages(&metadata()),
        LINKED_ONCE,
    ));
}
