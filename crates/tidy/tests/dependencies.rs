//! Every dependency comes from the registry, under a licence that ours can live with.

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

fn packages() -> Vec<Value> {
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
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    metadata["packages"].as_array().expect("packages").clone()
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
fn llvm_is_linked_in_one_crate() {
    for package in packages() {
        let uses = package["dependencies"]
            .as_array()
            .expect("dependencies")
            .iter()
            .any(|d| matches!(d["name"].as_str(), Some("inkwell" | "llvm-sys")));
        if package["source"].is_null() && uses {
            assert_eq!(package["name"], "crashpoint-instrument");
        }
    }
}
