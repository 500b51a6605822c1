//! The runtime in small C programs that call its hooks like instrumented code does.

mod hooks;
mod life;
mod support;
mod threads;
