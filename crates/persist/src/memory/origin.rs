//! Where events come from, as one number.
//!
//! A line's history names the place, the call stack and the thread of everything that happened to
//! it. An [`Origin`] stands for the three, so that a history entry is a few words, and so that
//! counts by place are plain arrays.

use crashpoint_trace::{ContextId, SiteId, ThreadIndex};
use rustc_hash::FxHashMap;

/// A site in a call stack of a thread. Dense, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin(pub u32);

impl Origin {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OriginInfo {
    pub site: SiteId,
    pub context: ContextId,
    pub thread: ThreadIndex,
}

/// All origins of a recording, with how many events were counted at each.
#[derive(Debug)]
pub struct Origins {
    infos: Vec<OriginInfo>,
    counts: Vec<u64>,
    numbers: FxHashMap<OriginInfo, Origin>,
    /// Origins that were asked for lately, by a hash that is cheap rather than good.
    recent: Box<[(OriginInfo, Origin); RECENT]>,
}

const RECENT: usize = 1024;

fn slot(info: OriginInfo) -> usize {
    (info.site.index() ^ info.context.index().wrapping_mul(37)) % RECENT
}

impl Default for Origins {
    fn default() -> Origins {
        let nowhere = OriginInfo {
            site: SiteId(u32::MAX),
            context: ContextId(u32::MAX),
            thread: ThreadIndex(u32::MAX),
        };
        Origins {
            infos: Vec::new(),
            counts: Vec::new(),
            numbers: FxHashMap::default(),
            recent: Box::new([(nowhere, Origin(0)); RECENT]),
        }
    }
}

impl Origins {
    /// The origin of an event, which is counted.
    #[inline]
    pub fn count(&mut self, info: OriginInfo) -> Origin {
        let origin = self.number(info);
        self.counts[origin.index()] += 1;
        origin
    }

    /// The origin of an event that is counted otherwise.
    #[inline]
    pub fn number(&mut self, info: OriginInfo) -> Origin {
        let (known, origin) = self.recent[slot(info)];
        if known == info {
            origin
        } else {
            self.find(info)
        }
    }

    fn find(&mut self, info: OriginInfo) -> Origin {
        let next = Origin(u32::try_from(self.infos.len()).expect("an origin takes an event"));
        let origin = *self.numbers.entry(info).or_insert(next);
        if origin == next {
            self.infos.push(info);
            self.counts.push(0);
        }
        self.recent[slot(info)] = (info, origin);
        origin
    }

    #[inline]
    pub fn info(&self, origin: Origin) -> OriginInfo {
        self.infos[origin.index()]
    }

    /// How many events were counted here.
    pub fn events(&self, origin: Origin) -> u64 {
        self.counts[origin.index()]
    }

    pub fn len(&self) -> usize {
        self.infos.len()
    }

    pub fn is_empty(&self) -> bool {
        self.infos.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (Origin, OriginInfo)> {
        (0..).map(Origin).zip(self.infos.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(site: u32, context: u32, thread: u32) -> OriginInfo {
        OriginInfo {
            site: SiteId(site),
            context: ContextId(context),
            thread: ThreadIndex(thread),
        }
    }

    #[test]
    fn one_place_in_one_stack_of_one_thread_has_one_number() {
        let mut origins = Origins::default();
        let of = [info(5, 1, 0), info(5, 2, 0), info(5, 1, 1), info(0, 1, 0)];
        let numbers: Vec<Origin> = of.iter().map(|info| origins.count(*info)).collect();
        assert_eq!(numbers, [0, 1, 2, 3].map(Origin));
        for (info, number) in of.iter().zip(&numbers) {
            assert_eq!(origins.count(*info), *number);
            assert_eq!(origins.info(*number), *info);
            assert_eq!(origins.events(*number), 2);
        }
        assert_eq!(origins.len(), 4);
    }
}
