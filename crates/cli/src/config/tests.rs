//! What is read from a file, what wins over it, and what is refused.

use super::*;
use crate::options::values::RecordLevel;
use crashpoint_abi::Level;
use crashpoint_blockdev::FileSystem;
use crashpoint_campaign::settings::{
    AfterCrash, BudgetSettings, CheckLimits, JudgingSettings, Oracle, Recovery, Representatives,
    Strategy, StrategySettings, TestSettings, WorkloadSettings,
};
use crashpoint_check::process::output::Ignored;
use crashpoint_persist::memory::Model;

fn load_text(text: &str, set: &[&str], options: &RecordOptions) -> Result<Settings, ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(NAME);
    std::fs::write(&path, text).unwrap();
    let from = Configuration {
        config: Some(path),
        no_config: false,
        set: set.iter().map(|text| text.to_string()).collect(),
    };
    load(&from, &[], options, false)
}

fn error(text: &str, set: &[&str]) -> String {
    let error = load_text(text, set, &RecordOptions::default()).unwrap_err();
    error.to_string()
}

#[test]
fn options_win_over_settings_and_settings_over_the_file() {
    let text = "\
[record]
pm = ['/a/*']
level = 'flow'
calls = ['tx_*']
limit = '1M'
[rules]
custom = ['mine.rhai']
[rules.extra-flush]
share = 0.25
";
    let options = RecordOptions {
        level: Some(RecordLevel(Level::Value)),
        calls: vec!["op_*".into()],
        ..RecordOptions::default()
    };
    let set = [
        "rules.extra-flush.share=0.75",
        "rules.unpersisted.severity=note",
    ];
    let settings = load_text(text, &set, &options).unwrap();
    assert_eq!(settings.record.pm, ["/a/*"]);
    assert_eq!(settings.record.level, Some(Level::Value));
    assert_eq!(settings.record.calls, ["op_*", "tx_*"]);
    assert_eq!(settings.record.limit, Some(1 << 20));
    let rules = &settings.rules.rules;
    assert_eq!(rules.extra_flush.share, 0.75);
    assert_eq!(rules.unpersisted.severity, Some(rules::Severity::Note));
    let script = &rules.custom[0];
    assert!(
        script.is_absolute() && script.ends_with("mine.rhai"),
        "{script:?}"
    );
}

#[test]
fn a_wrong_key_is_shown_with_the_nearest_right_one() {
    let message = error("[rules.extra-flush]\nenabled = true\nshar = 1.0\n", &[]);
    assert!(message.contains("unknown key `shar`"), "{message}");
    assert!(message.contains("crashpoint.toml:3:1"), "{message}");
    assert!(message.contains("did you mean `share`?"), "{message}");
    let message = error("", &["rules.extra-flsh.share=1.0"]);
    assert!(message.contains("did you mean `extra-flush`?"), "{message}");
}

#[test]
fn a_wrong_type_or_value_is_shown_in_its_line() {
    let message = error("[record]\nloads = 'yes'\n", &[]);
    assert!(message.contains("crashpoint.toml:2:9"), "{message}");
    let message = error("[record]\nlevel = 'all'\n", &[]);
    assert!(
        message.contains("the levels are off, pm, flow, value"),
        "{message}"
    );
    assert!(message.contains("crashpoint.toml:2:9"), "{message}");
    let message = error("[record\n", &[]);
    assert!(message.contains("crashpoint.toml:1"), "{message}");
}

#[test]
fn a_setting_needs_a_value() {
    assert!(error("", &["rules.custom"]).contains("write KEY=VALUE"));
}

const WHOLE: &str = r#"
[target]
build = "crashpoint-cc -O1 -g store.c -o store"
driver = "./store -q"
create = "./store {pool} {ops}"
pm = ["{pool}", "/mnt/pmem/**"]
operation = ["store_apply"]
model = "eadr"
[ops]
insert = { args = ["new-key", "value"], weight = 4 }
delete = { args = ["used-key"], removes = true }
get = { args = ["used-key"], read-only = true }
[test]
operations = 20
seed = 9
ops-file = "my.ops"
threads = 2
keys = "1..100"
distinct-keys = 10
values = "5..6"
strategy = "bounded"
bound = 3
random-states = 7
per-kind = 3
sets = 4
gap = 5
neighbours = 2
round = 6
check = "./check {pool} {printed}"
ignore = ["recovered *"]
suffix = 5
probe = false
recovery = "crash"
prune = false
timeout = "200ms"
memory = "0"
states = 0
states-per-point = 8
time = "0"
jobs = 2
confirm = "xfs"
remarks = true
accept-incomplete = true
baseline = "known"
"#;

