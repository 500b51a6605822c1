//! Scripts that find, scripts that fail, and the shipped ones against the built-in rules.

use super::*;
use crate::testing::{BASE, Tape, begun, brief};
use crate::{Config, LintOutcome, Linter, RULES, RuleFinding, Severity};
use proptest::prelude::*;

const DOUBLE_LOG: &str = include_str!("../../../../rules/double_log.rhai");
const UNLOGGED_UPDATE: &str = include_str!("../../../../rules/unlogged_update.rhai");

fn config(only: &[&str]) -> Config {
    let mut config = Config::default();
    for rule in RULES {
        let enabled = only.contains(&rule.id);
        config
            .rules
            .set_enabled(rule.id, enabled)
            .expect("a known rule");
    }
    config
}

fn run(tape: &Tape, file: &str, source: &str) -> LintOutcome {
    let mut linter = Linter::new(config(&[]), tape);
    linter.add_script(Script::compile(file, source).expect("a correct script"));
    tape.play(&mut linter);
    linter.conclude()
}

fn printed(tape: &Tape, source: &str) -> Vec<String> {
    let outcome = run(tape, "test.rhai", source);
    assert_eq!(outcome.failures, []);
    outcome.printed.into_iter().map(|(_, line)| line).collect()
}

#[test]
fn handlers_see_the_fields_of_events() {
    let mut tape = Tape::default();
    tape.map()
        .store(1, 8..16)
        .flush(2, 12)
        .fence(3)
        .thread(1)
        .fence(3);
    tape.call(4, "work", &[7, 8])
        .within(9, 4)
        .store(5, 0..3)
        .context(0)
        .returns(4, 42);
    let source = r#"
        fn on_store(e) { print(`store ${e.kind} ${e.tid} ${e.address - 0x100000} ${e.length} ${e.value}`); }
        fn on_flush(e) { print(`flush ${e.kind} ${e.address - 0x100000} ${e.length} ${e.found}`); }
        fn on_fence(e) { print(`fence ${e.kind} ${e.order} ${e.found}`); }
        fn on_call(e) { print(`call ${e.name} ${e.arguments} ${e.argument(1)} ${e.argument(5)}`); }
        fn on_return(e) { print(`return ${e.name} ${e.value} ${e.stack}`); }
        fn on_end() { print("end"); }
    "#;
    let expected = [
        "store plain 0 8 8 72340172838076673",
        "flush clwb 0 64 dirty",
        "fence sfence 4 flushes",
        "fence sfence 5 nothing",
        "call work [7, 8] 8 0",
        "store plain 1 0 3 65793",
        "return work 42 []",
        "end",
    ];
    assert_eq!(printed(&tape, source), expected);
}

