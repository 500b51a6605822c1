//! Call stacks, interned over the whole recording as a tree: a context is its caller's context
//! and the site of the call.

use crate::{ContextId, SiteId};
use rustc_hash::FxHashMap;

#[derive(Debug)]
pub(crate) struct Contexts {
    /// Parent and site, by number; the first one is the bottom and stands for nothing.
    nodes: Vec<(ContextId, SiteId)>,
    numbers: FxHashMap<(ContextId, SiteId), ContextId>,
}

impl Contexts {
    pub(crate) fn new() -> Contexts {
        Contexts {
            nodes: vec![(ContextId::BOTTOM, SiteId::NONE)],
            numbers: FxHashMap::default(),
        }
    }

    pub(crate) fn intern(&mut self, parent: ContextId, site: SiteId) -> ContextId {
        let next = u32::try_from(self.nodes.len()).expect("a definition takes at least 6 bytes");
        *self.numbers.entry((parent, site)).or_insert_with(|| {
            self.nodes.push((parent, site));
            ContextId(next)
        })
    }

    /// The caller's context and the site of the call; none for the bottom.
    pub(crate) fn caller(&self, context: ContextId) -> Option<(ContextId, SiteId)> {
        let bottom = context == ContextId::BOTTOM;
        self.nodes.get(context.index()).copied().filter(|_| !bottom)
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }
}
