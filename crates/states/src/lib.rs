//! Which crashes to try: strategies that pick crash states out of a frontier.
//!
//! **Architecture invariant:** pure; a strategy sees frontiers and returns cuts, and neither
//! materialises nor judges them.
#![forbid(unsafe_code)]
