//! What is seen from outside: standard output, standard error, sockets.

use super::{Arguments, EntryAction, EntryResult, PendingCall};
use crate::WatchError;
use crate::descriptors::FdTarget;
use crate::watcher::{CallContext, Watcher};
use crashpoint_trace::files::{Effect, Remark, Stream};

/// A call that puts something out.
#[derive(Debug)]
pub struct Output {
    pub stream: Stream,
    pub source: OutputSource,
    pub arguments: Arguments,
}

/// Where the bytes are.
#[derive(Debug)]
pub enum OutputSource {
    /// In memory, as the call's arguments say.
    Memory,
    /// In a file, from this offset on.
    File {
        own: rustix::fd::OwnedFd,
        offset: Option<u64>,
    },
    /// In a pipe, where only the one who reads them sees them.
    Pipe,
}

/// Sizes of `msghdr` and `mmsghdr`, and where the vector is in them.
const MESSAGE_BYTES: u64 = 64;
const VECTOR: u64 = 16;
const VECTOR_LENGTH: u64 = 24;
const SENT: u64 = 56;

impl Watcher<'_> {
    pub fn enter_send(&mut self, by: CallContext<'_>, arguments: &Arguments) -> EntryResult {
        let description = self.description(by.tid, arguments.descriptor(0));
        let Some(FdTarget::Stream(stream)) = description.map(|found| found.target) else {
            return Ok(EntryAction::Pass);
        };
        self.compare_mapped(by, None)?;
        Ok(EntryAction::wait_for(PendingCall::Output(Output {
            stream,
            source: OutputSource::Memory,
            arguments: *arguments,
        })))
    }

    pub fn exit_output(
        &mut self,
        by: CallContext<'_>,
        output: &Output,
        returned: u64,
    ) -> Result<(), WatchError> {
        let name = by.name();
        let stream = output.stream;
        let bytes = match &output.source {
            OutputSource::Memory => self.sent(by, &output.arguments, returned),
            OutputSource::File { own, offset } => {
                // Without an offset of its own, the file's position has moved on.
                let end = || rustix::fs::tell(own).unwrap_or(0).saturating_sub(returned);
                read_back(own, offset.unwrap_or_else(end), returned)
            }
            OutputSource::Pipe => Vec::new(),
        };
        let text = format!("{name}({}, {} bytes)", stream_name(stream), bytes.len());
        if matches!(output.source, OutputSource::Pipe) && returned > 0 {
            self.remark(Remark::Unseen {
                text: format!("{name}({}, {returned} bytes)", stream_name(stream)),
                reason: "the bytes went from pipe to pipe".into(),
            })?;
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let bytes = &bytes;
        self.emit(by, &text, vec![Effect::Output { stream, bytes }])
    }

    /// The bytes that a call has sent from memory.
    fn sent(&self, by: CallContext<'_>, arguments: &Arguments, returned: u64) -> Vec<u8> {
        let message = |at: u64, sent: u64| {
            let vector = self.word(by.tid, at + VECTOR).unwrap_or(0);
            let count = self.word(by.tid, at + VECTOR_LENGTH).unwrap_or(0);
            self.gather(by, vector, count, sent)
        };
        match arguments.call() {
            libc::SYS_sendmsg => message(arguments.values[1], returned),
            libc::SYS_sendmmsg => {
                let messages = (0..returned).map(|n| arguments.values[1] + n * MESSAGE_BYTES);
                messages
                    .flat_map(|at| {
                        let sent = self.word(by.tid, at + SENT).unwrap_or(0) as u32;
                        message(at, sent.into())
                    })
                    .collect()
            }
            _ => self.given(by, arguments, returned),
        }
    }
}

pub fn stream_name(stream: Stream) -> &'static str {
    match stream {
        Stream::Stdout => "stdout",
        Stream::Stderr => "stderr",
        Stream::Socket => "socket",
    }
}

/// Part of a file, as much as there is.
pub fn read_back(own: &rustix::fd::OwnedFd, offset: u64, length: u64) -> Vec<u8> {
    use rustix::fd::AsRawFd as _;
    use std::os::unix::fs::FileExt as _;
    // Ours may be for writing only: the same file, opened again.
    let Ok(file) = std::fs::File::open(format!("/proc/self/fd/{}", own.as_raw_fd())) else {
        return Vec::new();
    };
    let mut bytes = vec![0; length as usize];
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], offset + done as u64) {
            Ok(0) | Err(_) => break,
            Ok(read) => done += read,
        }
    }
    bytes.truncate(done);
    bytes
}
