//! `crashpoint show`: a recording, a picture of what was found in it, or the model in a binary.
//!
//! Both media take one way: a [`Medium`] says which filters mean something for its recordings, and
//! prints the entries that pass. A filter that can never pass anything is refused, so that an empty
//! answer always means that nothing of the kind was recorded.

mod event_text;
mod files;
pub mod filter;
pub mod graph;
mod memory;
mod model;
mod statistics;

use std::io;
use std::path::{Path, PathBuf};

use crashpoint_ir::elf::ElfError;
use crashpoint_report::terminal::Style;
use crashpoint_trace::files::{FileRecording, OpenError as OpenFilesError};
use crashpoint_trace::{OpenError, Recording};

use crate::arguments;
use crate::exit::{Ending, Exit};
use crate::output::Output;
use files::Files;
use filter::{Filter, Kind, Range};
use memory::Memory;

#[derive(Debug, thiserror::Error)]
pub enum ShowError {
    #[error("name the binary: crashpoint show --ir BINARY [FUNCTION]")]
    NoBinary,
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    OpenFiles(#[from] OpenFilesError),
    #[error("a recording of {medium} has no entries of kind `{kind}`; the kinds are {known}")]
    NoSuchKind {
        medium: &'static str,
        kind: String,
        known: String,
    },
    #[error(
        "a recording of {0} has no addresses; write --range FILE or --range FILE:OFFSET..OFFSET"
    )]
    NoAddresses(&'static str),
    #[error(transparent)]
    Binary(#[from] ElfError),
    #[error("{}: {cause}; build it again", path.display())]
    Model {
        path: PathBuf,
        cause: crashpoint_ir::binary::ModelError,
    },
    #[error("there is no function `{name}` in {}{hint}", path.display())]
    NoFunction {
        name: String,
        path: PathBuf,
        hint: String,
    },
    #[error("there is no thread {number}; the recording has threads 0 to {last}")]
    NoThread { number: u32, last: usize },
    #[error(transparent)]
    Graph(#[from] graph::GraphError),
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
}

/// A recording of one medium, as it is shown.
trait Medium {
    /// What was recorded, for errors.
    const NAME: &'static str;
    /// The kinds of entries that such a recording can have.
    const KINDS: &'static [Kind];
    /// Whether the entries touch addresses in the program.
    const HAS_ADDRESSES: bool;

    fn thread_count(&self) -> usize;

    /// Counts over the whole recording.
    fn statistics(&self) -> String;

    /// Prints what passes the filter, in the order of the recording, until the sink is full.
    fn entries(&self, filter: &Filter, sink: &mut Sink<'_>) -> io::Result<()>;

    /// What limits the trust in the recording.
    fn problems(&self) -> Vec<String>;
}

/// Takes entries, up to a limit.
struct Sink<'a> {
    output: &'a mut Output,
    left: u64,
    /// Whether entries come with their call stacks.
    stack: bool,
}

impl Sink<'_> {
    fn is_full(&self) -> bool {
        self.left == 0 || self.output.is_closed()
    }

    fn print(&mut self, entry: &str) -> io::Result<()> {
        self.left = self.left.saturating_sub(1);
        self.output.print(entry)
    }

    fn warn(&mut self, text: &str) {
        self.output.warn(text);
    }
}

/// The command.
pub fn run(arguments: &arguments::Show, output: &mut Output) -> Result<Ending, ShowError> {
    if arguments.ir {
        let binary = arguments.subject.as_deref().ok_or(ShowError::NoBinary)?;
        model::run(binary, arguments.function_name.as_deref(), output)?;
        return Ok(Exit::Clean.into());
    }
    let folder = arguments
        .subject
        .as_deref()
        .unwrap_or(Path::new("crashpoint.out"));
    if arguments.graph {
        graph::run(folder, output)?;
    } else if folder.join("files").is_dir() {
        // Stores that were recorded too are among the calls.
        show(&Files(FileRecording::open(folder)?), arguments, output)?;
    } else {
        show(&Memory(Recording::open(folder)?), arguments, output)?;
    }
    Ok(Exit::Clean.into())
}

fn show<M: Medium>(
    recording: &M,
    arguments: &arguments::Show,
    output: &mut Output,
) -> Result<(), ShowError> {
    refuse_vain::<M>(&arguments.filter, recording.thread_count())?;
    if arguments.stats {
        output.print(&recording.statistics())?;
    } else {
        let mut sink = Sink {
            output,
            left: arguments.limit.unwrap_or(u64::MAX),
            stack: arguments.stack,
        };
        recording.entries(&arguments.filter, &mut sink)?;
    }
    for problem in recording.problems() {
        output.warn(&problem);
    }
    Ok(())
}

/// Refuses filters that no entry of the medium can pass.
fn refuse_vain<M: Medium>(filter: &Filter, threads: usize) -> Result<(), ShowError> {
    if let Some(kind) = filter.kinds.iter().find(|kind| !M::KINDS.contains(kind)) {
        let known: Vec<String> = M::KINDS.iter().map(ToString::to_string).collect();
        return Err(ShowError::NoSuchKind {
            medium: M::NAME,
            kind: kind.to_string(),
            known: known.join(", "),
        });
    }
    if matches!(filter.range, Some(Range::Addresses { .. })) && !M::HAS_ADDRESSES {
        return Err(ShowError::NoAddresses(M::NAME));
    }
    let mut numbers = filter.threads.iter();
    match numbers.find(|number| **number as usize >= threads) {
        Some(number) => Err(ShowError::NoThread {
            number: *number,
            last: threads.saturating_sub(1),
        }),
        None => Ok(()),
    }
}

/// Paths below the current folder are shown from there.
fn style() -> Style {
    let folder = std::env::current_dir().ok();
    Style {
        colours: false,
        base: folder.and_then(|folder| folder.to_str().map(str::to_owned)),
    }
}
