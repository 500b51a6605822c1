//! `crashpoint show` of a recording of files: calls, where they were made, what they did.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;

use crashpoint_report::terminal::{Style, count};
use crashpoint_trace::files::{
    Before, Call, Effect, FileRecording, InodeId, InodeKind, Slot, StackFrame, Stream, SyncKind,
    Through,
};

use crashpoint_explain::files::frames::is_system_library;

use crate::arguments;
use crate::output::Output;
use crate::show::{ShowError, named};
use crate::summary::bytes_text;

/// Whether a folder holds a recording of files; stores of memory that it has too are among its calls.
pub fn is_one(folder: &Path) -> bool {
    folder.join("files").is_dir()
}

pub fn run(
    folder: &Path,
    arguments: &arguments::Show,
    output: &mut Output,
) -> Result<(), ShowError> {
    if arguments.range.is_some() {
        return Err(ShowError::NotOfFiles("ranges of addresses (--range)"));
    }
    if !arguments.kinds.is_empty() {
        return Err(ShowError::NotOfFiles("kinds of events (--kind)"));
    }
    let recording = FileRecording::open(folder)?;
    if arguments.stats {
        output.print(&statistics(&recording))?
    } else {
        calls(&recording, arguments, output)?
    }
    for problem in recording.problems() {
        output.warn(&problem.to_string());
    }
    Ok(())
}

