//! Comparing trees by their summaries, where a model does not know all bytes.
//!
//! A `?` of a model is a byte of whatever the disk held before, which on a real disk is something:
//! it matches every byte.

/// Whether a tree that was seen is one that a model allows.
pub(crate) fn matches(allowed: &str, seen: &str) -> bool {
    if allowed == seen {
        return true;
    }
    if !allowed.contains('?') {
        return false;
    }
    let (mut one, mut other) = (allowed.split(' '), seen.split(' '));
    loop {
        match (one.next(), other.next()) {
            (None, None) => return true,
            (Some(allowed), Some(seen)) if entry_matches(allowed, seen) => {}
            (Some(_) | None, Some(_) | None) => return false,
        }
    }
}

/// `f=A*3,?*2`
fn entry_matches(allowed: &str, seen: &str) -> bool {
    if allowed == seen {
        return true;
    }
    let (Some((name, allowed)), Some((other, seen))) =
        (allowed.rsplit_once('='), seen.rsplit_once('='))
    else {
        return false;
    };
    let (Some(allowed), Some(seen)) = (runs(allowed), runs(seen)) else {
        return false;
    };
    name == other && bytes_match(allowed, seen)
}

/// What each run repeats, and how often.
fn runs(text: &str) -> Option<Vec<(&str, u64)>> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (what, count) = part.rsplit_once('*')?;
            Some((what, count.parse().ok()?))
        })
        .collect()
}

fn bytes_match<'a>(mut allowed: Vec<(&'a str, u64)>, mut seen: Vec<(&'a str, u64)>) -> bool {
    allowed.reverse();
    seen.reverse();
    loop {
        match (allowed.last_mut(), seen.last_mut()) {
            (None, None) => return true,
            (Some((what, count)), Some((other, others))) => {
                if *what != "?" && what != other {
                    return false;
                }
                let common = (*count).min(*others);
                *count -= common;
                *others -= common;
            }
            (Some(_), None) | (None, Some(_)) => return false,
        }
        for runs in [&mut allowed, &mut seen] {
            if runs.last().is_some_and(|(_, count)| *count == 0) {
                runs.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_model_does_not_know_may_be_anything() {
        assert!(matches("d/ f=A*3,?*2", "d/ f=A*5"));
        assert!(matches("f=?*4 g=B*1", "f=A*1,0*2,?*1 g=B*1"));
        assert!(!matches("f=A*3,?*2", "f=A*4"));
        assert!(!matches("f=?*4", "g=A*4"));
        assert!(!matches("f=?*1,B*1", "f=A*1,C*1"));
        assert!(!matches("f=?*1", "f=?*1 g="));
        assert!(!matches("f=A*1", "f=?*1"));
    }
}
