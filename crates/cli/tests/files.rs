//! The corpus of programs that persist by files: each variant is found under exactly the models
//! that its comments name, and everything else is silent.
//!
//! Needs everything to be built, and cc, rustc, python3 and node. Of the interpreted programs, which
//! start slowly, only the models that differ most are tried here; `bench/run corpus --strategy files`
//! tries all.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crashpoint_harness::{
    Error, FileCase, FileWorkshop, Language, MODELS, Target, Tools, file_cases, judge_files,
};

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    root.canonicalize().expect("the corpus")
}

fn workshop() -> FileWorkshop {
    let folder = Path::new(env!("CARGO_BIN_EXE_crashpoint")).parent();
    let tools =
        Tools::in_folder(folder.expect("a folder")).unwrap_or_else(|error| panic!("{error}"));
    FileWorkshop::new(tools).unwrap_or_else(|error| panic!("{error}"))
}

fn cases() -> Vec<FileCase> {
    file_cases(&root()).unwrap_or_else(|error| panic!("{error}"))
}

fn models(language: Language) -> &'static [&'static str] {
    match language {
        Language::C | Language::Rust => &MODELS,
        Language::Python => &["posix", "ext4-ordered", "ext4-journal"],
        Language::JavaScript => &["ext4-ordered", "ext4-journal"],
    }
}

/// What is wrong with each item, on all processors.
fn complaints<T: Sync>(items: &[T], check: impl Fn(&T) -> Vec<String> + Sync) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let complaints = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    complaints.lock().expect("no panic").extend(check(item));
                }
            });
        }
    });
    complaints.into_inner().expect("no panic")
}

fn crash(workshop: &FileWorkshop, case: &FileCase) -> Result<Vec<String>, Error> {
    let target: Target = workshop.prepare(case)?;
    let mut said = Vec::new();
    for model in models(case.language) {
        let outcome = workshop.crash(&target, model)?;
        let verdict = judge_files(case, model, &outcome);
        let complaints = verdict.complaints().into_iter().chain(outcome.problems);
        said.extend(complaints.map(|complaint| format!("{} on {model}: {complaint}", case.name)));
    }
    Ok(said)
}

#[test]
fn without_a_crash_every_variant_does_what_the_correct_one_does() {
    let workshop = workshop();
    let (correct, variants): (Vec<_>, Vec<_>) =
        cases().into_iter().partition(|case| case.variant.is_none());
    let printed = |case: &FileCase| -> Result<String, Error> {
        let target = workshop.prepare(case)?;
        workshop.run_plain(&target)
    };
    let expected: Vec<(PathBuf, String)> = correct
        .iter()
        .map(|case| {
            let printed = printed(case).unwrap_or_else(|error| panic!("{error}"));
            (case.source.clone(), printed)
        })
        .collect();
    let wrong = complaints(&variants, |case| {
        let of_source = |(source, _): &&(PathBuf, String)| *source == case.source;
        let expected = expected.iter().find(of_source).map(|(_, printed)| printed);
        match printed(case) {
            Ok(printed) if Some(&printed) == expected => Vec::new(),
            Ok(printed) => vec![format!("{}: prints {printed:?}", case.name)],
            Err(error) => vec![error.to_string()],
        }
    });
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_bug_is_found_under_exactly_the_models_that_allow_it() {
    let workshop = workshop();
    let wrong = complaints(&cases(), |case| {
        crash(&workshop, case).unwrap_or_else(|error| vec![error.to_string()])
    });
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
