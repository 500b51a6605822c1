//! What is written in any interleaving of threads and processes is read back, translated.
//!
//! The expectation is computed page by page from the plan, without the reader's own data
//! structures.

use crashpoint_abi::record::Payload;
use crashpoint_ir::ModelId;
use crashpoint_trace::writer::{FileSpec, ProcessKey, ProcessSpec, RecordingBuilder, ThreadKey};
use crashpoint_trace::{
    Arguments, Event, EventKind, FenceKind, FileIndex, FlushKind, PmAddress, PmPlace, ProblemKind,
    Recording, SiteId, StoreKind, ThreadIndex, ThreadSync,
};
use proptest::collection::vec;
use proptest::prelude::*;

const PAGE: u64 = 4096;
const BASE: u64 = 0x7f00_0000_0000;
const PAGES: u64 = 6;
const MODELS: [ModelId; 2] = [ModelId([1; 16]), ModelId([2; 16])];
const SITES: u32 = 50;

#[derive(Clone, Debug)]
enum Action {
    Store(StoreKind, u64, Vec<u8>),
    Fill(u64, u64, u8),
    Load(u64, u32),
    Flush(FlushKind, u64),
    Fence(FenceKind),
    Opaque,
    Call(Vec<u64>),
    Return(u64),
    Sync(ThreadSync, u64),
    Map {
        page: u64,
        pages: u64,
        file: u32,
        file_page: u64,
        shared: bool,
    },
    Unmap(u64, u64),
    Msync(u64, u64),
}

/// One step: who does what, where in the program, and how far the order jumps before it.
#[derive(Clone, Debug)]
struct Step {
    thread: usize,
    site: u32,
    stack: Vec<u32>,
    gap: u64,
    action: Action,
}

