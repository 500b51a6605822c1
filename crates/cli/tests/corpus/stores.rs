//! Programs that keep persistent memory: by `crashpoint lint`, by `crashpoint test`, and without
//! either.

use std::path::PathBuf;
use std::sync::Arc;

use crashpoint_harness::{
    ActualReport, Case, ExpectedReports, LintOutcome, ProgramKind, Way, cases, judge_crash,
    judge_lint, recovery_cases,
};
use libtest_mimic::{Failed, Trial};

use crate::shared::{Corpus, CrashReport, Shared, assert_no, judge};

/// One program in one variant, built once and linted once.
struct Program {
    corpus: Arc<Corpus>,
    case: Case,
    built: Shared<PathBuf>,
    linted: Shared<LintOutcome>,
}

pub fn trials(corpus: &Arc<Corpus>) -> Vec<Trial> {
    let mut trials = Vec::new();
    for case in cases(&corpus.root).unwrap_or_else(|error| panic!("{error}")) {
        let is_store = matches!(case.kind, ProgramKind::Store { .. });
        let is_correct_store = is_store && case.variant.is_none();
        let program = Program::new(corpus, case);
        trials.push(program.trial("lint", Program::is_linted_as_marked));
        if is_store {
            trials.push(program.trial("exhaustive", Program::is_found_by_crashes));
        }
        if is_correct_store {
            trials.push(program.trial("lint-random", Program::is_silent_on_random_operations));
            trials.push(program.trial(
                "without-crash",
                Program::prints_what_its_native_build_prints,
            ));
        }
    }
    for case in recovery_cases(&corpus.root).unwrap_or_else(|error| panic!("{error}")) {
        let program = Program::new(corpus, case);
        trials.push(program.trial("one-crash", Program::is_silent_if_crashed_once));
        trials.push(program.trial("second-crash", Program::is_found_by_crashes));
    }
    trials
}

impl Program {
    fn new(corpus: &Arc<Corpus>, case: Case) -> Arc<Program> {
        Arc::new(Program {
            corpus: Arc::clone(corpus),
            case,
            built: Shared::new(),
            linted: Shared::new(),
        })
    }

    fn trial(
        self: &Arc<Program>,
        what: &str,
        check: impl FnOnce(&Program) -> Result<(), Failed> + Send + 'static,
    ) -> Trial {
        let mut name = format!("{what}/{}", self.case.name.replace(' ', "/"));
        if matches!(self.case.kind, ProgramKind::Store { .. }) && self.case.variant.is_none() {
            name.push_str("/correct");
        }
        let program = Arc::clone(self);
        Trial::test(name, move || check(&program))
    }

    fn built(&self) -> Result<&PathBuf, Failed> {
        self.built
            .get(|| Ok(self.corpus.runner()?.build(&self.case, false)?))
    }

    fn linted(&self) -> Result<&LintOutcome, Failed> {
        self.linted.get(|| {
            let (runner, program) = (self.corpus.runner()?, self.built()?);
            Ok(runner.lint_program(&self.case, program, None)?)
        })
    }

    fn is_linted_as_marked(&self) -> Result<(), Failed> {
        let (case, outcome) = (&self.case, self.linted()?);
        let mut complaints = judge_lint(case, outcome).complaints(case);
        complaints.extend(outcome.problems.iter().cloned());
        let actual = ActualReport {
            case: &case.name,
            text: &outcome.report,
            threads: false,
            is_right: complaints.is_empty(),
        };
        complaints.extend(ExpectedReports::of_lint(&case.source).compare(&actual)?);
        assert_no(&complaints)
    }

    fn is_silent_on_random_operations(&self) -> Result<(), Failed> {
        let (runner, program) = (self.corpus.runner()?, self.built()?);
        let outcome = runner.lint_program(&self.case, program, Some("random:7:20000"))?;
        assert_no(&judge_lint(&self.case, &outcome).complaints(&self.case))
    }

    fn prints_what_its_native_build_prints(&self) -> Result<(), Failed> {
        let (runner, case) = (self.corpus.runner()?, &self.case);
        let native = runner.run_plain(case, &runner.build(case, true)?)?;
        let off = runner.run_plain(case, self.built()?)?;
        let recorded = &self.linted()?.printed;
        assert_no(&unlike(
            &native,
            &[("level off", &off), ("level pm", recorded)],
        ))
    }

    fn is_found_by_crashes(&self) -> Result<(), Failed> {
        let (runner, case) = (self.corpus.runner()?, &self.case);
        let threads = runs_operations_at_once(case)?;
        let report = CrashReport::of(&case.source, &case.name, threads)?;
        let way = Way {
            // A busy machine must not change a report that is compared word for word.
            more: if report.is_some() {
                &["--time", "10m"]
            } else {
                &[]
            },
            ..Way::by("exhaustive")
        };
        let outcome = runner.crash_program(case, self.built()?, &way)?;
        judge(&judge_crash(case, &outcome), &outcome, report.as_ref())
    }

    fn is_silent_if_crashed_once(&self) -> Result<(), Failed> {
        let way = Way {
            more: &["--recovery", "once"],
            ..Way::by("exhaustive")
        };
        let runner = self.corpus.runner()?;
        let outcome = runner.crash_program(&self.case, self.built()?, &way)?;
        let said = outcome.findings.iter().map(|finding| finding.to_string());
        assert_no(&said.chain(outcome.problems).collect::<Vec<String>>())
    }
}

/// As the settings of the program say.
fn runs_operations_at_once(case: &Case) -> Result<bool, Failed> {
    let Some(config) = &case.config else {
        return Ok(false);
    };
    let settings: toml::Table = std::fs::read_to_string(config)?.parse()?;
    let threads = settings.get("test").and_then(|test| test.get("threads"));
    Ok(threads.is_some())
}

fn unlike(expected: &str, others: &[(&str, &str)]) -> Vec<String> {
    let differ = others.iter().filter(|(_, printed)| *printed != expected);
    let tell = |(when, printed): &(&str, &str)| {
        format!("prints at {when}:\n{printed}\nand natively:\n{expected}")
    };
    differ.map(tell).collect()
}
