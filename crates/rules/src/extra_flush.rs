//! A flush that has nothing to write back.

use crate::config::ExtraFlush as Settings;
use crate::rule::{Draft, FlushSeen, Interest, Path, Rule, RuleContext, Tally, by_path};
use crate::{RuleFinding, RuleInfo, Severity};
use crashpoint_persist::memory::x86::{Flushed, Mark};
use crashpoint_persist::memory::{LineId, Origin};
use rustc_hash::FxHashMap;

pub const INFO: RuleInfo = RuleInfo {
    id: "extra-flush",
    title: "a flush of a clean or already flushed line",
    severity: Severity::Warning,
    manual: "\
A flush of a cache line that no store has touched since it was last flushed. It costs as much as \
any other flush, and with clflush or clflushopt the next access misses the cache.

    flush(&item->key);
    flush(&item->value);          // reported: the same line
    sfence();

Two cases are told apart. The line is *already flushed* if this thread flushed it and has not \
fenced yet; it is *clean* if all that was stored to it is durable, or if nothing was stored to it \
in the recording.

A flush is judged by all its executions with one call path. Whether two fields share a line often \
depends on where an object lies, and a flush of a range may meet lines that happen to be clean; a \
flush is reported if at least half of its executions were superfluous, with the counts.

## What it can get wrong

- A line that another thread has flushed, but not yet fenced, is never counted: this thread has to \
flush it itself to be able to wait for it.
- Recovery code may flush what it reads because it cannot know whether an earlier run did. Within \
one recording that looks superfluous; set `untouched = false` to leave out lines without any store.
- Stores of code that was not built with crashpoint-cc are noticed late. A flush that came between \
is no longer counted once they are.
- A flush that is superfluous with the recorded workload may be needed with another.

## Settings

    [rules.extra-flush]
    enabled = true
    severity = \"warning\"
    share = 0.5           # of the executions
    untouched = true      # count lines that were never stored to
",
};

/// Why a flush was superfluous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    AlreadyFlushed,
    Clean,
    Untouched,
}

#[derive(Clone, Copy, Debug)]
struct Example {
    line: LineId,
    why: Why,
    stored: Mark,
    flushed: Mark,
    fenced: Mark,
    here: Mark,
}

#[derive(Clone, Debug, Default)]
struct Count {
    already: u64,
    clean: u64,
    untouched: u64,
    example: Option<Example>,
}

impl Count {
    fn slot(&mut self, why: Why) -> &mut u64 {
        match why {
            Why::AlreadyFlushed => &mut self.already,
            Why::Clean => &mut self.clean,
            Why::Untouched => &mut self.untouched,
        }
    }

    fn sum(&self) -> u64 {
        self.already + self.clean + self.untouched
    }
}

pub(crate) struct ExtraFlush {
    severity: Severity,
    settings: Settings,
    /// By origin.
    counts: Vec<Count>,
    /// The last superfluous flush of a line, in case a foreign write turns up that it was for.
    suspects: FxHashMap<LineId, (Origin, Why)>,
}

impl ExtraFlush {
    pub(crate) fn new(severity: Severity, settings: Settings) -> ExtraFlush {
        ExtraFlush {
            severity,
            settings,
            counts: Vec::new(),
            suspects: FxHashMap::default(),
        }
    }
}

impl Rule for ExtraFlush {
    fn interests(&self) -> &'static [Interest] {
        &[Interest::ForeignStores, Interest::Flushes]
    }

    fn foreign_store(&mut self, line: LineId) {
        if let Some((origin, why)) = self.suspects.remove(&line) {
            *self.counts[origin.index()].slot(why) -= 1;
        }
    }

    fn flush(&mut self, seen: &FlushSeen<'_>) {
        let why = match seen.found {
            Flushed::Dirty(_) | Flushed::Unknown | Flushed::PendingElsewhere => return,
            Flushed::AlreadyPending => Why::AlreadyFlushed,
            Flushed::Clean => Why::Clean,
            Flushed::Untouched if self.settings.untouched => Why::Untouched,
            Flushed::Untouched => return,
        };
        let origin = seen.who.origin;
        if self.counts.len() <= origin.index() {
            self.counts.resize(origin.index() + 1, Count::default());
        }
        let count = &mut self.counts[origin.index()];
        *count.slot(why) += 1;
        let line = LineId::of(seen.address);
        self.suspects.insert(line, (origin, why));
        count.example.get_or_insert(Example {
            line,
            why,
            stored: seen.line.flushed_store(),
            flushed: seen.line.flush(),
            fenced: seen.line.fence(),
            here: Mark {
                order: seen.who.order,
                origin,
            },
        });
    }

    fn finish(&mut self, rule_context: &RuleContext<'_>, out: &mut Vec<RuleFinding>) {
        let counts = (0..).map(Origin).zip(std::mem::take(&mut self.counts));
        let counts = counts.filter(|(_, count)| count.sum() > 0);
        for (path, counts) in by_path(rule_context.origins, counts) {
            let total = rule_context.total(path);
            let count: u64 = counts.iter().map(|(_, count)| count.sum()).sum();
            if (count as f64) < self.settings.share * total as f64 {
                continue;
            }
            let counts = counts.into_iter().map(|(_, count)| count);
            let draft = draft(rule_context, path, Tally { count, total }, counts.collect());
            out.extend(draft.map(|draft| draft.finding(INFO.id, self.severity)));
        }
    }
}

