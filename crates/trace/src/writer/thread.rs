//! The streams of one thread, as files.

use crashpoint_abi::flow::{self, Flow};
use crashpoint_abi::layout::{
    STREAM_FLOW, STREAM_HEADER_BYTES, STREAM_MAGIC, STREAM_PM, THREAD_OFFSET, WINDOW_BYTES,
    WINDOWS_OFFSET, offsets,
};
use crashpoint_abi::record::{self, MAX_HEAD_BYTES, Memory, Payload, Record};
use crashpoint_abi::{StreamHeader, TRACE_VERSION};
use rustc_hash::FxHashMap;
use std::mem::offset_of;

/// Where the windows lie in the target, by pretence.
const WINDOW_ADDRESS: usize = 0x7000_0000_0000;

/// A thread under construction.
#[derive(Clone, Debug)]
pub(super) struct ThreadDraft {
    pub(super) process: usize,
    pub(super) number: u32,
    memory: Memory,
    records: Vec<u8>,
    /// The writer was killed when the records from here on stood in this window (0 or 1).
    window: Option<(usize, usize)>,
    flow: Option<Vec<u8>>,
    contexts: FxHashMap<(u32, u32), u32>,
    context: u32,
    pub(super) limit_reached: bool,
}

impl ThreadDraft {
    pub(super) fn new(process: usize, number: u32, with_flow: bool) -> ThreadDraft {
        ThreadDraft {
            process,
            number,
            memory: Memory::default(),
            records: Vec::new(),
            window: None,
            flow: with_flow.then(Vec::new),
            contexts: FxHashMap::default(),
            context: 0,
            limit_reached: false,
        }
    }

    /// What follows stands in a window.
    pub(super) fn unsettled(&mut self, window: usize) {
        self.window = Some((self.records.len(), window));
    }

    /// What follows happens below these calls.
    pub(super) fn stack(&mut self, sites: &[u32]) {
        let mut context = 0;
        for site in sites {
            let next = self.contexts.len() as u32 + 1;
            let known = *self.contexts.entry((context, *site)).or_insert(next);
            if known == next {
                self.put(&Record {
                    order: 0,
                    site: *site,
                    payload: Payload::DefineContext { parent: context },
                });
            }
            context = known;
        }
        if context != self.context {
            self.context = context;
            self.put(&Record {
                order: 0,
                site: 0,
                payload: Payload::Context(context),
            });
        }
    }

    pub(super) fn flow(&mut self, record: &Flow) {
        encode_flow(self.flow.get_or_insert_default(), record);
    }

    pub(super) fn put(&mut self, record: &Record<'_>) {
        let start = self.records.len();
        let extra = match record.payload {
            Payload::Store { bytes, .. } => bytes.len(),
            Payload::Call { arguments } => arguments.len(),
            _ => 0,
        };
        self.records.resize(start + MAX_HEAD_BYTES + extra, 0);
        let size = record::encode(&mut self.records[start..], &mut self.memory, record);
        self.records.truncate(start + size);
    }

    fn header(&self, pid: u32, kind: u32) -> Vec<u8> {
        let mut page = vec![0; STREAM_HEADER_BYTES];
        page[..8].copy_from_slice(&STREAM_MAGIC);
        let mut put = |at: usize, value: u32| {
            page[at..at + 4].copy_from_slice(&value.to_le_bytes());
        };
        put(offset_of!(StreamHeader, version), TRACE_VERSION);
        put(offset_of!(StreamHeader, kind), kind);
        put(offset_of!(StreamHeader, process), pid);
        put(offset_of!(StreamHeader, thread), self.number);
        put(offset_of!(StreamHeader, system_thread), pid + self.number);
        put(
            offset_of!(StreamHeader, limit_reached),
            self.limit_reached.into(),
        );
        page
    }

    pub(super) fn pm_file(&self, pid: u32) -> Vec<u8> {
        let mut file = self.header(pid, STREAM_PM);
        let (settled, window) = self.window.unwrap_or((self.records.len(), 0));
        let (written, pending) = self.records.split_at(settled);
        let mut put = |at: usize, value: usize| {
            file[at..at + 8].copy_from_slice(&(value as u64).to_le_bytes());
        };
        let end = STREAM_HEADER_BYTES + written.len();
        put(offset_of!(StreamHeader, window_address), WINDOW_ADDRESS);
        put(offset_of!(StreamHeader, window_offset), end);
        put(offset_of!(StreamHeader, second_window_offset), end);
        let window_start = window * WINDOW_BYTES;
        put(
            offset_of!(StreamHeader, cursor),
            WINDOW_ADDRESS + window_start + pending.len(),
        );
        if let Some(flow) = &self.flow {
            put(
                offset_of!(StreamHeader, flow_window_address),
                WINDOW_ADDRESS,
            );
            put(
                offset_of!(StreamHeader, flow_window_offset),
                STREAM_HEADER_BYTES + flow.len(),
            );
            put(THREAD_OFFSET + offsets::THREAD_FLOW_CURSOR, WINDOW_ADDRESS);
        }
        assert!(
            pending.len() < WINDOW_BYTES,
            "a window holds less than that"
        );
        let window = &mut file[WINDOWS_OFFSET + window_start..][..pending.len()];
        window.copy_from_slice(pending);
        file.extend(written);
        file
    }

    pub(super) fn flow_file(&self, pid: u32) -> Option<Vec<u8>> {
        let records = self.flow.as_ref()?;
        let mut file = self.header(pid, STREAM_FLOW);
        file.extend(records);
        Some(file)
    }
}

fn encode_flow(to: &mut Vec<u8>, record: &Flow) {
    match *record {
        Flow::Branch { successor } => to.push(flow::BRANCH + successor),
        Flow::Switch { successor } => {
            to.push(flow::SWITCH);
            to.extend(successor.to_le_bytes());
        }
        Flow::Address(address) => {
            to.push(flow::ADDRESS);
            to.extend(&address.to_le_bytes()[..6]);
        }
        Flow::Word(word) => {
            to.push(flow::WORD);
            to.extend(word.to_le_bytes());
        }
        Flow::Enter { site } => {
            to.push(flow::ENTER);
            to.extend(site.to_le_bytes());
        }
        Flow::Return => to.push(flow::RETURN),
        Flow::AfterCall => to.push(flow::AFTER_CALL),
        Flow::Landed { depth, site } => {
            to.push(flow::LANDED);
            to.extend(depth.to_le_bytes());
            to.extend(site.to_le_bytes());
        }
        Flow::Value { bytes, size } => {
            to.push(flow::VALUE + size.trailing_zeros() as u8);
            to.extend(&bytes[..usize::from(size)]);
        }
    }
}
