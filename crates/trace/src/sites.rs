//! Numbers of sites: from those of a process to those of the recording.
//!
//! In a process, a module that registers gets a range of numbers. In the recording, each *model*
//! has one range, whichever processes load it, so that the same place has the same [`SiteId`].

use crate::SiteId;
use crate::process::LoadedModule;
use crashpoint_ir::ModelId;
use rustc_hash::FxHashMap;

/// The sites of one model in the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelSites {
    pub model: ModelId,
    /// Number of the model's site 0.
    pub first: SiteId,
    pub count: u32,
}

/// All models of the recording, by first site.
#[derive(Clone, Debug, Default)]
pub(crate) struct SiteTable {
    pub(crate) models: Vec<ModelSites>,
}

impl SiteTable {
    /// Numbers the sites of all models, in order of appearance; also returns the models whose
    /// counts differ. `None` if there are more sites than numbers.
    pub(crate) fn new<'a>(
        modules: impl Iterator<Item = &'a LoadedModule>,
    ) -> Option<(SiteTable, Vec<ModelId>)> {
        let mut index = FxHashMap::default();
        let mut models: Vec<ModelSites> = Vec::new();
        let mut differing = Vec::new();
        for module in modules {
            let new = models.len();
            let at = *index.entry(module.model).or_insert(new);
            if at == new {
                models.push(ModelSites {
                    model: module.model,
                    first: SiteId::NONE,
                    count: module.site_count,
                });
            } else if models[at].count != module.site_count {
                models[at].count = models[at].count.max(module.site_count);
                differing.push(module.model);
            }
        }
        let mut next = 1u32;
        for model in &mut models {
            model.first = SiteId(next);
            next = next.checked_add(model.count)?;
        }
        Some((SiteTable { models }, differing))
    }

    pub(crate) fn find(&self, model: ModelId) -> Option<&ModelSites> {
        self.models.iter().find(|entry| entry.model == model)
    }

    /// The model that a site belongs to, and its number there.
    pub(crate) fn locate(&self, site: SiteId) -> Option<(usize, u32)> {
        let index = self
            .models
            .partition_point(|model| model.first <= site)
            .checked_sub(1)?;
        let model = &self.models[index];
        let local = site.0 - model.first.0;
        (local < model.count).then_some((index, local))
    }
}

/// A range of a process's site numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    base: u32,
    count: u32,
    first: SiteId,
}

impl Range {
    const EMPTY: Range = Range {
        base: 0,
        count: 0,
        first: SiteId::NONE,
    };

    #[inline]
    fn translate(&self, site: u32) -> Option<SiteId> {
        let local = site.wrapping_sub(self.base);
        (local < self.count).then(|| SiteId(self.first.0 + local))
    }
}

/// How one process numbers its sites.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessSites {
    ranges: Vec<Range>,
}

impl ProcessSites {
    /// A process has the modules it registered and, where those leave room, the ones that it
    /// inherited when it was forked. Also returns the base of a module of its own that overlaps
    /// another one, which no runtime produces.
    pub(crate) fn new(
        table: &SiteTable,
        modules: &[LoadedModule],
        inherited: Option<&ProcessSites>,
    ) -> (ProcessSites, Option<u32>) {
        let first: FxHashMap<ModelId, SiteId> = table
            .models
            .iter()
            .map(|entry| (entry.model, entry.first))
            .collect();
        let mut sites = ProcessSites::default();
        let mut overlapping = None;
        for module in modules {
            let added = sites.add(Range {
                base: module.site_base,
                count: module.site_count,
                first: first[&module.model],
            });
            if !added {
                overlapping.get_or_insert(module.site_base);
            }
        }
        for range in inherited.map_or(&[][..], |sites| &sites.ranges) {
            sites.add(*range);
        }
        (sites, overlapping)
    }

    /// Adds a range unless it overlaps another one; says whether it is known now.
    fn add(&mut self, range: Range) -> bool {
        let end = range.base.saturating_add(range.count);
        let at = self.ranges.partition_point(|other| other.base < range.base);
        let before = at.checked_sub(1).map(|index| &self.ranges[index]);
        let after = self.ranges.get(at).copied();
        let free = before.is_none_or(|other| other.base.saturating_add(other.count) <= range.base)
            && after.is_none_or(|other| other.base >= end);
        if free && range.count > 0 {
            self.ranges.insert(at, range);
        }
        free || after == Some(range)
    }

    fn find(&self, site: u32) -> Option<&Range> {
        let index = self
            .ranges
            .partition_point(|range| range.base <= site)
            .checked_sub(1)?;
        self.ranges.get(index)
    }
}

/// Translates sites of one process, fast where they come from few modules at a time.
#[derive(Clone, Debug)]
pub(crate) struct SiteCache<'a> {
    sites: &'a ProcessSites,
    last: Range,
}

impl<'a> SiteCache<'a> {
    pub(crate) fn new(sites: &'a ProcessSites) -> SiteCache<'a> {
        SiteCache {
            sites,
            last: Range::EMPTY,
        }
    }

    /// `None` if the site belongs to no module. Site 0 is no site.
    #[inline]
    pub(crate) fn translate(&mut self, site: u32) -> Option<SiteId> {
        match self.last.translate(site) {
            Some(site) => Some(site),
            None if site == 0 => Some(SiteId::NONE),
            None => {
                self.last = *self.sites.find(site)?;
                self.last.translate(site)
            }
        }
    }
}
