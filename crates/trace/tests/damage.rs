//! Damaged recordings: what lies before the damage is read, and nothing panics.

use crashpoint_abi::Level;
use crashpoint_abi::flow::Flow;
use crashpoint_abi::layout::STREAM_HEADER_BYTES;
use crashpoint_trace::writer::{POOL_ADDRESS, ProcessSpec, RecordingBuilder, from_files};
use crashpoint_trace::{ExitCall, OpenErrorKind, ProblemKind, Recording, ThreadIndex};
use proptest::prelude::*;

type Files = Vec<(String, Vec<u8>)>;

fn sample() -> RecordingBuilder {
    let mut builder = RecordingBuilder::new();
    let first = builder.pool("/dev/shm/pool", 1 << 20);
    let process = builder.process_of(first);
    let second = builder.thread(process);
    builder.end(process, ExitCall::Exit, 0);
    for index in 0..20 {
        let thread = if index % 3 == 0 { second } else { first };
        let address = POOL_ADDRESS + index * 72;
        builder.stack(thread, &[5, 6 + index as u32 % 2, 7]);
        builder.store(thread, 100 + index as u32, address, &index.to_le_bytes());
        builder.flush(thread, 2, address);
        builder.fence(thread, 70_000);
        builder.call(thread, 9, &[index, 1]);
        builder.returned(thread, 9, index);
    }
    builder
}

fn with_flow() -> RecordingBuilder {
    let mut builder = RecordingBuilder::new();
    let process = builder.process(ProcessSpec {
        level: Level::Value,
        ..ProcessSpec::default()
    });
    builder.module(process, crashpoint_ir::ModelId([3; 16]), 100, "/bin/store");
    let thread = builder.thread(process);
    for record in flow_records() {
        builder.flow(thread, &record);
    }
    builder
}

fn flow_records() -> Vec<Flow> {
    vec![
        Flow::Enter { site: 5 },
        Flow::Address(0x7f12_3456_789a),
        Flow::Branch { successor: 1 },
        Flow::Word(1 << 40),
        Flow::Switch { successor: 300 },
        Flow::Value {
            bytes: [7; 64],
            size: 64,
        },
        Flow::AfterCall,
        Flow::Landed { depth: 2, site: 6 },
        Flow::Return,
    ]
}

/// Everything a reader can do with a recording.
fn use_all(recording: &Recording) -> Vec<String> {
    let mut events = recording.events();
    let mut lines: Vec<String> = Vec::new();
    for event in &mut events {
        let stack = recording.stack(event.context);
        lines.push(format!(
            "{event:?} {stack:?} {:?}",
            recording.locate(event.site)
        ));
    }
    for problem in recording.problems().iter().chain(events.problems()) {
        assert!(!problem.to_string().is_empty());
    }
    for thread in 0..recording.threads().len() {
        if let Some(mut flow) = recording.flow(ThreadIndex(thread as u32)) {
            lines.extend((&mut flow).map(|event| format!("{event:?}")));
        }
    }
    lines
}

fn stream<'a>(files: &'a mut Files, name: &str) -> &'a mut Vec<u8> {
    let file = files.iter_mut().find(|(known, _)| known == name);
    &mut file.expect("the stream is there").1
}

#[test]
fn a_stream_cut_at_any_byte_is_read_up_to_the_cut() {
    let whole = sample();
    let all = use_all(&whole.build().unwrap());
    let length = stream(&mut whole.files(), "p100-0.t0.pm").len();
    let mut lines = all.len();
    for cut in (STREAM_HEADER_BYTES..length).rev() {
        let mut files = whole.files();
        stream(&mut files, "p100-0.t0.pm").truncate(cut);
        let recording = from_files(files).unwrap();
        let read = use_all(&recording);
        assert!(
            read.len() <= lines,
            "the longer the stream, the more is read"
        );
        lines = read.len();
        let of_first = |line: &&String| line.contains("ThreadIndex(0)");
        let before = all
            .iter()
            .filter(of_first)
            .take(read.iter().filter(of_first).count());
        assert!(before.eq(read.iter().filter(of_first)), "cut at {cut}");
        let problem = &recording.problems()[0];
        assert!(
            matches!(problem.kind, ProblemKind::BadPositions { .. }),
            "{problem}"
        );
        let thread = &recording.threads()[0];
        if let Some(cut) = &thread.cut {
            assert_eq!(cut.kind, ProblemKind::Truncated);
        }
    }
    assert_eq!(lines, use_all(&without_first(&whole)).len());
}

/// The recording with nothing in the first thread's stream.
fn without_first(builder: &RecordingBuilder) -> Recording {
    let mut files = builder.files();
    stream(&mut files, "p100-0.t0.pm").truncate(STREAM_HEADER_BYTES);
    from_files(files).unwrap()
}

