//! `crashpoint explain`: manuals, the list of rules, and names that do not exist.

use crashpoint_harness::LINT_RULES;

use crate::support::Stage;

#[test]
fn a_rule_of_test_is_explained() {
    let stage = Stage::new();
    stage
        .run(&["explain", "ordering"])
        .ended(0)
        .prints("# ordering: a store can be durable before one that it needs")
        .prints("Under which model it is a bug")
        .prints("--write-baseline");
}

#[test]
fn a_rule_of_lint_is_explained_as_lint_explains_it() {
    let stage = Stage::new();
    let explained = stage.run(&["explain", "missing-flush"]).ended(0);
    let by_lint = stage.run(&["lint", "--explain", "missing-flush"]).ended(0);
    assert!(explained.out.starts_with("# missing-flush: "));
    assert_eq!(explained.out, by_lint.out);
}

#[test]
fn an_id_of_lint_and_test_is_explained_for_both() {
    let stage = Stage::new();
    stage
        .run(&["explain", "unpersisted"])
        .ended(0)
        .prints("[rules.unpersisted]")
        .prints("crashpoint test --remarks");
}

#[test]
fn all_rules_are_listed() {
    let stage = Stage::new();
    let listed = stage.run(&["explain"]).ended(0);
    let of_tests = [
        "ordering",
        "atomicity",
        "durability",
        "recovery",
        "extra-sync",
    ];
    for id in LINT_RULES.into_iter().chain(of_tests) {
        let line = format!("  {id} ");
        assert!(listed.out.contains(&line), "{id}: {}", listed.out);
        stage.run(&["explain", id]).ended(0).prints(id);
    }
}

#[test]
fn a_wrong_id_names_the_nearest() {
    let stage = Stage::new();
    stage
        .run(&["explain", "odering"])
        .ended(1)
        .says("there is no rule `odering`; did you mean `ordering`?")
        .says("`crashpoint explain` lists the rules");
    stage
        .run(&["explain", "nonsense"])
        .ended(1)
        .says("the rules are missing-flush, ");
}
