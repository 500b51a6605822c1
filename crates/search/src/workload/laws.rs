//! What holds for every list that is generated.

use std::collections::HashSet;

use proptest::prelude::*;

use super::{ArgumentKind, KeySettings, OperationKind, Settings, generate, parse, write};

fn argument() -> impl Strategy<Value = ArgumentKind> {
    prop_oneof![
        Just(ArgumentKind::NewKey),
        Just(ArgumentKind::UsedKey),
        Just(ArgumentKind::AnyKey),
        Just(ArgumentKind::Value),
        "[a-z#]{1,4}".prop_map(ArgumentKind::Word),
        (0..5u64, 5..9u64).prop_map(|(min, max)| ArgumentKind::Number { min, max }),
    ]
}

prop_compose! {
    fn kinds()(
        parts in prop::collection::vec(
            (prop::collection::vec(argument(), 0..4), 0..5u32, any::<[bool; 2]>()),
            1..5,
        ),
    ) -> Vec<OperationKind> {
        let mut kinds = Vec::new();
        for (index, (args, weight, [read_only, removes])) in parts.into_iter().enumerate() {
            let name = format!("op{index}");
            kinds.push(OperationKind { name, args, weight, read_only, removes });
        }
        kinds
    }
}

prop_compose! {
    fn settings()(
        kinds in kinds(),
        count in 0..80usize,
        seed in any::<u64>(),
        size in prop_oneof![0..20u64, Just(1 << 31)],
        distinct in prop::option::of(0..10usize),
    ) -> Settings {
        let keys = KeySettings { range: 1..=1 + size, distinct };
        Settings { kinds, count, seed, keys, values: 1..=1 + size, at_once: 1 }
    }
}

proptest! {
    #[test]
    fn the_same_seed_gives_the_same_list(settings in settings()) {
        prop_assert_eq!(generate(&settings), generate(&settings));
    }

    #[test]
    fn a_list_that_is_written_reads_the_same(settings in settings()) {
        let operations = generate(&settings);
        let weighted = settings.kinds.iter().any(|kind| kind.weight > 0);
        prop_assert_eq!(operations.len(), if weighted { settings.count } else { 0 });
        let text = write(&operations, Some(&settings));
        prop_assert_eq!(&parse(&text, &settings.kinds), &operations);
        let bare = write(&operations, None);
        prop_assert_eq!(&parse(&bare, &settings.kinds), &operations);
    }

    #[test]
    fn keys_and_values_stay_in_their_ranges(settings in settings()) {
        for operation in generate(&settings) {
            let kind = &settings.kinds[operation.kind.unwrap()];
            prop_assert!(kind.weight > 0);
            let words: Vec<&str> = operation.line.split(' ').skip(1).collect();
            prop_assert_eq!(words.len(), kind.args.len());
            for (argument, word) in kind.args.iter().zip(words) {
                let within = match argument {
                    ArgumentKind::Word(expected) => {
                        prop_assert_eq!(word, expected);
                        continue;
                    }
                    ArgumentKind::Number { min, max } => *min..=*max,
                    ArgumentKind::Value => settings.values.clone(),
                    ArgumentKind::NewKey | ArgumentKind::UsedKey | ArgumentKind::AnyKey => {
                        settings.keys.range.clone()
                    }
                };
                prop_assert!(within.contains(&word.parse::<u64>().unwrap()));
            }
        }
    }

    #[test]
    fn new_keys_are_fresh_and_values_distinct(seed in any::<u64>()) {
        let mut named = HashSet::new();
        let mut values = HashSet::new();
        for operation in generate(&store(seed, 300)) {
            let key = operation.key().unwrap().to_owned();
            let fresh = named.insert(key);
            if let Some(rest) = operation.line.strip_prefix("insert ") {
                prop_assert!(fresh, "{}", operation.line);
                let value = rest.split(' ').nth(1).unwrap().to_owned();
                prop_assert!(values.insert(value), "{}", operation.line);
            }
        }
    }

    #[test]
    fn weights_are_roughly_kept(seed in any::<u64>()) {
        let settings = store(seed, 4000);
        let mut counts = [0usize; 3];
        for operation in generate(&settings) {
            counts[operation.kind.unwrap()] += 1;
        }
        // Five standard deviations and more.
        for (count, kind) in counts.iter().zip(&settings.kinds) {
            let expected = 500 * kind.weight as usize;
            prop_assert!(count.abs_diff(expected) < 170, "{counts:?}");
        }
    }

    #[test]
    fn most_used_keys_are_there_and_some_are_not(seed in any::<u64>()) {
        let mut there = HashSet::new();
        let (mut hits, mut misses) = (0, 0);
        for operation in generate(&store(seed, 3000)) {
            let key = operation.key().unwrap().to_owned();
            match operation.kind {
                Some(0) => {
                    there.insert(key);
                    continue;
                }
                Some(1) if there.remove(&key) => hits += 1,
                _ if there.contains(&key) => hits += 1,
                _ => misses += 1,
            }
        }
        prop_assert!(misses * 6 < hits && misses * 20 > hits, "{hits} and {misses}");
    }
}

/// An ordinary key-value store.
fn store(seed: u64, count: usize) -> Settings {
    let kind = |name: &str, args: &[ArgumentKind], weight| OperationKind {
        weight,
        ..OperationKind::new(name, args.to_vec())
    };
    let insert = kind("insert", &[ArgumentKind::NewKey, ArgumentKind::Value], 5);
    let delete = OperationKind {
        removes: true,
        ..kind("delete", &[ArgumentKind::UsedKey], 1)
    };
    let get = OperationKind {
        read_only: true,
        ..kind("get", &[ArgumentKind::UsedKey], 2)
    };
    Settings {
        kinds: vec![insert, delete, get],
        count,
        seed,
        ..Settings::default()
    }
}

#[test]
fn keys_that_are_used_up_come_again() {
    let settings = Settings {
        keys: KeySettings {
            range: 1..=1 << 31,
            distinct: Some(5),
        },
        ..store(3, 200)
    };
    let operations = generate(&settings);
    let keys: HashSet<&str> = operations.iter().filter_map(|op| op.key()).collect();
    assert_eq!(keys.len(), 5);
}

/// A list that somebody keeps by its seed must not change with a version of Crashpoint.
#[test]
fn the_list_of_a_seed_never_changes() {
    let text = write(&generate(&store(1, 6)), Some(&store(1, 6)));
    let expected = "\
# 6 operations, seed 1
# keys 1..2147483648; values 1..999999
# insert new-key value (weight 5)
# delete used-key (weight 1, removes)
# get used-key (weight 2, read-only)
get 1785015082
insert 1026963283 160849
insert 2131185096 812559
insert 1193372555 859917
get 1129553351
get 1026963283
";
    assert_eq!(text, expected);
}
