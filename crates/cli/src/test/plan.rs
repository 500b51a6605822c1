//! From settings and a recording to a plan of checks.

use std::path::Path;

use crashpoint_cc::locate;
use crashpoint_check::image::{self, Image};
use crashpoint_check::journal::Identity;
use crashpoint_check::judge::Oracle;
use crashpoint_check::plan::{Budget, Plan};
use crashpoint_check::server::Limits;
use crashpoint_check::timeline::{Operations, Timeline};
use crashpoint_check::worker::{Mapping, Setup};
use crashpoint_persist::graph;
use crashpoint_states as states;
use crashpoint_trace::program::readable_name;
use crashpoint_trace::{EventKind, Recording, SiteId};

use super::target::{self, TargetError};
use super::{Prepared, TestError};
use crate::config::template::Placeholder;
use crate::config::{self, ConfigError, Settings};
use crate::record;

/// A file that a check writes may be this much larger than the pool.
const FILE_BYTES: u64 = 1 << 30;
/// Output of one check.
const OUTPUT_BYTES: usize = 16 << 20;
/// Processes of one check.
const PROCESSES: u32 = 0;

pub fn model(model: config::Model) -> graph::Model {
    match model {
        config::Model::X86 => graph::Model::X86,
        config::Model::Eadr => graph::Model::Eadr,
        config::Model::Msync => graph::Model::Msync,
    }
}

pub fn oracle(settings: &Settings) -> Oracle {
    match (&settings.test.check, settings.test.oracle) {
        (Some(_), _) => Oracle::Checker,
        (None, config::Oracle::Output) => Oracle::Output,
        (None, config::Oracle::Acknowledged | config::Oracle::None) => Oracle::Visible,
    }
}

pub fn strategy(settings: &Settings) -> Box<dyn states::Strategy> {
    let test = &settings.test;
    // The states of a folder are costly, and most that goes wrong there is one thing.
    let (by_default, bound) = match settings.target.dir {
        Some(_) => (config::Strategy::Bounded, 1),
        None => (config::Strategy::default(), 2),
    };
    let bound = test.bound.unwrap_or(bound) as usize;
    match test.strategy.unwrap_or(by_default) {
        config::Strategy::Exhaustive => Box::new(states::Exhaustive::default()),
        config::Strategy::Bounded => Box::new(states::Bounded::new(bound)),
        config::Strategy::Random => {
            Box::new(states::Random::new(test.seed, test.random_states as usize))
        }
    }
}

pub fn make<'a>(
    settings: &'a Settings,
    prepared: &'a Prepared,
    scratch: &Path,
) -> Result<Plan<'a>, TestError> {
    let recording = &prepared.recording;
    let run = settings.target.run.as_ref().ok_or(ConfigError::NoTarget)?;
    let template = settings.test.check.as_ref().unwrap_or(run);
    let recorded_pool = recorded_pool(recording, settings);
    let runtime = locate::library(locate::RUNTIME_SHARED).map_err(TargetError::from)?;
    let shapes = image::shapes(recording);
    let largest = shapes.iter().map(|shape| shape.size_bytes).max();
    let before = Image::before(recording).map_err(|source| TargetError::Io {
        path: recording.path().to_owned(),
        source,
    })?;
    let setup = Setup {
        command: target::launch(template),
        wants_printed: template.uses(Placeholder::Printed),
        any_program: settings.test.check.is_some(),
        shapes,
        recorded_pool,
        patterns: target::patterns(settings, Path::new("{pool}")),
        mappings: mappings(recording),
        preload: record::preload(&runtime, std::env::var_os("LD_PRELOAD")),
        limits: Limits {
            time: settings.test.timeout,
            memory_bytes: settings.test.memory.unwrap_or(0),
            file_bytes: largest.unwrap_or(0).saturating_add(FILE_BYTES),
            processes: PROCESSES,
            output_bytes: OUTPUT_BYTES,
        },
        before,
    };
    Ok(Plan {
        recording,
        operations: Operations {
            sites: operation_sites(settings, prepared),
        },
        model: model(settings.target.model),
        setup,
        oracle: oracle(settings),
        lists: prepared.workload.lists(settings, &prepared.printed),
        limits: Budget {
            states: settings.test.states.unwrap_or(0),
            states_per_point: settings.test.states_per_point.unwrap_or(0),
            time: settings.test.time,
        },
        // What a checker of any kind reads is not seen.
        prune: settings.test.prune && settings.test.check.is_none(),
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
        _ if timeline.overlapping => Err(TargetError::Overlapping),
        calls if calls == operations => Ok(()),
        calls => Err(TargetError::OtherOperations {
            calls,
            operations,
            functions,
        }),
    }
}