fn action() -> impl Strategy<Value = Action> {
    let address = || BASE..BASE + PAGES * PAGE;
    let store = prop_oneof![
        Just(StoreKind::Plain),
        Just(StoreKind::NonTemporal),
        Just(StoreKind::Foreign)
    ];
    let flush = prop_oneof![Just(FlushKind::Clflush), Just(FlushKind::Clwb)];
    let fence = prop_oneof![Just(FenceKind::Sfence), Just(FenceKind::Locked)];
    let sync = prop_oneof![Just(ThreadSync::Acquire), Just(ThreadSync::Create)];
    let map = (0..PAGES, 1..4u64, 0..2u32, 0..4u64, any::<bool>());
    prop_oneof![
        4 => (store, address(), vec(any::<u8>(), 1..100))
            .prop_map(|(k, a, b)| Action::Store(k, a, b)),
        1 => (address(), 0..3 * PAGE, any::<u8>()).prop_map(|(a, l, b)| Action::Fill(a, l, b)),
        1 => (address(), 1..64u32).prop_map(|(a, s)| Action::Load(a, s)),
        2 => (flush, address()).prop_map(|(k, a)| Action::Flush(k, a)),
        1 => fence.prop_map(Action::Fence),
        1 => Just(Action::Opaque),
        1 => vec(any::<u64>(), 0..8).prop_map(Action::Call),
        1 => any::<u64>().prop_map(Action::Return),
        1 => (sync, any::<u64>()).prop_map(|(k, o)| Action::Sync(k, o)),
        3 => map.prop_map(|(page, pages, file, file_page, shared)| Action::Map {
            page, pages, file, file_page, shared
        }),
        1 => (0..PAGES, 1..4u64).prop_map(|(p, n)| Action::Unmap(p, n)),
        1 => (address(), 1..3 * PAGE).prop_map(|(a, l)| Action::Msync(a, l)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let stack = vec(1..4u32, 0..4);
    let gap = prop_oneof![3 => Just(0u64), 1 => 1..5u64];
    (0..3usize, 0..2 * SITES, stack, gap, action()).prop_map(
        |(thread, site, stack, gap, action)| Step {
            thread,
            site,
            stack,
            gap,
            action,
        },
    )
}

struct Built {
    builder: RecordingBuilder,
    threads: [ThreadKey; 3],
}

/// Two processes, the first one with two threads, that register two models in different order and
/// share two files.
fn skeleton() -> Built {
    let mut builder = RecordingBuilder::new();
    let process = |builder: &mut RecordingBuilder, pid: u32, models: [ModelId; 2]| -> ProcessKey {
        let key = builder.process(ProcessSpec {
            pid,
            ..ProcessSpec::default()
        });
        for model in models {
            builder.module(key, model, SITES, "/bin/store");
        }
        for inode in 0..2 {
            builder.file(
                key,
                FileSpec {
                    path: format!("/dev/shm/{inode}"),
                    device: 7,
                    inode,
                    size_bytes: 8 * PAGE,
                    image: None,
                },
            );
        }
        key
    };
    let first = process(&mut builder, 10, MODELS);
    let second = process(&mut builder, 11, [MODELS[1], MODELS[0]]);
    let threads = [
        builder.thread(first),
        builder.thread(first),
        builder.thread(second),
    ];
    Built { builder, threads }
}

fn write(built: &mut Built, step: &Step, order: u64) {
    let Built { builder, threads } = built;
    let thread = threads[step.thread];
    builder.stack(thread, &step.stack);
    let words: Vec<u8>;
    let payload = match &step.action {
        Action::Store(kind, address, bytes) => Payload::Store {
            kind: *kind,
            address: *address,
            bytes,
        },
        Action::Fill(address, length, byte) => Payload::Fill {
            kind: StoreKind::Memory,
            address: *address,
            length: *length,
            byte: *byte,
        },
        Action::Load(address, size) => Payload::Load {
            address: *address,
            size: *size,
        },
        Action::Flush(kind, address) => Payload::Flush {
            kind: *kind,
            address: *address,
        },
        Action::Fence(kind) => Payload::Fence { kind: *kind },
        Action::Opaque => Payload::Opaque,
        Action::Call(arguments) => {
            words = arguments
                .iter()
                .flat_map(|word| word.to_le_bytes())
                .collect();
            Payload::Call { arguments: &words }
        }
        Action::Return(value) => Payload::Return { value: *value },
        Action::Sync(kind, object) => Payload::Sync {
            kind: *kind,
            object: *object,
        },
        Action::Map {
            page,
            pages,
            file,
            file_page,
            shared,
        } => Payload::Map {
            address: BASE + page * PAGE,
            length: pages * PAGE - 1,
            file: *file,
            file_offset: file_page * PAGE,
            shared: *shared,
        },
        Action::Unmap(page, pages) => Payload::Unmap {
            address: BASE + page * PAGE,
            length: pages * PAGE,
        },
        Action::Msync(address, length) => Payload::Msync {
            address: *address,
            length: *length,
        },
    };
    builder.event_at(thread, order, step.site, payload);
}

/// Pages of one process: which page of which file each one is.
type Pages = [Option<(FileIndex, u64)>; 16];

/// The parts of a range: place, offset in the range and length; and how many bytes are nowhere.
fn parts(pages: &Pages, address: u64, length: u64) -> (Vec<(PmPlace, u64, u64)>, u64) {
    let mut parts: Vec<(PmPlace, u64, u64)> = Vec::new();
    let (mut at, end, mut lost) = (address, address + length, 0);
    while at < end {
        let page = (at - BASE) / PAGE;
        let next = (BASE + (page + 1) * PAGE).min(end);
        match pages[page as usize] {
            None => lost += next - at,
            Some((file, file_page)) => {
                let pm = PmAddress::new(file, file_page * PAGE + at % PAGE);
                match parts.last_mut() {
                    Some((place, _, size))
                        if place.address + *size == at
                            && place.pm.file() == file
                            && place.pm.0 + *size == pm.0 =>
                    {
                        *size += next - at;
                    }
                    _ => parts.push((PmPlace { address: at, pm }, at - address, next - at)),
                }
            }
        }
        at = next;
    }
    (parts, lost)
}

/// What a step should be read as, and how many bytes of it are nowhere.
fn expected<'a>(
    recording: &Recording,
    pages: &mut Pages,
    action: &'a Action,
    words: &'a [u8],
) -> (Vec<EventKind<'a>>, u64) {
    let ranged =
        |pages: &Pages, address, length, make: &dyn Fn(PmPlace, u64, u64) -> EventKind<'a>| {
            let (parts, lost) = parts(pages, address, length);
            let events = parts
                .into_iter()
                .map(|(place, skip, size)| make(place, skip, size));
            (events.collect::<Vec<_>>(), lost)
        };
    let plain = |kind| (vec![kind], 0);
    match *action {
        Action::Store(kind, address, ref bytes) => {
            ranged(pages, address, bytes.len() as u64, &|place, skip, size| {
                let bytes = &bytes[skip as usize..(skip + size) as usize];
                EventKind::Store { kind, place, bytes }
            })
        }
        Action::Fill(address, length, byte) => {
            ranged(pages, address, length, &|place, _, length| {
                EventKind::Fill {
                    kind: StoreKind::Memory,
                    place,
                    length,
                    byte,
                }
            })
        }
        Action::Load(address, size) => ranged(pages, address, size.into(), &|place, _, size| {
            EventKind::Load {
                place,
                size: size as u32,
            }
        }),
        Action::Flush(kind, address) => ranged(pages, address, 1, &|place, _, _| {
            EventKind::Flush { kind, place }
        }),
        Action::Fence(kind) => plain(EventKind::Fence { kind }),
        Action::Opaque => plain(EventKind::Opaque),
        Action::Call(_) => plain(EventKind::Call {
            arguments: Arguments::from_bytes(words),
        }),
        Action::Return(value) => plain(EventKind::Return { value }),
        Action::Sync(kind, object) => plain(EventKind::Sync { kind, object }),
        Action::Map {
            page,
            pages: count,
            file,
            file_page,
            shared,
        } => {
            let same = |known: &crashpoint_trace::PmFile| {
                known.inode == u64::from(file) && known.private != shared
            };
            let index = recording
                .files()
                .iter()
                .position(same)
                .expect("the file is listed");
            let index = FileIndex(index as u32);
            for at in 0..count {
                pages[(page + at) as usize] = Some((index, file_page + at));
            }
            plain(EventKind::Map {
                place: PmPlace {
                    address: BASE + page * PAGE,
                    pm: PmAddress::new(index, file_page * PAGE),
                },
                length: count * PAGE - 1,
                shared,
            })
        }
        Action::Unmap(page, count) => {
            let (events, _) = ranged(
                pages,
                BASE + page * PAGE,
                count * PAGE,
                &|place, _, length| EventKind::Unmap { place, length },
            );
            pages[page as usize..(page + count) as usize].fill(None);
            (events, 0)
        }
        Action::Msync(address, length) => {
            let (events, _) = ranged(pages, address, length, &|place, _, length| {
                EventKind::Msync { place, length }
            });
            (events, 0)
        }
    }
}

