//! Crash images: what a disk may hold when the power goes out.
//!
//! At any moment, all writes before the last flush are there, and of those since then any part may
//! be: a disk keeps its own order. Moments of interest are those right before a flush, when most is
//! pending, and around each mark of the workload, when a promise may have been made. For each, the
//! parts tried are, in this order over all moments:
//!
//! 1. nothing and everything;
//! 2. every prefix, in the order of completion;
//! 3. requests: all subsets of up to [`FEW`], else each one alone and each one missing;
//! 4. blocks, in the same way, since a disk may tear a request between blocks;
//! 5. random subsets of requests and of blocks;
//! 6. if asked for, sectors, since a disk may tear a block, though few file systems rely on that.
//!
//! So a budget that ends early has seen the likely ones at every moment. Images that are equal byte
//! for byte are built once for each mark.

use std::collections::HashSet;

use crate::disk::Disk;
use crate::recording::{DiskRecord, Recording, Unit};
use crashpoint_persist::split_mix::SplitMix;

/// Of how many parts all subsets are tried.
pub const FEW: usize = 6;

#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// Random subsets for each moment.
    pub random: usize,
    pub seed: u64,
    /// Whether blocks are torn at sectors.
    pub sectors: bool,
}

impl Default for Choice {
    fn default() -> Choice {
        Choice {
            random: 12,
            seed: 1,
            sectors: false,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Image {
    pub disk: Disk,
    /// The last mark that the workload had passed.
    pub passed: u32,
    pub kind: ImageKind,
}

/// By which way an image was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ImageKind {
    /// Everything or nothing since the last flush.
    Whole,
    /// In the order of completion.
    Prefix,
    /// Needs a disk that drops or reorders what was not flushed.
    Requests,
    Blocks,
    Random,
    /// Needs a disk that tears blocks.
    Sectors,
}

impl ImageKind {
    const ALL: [ImageKind; 6] = [
        ImageKind::Whole,
        ImageKind::Prefix,
        ImageKind::Requests,
        ImageKind::Blocks,
        ImageKind::Random,
        ImageKind::Sectors,
    ];

    pub fn text(self) -> &'static str {
        match self {
            ImageKind::Whole => "all or nothing of what was not flushed",
            ImageKind::Prefix => "writes in order",
            ImageKind::Requests => "some requests without others",
            ImageKind::Blocks => "some blocks without others",
            ImageKind::Random => "some writes without others",
            ImageKind::Sectors => "some sectors without others",
        }
    }
}

/// The images of a recording, best first.
pub fn images(recording: &Recording, choice: Choice) -> impl Iterator<Item = Image> {
    let mut random = SplitMix(choice.seed);
    let mut moments = moments(recording);
    shuffle(&mut random, &mut moments);
    let kinds = ImageKind::ALL.into_iter();
    let kinds = kinds.filter(move |kind| choice.sectors || *kind != ImageKind::Sectors);
    let all = kinds.flat_map(move |kind| {
        let seed = random.draw();
        let moments = moments.clone();
        moments.into_iter().flat_map(move |moment| {
            let seed = seed ^ moment.number;
            of_moment(&moment, kind, choice.random, SplitMix(seed))
        })
    });
    let mut seen = HashSet::new();
    all.filter(move |image| seen.insert((image.disk.hash(), image.passed)))
}

/// A point in time at which the power may go.
#[derive(Clone, Debug)]
struct Moment<'a> {
    number: u64,
    durable: Disk,
    /// Requests since the last flush, in the order of completion.
    pending: Vec<&'a [Unit]>,
    passed: u32,
}

