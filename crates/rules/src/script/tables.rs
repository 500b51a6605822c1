//! What scripts keep between events: tables and sets of ranges, shared by all their copies.

use crate::intervals::Intervals;
use rhai::{Dynamic, Engine, EvalAltResult, INT, ImmutableString, Map};
use std::cell::RefCell;
use std::rc::Rc;

/// A map that stays the same when it is assigned. What is not there reads as `()`.
#[derive(Clone, Default)]
pub(super) struct Table(Rc<RefCell<Map>>);

/// Most entries of a table, and intervals of a set.
pub(super) const MAX_ENTRIES: usize = 1 << 20;

/// A set of addresses.
#[derive(Clone, Default)]
pub(super) struct Ranges(Rc<RefCell<Intervals<()>>>);

type Fallible<T> = Result<T, Box<EvalAltResult>>;

fn range(start: INT, length: INT) -> Fallible<(u64, u64)> {
    let length = u64::try_from(length).map_err(|_| format!("a length of {length} bytes"))?;
    let start = start as u64;
    Ok((start, start.saturating_add(length)))
}

/// An array of start and length.
fn pair((from, to): (u64, u64)) -> Dynamic {
    vec![
        Dynamic::from_int(from as INT),
        Dynamic::from_int((to - from) as INT),
    ]
    .into()
}

pub(super) fn register(engine: &mut Engine) {
    engine.register_type_with_name::<Table>("Table");
    engine.register_fn("table", Table::default);
    engine.register_indexer_get(|table: &mut Table, key: ImmutableString| -> Dynamic {
        table
            .0
            .borrow()
            .get(key.as_str())
            .cloned()
            .unwrap_or(Dynamic::UNIT)
    });
    engine.register_indexer_set(
        |table: &mut Table, key: ImmutableString, value: Dynamic| -> Fallible<()> {
            let mut map = table.0.borrow_mut();
            map.insert(key.as_str().into(), value);
            if map.len() > MAX_ENTRIES {
                return Err("the table has too many entries".into());
            }
            Ok(())
        },
    );
    engine.register_fn("remove", |table: &mut Table, key: &str| -> Dynamic {
        table.0.borrow_mut().remove(key).unwrap_or(Dynamic::UNIT)
    });
    engine.register_fn("clear", |table: &mut Table| table.0.borrow_mut().clear());

    engine.register_type_with_name::<Ranges>("Ranges");
    engine.register_fn("ranges", Ranges::default);
    engine.register_fn(
        "add",
        |set: &mut Ranges, start: INT, length: INT| -> Fallible<()> {
            let (start, end) = range(start, length)?;
            let mut set = set.0.borrow_mut();
            set.add(start, end, ());
            if set.len() > MAX_ENTRIES {
                return Err("the set has too many ranges".into());
            }
            Ok(())
        },
    );
    engine.register_fn(
        "remove",
        |set: &mut Ranges, start: INT, length: INT| -> Fallible<()> {
            let (start, end) = range(start, length)?;
            set.0.borrow_mut().remove(start, end);
            Ok(())
        },
    );
    // What begins at an address, up to the next gap.
    engine.register_fn("remove_run", |set: &mut Ranges, start: INT| {
        let mut set = set.0.borrow_mut();
        let end = set.run_end(start as u64);
        set.remove(start as u64, end);
    });
    engine.register_fn(
        "covers",
        |set: &mut Ranges, start: INT, length: INT| -> Fallible<bool> {
            let (start, end) = range(start, length)?;
            Ok(set.0.borrow().covers(start, end))
        },
    );
    engine.register_fn(
        "overlaps",
        |set: &mut Ranges, start: INT, length: INT| -> Fallible<bool> {
            let (start, end) = range(start, length)?;
            Ok(set.0.borrow().overlaps(start, end))
        },
    );
    // Parts of a range that are not in the set, as arrays of start and length.
    engine.register_fn(
        "gaps",
        |set: &mut Ranges, start: INT, length: INT| -> Fallible<rhai::Array> {
            let (start, end) = range(start, length)?;
            let gaps = set.0.borrow().gaps(start, end);
            Ok(gaps.into_iter().map(pair).collect())
        },
    );
    engine.register_fn("parts", |set: &mut Ranges| -> rhai::Array {
        set.0.borrow().iter().map(pair).collect()
    });
    engine.register_fn("clear", |set: &mut Ranges| set.0.borrow_mut().clear());
    engine.register_fn("is_empty", |set: &mut Ranges| set.0.borrow().is_empty());
    engine.register_fn(
        "overlaps",
        |a: INT, a_length: INT, b: INT, b_length: INT| -> Fallible<bool> {
            let ((a, a_end), (b, b_end)) = (range(a, a_length)?, range(b, b_length)?);
            Ok(a.max(b) < a_end.min(b_end))
        },
    );
}
