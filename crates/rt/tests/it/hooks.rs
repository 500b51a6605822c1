//! What hooks write is what the program did.

use crate::support::{Bench, Link, What};
use crashpoint_abi::flow::Flow;
use crashpoint_abi::record::{FenceKind, FlushKind, StoreKind, ThreadSync};

#[test]
fn every_hook_leaves_its_record() {
    let bench = Bench::new();
    let program = bench.compile("basic.c", Link::Shared, &[]);
    let mut command = bench.command(&program);
    command.env("CRASHPOINT_CALLS", "my_*");
    let output = command.arg("pool").output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text, "pending 1\npending 0\nwatched 1 0 1\n");
    let recording = bench.recording();
    let run = recording.run();
    let p = run.base();
    assert_eq!(p, 0x1000_0000_0000);
    let plain = |value: u64, at| What::Store(StoreKind::Plain, at, value.to_le_bytes().to_vec());
    let value = 0x1122_3344_5566_7788;
    let found: Vec<_> = run
        .events()
        .into_iter()
        .map(|event| (event.site, event.stack, event.what))
        .collect();
    let inner = |caller: u32, at: u64| {
        [
            (11, vec![caller], plain(value, at)),
            (12, vec![caller], What::Flush(FlushKind::Clwb, at)),
            (13, vec![caller], What::Fence(FenceKind::Sfence)),
        ]
    };
    let map = What::Map {
        address: p,
        length: 1 << 20,
        file: 1,
        offset: 0,
    };
    let mut expected = vec![(u32::MAX, vec![], map), (2, vec![], plain(7, p))];
    expected.extend(inner(3, p + 8));
    expected.extend(inner(3, p + 8));
    expected.extend(inner(4, p + 16));
    let text = b"some bytes that are not all one.".to_vec();
    let rest = [
        (5, What::Fill(StoreKind::Memory, p + 800, 100, 0x5a)),
        (6, What::Store(StoreKind::NonTemporal, p + 1600, text)),
        (6, What::Store(StoreKind::Memory, p + 2400, b"odd".to_vec())),
        (7, What::Load(p, 8)),
        (8, What::Opaque),
        (9, What::Call(vec![1, u64::MAX])),
        (9, What::Return(42)),
        (20, What::Sync(ThreadSync::Acquire, p)),
        (21, What::Store(StoreKind::Atomic, p + 3200, vec![1])),
        (22, What::Fence(FenceKind::Mfence)),
        (4, What::Unmap(p, 1 << 20)),
        (u32::MAX, What::Sync(ThreadSync::ProcessExit, 0)),
    ];
    expected.extend(rest.map(|(site, what)| (site, vec![], what)));
    assert_eq!(found, expected);
    let orders: Vec<u64> = run.events().iter().map(|event| event.order).collect();
    assert_eq!(orders, (1..=orders.len() as u64).collect::<Vec<_>>());
    assert_eq!(run.end(), Some(("exit", 3)));
}

#[test]
fn the_meta_file_describes_the_process() {
    let bench = Bench::new();
    let program = bench.compile("basic.c", Link::Shared, &[]);
    bench.command(&program).arg("pool").output().unwrap();
    let recording = bench.recording();
    let run = recording.run();
    let first = &run.meta[0];
    assert_eq!(first["crashpoint"], 1);
    assert_eq!(first["abi"], crashpoint_abi::ABI_VERSION);
    assert_eq!(first["level"], "pm");
    assert_eq!(first["parent"], serde_json::Value::Null);
    assert_eq!(run.name, format!("p{}-{}", first["pid"], first["run"]));
    let program = program.canonicalize().unwrap();
    assert_eq!(first["executable"], program.to_str().unwrap());
    assert_eq!(first["arguments"][1], "pool");
    let module = run.lines("module")[0];
    assert_eq!(module["model"], "ab010203000000000000000000000000");
    assert_eq!(
        (&module["site_base"], &module["site_count"]),
        (&1.into(), &1000.into())
    );
    assert_eq!(module["binary"], program.to_str().unwrap());
    let globals = module["globals"].as_array().unwrap();
    assert!(globals[0].as_u64() > module["bias"].as_u64());
    assert_eq!(globals[1], 0);
    let file = run.lines("file")[0];
    assert_eq!(file["number"], 1);
    assert_eq!(file["size"], 1 << 20);
    assert_eq!(file["image"], serde_json::Value::Null);
    let libraries = run.lines("library");
    let own = libraries
        .iter()
        .find(|library| library["path"] == program.to_str().unwrap());
    assert_eq!(own.unwrap()["instrumented"], true);
    let libc = libraries
        .iter()
        .find(|library| library["path"].as_str().unwrap().contains("libc.so"));
    assert_eq!(libc.unwrap()["instrumented"], false);
}

