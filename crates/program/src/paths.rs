//! Call paths without repetition.
//!
//! A function that calls itself is reached by as many paths as it is deep in itself, and by all of
//! them does the same. Here a path is cut where a function is entered again: what it was called by
//! the first time, and what it calls now.

use crashpoint_trace::program::Program;
use crashpoint_trace::{ContextId, Recording, SiteId};
use rustc_hash::FxHashMap;

/// A path without repetition, as the last call of a shorter one.
#[derive(Clone, Copy, Debug)]
struct Path {
    before: u32,
    /// The function that calls.
    function: Option<(usize, u32)>,
    /// A context that has this path.
    context: ContextId,
}

/// For each context, by its number, the first one with the same path.
pub fn alike(recording: &Recording, program: &Program) -> Vec<ContextId> {
    let caller = |context: usize| recording.caller(ContextId(context as u32));
    let function = |site: SiteId| {
        let resolved = program.resolve(site)?;
        Some((resolved.model, resolved.function_id.0))
    };
    folded(recording.context_count(), caller, function)
}

/// Callers have smaller numbers than what they call.
fn folded(
    count: usize,
    caller: impl Fn(usize) -> Option<(ContextId, SiteId)>,
    function: impl Fn(SiteId) -> Option<(usize, u32)>,
) -> Vec<ContextId> {
    let mut paths = vec![Path {
        before: 0,
        function: None,
        context: ContextId::BOTTOM,
    }];
    let mut known: FxHashMap<(u32, SiteId), u32> = FxHashMap::default();
    let mut functions = FxHashMap::default();
    let mut of: Vec<u32> = Vec::with_capacity(count);
    for number in 0..count {
        let Some((parent, site)) = caller(number) else {
            of.push(0);
            continue;
        };
        let caller = *functions.entry(site).or_insert_with(|| function(site));
        let before = first_entry(&paths, of[parent.index()], caller);
        let path = *known.entry((before, site)).or_insert_with(|| {
            paths.push(Path {
                before,
                function: caller,
                context: ContextId(number as u32),
            });
            paths.len() as u32 - 1
        });
        of.push(path);
    }
    let contexts = of.into_iter().map(|path| paths[path as usize].context);
    contexts.collect()
}

/// What led to the function the first time it was entered; all, if it was not.
fn first_entry(paths: &[Path], path: u32, function: Option<(usize, u32)>) -> u32 {
    let mut at = path;
    while at != 0 {
        let here = paths[at as usize];
        if function.is_some() && here.function == function {
            return here.before;
        }
        at = here.before;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contexts as (caller, site); the function of a site is its number divided by 10.
    fn fold(contexts: &[(u32, u32)]) -> Vec<u32> {
        let caller = |number: usize| {
            let (parent, site) = *contexts.get(number.checked_sub(1)?)?;
            Some((ContextId(parent), SiteId(site)))
        };
        let function = |site: SiteId| Some((0, site.0 / 10));
        let all = folded(contexts.len() + 1, caller, function);
        all.into_iter().map(|context| context.0).collect()
    }

    #[test]
    fn paths_without_repetition_stay() {
        assert_eq!(fold(&[(0, 10), (1, 20), (2, 30), (1, 21)]), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_function_that_calls_itself_is_on_a_path_once() {
        // main calls 2, which calls itself from two places, and 3 from a third.
        let contexts = [
            (0, 10),
            (1, 20),
            (2, 20),
            (3, 21),
            (4, 20),
            (4, 22),
            (1, 22),
        ];
        assert_eq!(fold(&contexts), [0, 1, 2, 2, 4, 2, 6, 6]);
    }

    #[test]
    fn functions_that_call_each_other_are_on_a_path_once() {
        let contexts = [(0, 10), (1, 20), (2, 30), (3, 20), (4, 30), (5, 31)];
        assert_eq!(fold(&contexts), [0, 1, 2, 3, 2, 3, 6]);
    }

    #[test]
    fn what_is_not_known_is_never_the_same() {
        let caller = |number: usize| {
            let parent = number.checked_sub(1)?;
            Some((ContextId(parent as u32), SiteId(7)))
        };
        let all = folded(4, caller, |_| None);
        assert_eq!(all, [0, 1, 2, 3].map(ContextId));
    }
}
