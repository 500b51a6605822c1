//! What runs a check: a target that waits at the door of `main`, or one that is started for each.

use crate::process::addresses::Fixed;
use crate::process::launch::Command;
use crate::process::pin::Pinned;
use crate::process::run::{FinishedRun, Limits};
use crate::process::server::{Server, ServerError, ServerSetup};
use crate::process::spawned::Spawned;

pub enum Runner {
    Served(Server),
    Spawned(Spawned),
}

impl Runner {
    /// `any_program`: it may be one with no runtime in it.
    pub fn start(
        command: &Command,
        place: &ServerSetup,
        any_program: bool,
        processor: Option<usize>,
    ) -> Result<Runner, ServerError> {
        let _ = std::fs::remove_file(&place.socket);
        let _pinned = Pinned::to(processor);
        let _fixed = Fixed::here();
        match Server::start(command, place) {
            Ok(server) => Ok(Runner::Served(server)),
            Err(ServerError::NotServed { .. }) if any_program => {
                Ok(Runner::Spawned(Spawned::new(command.clone(), Vec::new())))
            }
            Err(error) => Err(error),
        }
    }

    pub fn run(&mut self, flags: u32, limits: &Limits) -> Result<FinishedRun, ServerError> {
        match self {
            Runner::Served(server) => server.run(flags, limits),
            Runner::Spawned(spawned) => spawned.run(limits),
        }
    }

    /// Objects of the target that were built by `crashpoint-cc`.
    pub fn modules(&self) -> u32 {
        match self {
            Runner::Served(server) => server.modules,
            Runner::Spawned(_) => 0,
        }
    }
}
