//! Findings at one source line with one call path are one finding with a count. How deep a
//! recursion went does not make another path.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use crate::finding::{Finding, Frame, Location};

/// Merges equal findings and sorts them by place in the source. The occurrence that came first in
/// the recording lends its history and its place.
pub fn merge(findings: Vec<Finding>) -> Vec<Finding> {
    let mut merged: Vec<Finding> = Vec::new();
    let mut index: HashMap<Key, usize> = HashMap::new();
    for finding in findings {
        match index.entry(Key::of(&finding)) {
            std::collections::hash_map::Entry::Occupied(known) => {
                add(&mut merged[*known.get()], finding);
            }
            std::collections::hash_map::Entry::Vacant(new) => {
                new.insert(merged.len());
                merged.push(finding);
            }
        }
    }
    merged.sort_by(|a, b| order(a).cmp(&order(b)));
    merged
}

/// Errors first, then by file and line; what has no place comes last.
fn order(finding: &Finding) -> impl Ord + '_ {
    (
        Reverse(finding.severity),
        finding.location.is_none(),
        finding.location.as_ref(),
        &finding.rule,
        finding.first_order,
    )
}

fn add(known: &mut Finding, other: Finding) {
    let count = known.count.saturating_add(other.count);
    let total = known.total.saturating_add(other.total);
    if other.first_order < known.first_order {
        *known = other;
    }
    known.count = count;
    known.total = total;
}

#[derive(PartialEq, Eq, Hash)]
struct Key {
    rule: String,
    place: Option<(String, u32)>,
    callers: Vec<(String, Option<(String, u32)>)>,
}

impl Key {
    fn of(finding: &Finding) -> Key {
        let line = |location: &Location| (location.file.clone(), location.line);
        let caller = |frame: &Frame| (frame.function.clone(), frame.location.as_ref().map(line));
        // Without source lines only the very stack tells findings apart.
        let callers = match finding.location {
            Some(_) => finding.call_path(),
            None => &finding.stack,
        };
        let mut seen = HashSet::new();
        Key {
            rule: finding.rule.clone(),
            place: finding.location.as_ref().map(line),
            callers: callers
                .iter()
                .map(caller)
                .filter(|c| seen.insert(c.clone()))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples;

    #[test]
    fn one_line_with_one_call_path_is_one_finding() {
        let mut later = examples::extra_flush();
        later.first_order += 100;
        later.count = 3;
        later.total = 4;
        later.location.as_mut().unwrap().column += 7;
        let mut elsewhere = examples::extra_flush();
        elsewhere.stack.last_mut().unwrap().function = "recover".into();

        let first = examples::extra_flush();
        let merged = merge(vec![later, first.clone(), elsewhere.clone()]);
        assert_eq!(merged.len(), 2);
        assert_eq!(merged[0].count, first.count + 3);
        assert_eq!(merged[0].total, first.total + 4);
        assert_eq!(merged[0].location, first.location);
        assert_eq!(merged[1], elsewhere);
    }

    #[test]
    fn helpers_on_the_way_do_not_tell_findings_apart() {
        let first = examples::extra_flush();
        let mut through_another_helper = first.clone();
        through_another_helper.stack[0].function = "flush_twice".into();
        assert_eq!(merge(vec![first, through_another_helper]).len(), 1);
    }

    #[test]
    fn the_depth_of_a_recursion_does_not_tell_findings_apart() {
        let once = examples::extra_flush();
        let mut deeper = once.clone();
        let caller = deeper.stack[3].clone();
        deeper.stack.splice(3..3, vec![caller; 7]);
        assert_eq!(merge(vec![once, deeper]).len(), 1);
    }

    #[test]
    fn errors_come_first_then_places() {
        let merged = merge(vec![examples::extra_flush(), examples::missing_flush()]);
        let rules: Vec<&str> = merged.iter().map(|finding| finding.rule.as_str()).collect();
        assert_eq!(rules, ["missing-flush", "extra-flush"]);
    }
}
