//! Several processes: what they share, and what a child has from its parent.

use crashpoint_abi::record::Payload;
use crashpoint_ir::ModelId;
use crashpoint_trace::writer::{
    FileSpec, POOL_ADDRESS, ProcessKey, ProcessSpec, RecordingBuilder, ThreadKey,
};
use crashpoint_trace::{
    EventKind, FileIndex, PmAddress, PmPlace, ProblemKind, ProcessIndex, Recording, SiteId,
    ThreadIndex, ThreadSync,
};

const PAGE: u64 = 4096;

fn child(builder: &mut RecordingBuilder, pid: u32, parent: &str) -> ProcessKey {
    builder.process(ProcessSpec {
        pid,
        parent: Some(parent.to_owned()),
        ..ProcessSpec::default()
    })
}

fn pool_file(inode: u64) -> FileSpec {
    FileSpec {
        path: format!("/dev/shm/pool{inode}"),
        device: 1,
        inode,
        size_bytes: 1 << 20,
        image: None,
    }
}

fn map(builder: &mut RecordingBuilder, thread: ThreadKey, address: u64, file: u32, offset: u64) {
    let map = Payload::Map {
        address,
        length: PAGE,
        file,
        file_offset: offset,
        shared: true,
    };
    builder.event(thread, 0, map);
}

fn fork(builder: &mut RecordingBuilder, thread: ThreadKey, pid: u64) {
    let kind = ThreadSync::Fork;
    builder.event(thread, 0, Payload::Sync { kind, object: pid });
}

fn places(recording: &Recording) -> Vec<(ThreadIndex, PmPlace)> {
    let stores = recording.events().filter_map(|event| match event.kind {
        EventKind::Store { place, .. } => Some((event.thread, place)),
        _ => None,
    });
    stores.collect()
}

#[test]
fn a_forked_child_has_the_mappings_its_parent_had_at_the_fork() {
    for child_is_first in [false, true] {
        let mut builder = RecordingBuilder::new();
        let parent = builder.pool("/dev/shm/pool", 1 << 20);
        let process = child(&mut builder, 200, "p100-0");
        let thread = builder.thread(process);
        if child_is_first {
            // The child runs before the parent gets to report the fork.
            builder.store(thread, 7, POOL_ADDRESS + 8, &[1]);
        }
        fork(&mut builder, parent, 200);
        let unmap = Payload::Unmap {
            address: POOL_ADDRESS,
            length: 1 << 20,
        };
        builder.event(parent, 0, unmap);
        builder.store(thread, 7, POOL_ADDRESS + 64, &[1]);
        let recording = builder.build().unwrap();
        let mut events = recording.events();
        let last = events.by_ref().last().expect("events");
        assert_eq!(events.problems(), &[]);
        let EventKind::Store { place, .. } = last.kind else {
            panic!("{last:?}");
        };
        assert_eq!(place.pm, PmAddress::new(FileIndex(0), 64));
        // The child registered no module of its own: sites are its parent's.
        assert_eq!(last.site, SiteId(7));
        assert_eq!(recording.processes()[1].parent, Some(ProcessIndex(0)));
    }
}

#[test]
fn a_program_that_replaces_itself_has_no_mappings() {
    let mut builder = RecordingBuilder::new();
    builder.pool("/dev/shm/pool", 1 << 20);
    let process = builder.process(ProcessSpec {
        run: 1,
        parent: Some("p100-0".to_owned()),
        ..ProcessSpec::default()
    });
    let thread = builder.thread(process);
    builder.store(thread, 0, POOL_ADDRESS, &[1, 2]);
    builder.store(thread, 0, POOL_ADDRESS + 8, &[1, 2]);
    let recording = builder.build().unwrap();
    let mut events = recording.events();
    assert_eq!(events.by_ref().count(), 1);
    let [problem] = events.problems() else {
        panic!("one problem");
    };
    assert_eq!(problem.count, 2);
    let address = POOL_ADDRESS;
    assert_eq!(problem.kind, ProblemKind::Unmapped { address, length: 2 });
}

#[test]
fn one_byte_of_a_file_has_one_address() {
    let mut builder = RecordingBuilder::new();
    let first = builder.process(ProcessSpec::default());
    let second = builder.process(ProcessSpec {
        pid: 101,
        ..ProcessSpec::default()
    });
    let (a, b) = (builder.thread(first), builder.thread(second));
    // The second process knows another file first, so that its numbers differ.
    let mine = builder.file(first, pool_file(5));
    builder.file(second, pool_file(4));
    let yours = builder.file(second, pool_file(5));
    assert_ne!(mine, yours);
    map(&mut builder, a, 0x10_0000, mine, 0);
    map(&mut builder, a, 0x20_0000, mine, 0);
    map(&mut builder, b, 0x10_0000, yours, 0);
    for (thread, address) in [(a, 0x10_0010), (a, 0x20_0010), (b, 0x10_0010)] {
        builder.store(thread, 0, address, &[1]);
    }
    let recording = builder.build().unwrap();
    assert_eq!(recording.files().len(), 2);
    let places = places(&recording);
    assert!(
        places.iter().all(|(_, place)| place.pm == places[0].1.pm),
        "{places:?}"
    );
    assert_eq!(places.len(), 3);
}

