//! What system calls did to files, in words.

use crashpoint_persist::files::{Data, MicroOp, MicroOpKind};
use crashpoint_report::{Frame, Location, Spot};
use crashpoint_trace::files::{Call, FileRecording, StackFrame as Recorded};

use super::frames::{is_interpreter, is_system_library};

/// What would be lost with a micro-operation.
pub fn lost(op: &MicroOp<'_>) -> String {
    let path = shown(&op.path);
    match &op.kind {
        MicroOpKind::Create { .. } | MicroOpKind::Reserved { .. } => format!("{path} itself"),
        MicroOpKind::Link { .. } => format!("the entry {path}"),
        MicroOpKind::Unlink { .. } => format!("the removal of {path}"),
        MicroOpKind::Rename { .. } | MicroOpKind::RenameTarget { .. } => {
            format!("the new name {path}")
        }
        MicroOpKind::RenameSource { .. } => format!("the removal of the old name of {path}"),
        MicroOpKind::Exchange { .. } | MicroOpKind::ExchangeHalf { .. } => {
            format!("the exchange of {path} with another")
        }
        MicroOpKind::Write { data, offset, .. } => match data {
            Data::Bytes(bytes) => {
                format!("{} bytes of {path} at offset {offset}", bytes.len())
            }
            Data::Zeros(length) => format!("{length} zeros of {path} at offset {offset}"),
        },
        MicroOpKind::Grow { to, .. } => format!("the size of {path}, {to} bytes"),
        MicroOpKind::Shrink { to, .. } => format!("the truncation of {path} to {to} bytes"),
        MicroOpKind::Allocate { .. } => format!("the allocation in {path}"),
        MicroOpKind::SetXattr { .. } => format!("an extended attribute of {path}"),
        MicroOpKind::SetMode { .. } => format!("the mode of {path}"),
    }
}

fn shown(path: &str) -> String {
    match path {
        "" => "the folder".to_owned(),
        path => format!("`{path}`"),
    }
}

/// Several, those that are alike once.
pub fn all_lost<'o, 'a: 'o>(ops: impl Iterator<Item = &'o MicroOp<'a>>) -> String {
    let mut texts: Vec<String> = Vec::new();
    for text in ops.map(lost) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let rest = texts.len().saturating_sub(MOST_TOLD);
    let mut text = texts[..texts.len() - rest].join(", ");
    if rest > 0 {
        text += &format!(" and {rest} more");
    }
    text
}

/// Things that are told one by one.
const MOST_TOLD: usize = 4;

/// A frame that is on the way to the system, and not the program's own doing.
fn is_helper(frame: &Recorded) -> bool {
    let through = is_system_library(&frame.module) || is_interpreter(&frame.module);
    let source = frame.source.as_ref();
    // The standard library of Rust is part of every program.
    let standard = source.is_some_and(|source| {
        source.file.starts_with("/rustc/") || source.file.contains("/library/std/src/")
    });
    through || standard
}

fn frame(recorded: &Recorded) -> Frame {
    Frame {
        function: recorded.function.clone(),
        location: location(recorded),
        helper: is_helper(recorded),
    }
}

fn location(recorded: &Recorded) -> Option<Location> {
    let source = recorded.source.as_ref()?;
    Some(Location {
        file: source.file.clone(),
        line: source.line,
        column: source.column,
        function: recorded.function.clone(),
    })
}

/// Where in the program a call was made: the innermost line of its own.
pub fn place(recording: &FileRecording, call: &Call<'_>) -> Option<Location> {
    let frames = recording.frames(call.stack).iter();
    let mut own = frames.filter(|frame| !is_helper(frame));
    own.find_map(location)
}

/// The call stack of a call, unless it is all an interpreter's.
pub fn stack(recording: &FileRecording, call: &Call<'_>) -> Vec<Frame> {
    let frames = recording.frames(call.stack);
    let tells_nothing = |one: &Recorded| is_helper(one) || one.source.is_none();
    if frames.iter().all(tells_nothing) {
        return Vec::new();
    }
    frames.iter().map(frame).collect()
}

pub fn spot(recording: &FileRecording, call: &Call<'_>) -> Spot {
    Spot {
        call: call.text.to_owned(),
        location: place(recording, call),
    }
}

/// A call and where it was made, for pictures.
pub fn call(recording: &FileRecording, call: &Call<'_>) -> (String, String) {
    let place = place(recording, call).map(|at| {
        let file = at.file.rsplit('/').next().unwrap_or_default();
        format!("{file}:{} in {}", at.line, at.function)
    });
    (call.text.to_owned(), place.unwrap_or_default())
}
