//! The runtime in small C programs that call its hooks like instrumented code does.

mod foreign;
mod hooks;
mod life;
mod limits;
mod loading;
mod mappings;
mod signals;
mod support;
mod threads;
