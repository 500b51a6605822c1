//! Programs of every kind, watched as they come.

mod languages;
mod near;
mod replay;
mod support;
mod watching;
