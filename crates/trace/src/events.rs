//! All events of a recording in their one order.
//!
//! Each stream is already ordered, so this is a merge. One stream is *current* and is read on
//! without further ado while its next record comes before the first record of every other stream,
//! which is all the time where there is one stream. The others wait in a heap.
//!
//! Addresses are translated by the mappings of the process as they are at this point of the order.
//! A forked process starts with those its parent has at the fork; where the child is recorded
//! before the parent gets to report the fork, with those the parent has then.

use crate::range::{self, Part, Range, RangeKind};
use crate::sites::SiteCache;
use crate::space::Space;
use crate::threads::find_file;
use crate::{
    ContextId, Event, EventKind, PmPlace, Problem, ProblemKind, ProcessIndex, Recording, SiteId,
    ThreadIndex,
};
use crashpoint_abi::record::{self, Memory, Payload, Record, ThreadSync};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Position in one stream.
#[derive(Debug)]
struct Cursor<'a> {
    /// Bytes of the file up to the end of the current segment.
    bytes: &'a [u8],
    at: usize,
    /// The second segment, until it is the current one.
    window: Option<(&'a [u8], usize)>,
    /// Where the record that was decoded last begins.
    record_at: usize,
    memory: Memory,
    last_order: u64,
    contexts: &'a [ContextId],
    context: ContextId,
    sites: SiteCache<'a>,
    process: ProcessIndex,
    /// A record that was decoded but has to wait.
    head: Option<Record<'a>>,
}

impl<'a> Cursor<'a> {
    /// The next ordered record.
    #[inline]
    fn next(&mut self) -> Option<Record<'a>> {
        if let Some(head) = self.head.take() {
            return Some(head);
        }
        loop {
            if self.at >= self.bytes.len() {
                (self.bytes, self.at) = self.window.take()?;
                continue;
            }
            self.record_at = self.at;
            // The scan has seen all of them decode; should the file have changed, it ends here.
            let (mut record, size) =
                record::decode(&self.bytes[self.at..], &mut self.memory).ok()?;
            self.at += size;
            match record.payload {
                Payload::Context(number) => self.context = *self.contexts.get(number as usize)?,
                Payload::DefineContext { .. } => {}
                _ => {
                    record.order = record.order.max(self.last_order);
                    self.last_order = record.order;
                    return Some(record);
                }
            }
        }
    }
}

/// The address space of one process, as far as it is persistent.
#[derive(Debug, Default)]
struct ProcessSpace {
    space: Space,
    started: bool,
}

/// Iterator over all events; see [`Recording::events`].
#[derive(Debug)]
pub struct Events<'a> {
    recording: &'a Recording,
    cursors: Vec<Cursor<'a>>,
    current: usize,
    /// Order of the first record that waits in the heap.
    limit: u64,
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
    last_order: u64,
    spaces: Vec<ProcessSpace>,
    /// Parts of a record that was split, still to be delivered.
    parts: VecDeque<Event<'a>>,
    problems: Vec<Problem>,
}

impl<'a> Events<'a> {
    pub(crate) fn new(recording: &'a Recording) -> Events<'a> {
        let streams = recording.streams.iter().zip(&recording.threads);
        let mut cursors: Vec<Cursor<'a>> = streams
            .zip(&recording.stream_contexts)
            .map(|((stream, thread), contexts)| {
                let [(bytes, at), window] = stream.slices();
                Cursor {
                    bytes,
                    at,
                    window: Some(window),
                    record_at: at,
                    memory: Memory::default(),
                    last_order: 0,
                    contexts,
                    context: ContextId::BOTTOM,
                    sites: SiteCache::new(&recording.process_sites[thread.process.index()]),
                    process: thread.process,
                    head: None,
                }
            })
            .collect();
        let mut waiting = BinaryHeap::new();
        for (index, cursor) in cursors.iter_mut().enumerate() {
            cursor.head = cursor.next();
            waiting.extend(cursor.head.map(|head| Reverse((head.order, index))));
        }
        let spaces = recording.processes.iter().map(|_| ProcessSpace::default());
        let mut events = Events {
            recording,
            cursors,
            current: usize::MAX,
            limit: 0,
            waiting,
            last_order: 0,
            spaces: spaces.collect(),
            parts: VecDeque::new(),
            problems: Vec::new(),
        };
        events.switch();
        events
    }

    /// What was found wrong so far that a scan of single streams does not show. Each kind is
    /// listed once for each stream, with the first place and a count.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Makes the stream with the first waiting record the current one.
    fn switch(&mut self) -> bool {
        let Some(Reverse((_, first))) = self.waiting.pop() else {
            self.current = usize::MAX;
            return false;
        };
        self.current = first;
        self.limit = self
            .waiting
            .peek()
            .map_or(u64::MAX, |Reverse((order, _))| *order);
        true
    }

    #[inline]
    fn next_record(&mut self) -> Option<Record<'a>> {
        loop {
            let cursor = self.cursors.get_mut(self.current)?;
            match cursor.next() {
                Some(record) if record.order <= self.limit => return Some(record),
                Some(record) => {
                    cursor.head = Some(record);
                    self.waiting.push(Reverse((record.order, self.current)));
                }
                None => {}
            }
            if !self.switch() {
                return None;
            }
        }
    }

