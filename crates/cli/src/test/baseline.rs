//! Known findings: they are listed, and fail nothing.

use std::io;
use std::path::PathBuf;

use crashpoint_report::baseline::{Baseline, BaselineError};
use crashpoint_report::{Finding, Report};

use crate::config::Settings;
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

/// Writes all findings into the baseline.
pub fn write(settings: &Settings, report: &Report, base: Option<&str>) -> Result<(), Error> {
    let Some(path) = &settings.test.baseline else {
        return Ok(());
    };
    let text = Baseline::of(&report.findings, base).to_string();
    std::fs::write(path, text).map_err(|source| Error::Io {
        path: path.clone(),
        source,
    })
}

/// Takes the known ones out of a report.
pub fn take_known(
    settings: &Settings,
    report: &mut Report,
    base: Option<&str>,
) -> Result<Vec<Finding>, Error> {
    let Some(path) = &settings.test.baseline else {
        return Ok(Vec::new());
    };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(source) => {
            let path = path.clone();
            return Err(Error::Io { path, source });
        }
    };
    let baseline = Baseline::parse(&text).map_err(|source| Error::Content {
        path: path.clone(),
        source,
    })?;
    let split = baseline.split(std::mem::take(&mut report.findings), base);
    report.findings = split.new;
    Ok(split.known)
}

pub fn tell(known: &[Finding], output: &mut Output) {
    for finding in known {
        let place = finding.location.as_ref();
        let place = place.map_or_else(String::new, |at| format!("{}:{}: ", at.file, at.line));
        output.note(&format!(
            "known: {place}{}: {}",
            finding.rule, finding.message
        ));
    }
}