#[test]
fn a_header_cut_at_any_byte_leaves_no_events() {
    let whole = sample();
    for cut in (0..STREAM_HEADER_BYTES)
        .step_by(37)
        .chain([4095, 4096, 4097])
    {
        let mut files = whole.files();
        stream(&mut files, "p100-0.t0.pm").truncate(cut);
        let recording = from_files(files).unwrap();
        assert!(!recording.problems().is_empty());
        assert_eq!(recording.threads()[0].bytes, 0);
        use_all(&recording);
    }
}

#[test]
fn records_in_a_window_of_a_killed_target_are_read() {
    for window in 0..2 {
        let mut builder = RecordingBuilder::new();
        let thread = builder.pool("/dev/shm/pool", 1 << 20);
        builder.store(thread, 1, POOL_ADDRESS, &[1]);
        builder.unsettled(thread, window);
        builder.store(thread, 2, POOL_ADDRESS, &[2]);
        let recording = builder.build().unwrap();
        assert_eq!(recording.problems(), &[]);
        assert_eq!(recording.events().count(), 3);
    }
}

#[test]
fn a_meta_cut_at_any_byte_is_an_error_or_a_problem() {
    let whole = sample();
    let length = stream(&mut whole.files(), "p100-0.meta").len();
    for cut in 0..length {
        let mut files = whole.files();
        stream(&mut files, "p100-0.meta").truncate(cut);
        match from_files(files) {
            Ok(recording) => {
                use_all(&recording);
            }
            Err(error) => assert!(
                matches!(
                    error.kind,
                    OpenErrorKind::BadMeta { .. } | OpenErrorKind::MissingMeta { .. }
                ),
                "{error}"
            ),
        }
    }
}

#[test]
fn flow_is_read_up_to_the_cut() {
    let whole = with_flow();
    let all = use_all(&whole.build().unwrap());
    assert_eq!(all.len(), flow_records().len());
    let length = stream(&mut whole.files(), "p100-0.t0.flow").len();
    for cut in STREAM_HEADER_BYTES..length {
        let mut files = whole.files();
        stream(&mut files, "p100-0.t0.flow").truncate(cut);
        let recording = from_files(files).unwrap();
        let read = use_all(&recording);
        assert_eq!(read, all[..read.len()]);
        assert!(!recording.problems().is_empty());
    }
}

#[test]
fn flow_without_a_pm_stream_is_a_problem() {
    let mut files = with_flow().files();
    files.retain(|(name, _)| name != "p100-0.t0.pm");
    let recording = from_files(files).unwrap();
    let kinds: Vec<_> = recording.problems().iter().map(|p| &p.kind).collect();
    assert_eq!(kinds, [&ProblemKind::FlowWithoutPm]);
}

#[test]
fn a_damaged_record_ends_its_stream_and_no_other() {
    let mut files = sample().files();
    let bytes = stream(&mut files, "p100-0.t0.pm");
    bytes[STREAM_HEADER_BYTES + 100..].fill(0xff);
    let recording = from_files(files).unwrap();
    let [problem] = recording.problems() else {
        panic!("one problem");
    };
    assert!(problem.offset >= STREAM_HEADER_BYTES as u64);
    assert_eq!(recording.threads()[0].cut.as_ref(), Some(problem));
    assert!(recording.threads()[1].cut.is_none());
    let mut events = recording.events();
    assert!(events.any(|event| event.thread == ThreadIndex(1)));
}

#[test]
fn a_stream_whose_positions_are_nonsense_is_read_up_to_the_first_zero() {
    let mut files = sample().files();
    let all = use_all(&from_files(files.clone()).unwrap());
    let bytes = stream(&mut files, "p100-0.t0.pm");
    bytes.extend([0; 4096]);
    let cursor = std::mem::offset_of!(crashpoint_abi::StreamHeader, cursor);
    bytes[cursor..cursor + 8].copy_from_slice(&u64::MAX.to_le_bytes());
    let recording = from_files(files).unwrap();
    assert_eq!(use_all(&recording), all);
    let kinds: Vec<_> = recording.problems().iter().map(|p| &p.kind).collect();
    assert!(matches!(kinds[..], [ProblemKind::BadPositions { .. }]));
}

proptest! {
    #[test]
    fn flipped_bytes_never_panic(
        flips in prop::collection::vec(
            (any::<prop::sample::Index>(), 0usize..2000, any::<u8>()),
            1..6,
        ),
        flow: bool,
    ) {
        let mut files = if flow { with_flow() } else { sample() }.files();
        for (file, at, value) in flips {
            let (_, bytes) = file.get_mut(&mut files);
            // Most bytes of a stream are empty windows: aim at the header and at the records.
            let at = if at < 100 { at } else { at - 100 + STREAM_HEADER_BYTES };
            let at = if bytes.len() <= STREAM_HEADER_BYTES { at % bytes.len() } else { at };
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= value;
            }
        }
        if let Ok(recording) = from_files(files) {
            use_all(&recording);
        }
    }
}
