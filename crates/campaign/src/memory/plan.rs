//! From settings and a recording to a plan of checks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crashpoint_check::engine::journal::Identity;
use crashpoint_check::memory::image::{self, Image};
use crashpoint_check::memory::judge::Oracle;
use crashpoint_check::memory::plan::TestPlan;
use crashpoint_check::memory::timeline::{Operations, Timeline};
use crashpoint_check::memory::worker::{RecordedMapping, Setup};
use crashpoint_check::process::output::matches;
use crashpoint_install as install;
use crashpoint_trace::program::{function_name, readable_name};
use crashpoint_trace::{EventKind, Recording, SiteId};

use rustc_hash::FxHashSet;

use super::Prepared;
use crate::identity;
use crate::record;
use crate::settings::template::Placeholder;
use crate::settings::{self, Settings};
use crate::target::{self, TargetError};
use crate::test::TestError;

pub fn oracle(settings: &Settings) -> Oracle {
    let judging = &settings.test.judging;
    match (&judging.check, judging.oracle()) {
        (Some(_), _) => Oracle::Checker,
        (None, settings::Oracle::Output) => Oracle::Output,
        (None, settings::Oracle::Acknowledged | settings::Oracle::None) => Oracle::Visible,
    }
}

pub fn make<'a>(
    settings: &'a Settings,
    prepared: &'a Prepared,
    scratch: &Path,
) -> Result<TestPlan<'a>, TestError> {
    let recording = &prepared.recording;
    let run = settings.target.run.as_ref().ok_or(TestError::NoTarget)?;
    let template = settings.test.judging.check.as_ref().unwrap_or(run);
    let recorded_pool = recorded_pool(recording, settings);
    let runtime = install::library(install::RUNTIME_SHARED).map_err(TargetError::from)?;
    let shapes = image::shapes(recording);
    let largest = shapes.iter().map(|shape| shape.size_bytes).max();
    let before = Image::before(recording).map_err(|source| TargetError::Io {
        path: recording.path().to_owned(),
        source,
    })?;
    let setup = Setup {
        command: target::launch(template),
        wants_printed: template.uses(Placeholder::Printed),
        any_program: settings.test.judging.check.is_some(),
        shapes,
        recorded_pool,
        patterns: target::patterns(settings, Path::new("{pool}")),
        mappings: mappings(recording),
        preload: record::preload(&runtime, std::env::var_os("LD_PRELOAD")),
        limits: settings.test.limits.of_process(largest.unwrap_or(0)),
        ignored: settings.test.judging.ignored.clone(),
        before,
    };
    Ok(TestPlan {
        recording,
        operations: operations(settings, prepared),
        model: settings.target.model,
        setup,
        makes_pool: settings.target.create.is_none(),
        oracle: oracle(settings),
        suffixes: prepared.workload.lists(settings, &prepared.printed),
        limits: settings.test.budget.of_exploration(),
        // What a checker of any kind reads is not seen.
        prune: settings.test.judging.prune && settings.test.judging.check.is_none(),
        jobs: settings.test.workers(),
        scratch: scratch.to_owned(),
        recovery: None,
    })
}

/// The recording must be one of the operations that were asked for.
pub fn check(
    settings: &Settings,
    prepared: &Prepared,
    timeline: &Timeline,
) -> Result<(), TargetError> {
    let functions = settings.target.operation.join(", ");
    let operations = prepared.workload.operations.len();
    match timeline.operations.len() {
        0 => Err(TargetError::NoOperations { functions }),
        _ if timeline.has_unnamed_overlap => Err(TargetError::Overlapping),
        calls if calls == operations => Ok(()),
        calls => Err(TargetError::OtherOperations {
            calls,
            operations,
            functions,
        }),
    }
}

