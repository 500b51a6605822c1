//! Threads and processes of the program, and what they share.

use crate::calls::CallInProgress;
use crate::descriptors::DescriptorTable;
use crate::mappings::Space;
use crate::ptrace::{Registers, Tid};
use rustc_hash::FxHashMap;
use rustix::fd::OwnedFd;
use std::cell::RefCell;
use std::rc::Rc;

/// Where paths start from.
#[derive(Debug, Default)]
pub struct PathBase {
    /// The current folder, if it was opened since it was last changed.
    pub directory: Option<Rc<OwnedFd>>,
    /// Whether the root may be another than ours.
    pub other_root: bool,
}

/// A process: what its threads have in common.
#[derive(Clone, Debug)]
pub struct TracedProcess {
    pub number: u32,
    pub leader: Tid,
    pub pidfd: Rc<OwnedFd>,
    pub files: Rc<RefCell<DescriptorTable>>,
    pub place: Rc<RefCell<PathBase>>,
    pub space: Rc<RefCell<Space>>,
}

/// What a thread is doing.
#[derive(Debug, Default)]
pub enum TaskState {
    #[default]
    Running,
    /// Before a call, until another thread has finished one.
    Queued(Box<Registers>),
    /// In a call whose end we wait for.
    InCall(Box<CallInProgress>),
}

#[derive(Debug)]
pub struct Task {
    pub number: u32,
    pub process: TracedProcess,
    pub state: TaskState,
}

/// All threads.
#[derive(Debug, Default)]
pub struct Tasks {
    pub all: FxHashMap<Tid, Task>,
    processes: u32,
    threads: u32,
}

impl Tasks {
    pub fn next_process(&mut self) -> u32 {
        self.processes += 1;
        self.processes - 1
    }

    /// Returns its number.
    pub fn add(&mut self, tid: Tid, process: TracedProcess) -> u32 {
        let number = self.threads;
        let task = Task {
            number,
            process,
            state: TaskState::Running,
        };
        self.threads += 1;
        self.all.insert(tid, task);
        number
    }

    pub fn get(&self, tid: Tid) -> Option<&Task> {
        self.all.get(&tid)
    }

    /// Threads of a process.
    pub fn of(&self, leader: Tid) -> Vec<Tid> {
        let own = self
            .all
            .iter()
            .filter(|(_, task)| task.process.leader == leader);
        own.map(|(tid, _)| *tid).collect()
    }
}
