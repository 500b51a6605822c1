//! Persistent memory is wherever its files are mapped.

use crate::support::{Bench, Link, Run, What, expect_success};
use crashpoint_abi::record::StoreKind;

const PAGE: u64 = 4096;

/// Runs a case; returns the addresses it prints.
fn map(bench: &Bench, case: &str, environment: &[(&str, &str)]) -> Vec<u64> {
    let program = bench.compile("mappings.c", Link::Shared, &[]);
    let mut command = bench.command(&program);
    command
        .envs(environment.iter().copied())
        .args(["pool", case]);
    let output = command.output().unwrap();
    expect_success(&output);
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// Mappings: what, address, length and, of those that appear, file and offset.
fn mappings(run: &Run) -> Vec<(char, u64, u64, u32, u64)> {
    run.events()
        .into_iter()
        .filter_map(|event| match event.what {
            What::Map {
                address,
                length,
                file,
                offset,
            } => Some(('+', address, length, file, offset)),
            What::Unmap(address, length) => Some(('-', address, length, 0, 0)),
            _ => None,
        })
        .collect()
}

#[test]
fn free_hints_are_taken_and_others_go_to_our_area() {
    let bench = Bench::new();
    let at = map(&bench, "hint", &[]);
    assert_eq!(
        at[1..],
        [0x1000_0000_0000, 0x2100_0000_0000, 0x2200_0000_0000]
    );
    let recording = bench.recording();
    let expected = at[1..]
        .iter()
        .map(|&at| ('+', at, 8 * PAGE, 1, 0))
        .collect::<Vec<_>>();
    assert_eq!(mappings(recording.run()), expected);
}

#[test]
fn a_fixed_mapping_replaces_what_was_there() {
    let bench = Bench::new();
    let at = map(&bench, "fixed", &[]);
    let p = at[0];
    let recording = bench.recording();
    let run = recording.run();
    let expected = [
        ('+', p, 8 * PAGE, 1, 0),
        ('-', p + 2 * PAGE, 2 * PAGE, 0, 0),
        ('+', p + 3 * PAGE, PAGE, 1, 7 * PAGE),
    ];
    assert_eq!(mappings(run), expected);
    assert_eq!(run.sites(StoreKind::Plain), [10, 12, 13]);
    assert_eq!(run.stores(StoreKind::Foreign), []);
}

#[test]
fn a_partial_unmap_leaves_the_rest() {
    let bench = Bench::new();
    let at = map(&bench, "partial", &[]);
    assert_eq!(at[0], at[1]);
    let p = at[0];
    let recording = bench.recording();
    let expected = [
        ('+', p, 8 * PAGE, 1, 0),
        ('-', p + 3 * PAGE, 2 * PAGE, 0, 0),
        ('-', p, 3 * PAGE, 0, 0),
        ('-', p + 5 * PAGE, 3 * PAGE, 0, 0),
        ('+', p, 8 * PAGE, 1, 0),
    ];
    assert_eq!(mappings(recording.run()), expected);
}

#[test]
fn two_mappings_of_one_file_are_one_memory() {
    let bench = Bench::new();
    let at = map(&bench, "alias", &[]);
    let recording = bench.recording();
    let run = recording.run();
    let expected = [
        ('+', at[0], 8 * PAGE, 1, 0),
        ('+', at[1], 4 * PAGE, 1, 4 * PAGE),
    ];
    assert_eq!(mappings(run), expected);
    assert_eq!(run.lines("file").len(), 1);
    assert_eq!(run.stores(StoreKind::Foreign), []);
}

#[test]
fn mremap_grows_shrinks_moves_and_copies() {
    let bench = Bench::new();
    let at = map(&bench, "remap", &[]);
    let [p, q, r, _, s, u, v] = at[..] else {
        panic!("{at:?}");
    };
    assert_eq!((p, q), (r, r));
    assert!((0x1000_0000_0000..0x2000_0000_0000).contains(&s), "{s:x}");
    assert_ne!(s, p);
    assert_eq!(u, 0x3000_0000_0000);
    let recording = bench.recording();
    let run = recording.run();
    let expected = [
        ('+', p, 4 * PAGE, 1, PAGE),
        ('+', p + 4 * PAGE, 4 * PAGE, 1, 5 * PAGE),
        ('-', p + 2 * PAGE, 2 * PAGE, 0, 0),
        ('-', p + 4 * PAGE, 4 * PAGE, 0, 0),
        ('+', s, 6 * PAGE, 1, PAGE),
        ('-', p, 2 * PAGE, 0, 0),
        ('+', u, 6 * PAGE, 1, PAGE),
        ('-', s, 6 * PAGE, 0, 0),
        ('+', v, 2 * PAGE, 1, PAGE),
    ];
    assert_eq!(mappings(run), expected);
    assert_eq!(run.sites(StoreKind::Plain), [10, 11, 12, 13, 14]);
    assert_eq!(run.stores(StoreKind::Foreign), []);
}

#[test]
fn msync_is_recorded_where_it_makes_durable() {
    let bench = Bench::new();
    let at = map(&bench, "msync", &[]);
    let recording = bench.recording();
    let msyncs: Vec<_> = recording
        .run()
        .events()
        .into_iter()
        .filter_map(|event| match event.what {
            What::Msync(address, length) => Some((event.site, address, length)),
            _ => None,
        })
        .collect();
    assert_eq!(msyncs, [(2, at[0] + PAGE, PAGE)]);
}

#[test]
fn fsync_makes_all_mappings_of_the_file_durable() {
    let bench = Bench::new();
    let at = map(&bench, "fsync", &[]);
    let recording = bench.recording();
    let tail: Vec<_> = recording
        .run()
        .events()
        .into_iter()
        .skip(3)
        .map(|event| event.what)
        .collect();
    let foreign = What::Store(StoreKind::Foreign, at[0] + 8, vec![7]);
    let durable = [What::Msync(at[0], 2 * PAGE), What::Msync(at[1], PAGE)];
    assert_eq!(tail[0], foreign);
    assert_eq!(tail[1..3], durable);
    assert_eq!(tail.len(), 4);
}

#[test]
fn only_files_that_match_are_persistent() {
    let bench = Bench::new();
    map(&bench, "several", &[]);
    let recording = bench.recording();
    let run = recording.run();
    assert_eq!(run.sites(StoreKind::Plain), [10, 11, 12]);
    let files = run.lines("file");
    let numbers: Vec<u64> = files
        .iter()
        .map(|file| file["number"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert!(files[2]["path"].as_str().unwrap().ends_with("/pool2"));
    // Relative patterns start in the folder of the program.
    for (pattern, count) in [("pool1:x*", 1), ("**/pool?", 3), ("*", 4), ("/pool*", 0)] {
        let bench = Bench::new();
        map(&bench, "several", &[("CRASHPOINT_PM", pattern)]);
        let recording = bench.recording();
        assert_eq!(recording.run().lines("file").len(), count, "{pattern}");
    }
}

#[test]
fn patterns_may_lead_through_symbolic_links() {
    let bench = Bench::new();
    std::os::unix::fs::symlink(bench.folder.path(), bench.path("link")).unwrap();
    let pattern = format!("{}/pool*", bench.path("link").display());
    map(&bench, "several", &[("CRASHPOINT_PM", &pattern)]);
    assert_eq!(bench.recording().run().lines("file").len(), 3);
}

#[test]
fn a_file_that_is_made_anew_is_another_file() {
    let bench = Bench::new();
    let at = map(&bench, "again", &[]);
    assert_eq!(at, [at[0]; 3]);
    let recording = bench.recording();
    let run = recording.run();
    assert_eq!(run.lines("file").len(), 3);
    assert_eq!(run.sites(StoreKind::Plain), [10, 10, 10]);
    assert_eq!(run.stores(StoreKind::Foreign), []);
}

#[test]
fn mappings_return_to_their_place_in_the_next_run() {
    let bench = Bench::new();
    let first = map(&bench, "several", &[]);
    let second = map(&bench, "several", &[]);
    assert_eq!(first[..3], second[..3]);
}

#[test]
fn placements_decide_where_files_go() {
    let bench = Bench::new();
    let path = bench.folder.path().canonicalize().unwrap();
    let lines = format!(
        "0x123400000000 4096 0 {0}/pool0\n{1} 1 0 {0}/pool2\n",
        path.display(),
        0x2345_0000_0000u64
    );
    std::fs::write(bench.path("placement"), lines).unwrap();
    let placement = bench.path("placement");
    let at = map(
        &bench,
        "several",
        &[("CRASHPOINT_PLACEMENT", placement.to_str().unwrap())],
    );
    assert_eq!(
        at[..3],
        [0x1234_0000_0000, 0x1000_0000_0000, 0x2345_0000_0000]
    );
}

#[test]
fn the_position_of_the_descriptor_stays() {
    let bench = Bench::new();
    map(&bench, "position", &[]);
    let recording = bench.recording();
    let image = recording.run().lines("file")[0]["image"]
        .as_str()
        .unwrap()
        .to_owned();
    let content = recording.file(&image);
    assert_eq!((content.len(), content[0]), (4096, b'x'));
    assert!(content[1..].iter().all(|byte| *byte == 0));
}