/// Where the recorded program had its pool: the argument that stood for it.
fn recorded_pool(recording: &Recording, settings: &Settings) -> PathBuf {
    let run = settings.target.run.as_ref();
    let process = recording.processes().first();
    let argument = run.zip(process).and_then(|(run, process)| {
        // The words of the template and of the command line are the same but for the holes.
        let marked = run.fill(&[]);
        let at = marked.iter().position(|word| word == "{pool}")?;
        process.arguments.get(at).map(PathBuf::from)
    });
    let file = || recording.files().first().map(|file| file.path.clone());
    argument.or_else(file).unwrap_or_default()
}

/// Where files were mapped first.
pub fn mappings(recording: &Recording) -> Vec<RecordedMapping> {
    let mut mappings: Vec<RecordedMapping> = Vec::new();
    for event in recording.events() {
        let EventKind::Map {
            place,
            length,
            shared: true,
        } = event.kind
        else {
            continue;
        };
        let mapping = RecordedMapping {
            path: recording.file(place.pm.file()).path.clone(),
            address: place.address,
            length,
            offset: place.pm.offset(),
        };
        let same = |known: &RecordedMapping| {
            known.path == mapping.path
                && known.offset == mapping.offset
                && known.length == mapping.length
        };
        if !mappings.iter().any(same) {
            mappings.push(mapping);
        }
    }
    mappings
}

/// A function that calls one of the operations that run at once has it in its name, and then the
/// number; those in `crashpoint.h` do.
const LANE: &str = "lane_";

/// Where operations are called, and how many of them at once.
pub fn operations(settings: &Settings, prepared: &Prepared) -> Operations {
    let sites = operation_sites(settings, prepared);
    let lane = |site: &SiteId| {
        let caller = prepared.program.resolve(*site)?.function;
        let name = function_name(caller);
        let (before, number) = name.rsplit_once(LANE)?;
        let is_word = before.is_empty() || before.ends_with(['_', ':']);
        is_word.then_some((*site, number.parse().ok()?))
    };
    let lines = prepared.workload.operations.iter();
    Operations {
        lanes: sites.iter().filter_map(lane).collect(),
        overlapping: lines.map(|line| line.parts().count() as u8).collect(),
        sites,
    }
}

/// Sites that call one of the functions of which each call is an operation.
fn operation_sites(settings: &Settings, prepared: &Prepared) -> FxHashSet<SiteId> {
    let count = prepared.recording.site_count() as u32;
    let wanted = |site: &SiteId| {
        let Some(name) = prepared.program.callee_name(*site) else {
            return false;
        };
        let plain = readable_name(name);
        let mut globs = settings.target.operation.iter();
        let fits = |glob: &str, name: &str| matches(glob.as_bytes(), name.as_bytes());
        globs.any(|glob| fits(glob, name) || fits(glob, &plain))
    };
    (1..count).map(SiteId).filter(wanted).collect()
}

/// What results depend on.
pub fn identity(settings: &Settings, prepared: &Prepared) -> Identity {
    let test = &settings.test;
    let decisive = format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {} {} {:?}",
        settings.target.run,
        settings.target.pm,
        settings.target.operation,
        test.judging.check,
        test.judging.ignored,
        oracle(settings),
        settings.target.model,
        test.after_crash.suffix,
        test.after_crash.probe,
        test.limits.timeout,
    );
    let process = prepared.recording.processes().first();
    let recorded = process.map_or(String::new(), |process| {
        let events = prepared.recording.statistics().events();
        format!("{}-{}-{events}", process.name, process.started_ns)
    });
    let settings_hash = format!("{:016x}", identity::hash(decisive.as_bytes()));
    Identity::new(settings_hash, recorded, programs(settings, prepared))
}

/// What is run, by its content: a program that is built again into the same bytes is the same.
fn programs(settings: &Settings, prepared: &Prepared) -> BTreeMap<String, String> {
    let processes = prepared.recording.processes().iter();
    let recorded = processes.flat_map(|process| {
        let modules = process.modules.iter().map(|module| module.binary.clone());
        modules.chain([process.executable.clone()])
    });
    let check = settings.test.judging.check.iter();
    let check = check.flat_map(identity::files_of);
    identity::contents(recorded.chain(check))
}
