//! Conformance is judged by others: the schema of the standard and the types of `serde-sarif`.

use super::*;
use crate::examples;
use std::path::Path;
use std::process::Command;

fn rendered(report: &Report) -> Value {
    serde_json::from_str(&render(report, Some("/src"))).unwrap()
}

/// The standard's JSON Schema lies in the sources of `serde-sarif`, wherever cargo keeps them.
fn schema() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let package = packages
        .iter()
        .find(|package| package["name"] == "serde-sarif")
        .unwrap();
    let manifest = Path::new(package["manifest_path"].as_str().unwrap());
    let schema = manifest.with_file_name("src").join("schema.json");
    let mut schema: Value = serde_json::from_slice(&std::fs::read(schema).unwrap()).unwrap();
    // These patterns have a stray bracket, which not every validator forgives; we write neither.
    for owner in ["run", "toolComponent"] {
        let language = &mut schema["definitions"][owner]["properties"]["language"];
        language.as_object_mut().unwrap().remove("pattern");
    }
    schema
}

fn reports() -> [Report; 3] {
    let mut bare = examples::report();
    bare.rules.clear();
    for finding in &mut bare.findings {
        finding.location = None;
        finding.place = None;
        finding.help.clear();
        finding.stack[0].location = None;
        finding.history[0].location = None;
        finding.history[0].thread = None;
    }
    [examples::report(), Report::default(), bare]
}

#[test]
fn logs_fit_the_standards_schema() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    for report in reports() {
        let log = rendered(&report);
        let problems: Vec<String> = validator
            .iter_errors(&log)
            .map(|error| error.to_string())
            .collect();
        assert_eq!(problems, [""; 0]);
    }
}

#[test]
fn logs_survive_another_implementations_types() {
    for report in reports() {
        let log = rendered(&report);
        let typed: serde_sarif::sarif::Sarif = serde_json::from_value(log.clone()).unwrap();
        assert_eq!(serde_json::to_value(&typed).unwrap(), log);
    }
}

#[test]
fn results_carry_places_stacks_and_flows() {
    let log = rendered(&examples::report());
    let result = &log["runs"][0]["results"][1];
    assert_eq!(result["ruleId"], "extra-flush");
    assert_eq!(result["ruleIndex"], 0);
    assert_eq!(result["level"], "warning");
    assert_eq!(result["occurrenceCount"], 2);
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(
        place["artifactLocation"],
        json!({"uri": "store.c", "uriBaseId": "SRCROOT"})
    );
    assert_eq!(place["region"], json!({"startLine": 7, "startColumn": 5}));
    assert_eq!(result["stacks"][0]["frames"].as_array().unwrap().len(), 4);
    assert_eq!(
        result["relatedLocations"][1]["message"]["text"],
        "the line was flushed here"
    );
    let flow = &result["codeFlows"][0]["threadFlows"][0];
    assert_eq!(flow["id"], "thread 0");
    assert_eq!(flow["locations"].as_array().unwrap().len(), 3);
}

#[test]
fn paths_become_uris() {
    assert_eq!(encode("/a b/ü.c"), "/a%20b/%C3%BC.c");
    let outside = Location {
        file: "/usr/include/pm.h".into(),
        ..examples::at("f", 1, 1)
    };
    let uri = &physical(&outside, Some("/src"))["artifactLocation"];
    assert_eq!(*uri, json!({"uri": "file:///usr/include/pm.h"}));
}
