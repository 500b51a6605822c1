//! The flow stream of a thread: what a replay over the program model cannot compute by itself.
//!
//! See [`crashpoint_abi::flow`] for what stands in it and in which order. Unlike PM streams, flow
//! streams are not scanned when a recording is opened, since they are much longer and few
//! questions need them: a reader learns of damage when it gets there.

use crate::sites::SiteCache;
use crate::{Problem, ProblemKind, Recording, SiteId, ThreadIndex};
use crashpoint_abi::flow::{self, Flow};
use crashpoint_abi::record::DecodeError;
use std::path::Path;

/// One record of a flow stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowEvent {
    /// A conditional branch, a switch or an indirect branch took this successor.
    Branch {
        successor: u16,
    },
    /// A root got this value.
    Address(u64),
    /// The length of a memory intrinsic.
    Word(u64),
    /// A function begins.
    Enter {
        site: SiteId,
    },
    Return,
    AfterCall,
    /// Control came back by an exception or longjmp, to this depth of the stack.
    Landed {
        depth: u32,
        site: SiteId,
    },
    Value(Value),
}

/// The value of a load or of an external call's result.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Value {
    bytes: [u8; 64],
    size: u8,
}

impl Value {
    /// Little endian; 1, 2, 4, … 64 bytes, zero padded.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.size)]
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "Value({:02x?})", self.bytes())
    }
}

/// Iterator over the flow stream of one thread; see [`Recording::flow`].
#[derive(Debug)]
pub struct FlowEvents<'a> {
    file: &'a Path,
    bytes: &'a [u8],
    at: usize,
    /// The second segment, until it is the current one.
    window: Option<(&'a [u8], usize)>,
    sites: SiteCache<'a>,
    /// Whether the end of the bytes is known to be the end of the stream.
    exact: bool,
    problem: Option<Problem>,
}

impl Recording {
    /// The flow stream of a thread, at levels that have one.
    pub fn flow(&self, thread: ThreadIndex) -> Option<FlowEvents<'_>> {
        let info = &self.threads[thread.index()];
        let stream = self.flows[thread.index()].as_ref()?;
        let [(bytes, at), window] = stream.slices();
        Some(FlowEvents {
            file: info.flow_file.as_deref()?,
            bytes,
            at,
            window: Some(window),
            sites: SiteCache::new(&self.process_sites[info.process.index()]),
            exact: stream.exact,
            problem: None,
        })
    }
}

impl FlowEvents<'_> {
    /// What ended the stream before its end, once the iterator has got there, or a site that is
    /// not known.
    pub fn problem(&self) -> Option<&Problem> {
        self.problem.as_ref()
    }

    /// Offset in the file of the next record.
    pub fn offset(&self) -> u64 {
        self.at as u64
    }

    fn site(&mut self, site: u32) -> SiteId {
        self.sites.translate(site).unwrap_or_else(|| {
            self.note(ProblemKind::UnknownSite { site });
            SiteId::NONE
        })
    }

    #[cold]
    fn note(&mut self, kind: ProblemKind) {
        match &mut self.problem {
            Some(known) if known.kind == kind => known.count += 1,
            problem => {
                *problem = Some(Problem {
                    file: self.file.to_owned(),
                    offset: self.at as u64,
                    count: 1,
                    kind,
                });
            }
        }
    }

    fn fail(&mut self, error: DecodeError) {
        match error {
            // Behind the end of a stream whose length is not known there are zeros.
            DecodeError::UnknownKind(0) if !self.exact => {}
            DecodeError::Truncated => self.note(ProblemKind::Truncated),
            DecodeError::UnknownKind(_) | DecodeError::BadField(_) => {
                self.note(ProblemKind::BadRecord { error });
            }
        }
        self.bytes = &self.bytes[..self.at];
        self.window = None;
    }
}

impl Iterator for FlowEvents<'_> {
    type Item = FlowEvent;

    #[inline]
    fn next(&mut self) -> Option<FlowEvent> {
        while self.at >= self.bytes.len() {
            (self.bytes, self.at) = self.window.take()?;
        }
        let (record, size) = match flow::decode(&self.bytes[self.at..]) {
            Ok(decoded) => decoded,
            Err(error) => {
                self.fail(error);
                return None;
            }
        };
        let event = match record {
            Flow::Branch { successor } => FlowEvent::Branch {
                successor: successor.into(),
            },
            Flow::Switch { successor } => FlowEvent::Branch { successor },
            Flow::Address(address) => FlowEvent::Address(address),
            Flow::Word(word) => FlowEvent::Word(word),
            Flow::Enter { site } => FlowEvent::Enter {
                site: self.site(site),
            },
            Flow::Return => FlowEvent::Return,
            Flow::AfterCall => FlowEvent::AfterCall,
            Flow::Landed { depth, site } => FlowEvent::Landed {
                depth,
                site: self.site(site),
            },
            Flow::Value { bytes, size } => FlowEvent::Value(Value { bytes, size }),
        };
        self.at += size;
        Some(event)
    }
}
