//! Programs that keep files: each variant is found under exactly the models that its comments name,
//! and everything else is silent.
//!
//! Of the interpreted programs, which start slowly, only the models that differ most are tried here;
//! `bench/run corpus --strategy files` tries all.

use std::path::Path;
use std::sync::Arc;

use crashpoint_harness::{FileCase, Language, MODELS, Target, file_cases, judge_files};
use libtest_mimic::{Failed, Trial};

use crate::shared::{Corpus, CrashReport, Shared, judge};

pub fn models(language: Language) -> &'static [&'static str] {
    match language {
        Language::C | Language::Rust => &MODELS,
        Language::Python => &["posix", "ext4-ordered", "ext4-journal"],
        Language::JavaScript => &["ext4-ordered", "ext4-journal"],
    }
}

/// One program in one variant, built once and run once without a crash.
struct Program {
    corpus: Arc<Corpus>,
    case: FileCase,
    target: Shared<Target>,
    printed: Shared<String>,
}

pub fn trials(corpus: &Arc<Corpus>) -> Vec<Trial> {
    let cases = file_cases(&corpus.root).unwrap_or_else(|error| panic!("{error}"));
    let program = |case: FileCase| {
        Arc::new(Program {
            corpus: Arc::clone(corpus),
            case,
            target: Shared::new(),
            printed: Shared::new(),
        })
    };
    let programs: Vec<Arc<Program>> = cases.into_iter().map(program).collect();
    let mut trials = Vec::new();
    for program in &programs {
        for model in models(program.case.language) {
            let (name, program) = (program.name(), Arc::clone(program));
            let test = move || program.is_found_on(model);
            trials.push(Trial::test(format!("{name}/{model}"), test));
        }
        let is_correct = |other: &&Arc<Program>| {
            other.case.source == program.case.source && other.case.variant.is_none()
        };
        let correct = programs.iter().find(is_correct).expect("a correct form");
        if program.case.variant.is_some() {
            let name = format!("without-crash/{}", program.name());
            let (correct, program) = (Arc::clone(correct), Arc::clone(program));
            trials.push(Trial::test(name, move || program.prints_the_same(&correct)));
        }
    }
    trials
}

impl Program {
    /// Such as `files/save_rename/BUG_NO_SYNC`.
    fn name(&self) -> String {
        let program = Path::new(&self.case.source).file_stem().unwrap_or_default();
        let variant = self.case.variant.as_deref().unwrap_or("correct");
        format!("files/{}/{variant}", program.display())
    }

    fn target(&self) -> Result<&Target, Failed> {
        self.target
            .get(|| Ok(self.corpus.file_runner()?.prepare(&self.case)?))
    }

    fn printed(&self) -> Result<&String, Failed> {
        self.printed
            .get(|| Ok(self.corpus.file_runner()?.run_plain(self.target()?)?))
    }

    fn is_found_on(&self, model: &str) -> Result<(), Failed> {
        let case = &self.case;
        let outcome = self.corpus.file_runner()?.crash(self.target()?, model)?;
        let name = format!("{} on {model}", case.name);
        let report = CrashReport::of(&case.source, &name, false)?;
        judge(
            &judge_files(case, model, &outcome),
            &outcome,
            report.as_ref(),
        )
    }

    fn prints_the_same(&self, correct: &Program) -> Result<(), Failed> {
        let (printed, expected) = (self.printed()?, correct.printed()?);
        match printed == expected {
            true => Ok(()),
            false => Err(format!("prints\n{printed}and the correct form\n{expected}").into()),
        }
    }
}
