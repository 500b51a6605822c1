//! Runs a crash test by calling the library, without the command line.
//!
//! The program under test saves a document: it writes a new file and renames it over the old one.
//! Without a sync in between, power loss can leave an empty document.

use std::error::Error;
use std::path::Path;

use crashpoint_campaign::observer::Silent;
use crashpoint_campaign::settings::template::{RUN, Template};
use crashpoint_campaign::{Settings, test};

const SAVE: &str =
    "sh -c 'printf new > {dir}/document.tmp && mv {dir}/document.tmp {dir}/document'";

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data");
    std::fs::create_dir(&data)?;
    std::fs::write(data.join("document"), "old")?;

    let mut settings = Settings::default();
    settings.target.dir = Some(data);
    settings.target.run = Some(Template::parse(SAVE, RUN, Path::new(""))?);
    let tested = test(&settings, &folder.path().join("out"), false, &Silent)?;

    for finding in &tested.report.findings {
        println!("{}: {}", finding.rule, finding.message);
        if let Some(crash) = &finding.crash {
            println!("  after recovery: {}", crash.found);
            println!("  possible on: {}", crash.possible_on.join(", "));
        }
        println!("  help: {}", finding.help);
    }
    let figures = tested.report.test.unwrap_or_default();
    println!(
        "{} findings in {} crash states of {} crash points",
        tested.report.findings.len(),
        figures.tried_states,
        figures.crash_points
    );
    Ok(())
}