#[test]
fn a_script_knows_the_functions_on_the_stack() {
    let mut tape = Tape::default();
    tape.calls(4, "outer", &[], 0)
        .within(9, 4)
        .calls(5, "inner", &[], 0)
        .within(10, 5);
    tape.store(6, 0..8);
    let source = r#"fn on_store(e) { print(`${e.stack} ${e.inside("out")} ${e.inside("x")}`); }"#;
    assert_eq!(printed(&tape, source), [r#"["inner", "outer"] true false"#]);
}

#[test]
fn a_script_sees_the_state_of_memory_after_the_event() {
    let mut tape = Tape::default();
    tape.map()
        .store(1, 0..8)
        .flush(2, 0)
        .store(1, 4..12)
        .fence(3);
    let source = r#"
        fn show() { let s = state(0x100000, 16); print(`${s.clean} ${s.dirty} ${s.flushing} ${s.durable}`); }
        fn on_store(e) { show(); }
        fn on_flush(e) { show(); }
        fn on_fence(e) { show(); print(is_persistent(0x100000)); print(is_persistent(0)); }
    "#;
    let expected = ["8 8 0 0", "8 0 8 0", "4 8 4 0", "4 8 0 4", "true", "false"];
    assert_eq!(printed(&tape, source), expected);
}

#[test]
fn tables_and_ranges_last_and_are_shared() {
    let mut tape = Tape::default();
    tape.map()
        .store(1, 0..8)
        .store(1, 16..24)
        .thread(1)
        .store(1, 0..4);
    let source = r#"
        fn on_store(e) {
            let t = per_thread(e);
            if t.set == () { t.set = ranges(); t.count = 0; }
            t.count += 1;
            let set = t.set;
            set.add(e.address - 0x100000, e.length);
            let all = per_rule();
            all["total"] = (all.total ?? 0) + 1;
            print(`${e.tid} ${t.count} ${per_rule().total} ${t.set.parts()} ${t.set.gaps(0, 20)}`);
            print(`${t.set.covers(0, 4)} ${t.set.overlaps(7, 1)} ${overlaps(0, 4, 3, 1)}`);
        }
    "#;
    let expected = [
        "0 1 1 [[0, 8]] [[8, 12]]",
        "true true true",
        "0 2 2 [[0, 8], [16, 8]] [[8, 8]]",
        "true true true",
        "1 1 3 [[0, 4]] [[4, 16]]",
        "true false true",
    ];
    assert_eq!(printed(&tape, source), expected);
}

#[test]
fn findings_are_merged_by_place_and_call_path() {
    let mut tape = Tape::default();
    tape.map()
        .context(1)
        .store(1, 64..72)
        .store(1, 0..8)
        .thread(1)
        .store(1, 0..8);
    tape.context(2).store(1, 0..8);
    let source = r#"
        fn on_store(e) {
            finding(#{ event: e, message: `at ${e.order}`, help: "h", severity: "error",
                       history: [[e, "stores"]] });
        }
    "#;
    let findings = run(&tape, "dir/my_rule.rhai", source).findings;
    assert_eq!(
        brief(&findings),
        [("my_rule".to_owned(), 1, 3), ("my_rule".to_owned(), 1, 1)]
    );
    let RuleFinding {
        severity,
        total,
        first_order,
        place,
        length,
        message,
        help,
        history,
        ..
    } = &findings[0];
    assert_eq!((*severity, *total, *first_order), (Severity::Error, 3, 2));
    assert_eq!(
        (place.0, *length, message.as_str(), help.as_str()),
        (64, 8, "at 2", "h")
    );
    assert_eq!((history.len(), history[0].what.as_str()), (1, "stores"));
}

fn compile_error(source: &str) -> String {
    match Script::compile("bad.rhai", source) {
        Ok(_) => "it compiles".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn errors_name_the_line_and_show_it() {
    let error = compile_error("fn on_store(e) {\n  let x = = 1;\n}");
    assert!(error.starts_with("bad.rhai:2:11: "), "{error}");
    assert!(error.ends_with("\n    let x = = 1;"), "{error}");
    let error = compile_error("fn on_stores(e) {}");
    assert!(error.contains("`on_stores` is no handler"), "{error}");
    let error = compile_error("fn on_end(e) {}");
    assert!(error.contains("must take 0 parameters"), "{error}");
    let error = compile_error("fn helper() {}");
    assert!(error.contains("no handler"), "{error}");
    let error = compile_error(r#"fn on_end() { eval("1") }"#);
    assert!(error.contains("eval"), "{error}");
}

#[test]
fn a_script_that_fails_is_stopped_and_its_findings_stand() {
    let mut tape = Tape::default();
    tape.map().store(1, 0..8).store(2, 8..16).store(3, 16..24);
    let source = "
        fn check(e) {
            if e.length == 8 && e.address > 0x100000 { return no_such_function(e); }
            finding(#{ event: e, message: `m` });
        }
        fn on_store(e) { check(e); }
    ";
    let outcome = run(&tape, "fails.rhai", source);
    assert_eq!(brief(&outcome.findings), [("fails".to_owned(), 1, 1)]);
    let [failure] = &outcome.failures[..] else {
        panic!("one failure, not {:?}", outcome.failures);
    };
    assert_eq!(failure.line, Some(3));
    assert!(
        failure.to_string().contains("no_such_function"),
        "{failure}"
    );
}

#[test]
fn no_script_can_hang_or_hoard() {
    let mut tape = Tape::default();
    tape.store(1, 0..8);
    let greedy = [
        "fn on_store(e) { loop { } }",
        "fn f(n) { f(n + 1) } fn on_store(e) { f(0); }",
        r#"fn on_store(e) { let s = "x"; loop { s += s; } }"#,
        "fn on_store(e) { let a = []; loop { a.push(1); } }",
        "fn on_store(e) { let s = ranges(); let i = 0; loop { s.add(i, 1); i += 2; } }",
        "fn on_end() { loop { } }",
    ];
    for source in greedy {
        let outcome = run(&tape, "greedy.rhai", source);
        assert_eq!(outcome.failures.len(), 1, "{source}");
    }
}

#[test]
fn a_finding_must_be_complete() {
    let mut tape = Tape::default();
    tape.store(1, 0..8);
    let wrong = [
        ("#{ message: `m` }", "`event` is missing"),
        ("#{ event: e }", "`message` is missing"),
        ("#{ event: e, message: 1 }", "must be text"),
        (
            "#{ event: e, message: `m`, severity: `bad` }",
            "no severity",
        ),
        ("#{ event: e, message: `m`, place: 1 }", "no `place`"),
        (
            "#{ event: e, message: `m`, history: [e] }",
            "array of arrays",
        ),
    ];
    for (report, expected) in wrong {
        let source = format!("fn on_store(e) {{ finding({report}); }}");
        let failure = run(&tape, "test.rhai", &source).failures.remove(0);
        assert!(failure.message.contains(expected), "{failure}");
    }
}

#[test]
fn the_shipped_scripts_are_short() {
    assert!(DOUBLE_LOG.lines().count() <= 100);
    assert!(UNLOGGED_UPDATE.lines().count() <= 100);
}

/// What a transactional program may do next.
#[derive(Clone, Debug)]
enum Act {
    Begin,
    Over(&'static str),
    Abort,
    End,
    Log(u64, u64),
    LogObject(u64, u64),
    Alloc(u64, bool),
    Realloc(u64),
    Duplicate,
    Free(u64),
    Store(u64, u64),
    StoreInLibrary(u64),
    Thread(u32),
}

fn act() -> impl Strategy<Value = Act> {
    let at = || (1..12u64).prop_map(|slot| slot * 8);
    let length = || (0..4u64).prop_map(|words| words * 8);
    prop_oneof![
        2 => Just(Act::Begin),
        2 => prop_oneof![Just("pmemobj_tx_commit"), Just("pmemobj_tx_process")].prop_map(Act::Over),
        1 => Just(Act::Abort),
        2 => Just(Act::End),
        4 => (at(), length()).prop_map(|(at, length)| Act::Log(at, length)),
        2 => (at(), length()).prop_map(|(at, length)| Act::LogObject(at, length)),
        2 => (at(), any::<bool>()).prop_map(|(at, known)| Act::Alloc(at, known)),
        1 => at().prop_map(Act::Realloc),
        1 => Just(Act::Duplicate),
        1 => at().prop_map(Act::Free),
        8 => (at(), length()).prop_map(|(at, length)| Act::Store(at, length)),
        1 => at().prop_map(Act::StoreInLibrary),
        1 => (0..2u32).prop_map(Act::Thread),
    ]
}

fn tape(acts: &[Act]) -> Tape {
    let mut tape = Tape::default();
    tape.map();
    for (site, act) in (100..).zip(acts) {
        match *act {
            Act::Begin => tape.calls(site, "pmemobj_tx_begin", &[BASE], 0),
            Act::Over(name) => tape.calls(site, name, &[], 0),
            Act::Abort => tape.call(site, "pmemobj_tx_abort", &[1]),
            Act::End => tape.calls(site, "pmemobj_tx_end", &[], 0),
            Act::Log(at, length) => tape.log(site, at..at + length),
            Act::LogObject(at, length) => {
                tape.calls(site, "pmemobj_tx_add_range", &[9, at - 8, 8, length], 0)
            }
            Act::Alloc(at, known) => {
                let value = if known { at } else { u64::MAX / 3 };
                tape.calls(site, "pmemobj_tx_zalloc", &[16, 1], value)
            }
            Act::Realloc(at) => tape.calls(site, "pmemobj_tx_realloc", &[9, 8, 24, 1], at),
            Act::Duplicate => tape.calls(site, "pmemobj_tx_strdup", &[1, 1], 0),
            Act::Free(at) => tape.calls(site, "pmemobj_tx_free", &[9, at], 0),
            Act::Store(at, length) => tape.store(site, at..at + length),
            Act::StoreInLibrary(at) => {
                tape.call(site, "pmemobj_memcpy", &[]).within(site, site);
                tape.store(site + 10_000, at..at + 8)
                    .context(0)
                    .returns(site, 0)
            }
            Act::Thread(thread) => tape.thread(thread),
        };
    }
    tape
}

/// Sites and counts, whatever the rule is called.
fn verdicts(findings: &[RuleFinding]) -> Vec<(u32, u64)> {
    let verdicts = findings.iter().map(|found| (found.site.0, found.count));
    verdicts.collect()
}

proptest! {
    // Each case compiles two scripts.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_shipped_scripts_judge_like_the_built_in_rules(
        acts in prop::collection::vec(act(), 0..40),
    ) {
        let tape = tape(&acts);
        let shipped = [("double-log", DOUBLE_LOG), ("unlogged-update", UNLOGGED_UPDATE)];
        for (rule, source) in shipped {
            let script = run(&tape, "shipped.rhai", source);
            prop_assert_eq!(&script.failures, &[]);
            let built_in = tape.findings_with(config(&[rule]));
            prop_assert_eq!(verdicts(&script.findings), verdicts(&built_in), "{}", rule);
        }
    }
}

#[test]
fn the_shipped_scripts_find_what_they_are_for() {
    let mut tape = begun();
    tape.log(10, 0..64)
        .log(11, 8..16)
        .store(12, 0..8)
        .store(13, 64..72)
        .commit();
    let double = run(&tape, "double_log.rhai", DOUBLE_LOG).findings;
    assert_eq!(brief(&double), [("double_log".to_owned(), 11, 1)]);
    let unlogged = run(&tape, "unlogged_update.rhai", UNLOGGED_UPDATE).findings;
    assert_eq!(brief(&unlogged), [("unlogged_update".to_owned(), 13, 1)]);
}
