//! JUnit XML, for services that show test results and know nothing else.
//!
//! Each finding, but for mere notes, is a test that failed, in one suite; a known finding (see
//! [`baseline`](crate::baseline)) is a test that was skipped. Such services take a suite without
//! tests for one that did not run: when nothing was found, one test says so by passing. What was left
//! out is a test that was skipped.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Report as Document, TestCase, TestCaseStatus, TestSuite};

use crate::finding::{Finding, Location, Report, Step, relative};
use crashpoint_rules::Severity;

const NAME: &str = "crashpoint";

/// The report as JUnit XML, with a newline at the end. `known` are findings that are not part of
/// the report, since they are accepted. Files within `base`, an absolute folder, are named relative
/// to it.
pub fn render(report: &Report, known: &[Finding], base: Option<&str>) -> String {
    let mut suite = TestSuite::new(NAME);
    let seconds = Duration::try_from_secs_f64(report.figures.seconds).unwrap_or_default();
    suite.set_time(seconds);
    let is_failure = |finding: &&Finding| finding.severity != Severity::Note;
    let mut failures = report.findings.iter().filter(is_failure).peekable();
    let none = failures.peek().is_none();
    for finding in failures {
        let mut failure = TestCaseStatus::non_success(NonSuccessKind::Failure);
        failure.set_type(finding.rule.as_str());
        failure.set_message(first_line(&finding.message));
        failure.set_description(describe(finding, base));
        suite.add_test_case(case(finding, failure, base));
    }
    for finding in known {
        let mut skipped = TestCaseStatus::skipped();
        skipped.set_message(format!("known: {}", first_line(&finding.message)));
        suite.add_test_case(case(finding, skipped, base));
    }
    if !report.left_out.is_empty() {
        let mut skipped = TestCaseStatus::skipped();
        skipped.set_message(format!("not looked at: {}", report.left_out_text()));
        let mut incomplete = TestCase::new("incomplete", skipped);
        incomplete.set_classname(NAME);
        suite.add_test_case(incomplete);
    } else if none && known.is_empty() {
        let mut passed = TestCase::new("nothing found", TestCaseStatus::success());
        passed.set_classname(NAME);
        suite.add_test_case(passed);
    }
    if !report.problems.is_empty() {
        suite.set_system_err(report.problems.join("\n"));
    }
    let mut document = Document::new(NAME);
    document.set_time(seconds).add_test_suite(suite);
    document.to_string().expect("memory can be written to")
}

/// Services tell tests apart by class and name, from run to run.
fn case(finding: &Finding, status: TestCaseStatus, base: Option<&str>) -> TestCase {
    let name = match &finding.location {
        Some(location) => place(location, base),
        None => match finding.stack.first() {
            Some(frame) => frame.function.clone(),
            None => finding.fingerprint(),
        },
    };
    let mut case = TestCase::new(name, status);
    case.set_classname(format!("{NAME}.{}", finding.rule));
    case
}

pub(crate) fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn place(location: &Location, base: Option<&str>) -> String {
    let mut place = relative(&location.file, base).to_owned();
    if location.line > 0 {
        place += &format!(":{}", location.line);
    }
    match location.function.as_str() {
        "" => place,
        function => format!("{place} in {function}"),
    }
}

/// All that there is to say, as lines.
fn describe(finding: &Finding, base: Option<&str>) -> String {
    let mut text = format!("{}: {}\n", finding.severity.name(), finding.message);
    if let Some(location) = &finding.location {
        text += &format!("at {}\n", place(location, base));
    }
    if finding.total > 1 {
        text += &format!("{} of {} times\n", finding.count, finding.total);
    }
    for Step { what, location, .. } in &finding.history {
        text += &match location {
            Some(location) => format!("{what}: {}\n", place(location, base)),
            None => format!("{what}\n"),
        };
    }
    for frame in finding.call_path() {
        text += &match &frame.location {
            Some(location) => format!("called by {}\n", place(location, base)),
            None => format!("called by {}\n", frame.function),
        };
    }
    if let Some(place) = &finding.place {
        text += &format!("persistent memory: {place}, {} bytes\n", place.length);
    }
    if !finding.help.is_empty() {
        text += &format!("help: {}\n", finding.help);
    }
    text += &format!(
        "model: {}, fingerprint: {}",
        finding.model,
        finding.fingerprint()
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples;

    #[test]
    fn each_finding_is_a_test_that_failed() {
        let text = render(&examples::report(), &[], Some("/src"));
        let read = Document::deserialize_from_str(&text).unwrap();
        let suite = &read.test_suites[0];
        assert_eq!((suite.tests, suite.failures, suite.skipped), (2, 2, 0));
        let expected = "\
            <testcase name=\"store.c:8 in put\" classname=\"crashpoint.missing-flush\">\n            \
            <failure message=\"8 bytes stored here are never flushed\" type=\"missing-flush\">\
            error: 8 bytes stored here are never flushed\n\
            at store.c:8 in put\n\
            the line was flushed here, before the store: store.c:7 in put\n\
            called by store.c:12 in main\n\
            persistent memory: pool+0x1050, 8 bytes\n\
            help: flush the line after this store, then fence\n\
            model: x86, fingerprint: ";
        assert!(text.contains(expected), "{text}");
        assert!(
            text.contains("recording stopped at the byte limit"),
            "{text}"
        );
        assert!(text.ends_with("</testsuites>\n"), "{text}");
    }

    #[test]
    fn known_findings_are_skipped() {
        let mut report = examples::report();
        let known = vec![report.findings.remove(0)];
        let text = render(&report, &known, None);
        let read = Document::deserialize_from_str(&text).unwrap();
        let suite = &read.test_suites[0];
        assert_eq!((suite.tests, suite.failures, suite.skipped), (2, 1, 1));
        assert!(text.contains("name=\"/src/store.c:8 in put\""), "{text}");
    }

    #[test]
    fn nothing_found_is_a_test_that_passed() {
        let report = Report {
            findings: Vec::new(),
            problems: Vec::new(),
            left_out: Vec::new(),
            ..examples::report()
        };
        let text = render(&report, &[], None);
        let expected = "\
<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<testsuites name=\"crashpoint\" tests=\"1\" skipped=\"0\" failures=\"0\" errors=\"0\" time=\"0.250\">
    <testsuite name=\"crashpoint\" tests=\"1\" skipped=\"0\" errors=\"0\" failures=\"0\" time=\"0.250\">
        <testcase name=\"nothing found\" classname=\"crashpoint\"/>
    </testsuite>
</testsuites>
";
        assert_eq!(text, expected);
    }

    #[test]
    fn whatever_a_finding_says_is_still_xml() {
        let mut report = examples::report();
        report.findings[0].message = "a < b && \"c\" ]]> \u{1} \u{1b}[1m é\nmore".into();
        report.findings[0].location = None;
        report.figures.seconds = f64::NAN;
        let text = render(&report, &[], None);
        let read = Document::deserialize_from_str(&text).unwrap();
        let case = &read.test_suites[0].test_cases[0];
        assert_eq!(case.name.as_str(), "put");
        assert!(text.contains("a &lt; b &amp;&amp;"), "{text}");
    }
}
