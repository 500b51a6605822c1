//! Bounds how deep constants nest while they are decoded.
//!
//! Constants are the one recursive type of the model. The depth is kept per thread, since a
//! deserializer has no place for it.

use crate::{Constant, MAX_CONSTANT_DEPTH};
use serde::de::{Deserialize, Deserializer, Error};
use std::cell::Cell;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Goes back one level when decoding of an aggregate ends, in success or not.
struct Level;

impl Drop for Level {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

pub(crate) fn bounded<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Constant>, D::Error> {
    let depth = DEPTH.get() + 1;
    if depth > MAX_CONSTANT_DEPTH {
        return Err(D::Error::custom("a constant is nested too deep"));
    }
    DEPTH.set(depth);
    let _level = Level;
    Vec::deserialize(from)
}