fn site(recording: &Recording, process: usize, site: u32) -> SiteId {
    if site == 0 {
        return SiteId::NONE;
    }
    let (index, local) = ((site - 1) / SITES, (site - 1) % SITES);
    let model = MODELS[(index as usize + process) % 2];
    let found = recording.site(model, crashpoint_ir::SiteId(local));
    found.expect("the model is listed")
}

fn check(recording: &Recording, steps: &[Step], orders: &[u64]) -> Result<(), TestCaseError> {
    let mut events = recording.events();
    let mut pages: [Pages; 2] = [[None; 16]; 2];
    let mut lost = false;
    for (step, order) in steps.iter().zip(orders) {
        let process = usize::from(step.thread == 2);
        let words: Vec<u8> = match &step.action {
            Action::Call(words) => words.iter().flat_map(|word| word.to_le_bytes()).collect(),
            _ => Vec::new(),
        };
        let (kinds, nowhere) = expected(recording, &mut pages[process], &step.action, &words);
        lost |= nowhere > 0;
        for kind in kinds {
            let event = events.next().expect("the event is read");
            let like = Event {
                order: *order,
                thread: ThreadIndex(step.thread as u32),
                site: site(recording, process, step.site),
                context: event.context,
                kind,
            };
            prop_assert_eq!(event, like);
            let stack: Vec<SiteId> = step
                .stack
                .iter()
                .map(|raw| site(recording, process, *raw))
                .collect();
            prop_assert_eq!(recording.stack(event.context), stack);
        }
    }
    prop_assert_eq!(events.next(), None);
    let unmapped =
        |problem: &crashpoint_trace::Problem| matches!(problem.kind, ProblemKind::Unmapped { .. });
    let reported = events.problems().iter().any(unmapped);
    // Unmaps and msyncs of nothing at all are reported too.
    prop_assert!(!lost || reported);
    Ok(())
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        steps in vec(step(), 0..60),
        unsettled in proptest::option::of((0..60usize, 0..2usize)),
    ) {
        let mut built = skeleton();
        let mut orders = Vec::new();
        let mut order = 0;
        for (index, step) in steps.iter().enumerate() {
            if let Some((from, window)) = unsettled && from == index {
                for thread in built.threads {
                    built.builder.unsettled(thread, window);
                }
            }
            order += 1 + step.gap;
            orders.push(order);
            write(&mut built, step, order);
        }
        let recording = built.builder.build().unwrap();
        prop_assert_eq!(recording.problems(), &[]);
        prop_assert_eq!(recording.statistics().events(), steps.len() as u64);
        check(&recording, &steps, &orders)?;
        // Numbers do not depend on what was read before.
        check(&recording, &steps, &orders)?;
    }
}
