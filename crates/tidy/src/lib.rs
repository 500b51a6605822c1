//! House rules as tests: see `tests/`. Nothing here is shipped.