fn calls(
    recording: &FileRecording,
    arguments: &arguments::Show,
    output: &mut Output,
) -> Result<(), ShowError> {
    let folder = std::env::current_dir().ok();
    let style = Style {
        colours: false,
        base: folder.and_then(|folder| folder.to_str().map(str::to_owned)),
    };
    let mut names = Names::new(&recording.before());
    let mut left = arguments.limit.unwrap_or(u64::MAX);
    for call in recording.calls() {
        if left == 0 || output.is_closed() {
            break;
        }
        let frames = recording.frames(call.stack);
        let effects: Vec<String> = call
            .effects
            .iter()
            .map(|effect| names.tell(effect))
            .collect();
        let in_thread = arguments.threads.is_empty() || arguments.threads.contains(&call.thread);
        let in_function = arguments.functions.is_empty()
            || frames
                .iter()
                .any(|frame| named(&frame.function, &arguments.functions));
        if !in_thread || !in_function {
            continue;
        }
        left -= 1;
        output.print(&line(&call, frames, &style))?;
        for effect in effects {
            output.print(&format!("{:>14}{effect}\n", ""))?;
        }
        if arguments.stack {
            for frame in frames {
                output.print(&format!("{:>22}{}\n", "by ", place(frame, &style)))?;
            }
        }
    }
    Ok(())
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
pub fn innermost(frames: &[StackFrame]) -> Option<&StackFrame> {
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

/// What inodes are called, as the recording goes on.
struct Names(HashMap<InodeId, (InodeId, Vec<u8>)>);

impl Names {
    fn new(before: &Before<'_>) -> Names {
        let entry =
            |(slot, inode): &(Slot<'_>, InodeId)| (*inode, (slot.directory, slot.name.to_vec()));
        Names(before.entries.iter().map(entry).collect())
    }

    fn set(&mut self, inode: InodeId, slot: &Slot<'_>) {
        self.0.insert(inode, (slot.directory, slot.name.to_vec()));
    }

    fn path(&self, inode: InodeId) -> String {
        match self.0.get(&inode) {
            // A directory never lies below itself, but what is read may be wrong.
            _ if inode == InodeId::ROOT => ".".to_owned(),
            Some((directory, name)) => self.slot_path(*directory, name),
            None => format!("a file without a name ({})", inode.0),
        }
    }

    fn slot_path(&self, directory: InodeId, name: &[u8]) -> String {
        let mut path = String::from_utf8_lossy(name).into_owned();
        let mut at = directory;
        for _ in 0..256 {
            match self.0.get(&at) {
                Some((parent, name)) if at != InodeId::ROOT => {
                    path = format!("{}/{path}", String::from_utf8_lossy(name));
                    at = *parent;
                }
                _ => break,
            }
        }
        path
    }

    fn slot(&self, slot: &Slot<'_>) -> String {
        self.slot_path(slot.directory, slot.name)
    }

    /// In words, with the names as they are once it happened.
    fn tell(&mut self, effect: &Effect<'_>) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(effect, &mut text);
        text
    }

    fn write(&mut self, effect: &Effect<'_>, to: &mut String) -> std::fmt::Result {
        match effect {
            Effect::New { inode, kind, mode } => match kind {
                InodeKind::File => write!(to, "new file {}, mode {mode:o}", inode.0),
                InodeKind::Directory => write!(to, "new directory {}, mode {mode:o}", inode.0),
                InodeKind::Symlink { target } => {
                    write!(
                        to,
                        "new link {} to {}",
                        inode.0,
                        String::from_utf8_lossy(target)
                    )
                }
                InodeKind::Other => write!(to, "new special file {}", inode.0),
            },
            Effect::Link { slot, inode } => {
                self.set(*inode, slot);
                write!(to, "name {} for {}", self.slot(slot), inode.0)
            }
            Effect::Unlink { slot, inode } => {
                write!(to, "no name {} for {}", self.slot(slot), inode.0)
            }
            Effect::Rename {
                from,
                to: slot,
                inode,
                victim,
            } => {
                let from = self.slot(from);
                self.set(*inode, slot);
                write!(to, "{from} becomes {} ({})", self.slot(slot), inode.0)?;
                match victim {
                    Some(victim) => write!(to, " in place of {}", victim.0),
                    None => Ok(()),
                }
            }
            Effect::Exchange {
                first,
                first_inode,
                second,
                second_inode,
            } => {
                self.set(*first_inode, second);
                self.set(*second_inode, first);
                write!(
                    to,
                    "{} and {} change places",
                    self.slot(first),
                    self.slot(second)
                )
            }
            Effect::Write {
                inode,
                offset,
                bytes,
                through,
            } => {
                let way = match through {
                    Through::Cache => "",
                    Through::Direct => ", direct",
                    Through::Mapping => ", through a mapping",
                    Through::Copy => ", copied",
                };
                let end = offset + bytes.len() as u64;
                write!(
                    to,
                    "{} [{offset}..{end}]{way}: {}",
                    self.path(*inode),
                    preview(bytes)
                )
            }
            Effect::Resize {
                inode,
                from,
                to: size,
            } => {
                write!(to, "{} from {from} to {size} bytes", self.path(*inode))
            }
            Effect::Allocate {
                inode,
                offset,
                length,
                what,
            } => {
                let end = offset.saturating_add(*length);
                write!(to, "{} [{offset}..{end}] {what:?}", self.path(*inode))
            }
            Effect::SetXattr { inode, name, value } => {
                let name = String::from_utf8_lossy(name);
                match value {
                    Some(value) => {
                        write!(to, "{} has {name} = {}", self.path(*inode), preview(value))
                    }
                    None => write!(to, "{} has no {name}", self.path(*inode)),
                }
            }
            Effect::SetMode { inode, mode } => {
                write!(to, "{} has mode {mode:o}", self.path(*inode))
            }
            Effect::Sync(kind) => to.write_str(&self.sync(kind)),
            Effect::LastClose { inode } => {
                write!(to, "{} is open for writing no more", self.path(*inode))
            }
            Effect::Output { stream, bytes } => {
                let stream = match stream {
                    Stream::Stdout => "stdout",
                    Stream::Stderr => "stderr",
                    Stream::Socket => "socket",
                };
                write!(to, "{stream}: {}", preview(bytes))
            }
        }
    }

    fn sync(&self, kind: &SyncKind) -> String {
        let range = |inode: &InodeId, offset: &u64, length: &u64| {
            let end = match offset.saturating_add(*length) {
                u64::MAX => String::new(),
                end => end.to_string(),
            };
            format!("{} [{offset}..{end}]", self.path(*inode))
        };
        match kind {
            SyncKind::Full(inode) => format!("{} is durable", self.path(*inode)),
            SyncKind::Data(inode) => format!("data of {} is durable", self.path(*inode)),
            SyncKind::DataRange {
                inode,
                offset,
                length,
            } => {
                format!("data of {} is durable", range(inode, offset, length))
            }
            SyncKind::FullRange {
                inode,
                offset,
                length,
            } => {
                format!("{} is durable", range(inode, offset, length))
            }
            SyncKind::WriteOut {
                inode,
                offset,
                length,
            } => {
                format!(
                    "{} is on its way, with no promise",
                    range(inode, offset, length)
                )
            }
            SyncKind::Everything => "everything is durable".to_owned(),
        }
    }
}

/// The beginning of some bytes, as text where it is any.
fn preview(bytes: &[u8]) -> String {
    const SHOWN: usize = 40;
    let shown = &bytes[..bytes.len().min(SHOWN)];
    let more = if bytes.len() > SHOWN { "…" } else { "" };
    format!("\"{}\"{more}", shown.escape_ascii())
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
    fn effects_are_told_with_names() {
        let root = InodeId::ROOT;
        let file = InodeId(1);
        let tmp = Slot {
            directory: root,
            name: b"a.tmp",
        };
        let done = Slot {
            directory: root,
            name: b"a",
        };
        let mut names = Names::new(&Before::default());
        let linked = Effect::Link {
            slot: tmp,
            inode: file,
        };
        assert_eq!(names.tell(&linked), "name a.tmp for 1");
        let rename = Effect::Rename {
            from: tmp,
            to: done,
            inode: file,
            victim: None,
        };
        assert_eq!(names.tell(&rename), "a.tmp becomes a (1)");
        let sync = Effect::Sync(SyncKind::Full(file));
        assert_eq!(names.tell(&sync), "a is durable");
        let root_sync = Effect::Sync(SyncKind::Full(root));
        assert_eq!(names.tell(&root_sync), ". is durable");
    }

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