fn moments<'a>(recording: &'a Recording) -> Vec<Moment<'a>> {
    let mut now = Moment {
        number: 0,
        durable: recording.base.clone(),
        pending: Vec::new(),
        passed: 0,
    };
    let mut moments: Vec<Moment> = Vec::new();
    let mut keep = |now: &Moment<'a>| {
        // A moment without news is the last one again.
        let same = |last: &Moment| {
            last.passed == now.passed
                && last.pending.len() == now.pending.len()
                && last.durable.hash() == now.durable.hash()
        };
        if !moments.last().is_some_and(same) {
            let number = moments.len() as u64;
            moments.push(now.clone_as(number));
        }
    };
    for record in &recording.records {
        match record {
            DiskRecord::Write(units) => now.pending.push(units),
            DiskRecord::Flush => {
                keep(&now);
                for unit in now.pending.drain(..).flatten() {
                    unit.apply(&mut now.durable);
                }
            }
            DiskRecord::Mark(mark) => {
                keep(&now);
                now.passed = *mark;
                keep(&now);
            }
        }
    }
    keep(&now);
    moments
}

impl<'a> Moment<'a> {
    fn clone_as(&self, number: u64) -> Moment<'a> {
        let mut moment = self.clone();
        moment.number = number;
        moment
    }

    fn blocks(&self) -> Vec<Vec<Unit>> {
        let units = self.pending.iter().copied().flatten();
        units.map(|unit| vec![unit.clone()]).collect()
    }

    fn requests(&self) -> Vec<Vec<Unit>> {
        self.pending.iter().map(|units| units.to_vec()).collect()
    }

    /// Only sectors that make a difference, to what is durable or to what came before.
    fn sectors(&self) -> Vec<Vec<Unit>> {
        let mut sectors = Vec::new();
        let mut before = self.durable.clone();
        for unit in self.pending.iter().copied().flatten() {
            for sector in unit.sectors(&[&self.durable, &before]) {
                sectors.push(vec![sector]);
            }
            unit.apply(&mut before);
        }
        sectors
    }
}

/// Which parts are kept.
type Kept = Vec<bool>;

fn of_moment(
    moment: &Moment<'_>,
    kind: ImageKind,
    count: usize,
    mut random: SplitMix,
) -> impl Iterator<Item = Image> + use<> {
    let mut parts = match kind {
        ImageKind::Whole | ImageKind::Prefix | ImageKind::Requests => moment.requests(),
        ImageKind::Blocks => moment.blocks(),
        ImageKind::Random => match random.draw() % 2 {
            0 => moment.requests(),
            _ => moment.blocks(),
        },
        ImageKind::Sectors => moment.sectors(),
    };
    // Blocks are requests where each request is one block.
    if kind == ImageKind::Blocks && parts.len() == moment.pending.len() {
        parts.clear();
    }
    let durable = moment.durable.clone();
    let passed = moment.passed;
    selections(kind, parts.len(), count, random).map(move |kept| {
        let mut disk = durable.clone();
        let chosen = parts.iter().zip(kept).filter(|(_, kept)| *kept);
        for unit in chosen.flat_map(|(part, _)| part) {
            unit.apply(&mut disk);
        }
        Image { disk, passed, kind }
    })
}

fn selections(
    kind: ImageKind,
    parts: usize,
    count: usize,
    mut random: SplitMix,
) -> Box<dyn Iterator<Item = Kept>> {
    let prefix = move |length: usize| (0..parts).map(|part| part < length).collect();
    match kind {
        ImageKind::Whole => Box::new([0, parts].into_iter().map(prefix)),
        ImageKind::Prefix => Box::new((1..parts).map(prefix)),
        ImageKind::Requests | ImageKind::Blocks | ImageKind::Sectors if parts <= FEW => {
            let subset = move |bits: u32| (0..parts).map(|part| bits >> part & 1 == 1).collect();
            Box::new((0..1 << parts).map(subset))
        }
        ImageKind::Requests | ImageKind::Blocks | ImageKind::Sectors => {
            let one = move |alone: bool| {
                (0..parts).map(move |one| (0..parts).map(|part| (part == one) == alone).collect())
            };
            Box::new(one(false).chain(one(true)))
        }
        ImageKind::Random => {
            // With few parts, all subsets were tried.
            let count = if parts <= FEW { 0 } else { count };
            Box::new((0..count).map(move |_| {
                let share = random.draw() % 7 + 1;
                (0..parts).map(|_| random.draw() % 8 < share).collect()
            }))
        }
    }
}

