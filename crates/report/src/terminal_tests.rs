//! Whole reports, compared as text.

use super::*;
use crate::examples;

fn sources() -> Sources {
    Sources::new(|path| (path.to_str() == Some(examples::FILE)).then(|| examples::SOURCE.into()))
}

fn style() -> Style {
    Style {
        colours: false,
        base: Some("/src".into()),
    }
}

#[test]
fn a_finding_shows_the_effect_and_its_causes() {
    let text = render_finding(&examples::extra_flush(), &style(), &mut sources());
    let expected = "\
warning[extra-flush]: this flush writes nothing back: the line was flushed before
 --> store.c:7:5
  |
4 |     s->key = key;
  |            - (1) the line was stored to here
5 |     s->value = value;
6 |     pm_persist(&s->key, sizeof s->key);
  |     ---------------------------------- (2) the line was flushed here
7 |     pm_persist(&s->value, sizeof s->value);
  |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ (3) 64 bytes at pool+0x1040
  |
  = note: call stack, innermost first:
            pm_flush_line at pm.h:20
            pm_persist at pm.h:30
            put at store.c:7
            main at store.c:12
  = note: happened 2 times of 40, first as event 7
  = help: remove this flush, or flush once after both stores";
    assert_eq!(text, expected);
}

#[test]
fn a_report_ends_with_problems_and_counts() {
    let text = render(&examples::report(), &style(), &mut sources());
    let expected = "\
warning: recording stopped at the byte limit
2 findings in 1,234 events: 1 error, 1 warning
judged under x86; `crashpoint lint --explain model` says what that means
";
    assert!(text.ends_with(expected), "{text}");
}

#[test]
fn silence_says_how_much_was_looked_at() {
    let report = Report {
        findings: Vec::new(),
        problems: Vec::new(),
        left_out: Vec::new(),
        test: None,
        ..examples::report()
    };
    let text = render(&report, &style(), &mut sources());
    assert_eq!(text, "nothing found in 1,234 events by 2 rules\n");
}

#[test]
fn places_without_text_are_still_named() {
    let mut none = Sources::new(|_| None);
    let text = render_finding(&examples::missing_flush(), &style(), &mut none);
    let expected = "\
error[missing-flush]: 8 bytes stored here are never flushed
--> store.c:8:13
 = note: (2) 8 bytes at pool+0x1050
::: store.c:7:5
 = note: (1) the line was flushed here, before the store
 = note: call stack, innermost first:
           put at store.c:8
           main at store.c:12
 = help: flush the line after this store, then fence";
    assert_eq!(text, expected);
}

#[test]
fn a_text_that_changed_since_is_not_shown() {
    let mut shorter = Sources::new(|_| Some("int main;\n".into()));
    let text = render_finding(&examples::missing_flush(), &style(), &mut shorter);
    assert!(text.contains("--> store.c:8:13"), "{text}");
    assert!(!text.contains("int main"), "{text}");
}

#[test]
fn one_place_is_marked_once_with_all_that_happened_there() {
    let mut finding = examples::extra_flush();
    finding.history[1].location = finding.location.clone();
    finding.history[1].what = "the line was flushed here".into();
    let text = render_finding(&finding, &style(), &mut sources());
    let label = "(2) the line was flushed here, (3) 64 bytes at pool+0x1040";
    assert!(text.contains(label), "{text}");
}

#[test]
fn long_histories_are_cut_at_the_old_end() {
    let mut finding = examples::extra_flush();
    let step = finding.history[0].clone();
    finding.history = vec![step; MAX_STEPS + 3];
    let text = render_finding(&finding, &style(), &mut sources());
    assert!(text.contains("3 events before (1) are not shown"), "{text}");
}

#[test]
fn without_debug_information_the_functions_remain() {
    let mut finding = examples::extra_flush();
    finding.location = None;
    finding.history.clear();
    finding
        .stack
        .iter_mut()
        .for_each(|frame| frame.location = None);
    let text = render_finding(&finding, &style(), &mut sources());
    let expected = "\
warning[extra-flush]: this flush writes nothing back: the line was flushed before
 |
 = note: call stack, innermost first:
           pm_flush_line";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn colours_are_asked_for() {
    let coloured = Style {
        colours: true,
        ..style()
    };
    let text = render_finding(&examples::extra_flush(), &coloured, &mut sources());
    assert!(text.contains("\x1b["));
}

#[test]
fn the_event_itself_is_the_last_step() {
    let mut finding = examples::extra_flush();
    let mut own = finding.history[1].clone();
    own.what = "flushed again".into();
    own.order = finding.first_order;
    own.location = finding.location.clone();
    finding.history.push(own);
    let text = render_finding(&finding, &style(), &mut sources());
    assert!(
        text.contains("^ (3) flushed again: 64 bytes at pool+0x1040"),
        "{text}"
    );

    finding.history.drain(..2);
    let text = render_finding(&finding, &style(), &mut sources());
    assert!(text.contains("^ flushed again: 64 bytes"), "{text}");
}

#[test]
fn threads_are_named_where_there_are_several() {
    let mut finding = examples::extra_flush();
    finding.history[0].thread = Some(3);
    let text = render_finding(&finding, &style(), &mut sources());
    assert!(
        text.contains("- (1) thread 3: the line was stored to here"),
        "{text}"
    );
    assert!(
        text.contains("- (2) thread 0: the line was flushed here"),
        "{text}"
    );
}

#[test]
fn deep_stacks_are_cut_in_the_middle() {
    let mut finding = examples::extra_flush();
    let frame = finding.stack[2].clone();
    let numbered = (0..1000).map(|number| Frame {
        function: format!("f{number}"),
        ..frame.clone()
    });
    finding.stack.splice(3..3, numbered);
    let text = render_finding(&finding, &style(), &mut sources());
    assert!(text.contains("… 984 more frames"), "{text}");
    assert!(text.contains("main at store.c:12"), "{text}");
    assert!(text.lines().count() < 50);
}

#[test]
fn a_recursion_is_one_line() {
    let mut finding = examples::extra_flush();
    let frame = finding.stack[2].clone();
    finding.stack.splice(3..3, vec![frame; 9]);
    let text = render_finding(&finding, &style(), &mut sources());
    assert!(text.contains("put at store.c:7, 10 deep"), "{text}");
}