fn draft(
    rule_context: &RuleContext<'_>,
    path: Path,
    tally: Tally,
    counts: Vec<Count>,
) -> Option<Draft> {
    let sum = |of: fn(&Count) -> u64| counts.iter().map(of).sum::<u64>();
    let already = sum(|count| count.already);
    let clean = sum(|count| count.clean + count.untouched);
    let what = match (already, clean) {
        (_, 0) => "the line is already flushed".to_owned(),
        (0, _) => "the line is clean".to_owned(),
        _ => format!("the line is already flushed ({already} times) or clean ({clean} times)"),
    };
    let message = match tally {
        Tally { count, total } if count == total => format!("superfluous flush: {what}"),
        Tally { count, total } => {
            format!("superfluous flush in {count} of {total} executions: {what}")
        }
    };
    let examples = counts.iter().filter_map(|count| count.example);
    let first = examples.min_by_key(|example| example.here.order)?;
    let help = match first.why {
        Why::AlreadyFlushed => "flush each line once before the fence",
        Why::Clean => "flush only lines that were stored to since they were last flushed",
        Why::Untouched => "flush only lines that were stored to",
    };
    let here = match first.why {
        Why::AlreadyFlushed => "is flushed again, with no store in between",
        Why::Clean => "is flushed again, though all of it is durable",
        Why::Untouched => "is flushed, though nothing was stored to it",
    };
    Some(Draft {
        path,
        tally,
        first: first.here,
        place: first.line.span(u64::MAX),
        message,
        help: help.to_owned(),
        history: rule_context.steps([
            (first.stored, "the last store to the line"),
            (first.flushed, "the line is flushed"),
            (first.fenced, "a fence waits for it"),
            (first.here, here),
        ]),
    })
}

#[cfg(test)]
mod tests {
    use crate::Config;
    use crate::testing::{Tape, assert_found, assert_says};
    use crashpoint_trace::StoreKind;

    #[test]
    fn a_flush_of_a_line_that_was_just_flushed_is_found() {
        let mut tape = Tape::default();
        tape.store(1, 0..16).flush(2, 0).flush(3, 8).fence(4);
        assert_found!(tape, [("extra-flush", 3, 1)]);
        let finding = &tape.findings()[0];
        assert_says(finding, "already flushed");
        assert_eq!(finding.history.len(), 3);
    }

    #[test]
    fn a_flush_of_a_clean_line_is_found() {
        let mut tape = Tape::default();
        tape.store(1, 0..16).persist(2, 0).persist(4, 0);
        assert_found!(tape, [("extra-flush", 4, 1)]);
        let finding = &tape.findings()[0];
        assert_says(finding, "clean");
        assert_eq!(finding.history.len(), 4);
    }

    #[test]
    fn a_flush_of_an_untouched_line_is_found_unless_switched_off() {
        let mut tape = Tape::default();
        tape.store(1, 0..8).flush(2, 0).flush(3, 64).fence(4);
        assert_found!(tape, [("extra-flush", 3, 1)]);
        let mut config = Config::default();
        config.rules.extra_flush.untouched = false;
        assert_eq!(tape.findings_with(config), []);
    }

    #[test]
    fn a_flush_of_a_line_that_was_stored_to_is_fine() {
        let mut tape = Tape::default();
        tape.store(1, 0..8)
            .flush(2, 0)
            .store(3, 8..16)
            .flush(4, 0)
            .fence(5);
        assert_found!(tape, []);
    }

    #[test]
    fn a_flush_that_is_needed_most_of_the_time_is_fine() {
        let mut tape = Tape::default();
        for round in 0..5 {
            tape.store(1, 0..8).flush(2, 0);
            if round < 3 {
                tape.store(3, 0..8);
            }
            tape.flush(4, 0).fence(5);
        }
        assert_found!(tape, []);
        tape.store(1, 0..8).flush(2, 0).flush(4, 0).fence(5);
        assert_found!(tape, [("extra-flush", 4, 3)]);
        assert!(tape.findings()[0].message.contains("in 3 of 6 executions"));
    }

    #[test]
    fn a_thread_has_to_flush_what_another_has_not_fenced() {
        let mut tape = Tape::default();
        tape.store(1, 0..8).flush(2, 0);
        tape.thread(1).flush(3, 0).fence(4);
        tape.thread(0).fence(5);
        assert_found!(tape, []);
        tape.thread(1).flush(6, 0).fence(4);
        assert_found!(tape, [("extra-flush", 6, 1)]);
    }

    #[test]
    fn a_flush_for_a_foreign_write_is_fine_whenever_it_is_noticed() {
        let mut tape = Tape::default();
        tape.store_as(StoreKind::Foreign, 1, 0..8).persist(2, 0);
        tape.persist(4, 0).store_as(StoreKind::Foreign, 1, 0..8);
        assert_found!(tape, []);
    }
}
