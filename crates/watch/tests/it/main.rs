//! Programs of every kind, watched as they come.

mod languages;
mod replay;
mod support;
mod syscallbuf;
mod watching;
