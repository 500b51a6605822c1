//! `crashpoint demo`: everything once, on an example that is part of the program.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::process::Command;

use crashpoint_campaign::Settings;
use crashpoint_campaign::lint::Checks;
use crashpoint_campaign::record::RecordError;
use crashpoint_campaign::settings::RecordSettings;
use crashpoint_install::{self as install, Mode};
use crashpoint_report::Report;

use crate::arguments::{self, Format};
use crate::exit::{Ending, Exit};
use crate::output::Output;
use crate::record;
use crate::{doctor, lint};
use crashpoint_report::scripts::LoadError;

const SOURCE: &str = include_str!("../demo/store.c");
const TWINS: &str = include_str!("../demo/twins.c");

const SAVE: &str = include_str!("../demo/save.c");

const TWINS_SETTINGS: &str = include_str!("../demo/twins.toml");

/// The rules that the seeded mistakes break, each once.
const EXPECTED: [&str; 5] = [
    "extra-fence",
    "extra-flush",
    "missing-fence",
    "missing-flush",
    "unpersisted",
];

#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    #[error("crashpoint-cc is not beside this program; build all of Crashpoint (`make build`)")]
    NoDriver,
    #[error("crashpoint-cc could not build the example; `crashpoint doctor` may know why")]
    Build,
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Script(#[from] LoadError),
    #[error(transparent)]
    Locate(#[from] install::LocateError),
    #[error("the example left no recording; `crashpoint doctor` may know why")]
    Nothing,
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// The command.
pub fn run(arguments: &arguments::Demo, output: &mut Output) -> Result<Ending, DemoError> {
    let temporary;
    let folder = match &arguments.keep {
        Some(folder) => {
            std::fs::create_dir_all(folder)?;
            std::path::absolute(folder)?
        }
        None => {
            temporary = tempfile::tempdir()?;
            temporary.path().to_owned()
        }
    };
    std::fs::write(folder.join("store.c"), SOURCE)?;

    output.print("# A small store with five mistakes\n\n")?;
    let seeded = example(&folder, "seeded", &[], output)?;
    lint::print(&seeded, Format::Terminal, shown_from(&folder), output)?;
    output.print("\n# The same store, repaired (-DREPAIRED)\n\n")?;
    let repaired = example(&folder, "repaired", &["-DREPAIRED"], output)?;
    lint::print(&repaired, Format::Terminal, shown_from(&folder), output)?;

    let found: BTreeSet<&str> = seeded.findings.iter().map(|f| f.rule.as_str()).collect();
    if found != BTreeSet::from(EXPECTED) || !repaired.findings.is_empty() {
        output.error(&format!(
            "the demo should have found {} in the first one and nothing in the second",
            EXPECTED.join(", ")
        ));
        return Ok(Exit::Usage.into());
    }
    let crashes = crashes(&folder, "-DBUG_LOG", Exit::Findings, output)?
        && crashes(&folder, "-DREPAIRED", Exit::Clean, output)?
        && file_crashes(&folder, None, Exit::Findings, output)?
        && file_crashes(&folder, Some("-DREPAIRED"), Exit::Clean, output)?;
    if !crashes {
        output.error("the demo should have found a bug in each first form and none in the second");
        return Ok(Exit::Usage.into());
    }
    output.print("\nNow your own program: `crashpoint --help`.\n")?;
    Ok(Exit::Clean.into())
}

/// Tests one form of the second example, by the command that a user types. True if it ends as it
/// should.
fn crashes(
    folder: &Path,
    form: &str,
    expected: Exit,
    output: &mut Output,
) -> Result<bool, DemoError> {
    let driver = doctor::driver(Mode::C).ok_or(DemoError::NoDriver)?;
    std::fs::write(folder.join("twins.c"), TWINS)?;
    std::fs::write(folder.join("crashpoint.toml"), TWINS_SETTINGS)?;
    output.print(&format!(
        "\n# Two words under an undo log: every crash, with {form}\n\n\
         $ crashpoint-cc -O1 {form} twins.c -o twins\n\
         $ crashpoint test\n\n"
    ))?;
    output.finish()?;
    let mut build = Command::new(driver);
    build.current_dir(folder);
    build.args(["-O1", form, "twins.c", "-o", "twins"]);
    if !build.status()?.success() {
        return Err(DemoError::Build);
    }
    let mut test = Command::new(std::env::current_exe()?);
    let status = test.arg("test").current_dir(folder).status()?;
    Ok(status.code() == Some(expected as i32))
}

/// Tests one form of the third example, which keeps a file and is built by any compiler.
fn file_crashes(
    folder: &Path,
    form: Option<&str>,
    expected: Exit,
    output: &mut Output,
) -> Result<bool, DemoError> {
    let compiler = install::clang(Mode::C, false)?;
    let note = folder.join("notes").join("note");
    std::fs::create_dir_all(folder.join("notes"))?;
    std::fs::write(&note, "the old note\n")?;
    std::fs::write(folder.join("save.c"), SAVE)?;
    let shown = form.map_or(String::new(), |form| format!("{form} "));
    output.print(&format!(
        "\n# A file that is saved by renaming {}: every crash, on ext4\n\n\
         $ cc -g {shown}save.c -o save\n\
         $ crashpoint test --dir notes -- ./save notes\n\n",
        form.map_or("and never synced", |_| "and synced before and after")
    ))?;
    output.finish()?;
    let mut build = Command::new(compiler);
    build.current_dir(folder).arg("-g").args(form);
    if !build.args(["save.c", "-o", "save"]).status()?.success() {
        return Err(DemoError::Build);
    }
    let mut test = Command::new(std::env::current_exe()?);
    test.args(["test", "--no-config", "--out", "save.out", "--dir", "notes"]);
    let status = test
        .args(["--", "./save", "notes"])
        .current_dir(folder)
        .status()?;
    Ok(status.code() == Some(expected as i32))
}

fn shown_from(folder: &Path) -> Option<String> {
    folder.to_str().map(str::to_owned)
}

/// Builds, records and lints one form of the example, and tells the commands.
fn example(
    folder: &Path,
    name: &str,
    options: &[&str],
    output: &mut Output,
) -> Result<Report, DemoError> {
    let driver = doctor::driver(Mode::C).ok_or(DemoError::NoDriver)?;
    let program = folder.join(name);
    let pools = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
    let pool = pools.path().join("pool");
    let shown = options
        .iter()
        .map(|option| format!("{option} "))
        .collect::<String>();
    output.print(&format!(
        "$ crashpoint-cc -O1 {shown}store.c -o {name}\n\
         $ crashpoint record --pm {pool} --out {name}.out -- ./{name} {pool}\n\
         $ crashpoint lint {name}.out\n\n",
        pool = pool.display()
    ))?;
    output.finish()?;
    let mut build = Command::new(driver);
    build
        .arg("-O1")
        .args(options)
        .arg(folder.join("store.c"))
        .arg("-o")
        .arg(&program);
    if !build.status()?.success() {
        return Err(DemoError::Build);
    }
    let settings = Settings {
        record: RecordSettings {
            pm: vec![pool.display().to_string()],
            ..RecordSettings::default()
        },
        ..Settings::default()
    };
    let command = [program.into(), pool.into()];
    let out = folder.join(format!("{name}.out"));
    let recorded = crashpoint_campaign::record::record(&settings, &out, &command)?;
    record::tell(&settings, &recorded, output);
    let recording = recorded.recording.ok_or(DemoError::Nothing)?;
    let linted = crashpoint_campaign::lint::lint(&recording, Checks::default(), &|_| ());
    Ok(linted.report)
}
