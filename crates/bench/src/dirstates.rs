//! How many crash states of a folder are laid out in a second, without any checker: twenty files of
//! one MiB in all, changed in place, by appending and by renaming, and never synced.

use crate::timing::rounded;
use crate::{Error, Options};
use crashpoint_check::engine::medium::{DurableState as _, Medium as _};
use crashpoint_check::files::{FileMedium, FileOracle, Folder, Layout};
use crashpoint_persist::files::Model;
use crashpoint_states::{Bounded, Strategy as _};
use crashpoint_trace::files::{Before, Call, Effect, Initial, InodeId, InodeKind, Slot, Through};
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::time::Instant;

const FILES: u32 = 20;
const FILE_BYTES: usize = (1 << 20) / FILES as usize;
const JOBS: usize = 2;
/// States laid out in one repetition.
const STATES: usize = 4000;

pub fn run(options: &Options) -> Result<Value, Error> {
    let names: Vec<String> = (0..FILES).map(|number| format!("file{number}")).collect();
    let bytes = vec![b'a'; FILE_BYTES];
    let before = before(&names, &bytes);
    let calls = calls(&names);
    let model = Model::builtin("ext4-ordered").ok_or("a model that is built in")?;
    let files = FileMedium::new(&before, &calls, &model, FileOracle::Checker);
    let layouts = layouts(&files);
    let mut fastest = f64::INFINITY;
    for _ in 0..options.repeat {
        let began = Instant::now();
        let written = lay_out(&layouts)?;
        let seconds = began.elapsed().as_secs_f64();
        eprintln!(
            "{} states in {seconds:.3} s, {} bytes written for each",
            layouts.len(),
            written / layouts.len() as u64
        );
        fastest = fastest.min(seconds);
    }
    Ok(json!({
        "benchmark": "dirstates",
        "states": layouts.len(),
        "states_per_s": rounded(layouts.len() as f64 / fastest),
    }))
}

/// By two workers at a time, each with a folder of its own.
fn lay_out(layouts: &[Layout<'_>]) -> Result<u64, Error> {
    let scratch = tempfile::tempdir_in("/dev/shm")?;
    let results: Vec<std::io::Result<u64>> = std::thread::scope(|scope| {
        let work = |job: usize| {
            let path = scratch.path().join(job.to_string());
            move || {
                let mut folder = Folder::create(&path)?;
                for layout in layouts.iter().skip(job).step_by(JOBS) {
                    folder.lay(layout)?;
                }
                Ok(folder.written)
            }
        };
        let threads: Vec<_> = (0..JOBS).map(|job| scope.spawn(work(job))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|result| result.expect("no panic")).collect()
    });
    let mut written = 0;
    for result in results {
        written += result?;
    }
    Ok(written)
}

fn layouts<'a>(files: &FileMedium<'a>) -> Vec<Layout<'a>> {
    let mut layouts = Vec::new();
    let mut content = files.before();
    let mut strategy = Bounded::new(2);
    files.crash_points(&mut |moment, _| {
        content
            .advance(&[], moment.order)
            .expect("nothing is written");
        let frontier = moment.frontier();
        for cut in strategy.cuts(frontier).take(STATES / files.points() + 1) {
            layouts.push(content.patch(&frontier.kept(&cut), 0));
        }
        ControlFlow::Continue(())
    });
    layouts.truncate(STATES);
    layouts
}

fn before<'a>(names: &'a [String], bytes: &'a [u8]) -> Before<'a> {
    let initial = |inode, kind, bytes| Initial::new(inode, kind, 0o755, bytes);
    let numbered = || (1..).map(InodeId).zip(names);
    let files = numbered().map(|(inode, _)| initial(inode, InodeKind::File, bytes));
    let root = initial(InodeId::ROOT, InodeKind::Directory, &[]);
    Before {
        inodes: std::iter::once(root).chain(files).collect(),
        entries: numbered()
            .map(|(inode, name)| (slot(name), inode))
            .collect(),
    }
}

fn slot(name: &str) -> Slot<'_> {
    Slot {
        directory: InodeId::ROOT,
        name: name.as_bytes(),
    }
}

/// Of each file a block is overwritten, something is appended, and every third gets another name.
fn calls(names: &[String]) -> Vec<Call<'_>> {
    let mut effects: Vec<Effect<'_>> = Vec::new();
    for (inode, name) in (1..).map(InodeId).zip(names) {
        let write = |offset, bytes| Effect::Write {
            inode,
            offset,
            bytes,
            through: Through::Cache,
        };
        effects.push(write(8192, &[b'b'; 4096]));
        effects.push(write(FILE_BYTES as u64, &[b'c'; 3000]));
        if inode.0.is_multiple_of(3) {
            effects.push(Effect::Rename {
                from: slot(name),
                to: slot(names[0].as_str()),
                inode,
                victim: None,
            });
        }
    }
    let call = |(order, effect)| Call::of_one_thread(order, "", vec![effect]);
    (0..).zip(effects).map(call).collect()
}