    #[cold]
    fn problem(&mut self, kind: ProblemKind) {
        let thread = &self.recording.threads[self.current];
        let same = |known: &&mut Problem| {
            known.file == thread.file
                && std::mem::discriminant(&known.kind) == std::mem::discriminant(&kind)
        };
        match self.problems.iter_mut().find(same) {
            Some(known) => known.count += 1,
            None => self.problems.push(Problem {
                file: thread.file.clone(),
                offset: self.cursors[self.current].record_at as u64,
                count: 1,
                kind,
            }),
        }
    }

    /// Gives a process that was forked the mappings of its parent.
    #[cold]
    fn start(&mut self, process: ProcessIndex) {
        let processes = &self.recording.processes;
        let parent = processes[process.index()].forked_from(processes);
        let space = parent.map(|parent| self.spaces[parent.index()].space.clone());
        let this = &mut self.spaces[process.index()];
        this.started = true;
        this.space = space.unwrap_or_default();
    }

    /// The first child of a process with this system id that has not done anything yet gets its
    /// mappings now, before the parent changes them.
    #[cold]
    fn forked(&mut self, parent: ProcessIndex, pid: u64) {
        let processes = &self.recording.processes;
        let child = (0..)
            .map(ProcessIndex)
            .zip(processes)
            .find(|(index, process)| {
                u64::from(process.pid) == pid
                    && process.forked_from(processes) == Some(parent)
                    && !self.spaces[index.index()].started
            });
        if let Some((child, _)) = child {
            self.start(child);
        }
    }

    /// Makes an event of a record, or several, of which the others go to `parts`; none if its
    /// range is nowhere mapped.
    #[inline]
    fn deliver(&mut self, record: Record<'a>) -> Option<Event<'a>> {
        if record.order <= self.last_order {
            self.problem(ProblemKind::DuplicateOrder {
                order: record.order,
            });
        }
        self.last_order = record.order;
        let cursor = &mut self.cursors[self.current];
        let process = cursor.process;
        let context = cursor.context;
        let site = cursor.sites.translate(record.site);
        if !self.spaces[process.index()].started {
            self.start(process);
        }
        if site.is_none() {
            self.problem(ProblemKind::UnknownSite { site: record.site });
        }
        let event = |kind| Event {
            order: record.order,
            thread: ThreadIndex(self.current as u32),
            site: site.unwrap_or(SiteId::NONE),
            context,
            kind,
        };
        let Some(range) = Range::of(&record.payload) else {
            let kind = range::plain(&record.payload);
            if let Payload::Sync {
                kind: ThreadSync::Fork,
                object,
            } = record.payload
            {
                let event = event(kind);
                self.forked(process, object);
                return Some(event);
            }
            return Some(event(kind));
        };
        // Nearly all accesses lie in the extent that the last one lay in.
        let space = &mut self.spaces[process.index()].space;
        if range.kind == RangeKind::Access
            && let Some(extent) = space.find(range.address)
            && range.length <= extent.end - range.address
            && range.length > 0
        {
            let part = Part {
                place: PmPlace {
                    address: range.address,
                    pm: extent.pm(range.address),
                },
                skip: 0,
                length: range.length,
            };
            return Some(event(range::part(&record.payload, &part)));
        }
        self.split(&record, &range, &event(EventKind::Opaque))
    }

    /// Delivers a record whose range is not an access within one extent. All fields of its events
    /// but the kind are as in `like`.
    #[cold]
    fn split(&mut self, record: &Record<'a>, range: &Range, like: &Event<'a>) -> Option<Event<'a>> {
        let process = self.cursors[self.current].process;
        if range.kind == RangeKind::Map && !self.map(process, &record.payload) {
            return None;
        }
        let (parts, holes) = range.parts(&mut self.spaces[process.index()].space);
        let stray = match range.kind {
            RangeKind::Access => true,
            // Calls of the system may name more than what is mapped.
            RangeKind::Map | RangeKind::Unmap | RangeKind::Sync => parts.is_empty(),
        };
        for (address, length) in holes.into_iter().filter(|_| stray) {
            self.problem(ProblemKind::Unmapped { address, length });
        }
        if range.kind == RangeKind::Unmap {
            let space = &mut self.spaces[process.index()].space;
            space.unmap(range.address, range::whole_pages(range.length));
        }
        self.parts.extend(parts.iter().map(|part| Event {
            kind: range::part(&record.payload, part),
            ..*like
        }));
        self.parts.pop_front()
    }

    /// Applies a mapping; says whether it could.
    fn map(&mut self, process: ProcessIndex, map: &Payload<'_>) -> bool {
        let Payload::Map {
            address,
            length,
            file: number,
            file_offset,
            shared,
        } = *map
        else {
            return false;
        };
        let table = &self.recording.files;
        let file = find_file(&self.recording.processes, process, number);
        let file = if shared {
            file
        } else {
            file.and_then(|file| table.find_private(file))
        };
        let space = &mut self.spaces[process.index()].space;
        let length = range::whole_pages(length);
        let done = file
            .and_then(|file| space.map(address, length, file, file_offset))
            .is_some();
        if !done {
            self.problem(ProblemKind::UnknownFile { number });
        }
        done
    }
}

impl<'a> Iterator for Events<'a> {
    type Item = Event<'a>;

    #[inline]
    fn next(&mut self) -> Option<Event<'a>> {
        if let Some(part) = self.parts.pop_front() {
            return Some(part);
        }
        loop {
            let record = self.next_record()?;
            let event = self.deliver(record);
            if event.is_some() {
                return event;
            }
        }
    }
}