/// Where the recorded program had its pool: the argument that stood for it.
fn recorded_pool(recording: &Recording, settings: &Settings) -> std::path::PathBuf {
    let run = settings.target.run.as_ref();
    let process = recording.processes().first();
    let argument = run.zip(process).and_then(|(run, process)| {
        // The words of the template and of the command line are the same but for the holes.
        let marked = run.fill(&[]);
        let at = marked.iter().position(|word| word == "{pool}")?;
        process.arguments.get(at).map(std::path::PathBuf::from)
    });
    let file = || recording.files().first().map(|file| file.path.clone());
    argument.or_else(file).unwrap_or_default()
}

/// Where files were mapped first.
pub fn mappings(recording: &Recording) -> Vec<Mapping> {
    let mut mappings: Vec<Mapping> = Vec::new();
    for event in recording.events() {
        let EventKind::Map {
            place,
            length,
            shared: true,
        } = event.kind
        else {
            continue;
        };
        let mapping = Mapping {
            path: recording.file(place.pm.file()).path.clone(),
            address: place.address,
            length,
            offset: place.pm.offset(),
        };
        let same = |known: &Mapping| {
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

/// Sites that call one of the functions of which each call is an operation.
pub fn operation_sites(settings: &Settings, prepared: &Prepared) -> rustc_hash::FxHashSet<SiteId> {
    let count = prepared.recording.site_count() as u32;
    let wanted = |site: &SiteId| {
        let Some(name) = prepared.program.callee_name(*site) else {
            return false;
        };
        let plain = readable_name(name);
        let globs = &settings.target.operation;
        globs
            .iter()
            .any(|glob| matches(glob, name) || matches(glob, &plain))
    };
    (1..count).map(SiteId).filter(wanted).collect()
}

/// Globs of functions: `*` and `?`.
fn matches(glob: &str, name: &str) -> bool {
    let (mut glob_rest, mut name_rest) = (glob.as_bytes(), name.as_bytes());
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        match (glob_rest.split_first(), name_rest.split_first()) {
            (None, None) => return true,
            (Some((b'*', after)), _) => {
                retry = Some((after, name_rest));
                glob_rest = after;
                continue;
            }
            (Some((wanted, after)), Some((found, rest))) if wanted == found || *wanted == b'?' => {
                (glob_rest, name_rest) = (after, rest);
                continue;
            }
            _ => {}
        }
        match retry {
            Some((after, [_, rest @ ..])) => {
                retry = Some((after, rest));
                (glob_rest, name_rest) = (after, rest);
            }
            Some((_, [])) | None => return false,
        }
    }
}

/// What results depend on.
pub fn identity(settings: &Settings, prepared: &Prepared) -> Identity {
    let test = &settings.test;
    let decisive = format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {} {} {:?}",
        settings.target.run,
        settings.target.pm,
        settings.target.operation,
        test.check,
        oracle(settings),
        settings.target.model,
        test.suffix,
        test.probe,
        test.timeout,
    );
    let process = prepared.recording.processes().first();
    let recorded = process.map_or(String::new(), |process| {
        let events = prepared.recording.statistics().events();
        format!("{}-{}-{events}", process.name, process.started_ns)
    });
    Identity::new(format!("{:016x}", hash(&decisive)), recorded)
}

/// FNV-1a, as its definition is two lines and it never changes.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_whole_names() {
        for (glob, name, expected) in [
            ("store_apply", "store_apply", true),
            ("store_*", "store_apply", true),
            ("*apply", "store_apply", true),
            ("s*e_a*y", "store_apply", true),
            ("store_appl?", "store_apply", true),
            ("apply", "store_apply", false),
            ("store_*x", "store_apply", false),
            ("*", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(glob, name), expected, "{glob} {name}");
        }
    }
}
