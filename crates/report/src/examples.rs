//! Findings for tests: a small store with two bugs.

use crate::finding::{Figures, FileRange, Finding, Frame, Location, Report, Rule, Step};
use crashpoint_rules::Severity;

pub const SOURCE: &str = "\
#include \"pm.h\"

static void put(struct slot *s, uint64_t key, uint64_t value) {
    s->key = key;
    s->value = value;
    pm_persist(&s->key, sizeof s->key);
    pm_persist(&s->value, sizeof s->value);
    s->used = 1;
}

int main(void) {
    put(slot, 1, 2);
    return 0;
}
";

pub const FILE: &str = "/src/store.c";

pub fn at(function: &str, line: u32, column: u32) -> Location {
    Location {
        file: FILE.into(),
        line,
        column,
        function: function.into(),
    }
}

fn helper(function: &str, line: u32) -> Frame {
    Frame {
        function: function.into(),
        location: Some(Location {
            file: "/src/pm.h".into(),
            line,
            column: 5,
            function: function.into(),
        }),
        helper: true,
    }
}

fn frame(location: Location) -> Frame {
    Frame {
        function: location.function.clone(),
        location: Some(location),
        helper: false,
    }
}

fn step(what: &str, line: u32, column: u32, order: u64) -> Step {
    Step {
        what: what.into(),
        location: Some(at("put", line, column)),
        order,
        thread: Some(0),
    }
}

pub fn extra_flush() -> Finding {
    Finding {
        rule: "extra-flush".into(),
        severity: Severity::Warning,
        count: 2,
        total: 40,
        message: "this flush writes nothing back: the line was flushed before".into(),
        help: "remove this flush, or flush once after both stores".into(),
        location: Some(at("put", 7, 5)),
        stack: vec![
            helper("pm_flush_line", 20),
            helper("pm_persist", 30),
            frame(at("put", 7, 5)),
            frame(at("main", 12, 5)),
        ],
        history: vec![
            step("the line was stored to here", 4, 12, 3),
            step("the line was flushed here", 6, 5, 5),
        ],
        place: Some(FileRange {
            file: "/dev/shm/pool".into(),
            offset: 0x1040,
            length: 64,
        }),
        first_order: 7,
        model: "x86".into(),
        crash: None,
    }
}

pub fn missing_flush() -> Finding {
    Finding {
        rule: "missing-flush".into(),
        severity: Severity::Error,
        count: 1,
        total: 1,
        message: "8 bytes stored here are never flushed".into(),
        help: "flush the line after this store, then fence".into(),
        location: Some(at("put", 8, 13)),
        stack: vec![frame(at("put", 8, 13)), frame(at("main", 12, 5))],
        history: vec![step("the line was flushed here, before the store", 7, 5, 7)],
        place: Some(FileRange {
            file: "/dev/shm/pool".into(),
            offset: 0x1050,
            length: 8,
        }),
        first_order: 9,
        model: "x86".into(),
        crash: None,
    }
}

pub fn report() -> Report {
    let rule = |id: &str, severity, summary: &str| Rule {
        id: id.into(),
        severity,
        summary: summary.into(),
        manual: format!("{summary}.\n\n# What to do\n\nMend it.\n"),
    };
    Report {
        recording: "/home/me/crashpoint.out".into(),
        command: vec!["./store".into(), "/dev/shm/pool".into()],
        figures: Figures {
            events: 1234,
            stores: 600,
            flushes: 400,
            fences: 200,
            processes: 1,
            threads: 2,
            seconds: 0.25,
        },
        rules: vec![
            rule(
                "extra-flush",
                Severity::Warning,
                "a line is flushed that holds nothing new",
            ),
            rule("missing-flush", Severity::Error, "a store is never flushed"),
        ],
        findings: vec![missing_flush(), extra_flush()],
        problems: vec!["recording stopped at the byte limit".into()],
        left_out: Vec::new(),
        test: None,
    }
}
