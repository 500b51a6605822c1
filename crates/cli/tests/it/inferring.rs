//! Conditions: inferred, printed, given, suppressed, and the states that violate them.

use crate::support::{Stage, line_of};

#[test]
fn conditions_are_printed_with_the_lines_that_hint_at_them() {
    let stage = Stage::with_log(&[]);
    stage.write("list", "put 5 6\nput 7 8\nget 5\n");
    stage
        .run(&["test", "--ops-file", "list", "--strategy", "conditions"])
        .ended(2)
        .prints("1 finding in ");
    stage
        .run(&["infer", "crashpoint.out"])
        .ended(0)
        .prints("PO3")
        .prints("log.c:")
        .says("conditions and");
}

#[test]
fn a_recording_without_flow_says_how_to_make_one() {
    let stage = Stage::with_log(&[]);
    stage.write("list", "put 5 6\n");
    let arguments = ["test", "--ops-file", "list", "--strategy", "bounded"];
    stage.run(&arguments).ended(2);
    stage
        .run(&["infer", "crashpoint.out"])
        .ended(1)
        .says("--level flow");
}

#[test]
fn statistics_tell_what_was_inferred_and_draw_it() {
    let stage = Stage::with_log(&[]);
    stage
        .run(&["test", "--stats", "--strategy", "conditions"])
        .ended(2)
        .prints("conditions: PO1 ")
        .prints("violations of ");
    let report = stage.json("crashpoint.out/findings.json");
    let conditions = &report["test"]["conditions"];
    assert!(conditions["kinds"].as_u64().unwrap() > 0, "{conditions}");
    assert!(conditions["states"]["in order"].as_u64().unwrap() > 0);
    assert!(report["test"]["clusters"].as_u64().unwrap() > 0);
    let picture = std::fs::read_to_string(stage.path("crashpoint.out/states.svg")).unwrap();
    assert!(picture.contains("<polyline"));
}

#[test]
fn conditions_can_be_given_and_suppressed() {
    let stage = Stage::with_log(&[]);
    let ahead = line_of("// ahead");
    let by_conditions = ["test", "--strategy", "conditions"];
    let everything = "conditions.suppress=['PO1', 'PO2', 'PO3', 'PO4', 'PA1']";
    let needed = line_of("// needed");
    let given = format!("conditions.add=['log.c:{needed} before log.c:{ahead}']");
    stage
        .run(&[&by_conditions[..], &["--set", everything, "--set", &given]].concat())
        .ended(2);
    let report = stage.json("crashpoint.out/findings.json");
    let violations = &report["test"]["conditions"]["violations"];
    assert!(violations.get("PO3").is_none(), "{violations}");
    let wrong = "conditions.add=['log.c before it']";
    stage
        .run(&["test", "--set", wrong])
        .ended(1)
        .says("is not a condition");
}
