//! Makes operations up.
//!
//! What it believes to be in the target is a guess: an operation is taken to succeed, so that a
//! store which is full, or which refuses a key, makes used keys that are not there. Nothing depends
//! on the guess but how interesting the list is.

use std::ops::RangeInclusive;

use super::kind::{ArgumentKind, OperationKind};
use super::list::{AT_ONCE, Operation};
use super::pool::{Bag, Dice, Fresh};

/// Out of a hundred keys of operations on used keys, how many are there.
const PRESENT: u64 = 90;
/// Out of a hundred keys that are not there, how many were once.
const ONCE_THERE: u64 = 50;

/// What to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub kinds: Vec<OperationKind>,
    /// How many operations.
    pub count: usize,
    pub seed: u64,
    pub keys: KeySettings,
    pub values: RangeInclusive<u64>,
    /// How many operations stand on a line, to be run at once.
    pub at_once: usize,
}

/// Which keys there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySettings {
    pub range: RangeInclusive<u64>,
    /// The most keys that are ever named. When they are used up, or the range is, keys that were
    /// removed count as new, and when there are none, used ones do.
    pub distinct: Option<usize>,
}

impl Default for KeySettings {
    fn default() -> KeySettings {
        KeySettings {
            range: 1..=1 << 31,
            distinct: None,
        }
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            kinds: Vec::new(),
            count: 200,
            seed: 1,
            keys: KeySettings::default(),
            values: 1..=999_999,
            at_once: 1,
        }
    }
}

/// Makes the list; it is empty if no kind has a weight.
pub fn generate(settings: &Settings) -> Vec<Operation> {
    let weights = settings.kinds.iter().map(|kind| u64::from(kind.weight));
    let total: u64 = weights.sum();
    if total == 0 {
        return Vec::new();
    }
    let mut generator = Generator {
        settings,
        dice: Dice::new(settings.seed),
        fresh_keys: Fresh::new(settings.keys.range.clone(), settings.keys.distinct),
        fresh_values: Fresh::new(settings.values.clone(), None),
        used: Bag::default(),
        removed: Bag::default(),
    };
    let one = |_| {
        let kind = generator.kind(total);
        generator.line(kind)
    };
    let lines: Vec<String> = (0..settings.count).map(one).collect();
    let at_once = lines.chunks(settings.at_once.max(1));
    let together = at_once.map(|lines| lines.join(&format!(" {AT_ONCE} ")));
    let read = |line| Operation::new(line, &settings.kinds);
    together.map(read).collect()
}

struct Generator<'a> {
    settings: &'a Settings,
    dice: Dice,
    fresh_keys: Fresh,
    fresh_values: Fresh,
    /// Keys that are believed to be there.
    used: Bag,
    /// Keys that were there once.
    removed: Bag,
}

impl<'a> Generator<'a> {
    fn kind(&mut self, total: u64) -> &'a OperationKind {
        let mut left = self.dice.below(total);
        for kind in &self.settings.kinds {
            let weight = u64::from(kind.weight);
            if left < weight {
                return kind;
            }
            left -= weight;
        }
        unreachable!("the weights add up to their total")
    }

    fn line(&mut self, kind: &OperationKind) -> String {
        let mut line = kind.name.clone();
        let mut gone = None;
        let mut there = Vec::new();
        for argument in &kind.args {
            let word = match argument {
                ArgumentKind::NewKey | ArgumentKind::UsedKey | ArgumentKind::AnyKey => {
                    let key = self.key(argument);
                    if kind.removes && gone.is_none() {
                        gone = Some(key);
                    } else if !kind.read_only && *argument != ArgumentKind::UsedKey {
                        there.push(key);
                    }
                    key.to_string()
                }
                ArgumentKind::Value => self.value().to_string(),
                ArgumentKind::Word(word) => word.clone(),
                ArgumentKind::Number { min, max } => self.dice.within(&(*min..=*max)).to_string(),
            };
            line.push(' ');
            line += &word;
        }
        if let Some(key) = gone {
            self.forget(key);
        }
        for key in there {
            self.remember(key);
        }
        line
    }

    fn key(&mut self, argument: &ArgumentKind) -> u64 {
        let present = match argument {
            ArgumentKind::UsedKey => self.dice.percent(PRESENT),
            ArgumentKind::AnyKey => self.dice.percent(50),
            ArgumentKind::NewKey
            | ArgumentKind::Value
            | ArgumentKind::Word(_)
            | ArgumentKind::Number { .. } => {
                return self.new_key();
            }
        };
        let known = if present {
            self.used.pick(&mut self.dice)
        } else if self.dice.percent(ONCE_THERE) {
            self.removed.pick(&mut self.dice)
        } else {
            None
        };
        known.unwrap_or_else(|| self.new_key())
    }

    fn new_key(&mut self) -> u64 {
        if let Some(key) = self.fresh_keys.take(&mut self.dice) {
            return key;
        }
        let again = if self.removed.is_empty() {
            &self.used
        } else {
            &self.removed
        };
        let again = again.pick(&mut self.dice);
        // Only questions may have named a key so far: then every key is as good.
        again.unwrap_or(*self.settings.keys.range.start())
    }

    fn value(&mut self) -> u64 {
        let fresh = self.fresh_values.take(&mut self.dice);
        fresh.unwrap_or_else(|| {
            if self.settings.values.is_empty() {
                0
            } else {
                self.dice.within(&self.settings.values)
            }
        })
    }

    fn forget(&mut self, key: u64) {
        if self.used.remove(key) {
            self.removed.insert(key);
        }
    }

    fn remember(&mut self, key: u64) {
        self.removed.remove(key);
        self.used.insert(key);
    }
}
