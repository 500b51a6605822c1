//! What is erased from a report before it is compared with the accepted one: what changes from run to
//! run, or from machine to machine, without meaning anything. [`NORMALISERS`] is the whole list.

use std::sync::LazyLock;

use regex_lite::Regex;

/// Which reports a normaliser is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reports {
    All,
    /// Of programs that run operations in several threads.
    OfThreads,
}

struct Normaliser {
    /// A regular expression.
    what: &'static str,
    /// What stands there instead; `$1` is the first group.
    instead: &'static str,
    reports: Reports,
    because: &'static str,
}

/// Applied in this order, each to the whole report.
const NORMALISERS: [Normaliser; 10] = [
    Normaliser {
        what: r"first as event [0-9,]+",
        instead: "first as event …",
        reports: Reports::All,
        because: "numbers of events count everything that is recorded, and shift with every change \
                  to the instrumentation",
    },
    Normaliser {
        what: r" in [0-9,]+ event",
        instead: " in … event",
        reports: Reports::All,
        because: "as above",
    },
    Normaliser {
        what: r"crashpoint replay \S*/findings/",
        instead: "crashpoint replay …/findings/",
        reports: Reports::All,
        because: "each run writes to a temporary folder of its own",
    },
    Normaliser {
        what: r"(?:/\S*/)?\bcorpus/",
        instead: "",
        reports: Reports::All,
        because: "where the repository lies, and in which of its folders the tests run",
    },
    Normaliser {
        what: r"(?m)(^ +main at .*\n)(?: +(?:fn@0x[0-9a-f]+|_start|__libc_start\w*)(?: .*)?\n)+",
        instead: "$1",
        reports: Reports::All,
        because: "what calls main belongs to the C library of the machine",
    },
    Normaliser {
        what: r" in [0-9]+ crash states? at ",
        instead: " in … crash states at ",
        reports: Reports::All,
        because: "states are chosen while others are tried: how many are pruned by what has been \
                  learned depends on which of the two is ahead",
    },
    Normaliser {
        what: r"[0-9]+ crash states?",
        instead: "… crash states",
        reports: Reports::OfThreads,
        because: "how operations that run at once interleave decides how many states there are",
    },
    Normaliser {
        what: r"[0-9]+ crash points?",
        instead: "… crash points",
        reports: Reports::OfThreads,
        because: "as above",
    },
    Normaliser {
        what: r"thread [0-9]+",
        instead: "thread …",
        reports: Reports::OfThreads,
        because: "which of the operations that run at once comes last is up to the scheduler",
    },
    Normaliser {
        what: r"driver_lane_[0-9]+( at \S+:)[0-9]+",
        instead: "driver_lane_…$1…",
        reports: Reports::OfThreads,
        because: "as above: each of the operations runs in a function and on a line of its own",
    },
];

static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let pattern = |one: &Normaliser| Regex::new(one.what).expect(one.because);
    NORMALISERS.iter().map(pattern).collect()
});

/// The report without what means nothing. `threads`: the program runs operations at once.
pub(crate) fn normalise(report: &str, threads: bool) -> String {
    let mut text = report.trim_end().to_owned();
    for (normaliser, pattern) in NORMALISERS.iter().zip(PATTERNS.iter()) {
        let is_meant = match normaliser.reports {
            Reports::All => true,
            Reports::OfThreads => threads,
        };
        if is_meant {
            text = pattern.replace_all(&text, normaliser.instead).into_owned();
        }
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_events_are_erased_and_other_numbers_are_not() {
        let report = "\
3 findings in 1,234 events: 3 errors
 = note: happened 2 times of 40, first as event 17
x in 3 lines
";
        let expected = "\
3 findings in … events: 3 errors
 = note: happened 2 times of 40, first as event …
x in 3 lines
";
        assert_eq!(normalise(report, true), expected);
    }

    #[test]
    fn places_of_the_machine_are_erased() {
        let report = "\
  --> /home/me/crashpoint/corpus/files/a.c:28:5
             save at /home/me/crashpoint/corpus/files/a.c:28
             main at /home/me/crashpoint/corpus/files/driver.h:90
             fn@0x271d0
             __libc_start_main
             _start
   = note: to see it: crashpoint replay /tmp/.tmpXyZ/out/findings/1
";
        let expected = "\
  --> files/a.c:28:5
             save at files/a.c:28
             main at files/driver.h:90
   = note: to see it: crashpoint replay …/findings/1
";
        assert_eq!(normalise(report, false), expected);
    }

    #[test]
    fn what_the_scheduler_decides_is_erased_for_threads_only() {
        let report = "thread 2: lost; driver_lane_1 at stores/driver.h:120\nshown by 1 crash state\n\
                      1 finding in 17 crash states at 33 crash points\n";
        let of_one = report.replace("17", "…");
        let erased = "thread …: lost; driver_lane_… at stores/driver.h:…\nshown by … crash states\n\
                      1 finding in … crash states at … crash points\n";
        assert_eq!(normalise(report, true), erased);
        assert_eq!(normalise(report, false), of_one);
    }
}