fn shuffle<T>(random: &mut SplitMix, items: &mut [T]) {
    for last in (1..items.len()).rev() {
        items.swap(last, (random.draw() % (last as u64 + 1)) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::BLOCK;
    use std::collections::BTreeSet;

    /// A recording of one block for each letter, each in its own place; `.` is a flush, a digit is
    /// a mark.
    fn recording(text: &str) -> Recording {
        let mut recording = Recording::new(Disk::new(1 << 20));
        for letter in text.chars() {
            recording.records.push(match letter {
                '.' => DiskRecord::Flush,
                '0'..='9' => DiskRecord::Mark(letter as u32 - '0' as u32),
                _ => DiskRecord::Write(write(letter)),
            });
        }
        recording
    }

    fn write(letter: char) -> Vec<Unit> {
        let place = letter as u64 - 'a' as u64;
        Unit::cut(place * BLOCK as u64, &[letter as u8; BLOCK])
    }

    /// Which letters each image holds, after the mark that was passed.
    fn seen(recording: &Recording) -> BTreeSet<String> {
        let describe = |image: Image| {
            let mut text = image.passed.to_string();
            for letter in 'a'..='z' {
                let mut byte = [0];
                let place = letter as u64 - 'a' as u64;
                image.disk.read(place * BLOCK as u64, &mut byte);
                if byte[0] == letter as u8 && letter != 'z' {
                    text.push(letter);
                }
            }
            text
        };
        images(recording, Choice::default()).map(describe).collect()
    }

    #[test]
    fn what_was_flushed_is_in_every_later_image() {
        let all = seen(&recording("ab.1c"));
        let expected = ["0", "0a", "0b", "0ab", "1ab", "1abc"];
        assert_eq!(all, expected.map(str::to_owned).into());
    }

    #[test]
    fn what_was_not_flushed_may_be_lost_after_a_mark() {
        let all = seen(&recording("a1"));
        assert_eq!(all, ["0", "0a", "1", "1a"].map(str::to_owned).into());
    }

    #[test]
    fn of_few_requests_every_subset_is_tried() {
        assert_eq!(seen(&recording("abcdef")).len(), 64);
    }

    #[test]
    fn of_many_requests_each_one_is_kept_alone_and_dropped_alone() {
        let all = seen(&recording("abcdefgh"));
        assert!(all.contains("0d") && all.contains("0abcefgh") && all.contains("0abc"));
        assert!(all.len() < 100, "{} are no sample", all.len());
    }

    #[test]
    fn a_request_is_torn_between_its_blocks() {
        let mut recording = recording("");
        let units = [write('a'), write('b')].concat();
        recording.records.push(DiskRecord::Write(units));
        let all = seen(&recording);
        assert_eq!(all, ["0", "0a", "0b", "0ab"].map(str::to_owned).into());
    }

    #[test]
    fn the_same_seed_gives_the_same_images() {
        let recording = recording("abcdefghijkl1mnopqrst");
        let hashes = |seed| -> Vec<u64> {
            let choice = Choice {
                seed,
                ..Choice::default()
            };
            images(&recording, choice)
                .map(|image| image.disk.hash())
                .collect()
        };
        assert_eq!(hashes(1), hashes(1));
        assert_ne!(hashes(1), hashes(2));
    }

    #[test]
    fn sectors_are_torn_on_request() {
        let mut base = Disk::new(1 << 20);
        base.write(0, &[b'o'; BLOCK]);
        let mut recording = Recording::new(base);
        let mut block = [b'o'; BLOCK];
        block[..1024].fill(b'n');
        recording
            .records
            .push(DiskRecord::Write(Unit::cut(0, &block)));
        let choice = Choice {
            sectors: true,
            ..Choice::default()
        };
        assert_eq!(images(&recording, choice).count(), 4);
        assert_eq!(images(&recording, Choice::default()).count(), 2);
    }
}