#[test]
fn every_key_of_a_test_is_understood() {
    let settings = load_text(WHOLE, &[], &RecordOptions::default()).unwrap();
    let (target, test) = (&settings.target, &settings.test);
    let folder = &target.folder;
    assert!(folder.is_absolute());
    assert!(
        target
            .build
            .as_deref()
            .unwrap()
            .starts_with("crashpoint-cc")
    );
    let run = target.run.as_ref().unwrap();
    let filled = run.fill(&[(Placeholder::Pool, "p".as_ref())]);
    assert_eq!(filled, ["./store", "-q", "p", "{ops}"]);
    assert_eq!(run.folder(), folder);
    assert!(target.create.is_some() && target.pm.len() == 2);
    assert_eq!(target.operation, ["store_apply"]);
    assert_eq!(target.model, Model::Eadr);
    let kinds: Vec<String> = settings
        .operations
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        kinds,
        [
            "delete used-key (weight 1, removes)",
            "get used-key (weight 1, read-only)",
            "insert new-key value (weight 4)",
        ]
    );
    let expected = TestSettings {
        workload: WorkloadSettings {
            ops_file: Some(folder.join("my.ops")),
            generated: crashpoint_search::workload::Settings {
                count: 20,
                seed: 9,
                at_once: 2,
                keys: crashpoint_search::workload::KeySettings {
                    range: 1..=100,
                    distinct: Some(10),
                },
                values: 5..=6,
                kinds: Vec::new(),
            },
        },
        strategies: StrategySettings {
            strategy: Some(Strategy::Bounded),
            bound: Some(3),
            random_states: 7,
            per_kind: 3,
            representative: Representatives {
                sets: 4,
                gap: 5,
                neighbours: 2,
                round: 6,
            },
        },
        judging: JudgingSettings {
            oracle: None,
            check: test.judging.check.clone(),
            ignored: Ignored(vec!["recovered *".to_owned()]),
            prune: false,
        },
        after_crash: AfterCrash {
            suffix: 5,
            probe: false,
            recovery: Recovery::Crash,
        },
        limits: CheckLimits {
            timeout: std::time::Duration::from_millis(200),
            memory: None,
        },
        budget: BudgetSettings {
            states: None,
            states_per_point: Some(8),
            time: None,
        },
        jobs: std::num::NonZeroUsize::new(2),
        confirm: Some(FileSystem::Xfs),
        remarks: true,
        accept_incomplete: true,
    };
    assert!(test.judging.check.is_some());
    assert_eq!(*test, expected);
    assert_eq!(test.workers(), 2);
    assert_eq!(test.workload.generator(&settings.operations).count, 20);
}

#[test]
fn a_wrong_name_or_placeholder_is_shown_with_the_nearest_right_one() {
    for (text, place, said) in [
        (
            "[test]\nstrategy = 'exhastive'\n",
            "2:12",
            "did you mean `exhaustive`?",
        ),
        (
            "[test]\noracle = 'everything'\n",
            "2:10",
            "the oracles are output, acknowledged, none",
        ),
        (
            "[test]\nrecovery = 'ones'\n",
            "2:12",
            "did you mean `once`?",
        ),
        ("[target]\nmodel = 'x68'\n", "2:9", "did you mean `x86`?"),
        (
            "[target]\nrun = './a {pol}'\n",
            "2:7",
            "did you mean `{pool}`?",
        ),
        (
            "[target]\npm = ['x', '{ops}']\n",
            "2:12",
            "placeholder `{ops}`",
        ),
        (
            "[test]\ncheck = './a {ops}'\n",
            "2:9",
            "are {pool}, {dir}, {printed}",
        ),
        (
            "[ops]\nput = { args = ['new-kye'] }\n",
            "2:17",
            "did you mean `new-key`?",
        ),
        ("[ops]\nput = { args = ['4..1'] }\n", "2:17", "is empty"),
        (
            "[ops]\nput = { removes = true }\n",
            "2:19",
            "none to remove",
        ),
        ("[ops]\n'two words' = {}\n", "2:15", "one word"),
        ("[ops]\nput = 3\n", "2:7", "expected"),
        ("[test]\ntimeout = '5 parsecs'\n", "2:11", "such as 30s"),
        ("[test]\ntimeout = '0s'\n", "2:11", "needs some time"),
        ("[test]\nmemory = '4X'\n", "2:10", "such as 500M"),
        ("[test]\nkeys = 'all'\n", "2:8", "such as 1..1000"),
        ("[test]\nseed = -1\n", "2:8", "expected u64"),
        ("[test]\nprobes = true\n", "2:1", "did you mean `probe`?"),
        (
            "[target]\nrun = 'a'\ndriver = 'b'\n",
            "3:10",
            "exclude each other",
        ),
    ] {
        let message = error(text, &[]);
        let place = format!("crashpoint.toml:{place}\n");
        assert!(
            message.contains(&place) && message.contains(said),
            "{message}"
        );
    }
    let message = error("[target]\nrun = 'a'\n", &["target.driver=b"]);
    assert!(message.contains("exclude each other"), "{message}");
}

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    test: arguments::Test,
}

