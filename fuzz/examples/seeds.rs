//! Writes inputs to start from into `corpus/`, so that fuzzing begins behind the front door.

#[path = "../../crates/ir/tests/common/mod.rs"]
mod common;

use crashpoint_abi::flow;
use crashpoint_abi::layout::STREAM_HEADER_BYTES;
use crashpoint_abi::record::{Payload, ThreadSync};
use crashpoint_ir::binary;
use crashpoint_trace::writer::{POOL_ADDRESS, RecordingBuilder};
use std::io;
use std::path::Path;

fn main() -> io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let traces = corpus.join("trace_reader");
    std::fs::create_dir_all(&traces)?;
    std::fs::write(traces.join("whole"), trace_seed(0x0f))?;
    std::fs::write(traces.join("damaged"), trace_seed(0x11))?;
    let models = corpus.join("model_decoder");
    std::fs::create_dir_all(&models)?;
    for seed in 0..20 {
        let (_, blob) = binary::encode(&common::module(seed));
        let raw = binary::unwrap(&blob).expect("it was just made");
        std::fs::write(
            models.join(format!("section-{seed}")),
            [&[0], &blob[..]].concat(),
        )?;
        std::fs::write(
            models.join(format!("raw-{seed}")),
            [&[1], &raw[4..]].concat(),
        )?;
    }
    Ok(())
}

fn trace_seed(damage: u8) -> Vec<u8> {
    let mut builder = RecordingBuilder::new();
    let first = builder.pool("/p", 1 << 16);
    let second = builder.thread(builder.process_of(first));
    for (thread, index) in [(first, 0), (second, 1), (first, 2), (second, 3)] {
        builder.stack(thread, &[5, 6 + index as u32 % 2]);
        builder.store(thread, 7, POOL_ADDRESS + index * 100, &[1; 8]);
        builder.store(thread, 7, POOL_ADDRESS + index * 100, &[2; 100]);
        builder.flush(thread, 8, POOL_ADDRESS + index * 100);
        builder.fence(thread, 9);
        builder.call(thread, 10, &[index, 2]);
        builder.returned(thread, 10, 3);
    }
    let (kind, object) = (ThreadSync::Create, 1);
    builder.event(first, 0, Payload::Sync { kind, object });
    let (address, length) = (POOL_ADDRESS, 1 << 16);
    builder.event(first, 0, Payload::Msync { address, length });
    builder.event(first, 0, Payload::Unmap { address, length });
    let files = builder.files();
    let records = |name: &str| {
        let file = files.iter().find(|(known, _)| known == name);
        file.expect("the stream is there").1[STREAM_HEADER_BYTES..].to_vec()
    };
    let flow = [flow::ENTER, 5, 0, 0, 0, flow::BRANCH, flow::RETURN];
    let mut seed = vec![damage];
    seed.extend(br#"{"library":{"path":"/l","base":1,"end":2,"instrumented":false}}"#);
    for part in [
        records("p100-0.t0.pm"),
        records("p100-0.t1.pm"),
        flow.to_vec(),
    ] {
        seed.push(0xf5);
        seed.extend(part);
    }
    seed
}
