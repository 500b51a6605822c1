//! What the fuzz targets share: wrapping their input so that it passes the outer checks.

use crashpoint_abi::layout::{
    STREAM_HEADER_BYTES, STREAM_MAGIC, STREAM_PM, THREAD_OFFSET, offsets,
};
use crashpoint_abi::{StreamHeader, TRACE_VERSION};
use std::mem::offset_of;

/// The parts of a recording that a fuzzer chooses.
pub struct Shape<'a> {
    /// Lines after the first one of the description.
    pub meta: &'a [u8],
    /// Records of two PM streams.
    pub streams: [&'a [u8]; 2],
    pub flow: &'a [u8],
    /// Which field of the headers to damage, and how.
    pub damage: u8,
}

const HEAD: &str = r#"{"crashpoint":1,"abi":1,"pid":1,"run":0,"parent":null,"level":"value",
"executable":"/a","arguments":[],"directory":"/","started_ns":0}
{"module":{"model":"00000000000000000000000000000001","site_base":1,"site_count":200,
"binary":"/a","bias":0,"globals":[]}}
{"file":{"number":0,"path":"/p","device":1,"inode":1,"size":65536,"image":null}}
"#;

/// The files of a recording, by name.
pub fn files(shape: &Shape<'_>) -> Vec<(String, Vec<u8>)> {
    let mut meta = String::new();
    for line in HEAD.split_inclusive("}\n") {
        meta.push_str(&line.trim_end().replace('\n', ""));
        meta.push('\n');
    }
    let mut meta = meta.into_bytes();
    meta.extend(shape.meta);
    let mut files = vec![("p1-0.meta".to_owned(), meta)];
    for (thread, records) in shape.streams.into_iter().enumerate() {
        let stream = stream(thread as u32, records, shape);
        files.push((format!("p1-0.t{thread}.pm"), stream));
    }
    let mut flow = vec![0; STREAM_HEADER_BYTES];
    flow[..8].copy_from_slice(&STREAM_MAGIC);
    flow[8..12].copy_from_slice(&TRACE_VERSION.to_le_bytes());
    flow.extend(shape.flow);
    files.push(("p1-0.t0.flow".to_owned(), flow));
    files
}

fn stream(thread: u32, records: &[u8], shape: &Shape<'_>) -> Vec<u8> {
    const WINDOW: u64 = 0x7000_0000_0000;
    let mut file = vec![0; STREAM_HEADER_BYTES];
    file[..8].copy_from_slice(&STREAM_MAGIC);
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    put(
        offset_of!(StreamHeader, version),
        &TRACE_VERSION.to_le_bytes(),
    );
    put(offset_of!(StreamHeader, kind), &STREAM_PM.to_le_bytes());
    put(offset_of!(StreamHeader, process), &1u32.to_le_bytes());
    put(offset_of!(StreamHeader, thread), &thread.to_le_bytes());
    let end = (STREAM_HEADER_BYTES + records.len()) as u64;
    let flow_end = (STREAM_HEADER_BYTES + shape.flow.len()) as u64;
    let mut fields = [
        (offset_of!(StreamHeader, window_address), WINDOW),
        (offset_of!(StreamHeader, window_offset), end),
        (offset_of!(StreamHeader, second_window_offset), end),
        (offset_of!(StreamHeader, cursor), WINDOW),
        (offset_of!(StreamHeader, flow_window_address), WINDOW),
        (offset_of!(StreamHeader, flow_window_offset), flow_end),
        (THREAD_OFFSET + offsets::THREAD_FLOW_CURSOR, WINDOW),
    ];
    // The low half of the byte chooses a field, or none; the high half what happens to it.
    if let Some((_, value)) = fields.get_mut(usize::from(shape.damage & 0xf)) {
        *value = value.wrapping_add_signed(i64::from(shape.damage as i8 >> 4) * 16);
    }
    for (at, value) in fields {
        put(at, &value.to_le_bytes());
    }
    file.extend(records);
    file
}

/// A blob around the content of a model, with the right version and hash.
pub fn wrap_model(content: &[u8]) -> Vec<u8> {
    crashpoint_ir::binary::wrap(
        &[
            &crashpoint_ir::binary::FORMAT_VERSION.to_le_bytes(),
            content,
        ]
        .concat(),
    )
}

/// A stream of a recording of files, from a list of records: two bytes of length, then content.
/// The first one is the start of a recording, so that the rest is looked at.
pub fn wrap_records(mut list: &[u8]) -> Vec<u8> {
    let mut stream = b"CPFILES\0\x01\0\0\0\0\0\0\0".to_vec();
    let mut put = |content: &[u8]| {
        stream.extend((content.len() as u32).to_le_bytes());
        stream.extend(crc32fast::hash(content).to_le_bytes());
        stream.extend(content);
    };
    // Record 0, no command, two empty paths of Unix, no stacks.
    put(&[0, 0, 0, 0, 0, 0, 0]);
    while let Some((&[low, high], rest)) = list.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes([low, high]) % 600).min(rest.len());
        let (content, rest) = rest.split_at(length);
        put(content);
        list = rest;
    }
    stream
}
