//! A recording of files as `crashpoint show` prints it: a line for each call, where it was made, and
//! what it did.

use std::io;

use crashpoint_explain::files::effects::Names;
use crashpoint_explain::files::frames::is_system_library;
use crashpoint_report::terminal::{Style, count};
use crashpoint_trace::files::{Call, Effect, FileRecording, StackFrame};

use super::filter::{Filter, Kind};
use super::{Medium, Sink};
use crate::summary::bytes_text;

/// A recording of system calls, among which are the stores into mapped files.
pub struct Files(pub FileRecording);

impl Medium for Files {
    const NAME: &'static str = "files";
    const KINDS: &'static [Kind] = &[
        Kind::Create,
        Kind::Name,
        Kind::Write,
        Kind::Store,
        Kind::Resize,
        Kind::Attribute,
        Kind::Sync,
        Kind::Close,
        Kind::Output,
    ];
    const HAS_ADDRESSES: bool = false;

    fn thread_count(&self) -> usize {
        let last = self.0.calls().map(|call| call.thread).max();
        last.map_or(0, |last| last as usize + 1)
    }

    fn statistics(&self) -> String {
        statistics(&self.0)
    }

    fn entries(&self, filter: &Filter, sink: &mut Sink<'_>) -> io::Result<()> {
        let recording = &self.0;
        let style = super::style();
        let mut names = Names::new(&recording.before());
        for call in recording.calls() {
            if sink.is_full() {
                break;
            }
            let frames = recording.frames(call.stack);
            // Names follow every call, whether it is shown or not.
            let (mut touched, mut effects) = (Vec::new(), Vec::new());
            for effect in &call.effects {
                effects.push(names.tell(effect));
                touched.push(names.touched(effect));
            }
            if !filter.passes_call(&call, &touched, frames) {
                continue;
            }
            let mut entry = line(&call, frames, &style);
            for effect in effects {
                entry.push_str(&format!("{:>14}{effect}\n", ""));
            }
            let stack = if sink.stack { frames } else { &[] };
            for frame in stack {
                entry.push_str(&format!("{:>22}{}\n", "by ", place(frame, &style)));
            }
            sink.print(&entry)?;
        }
        Ok(())
    }

    fn problems(&self) -> Vec<String> {
        let problems = self.0.problems().iter();
        problems.map(ToString::to_string).collect()
    }
}

fn line(call: &Call<'_>, frames: &[StackFrame], style: &Style) -> String {
    let place = match innermost(frames) {
        Some(frame) => format!("   {}", place(frame, style)),
        None => String::new(),
    };
    format!(
        "{:>8} {:>3} {}{place}\n",
        call.order, call.thread, call.text
    )
}

/// The first function that is no part of the C library, nor of another that everybody calls.
fn innermost(frames: &[StackFrame]) -> Option<&StackFrame> {
    let of_system = |frame: &&StackFrame| is_system_library(&frame.module);
    frames
        .iter()
        .find(|frame| !of_system(frame))
        .or(frames.first())
}

fn place(frame: &StackFrame, style: &Style) -> String {
    match &frame.source {
        Some(source) => {
            format!(
                "{} at {}:{}",
                frame.function,
                style.path(&source.file),
                source.line
            )
        }
        None => {
            let module = frame.module.rsplit('/').next().unwrap_or_default();
            format!("{} in {module}+{:#x}", frame.function, frame.offset)
        }
    }
}

fn statistics(recording: &FileRecording) -> String {
    let (mut written, mut syncs, mut names, mut put_out) = (0_u64, 0_u64, 0_u64, 0_u64);
    for call in recording.calls() {
        for effect in &call.effects {
            match effect {
                Effect::Write { bytes, .. } => written += bytes.len() as u64,
                Effect::Output { bytes, .. } => put_out += bytes.len() as u64,
                Effect::Sync(_) => syncs += 1,
                Effect::Link { .. }
                | Effect::Unlink { .. }
                | Effect::Rename { .. }
                | Effect::Exchange { .. } => names += 1,
                Effect::New { .. }
                | Effect::Resize { .. }
                | Effect::Allocate { .. }
                | Effect::SetXattr { .. }
                | Effect::SetMode { .. }
                | Effect::LastClose { .. } => {}
            }
        }
    }
    format!(
        "{}\n{} written to files\n{}\n{} of directories\n{} of output\n",
        count(recording.count(), "call"),
        bytes_text(written),
        count(syncs, "sync"),
        count(names, "change"),
        bytes_text(put_out),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_library_is_not_where_a_call_was_made() {
        let frame = |module: &str| StackFrame {
            module: module.to_owned(),
            offset: 0,
            function: "f".to_owned(),
            source: None,
        };
        let frames = [frame("/lib/libc.so.6"), frame("/usr/bin/store")];
        assert_eq!(innermost(&frames).unwrap().module, "/usr/bin/store");
        assert_eq!(innermost(&frames[..1]).unwrap().module, "/lib/libc.so.6");
    }
}
