//! Tiny recordings for the tests of rules.
