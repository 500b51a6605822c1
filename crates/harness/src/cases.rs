//! Every program of the corpus in every variant.

use std::path::{Path, PathBuf};

use crate::expectations::{self, CrashMark, Expectation};
use crate::{Error, io_error};

/// One program in one variant.
#[derive(Clone, Debug)]
pub struct Case {
    /// Such as `stores/chained_hash BUG_UPDATE_NO_FLUSH`.
    pub name: String,
    pub source: PathBuf,
    /// The macro that selects the variant.
    pub variant: Option<String>,
    pub kind: ProgramKind,
    pub purpose: Purpose,
    /// Settings for recording and linting.
    pub config: Option<PathBuf>,
    /// What lint must report.
    pub expected: Vec<Expectation>,
    /// What a crash must show.
    pub crash: Vec<CrashMark>,
}

/// How a program is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramKind {
    /// Takes a pool and a workload.
    Store { workload: PathBuf },
    /// Takes a pool.
    Small,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// What is marked is reported, nothing else is.
    Exact,
    /// Known to be missed; the marks say what should be reported one day.
    Gap,
    /// Without it, silence means nothing.
    Canary,
}

/// All cases of the corpus at `root`, by name.
pub fn cases(root: &Path) -> Result<Vec<Case>, Error> {
    let mut cases = Vec::new();
    for source in sources(&root.join("stores"))? {
        cases.extend(store(root, &source)?);
    }
    for folder in entries(&root.join("rules"))? {
        for source in sources(&folder)? {
            cases.push(small(root, &source, Purpose::Exact)?);
        }
    }
    for source in sources(&root.join("gaps"))? {
        cases.push(small(root, &source, Purpose::Gap)?);
    }
    cases.push(small(root, &root.join("canary.c"), Purpose::Canary)?);
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(cases)
}

/// The programs of `corpus/recovery` below `root`, of which only a second crash shows the bugs.
pub fn recovery_cases(root: &Path) -> Result<Vec<Case>, Error> {
    let mut cases = Vec::new();
    for source in sources(&root.join("recovery"))? {
        cases.extend(store(root, &source)?);
    }
    Ok(cases)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io_error(folder))? {
        paths.push(entry.map_err(io_error(folder))?.path());
    }
    paths.sort();
    Ok(paths)
}

fn sources(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut paths = entries(folder)?;
    paths.retain(|path| {
        path.extension()
            .is_some_and(|end| end == "c" || end == "cpp")
    });
    Ok(paths)
}

/// The correct form, then each variant.
fn store(root: &Path, source: &Path) -> Result<Vec<Case>, Error> {
    let marks = expectations::read(source)?;
    let of_lint = marks.lint.iter().map(|mark| mark.variant.as_str());
    let of_crash = marks.crash.iter().map(|mark| mark.variant.as_str());
    let mut variants: Vec<Option<&str>> = of_lint
        .chain(of_crash)
        .filter(|variant| marks.macros.contains(*variant))
        .map(Some)
        .chain([None])
        .collect();
    variants.sort();
    variants.dedup();
    let workload = source.with_extension("ops");
    let case = |variant: Option<&str>| {
        let of_lint = |mark: &&Expectation| Some(mark.variant.as_str()) == variant;
        let of_crash = |mark: &&CrashMark| Some(mark.variant.as_str()) == variant;
        Case {
            name: name(root, source, variant),
            source: source.to_owned(),
            variant: variant.map(str::to_owned),
            kind: ProgramKind::Store {
                workload: workload.clone(),
            },
            purpose: Purpose::Exact,
            config: config_of(source),
            expected: marks.lint.iter().filter(of_lint).cloned().collect(),
            crash: marks.crash.iter().filter(of_crash).cloned().collect(),
        }
    };
    Ok(variants.into_iter().map(case).collect())
}

fn small(root: &Path, source: &Path, purpose: Purpose) -> Result<Case, Error> {
    let marks = expectations::read(source)?;
    Ok(Case {
        name: name(root, source, None),
        source: source.to_owned(),
        variant: None,
        kind: ProgramKind::Small,
        purpose,
        config: config_of(source),
        expected: marks.lint,
        crash: marks.crash,
    })
}

fn config_of(source: &Path) -> Option<PathBuf> {
    let config = source.with_extension("toml");
    config.is_file().then_some(config)
}

fn name(root: &Path, source: &Path, variant: Option<&str>) -> String {
    let relative = source
        .strip_prefix(root)
        .unwrap_or(source)
        .with_extension("");
    match variant {
        Some(variant) => format!("{} {variant}", relative.display()),
        None => relative.display().to_string(),
    }
}
