//! The runtime in small C programs that call its hooks like instrumented code does.

mod checker;
mod foreign;
mod hooks;
mod life;
mod limits;
mod loading;
mod mappings;
mod serve;
mod signals;
mod support;
mod threads;
