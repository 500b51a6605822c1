//! `--strategy representative`, and pictures of what it divides a recording into.

use crate::support::Stage;

/// Saves a note many times, and syncs nothing.
const SAVE: &str = "cd data && for i in 1 2 3 4 5 6 7 8; do printf $i$i$i > note.tmp && \
                    mv note.tmp note && echo saved; done";

fn saved() -> Stage {
    let stage = Stage::new();
    std::fs::create_dir(stage.path("data")).expect("a folder");
    std::fs::write(stage.path("data/note"), "000").expect("a file");
    let check = "sh -c 'test $(wc -c < {dir}/note) = 3'";
    let test = ["test", "--no-config", "--dir", "data", "--fs", "posix"];
    let test = [&test[..], &["--check", check]].concat();
    let run = ["--", "sh", "-c", SAVE];
    stage.run(&[&test[..], &run].concat()).ended(2);
    stage
}

#[test]
fn what_a_loop_does_again_and_again_is_tried_once_and_the_finding_says_who_found_it() {
    let stage = saved();
    let report = stage.json("crashpoint.out/findings.json");
    let test = &report["test"];
    assert_eq!(test["strategy"], "representative");
    let number = |key: &str| test[key].as_u64().expect("a number");
    assert!(number("behaviours") >= 8, "{test}");
    assert!(number("representatives") <= 4, "{test}");
    assert_eq!(report["findings"][0]["crash"]["found_by"], "representative");
    let by = &test["by_strategy"][0];
    assert_eq!(by["tried_states"], test["tried_states"]);
}

#[test]
fn findings_and_behaviours_are_drawn_with_what_was_kept_and_lost() {
    let stage = saved();
    let show = |path: &str| stage.run(&["show", "--graph", path]).ended(0).out;
    let finding = show("crashpoint.out/findings/1");
    assert!(finding.starts_with("<svg "), "{finding}");
    let renamed = "(&quot;note.tmp&quot;, &quot;note&quot;)";
    assert!(finding.contains(renamed), "{finding}");
    assert!(finding.contains("lost"), "{finding}");
    let list = show("crashpoint.out");
    assert!(list.contains("crashpoint.out/behaviours/1  "), "{list}");
    let behaviour = show("crashpoint.out/behaviours/1");
    assert!(behaviour.starts_with("<svg ") && !behaviour.contains("lost"));
    let nothing = stage.run(&["show", "--graph", "data"]).ended(1);
    assert!(nothing.err.contains("there is no graph"), "{}", nothing.err);
}