#[test]
fn a_store_over_two_mappings_is_split() {
    let mut builder = RecordingBuilder::new();
    let process = builder.process(ProcessSpec::default());
    let thread = builder.thread(process);
    let file = builder.file(process, pool_file(5));
    map(&mut builder, thread, 0x10_0000, file, 0);
    map(&mut builder, thread, 0x10_1000, file, 5 * PAGE);
    let order = builder.store(thread, 0, 0x10_0ffe, &[1, 2, 3, 4]);
    let recording = builder.build().unwrap();
    let parts: Vec<_> = recording.events().skip(2).collect();
    assert!(parts.iter().all(|part| part.order == order));
    let stored: Vec<(u64, &[u8])> = parts
        .iter()
        .map(|part| match part.kind {
            EventKind::Store { place, bytes, .. } => (place.pm.offset(), bytes),
            _ => panic!("{part:?}"),
        })
        .collect();
    assert_eq!(stored, [(0xffe, &[1, 2][..]), (5 * PAGE, &[3, 4][..])]);
}

#[test]
fn private_mappings_are_files_of_their_own() {
    let mut builder = RecordingBuilder::new();
    let thread = builder.pool("/dev/shm/pool", 1 << 20);
    let private = Payload::Map {
        address: 0x10_0000,
        length: PAGE,
        file: 0,
        file_offset: 0,
        shared: false,
    };
    builder.event(thread, 0, private);
    builder.store(thread, 0, 0x10_0000, &[1]);
    let recording = builder.build().unwrap();
    let file = places(&recording)[0].1.pm.file();
    assert!(recording.file(file).private);
    assert!(!recording.files()[0].private);
}

#[test]
fn the_same_place_has_the_same_number_in_every_process() {
    let models = [ModelId([1; 16]), ModelId([2; 16])];
    let mut builder = RecordingBuilder::new();
    let mut threads = Vec::new();
    for (pid, order) in [(100, [0, 1]), (101, [1, 0])] {
        let process = builder.process(ProcessSpec {
            pid,
            ..ProcessSpec::default()
        });
        for index in order {
            builder.module(process, models[index], 10, "/bin/store");
        }
        threads.push(builder.thread(process));
    }
    // Site 3 of the second model, called from site 4 of the first.
    builder.stack(threads[0], &[1 + 4]);
    builder.fence(threads[0], 1 + 10 + 3);
    builder.stack(threads[1], &[1 + 10 + 4]);
    builder.fence(threads[1], 1 + 3);
    builder.fence(threads[1], 1 + 20);
    let recording = builder.build().unwrap();
    let mut events = recording.events();
    let all: Vec<_> = events.by_ref().collect();
    assert_eq!((all[0].site, all[0].context), (all[1].site, all[1].context));
    let local = crashpoint_ir::SiteId(3);
    assert_eq!(recording.locate(all[0].site), Some((1, local)));
    assert_eq!(recording.site(models[1], local), Some(all[0].site));
    assert_eq!(all[2].site, SiteId::NONE);
    assert_eq!(
        events.problems()[0].kind,
        ProblemKind::UnknownSite { site: 21 }
    );
}

#[test]
fn threads_are_sorted_by_process_and_number() {
    let mut builder = RecordingBuilder::new();
    let first = builder.process(ProcessSpec::default());
    let second = builder.process(ProcessSpec {
        pid: 99,
        ..ProcessSpec::default()
    });
    for process in [second, first, second] {
        builder.thread(process);
    }
    let recording = builder.build().unwrap();
    let threads = recording.threads().iter();
    let found: Vec<_> = threads
        .map(|thread| (thread.process.0, thread.number))
        .collect();
    assert_eq!(found, [(0, 0), (1, 0), (1, 1)]);
}

#[test]
fn numbers_taken_twice_are_counted_and_stay_in_order() {
    let mut builder = RecordingBuilder::new();
    let thread = builder.pool("/dev/shm/pool", PAGE);
    let other = builder.thread(builder.process_of(thread));
    for (thread, order) in [(thread, 10), (other, 10), (thread, 12), (thread, 11)] {
        let kind = crashpoint_trace::FenceKind::Sfence;
        builder.event_at(thread, order, 0, Payload::Fence { kind });
    }
    let recording = builder.build().unwrap();
    let mut events = recording.events();
    let orders: Vec<u64> = events.by_ref().map(|event| event.order).collect();
    assert_eq!(orders, [1, 10, 10, 12, 12]);
    let counts: u64 = events.problems().iter().map(|problem| problem.count).sum();
    assert_eq!(counts, 2);
}

#[test]
fn the_first_to_map_a_file_tells_what_it_was() {
    let mut builder = RecordingBuilder::new();
    let mut threads = Vec::new();
    for pid in [100, 101] {
        let process = builder.process(ProcessSpec {
            pid,
            ..ProcessSpec::default()
        });
        // Only the process that came first maps an old file.
        let file = FileSpec {
            path: format!("/by/{pid}/pool"),
            image: (pid == 100).then(|| vec![1; 10]),
            ..pool_file(5)
        };
        threads.push((builder.thread(process), builder.file(process, file)));
    }
    for (thread, file) in threads.into_iter().rev() {
        map(&mut builder, thread, 0x10_0000, file, 0);
    }
    let recording = builder.build().unwrap();
    let [file] = recording.files() else {
        panic!("one file");
    };
    assert!(file.path.starts_with("/by/101"), "{file:?}");
    assert_eq!(file.image, None);
}

#[test]
fn modules_that_overlap_are_noticed() {
    let mut builder = RecordingBuilder::new();
    builder.pool("/dev/shm/pool", PAGE);
    let mut files = builder.files();
    let line = r#"{"module":{"model":"00112233445566778899aabbccddeeff","site_base":5,
        "site_count":9,"binary":"/a","bias":0}}"#;
    files[1].1.extend(line.replace('\n', "").bytes());
    let recording = crashpoint_trace::writer::from_files(files).unwrap();
    let [problem] = recording.problems() else {
        panic!("one problem");
    };
    assert_eq!(problem.kind, ProblemKind::SitesOverlap { site_base: 5 });
}