/// Decodes a flow stream: sites of functions that begin, branches, landings.
fn flow(bytes: &[u8]) -> Vec<Flow> {
    let mut at = 0;
    let mut all = Vec::new();
    while at < bytes.len() {
        let (record, size) = crashpoint_abi::flow::decode(&bytes[at..]).unwrap();
        all.push(record);
        at += size;
    }
    all
}

#[test]
fn flow_is_exact_whether_the_program_ends_or_is_killed() {
    for kill in [false, true] {
        let bench = Bench::new();
        let program = bench.compile("flow.c", Link::Shared, &[]);
        let mut command = bench.command(&program);
        command
            .env("CRASHPOINT_LEVEL", "flow")
            .args(["pool", "50001"]);
        if kill {
            command.arg("kill");
        }
        command.output().unwrap();
        let recording = bench.recording();
        let run = recording.run();
        assert_eq!(run.meta[0]["level"], "flow");
        let stream = &run.streams[&0];
        let mut expected = vec![Flow::Enter { site: 2 }];
        for index in 0..50_001 {
            expected.push(Flow::Enter { site: 11 });
            expected.push(Flow::Branch {
                successor: (index & 1) as u8,
            });
        }
        expected.push(Flow::Enter { site: 21 });
        expected.push(Flow::Enter { site: 22 });
        expected.push(Flow::Landed { depth: 1, site: 31 });
        let found = flow(stream.flow.as_ref().unwrap());
        assert_eq!(found.len(), expected.len(), "kill {kill}");
        assert!(found == expected, "kill {kill}");
        let last = stream
            .events
            .iter()
            .rfind(|event| event.site == 31)
            .unwrap();
        assert!(last.stack.is_empty());
        assert_eq!(run.stores(StoreKind::Plain).len(), 52);
    }
}

#[test]
fn loads_are_asked_for_by_the_gate() {
    let bench = Bench::new();
    let program = bench.compile("spans.c", Link::Shared, &[]);
    for (loads, text) in [("0", "0 1048576 0\n"), ("1", "0 1048576 1048576\n")] {
        let mut command = bench.command(&program);
        let output = command
            .env("CRASHPOINT_LOADS", loads)
            .arg("pool")
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), text);
    }
}

#[test]
fn long_ranges_are_kept_whole_over_several_records() {
    let bench = Bench::new();
    let recording = bench.record("ranges.c", &["pool"]);
    let run = recording.run();
    let mut next = 3;
    let mut content = Vec::new();
    for (site, offset, bytes) in run.stores(StoreKind::Memory) {
        assert_eq!((site, offset), (2, next));
        next += bytes.len() as u64;
        assert!(next % 8 == 0 || next == 3 + 500_000, "{next}");
        content.extend(bytes);
    }
    let expected: Vec<u8> = (0..500_000u32).map(|at| (at % 251) as u8).collect();
    assert!(content == expected);
}

#[test]
fn vectors_are_recorded_by_value() {
    let bench = Bench::new();
    let recording = bench.record("ranges.c", &["pool"]);
    let run = recording.run();
    let bytes = |length: u8| (0..length).collect::<Vec<u8>>();
    let expected = [16, 32, 64].map(|size| (size, 600_000 + u64::from(size), bytes(size as u8)));
    assert_eq!(run.stores(StoreKind::NonTemporal), expected);
    let cut = (7, (1 << 20) - 4096 - 8, bytes(8));
    assert_eq!(run.stores(StoreKind::Plain), [cut]);
    // The only thing that nobody reported.
    let foreign: Vec<_> = run.stores(StoreKind::Foreign);
    assert_eq!(foreign.len(), 1);
    assert_eq!(foreign[0].1, (1 << 20) - 15);
}
