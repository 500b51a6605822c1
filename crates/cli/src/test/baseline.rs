//! Known findings: they are listed, and fail nothing.

use std::io;
use std::path::{Path, PathBuf};

use crashpoint_report::baseline::{Baseline, BaselineError};
use crashpoint_report::{Finding, Report};

use crate::output::Output;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}: {source}", path.display())]
    Content {
        path: PathBuf,
        source: BaselineError,
    },
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> Error + '_ {
    move |source| Error::Io {
        path: path.to_owned(),
        source,
    }
}

/// Writes all findings into the baseline.
pub fn write(path: &Path, report: &Report, base: Option<&str>) -> Result<(), Error> {
    let text = Baseline::of(&report.findings, base).to_string();
    std::fs::write(path, text).map_err(io_error(path))
}

/// Takes the known ones out of a report.
pub fn take_known(
    path: &Path,
    report: &mut Report,
    base: Option<&str>,
) -> Result<Vec<Finding>, Error> {
    let text = std::fs::read_to_string(path).map_err(io_error(path))?;
    let baseline = Baseline::parse(&text).map_err(|source| Error::Content {
        path: path.to_owned(),
        source,
    })?;
    let split = baseline.split(std::mem::take(&mut report.findings), base);
    report.findings = split.new;
    Ok(split.known)
}

pub fn list(known: &[Finding], output: &mut Output) {
    for finding in known {
        let place = finding.location.as_ref();
        let place = place.map_or_else(String::new, |at| format!("{}:{}: ", at.file, at.line));
        output.note(&format!(
            "known: {place}{}: {}",
            finding.rule, finding.message
        ));
    }
}