/// The settings and the baseline of `crashpoint test` with this text in the file.
fn for_line(text: &str, line: &str) -> Result<(Settings, Option<PathBuf>), ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(NAME);
    std::fs::write(&path, text).unwrap();
    let words = ["test", path.to_str().unwrap()];
    let words = words.into_iter().chain(line.split_whitespace());
    let Line { test } = clap::Parser::try_parse_from(words).unwrap();
    for_test(&test, false)
}

#[test]
fn options_of_a_test_win_over_the_file() {
    let line = "--operations 3 --seed 4 --ops-file o --threads 3 --strategy random --bound 1 \
                --random-states 2 --per-kind 5 --sets 1 --gap 2 --neighbours 3 --round 4 \
                --oracle output --check ./c --ignore a --ignore b* --suffix 6 \
                --no-probe --no-prune \
                --recovery once --timeout 3s --memory 1G --states 5 --states-per-point 0 \
                --time 2m -j 0 --baseline b --confirm btrfs --model msync --pm x{pool} --operation f \
                --set test.bound=8 -- ./other {ops} {pool}";
    let (settings, baseline) = for_line(WHOLE, line).unwrap();
    assert_eq!(baseline, Some("b".into()));
    let expected = TestSettings {
        workload: WorkloadSettings {
            ops_file: Some("o".into()),
            generated: crashpoint_search::workload::Settings {
                count: 3,
                seed: 4,
                at_once: 3,
                keys: settings.test.workload.generated.keys.clone(),
                values: 5..=6,
                kinds: Vec::new(),
            },
        },
        strategies: StrategySettings {
            strategy: Some(Strategy::Random),
            bound: Some(1),
            random_states: 2,
            per_kind: 5,
            representative: Representatives {
                sets: 1,
                gap: 2,
                neighbours: 3,
                round: 4,
            },
        },
        judging: JudgingSettings {
            oracle: Some(Oracle::Output),
            check: settings.test.judging.check.clone(),
            ignored: Ignored(vec!["a".to_owned(), "b*".to_owned()]),
            prune: false,
        },
        after_crash: AfterCrash {
            suffix: 6,
            probe: false,
            recovery: Recovery::Once,
        },
        limits: CheckLimits {
            timeout: std::time::Duration::from_secs(3),
            memory: Some(1 << 30),
        },
        budget: BudgetSettings {
            states: Some(5),
            states_per_point: None,
            time: Some(std::time::Duration::from_secs(120)),
        },
        jobs: None,
        confirm: Some(FileSystem::Btrfs),
        remarks: true,
        accept_incomplete: true,
    };
    assert_eq!(settings.test, expected);
    assert!(settings.test.workers() >= 1);
    let run = settings.target.run.unwrap();
    assert_eq!(run.fill(&[]), ["./other", "{ops}", "{pool}"]);
    assert_eq!(run.folder(), Path::new(""));
    assert_eq!(settings.target.model, Model::Msync);
    assert_eq!(settings.target.operation, ["f"]);
    assert_eq!(settings.target.pm[0].fill(|_| "p".into()), "xp");
}

#[test]
fn a_test_without_a_target_or_operations_says_what_is_missing() {
    assert!(matches!(for_line("", ""), Err(ConfigError::NoTarget)));
    let without = for_line("[target]\ndriver = './a'\n", "");
    assert!(matches!(without, Err(ConfigError::NoOperations)));
    let weightless = "[target]\ndriver = './a'\n[ops]\nput = { weight = 0 }\n";
    let without = for_line(weightless, "");
    assert!(matches!(without, Err(ConfigError::NoOperations)));
    // A program that knows by itself what to do.
    let (fixed, baseline) = for_line("", "--write-baseline -- ./a {pool}").unwrap();
    assert_eq!(baseline, Some("crashpoint.baseline".into()));
    assert_eq!(fixed.target.operation, ["crashpoint_apply"]);
    assert_eq!(fixed.test.judging.oracle(), Oracle::Output);
    assert!(for_line(weightless, "--ops-file x").is_ok());
}
