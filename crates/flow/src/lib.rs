//! What depended on what: a recording at level flow, replayed over the program model.
//!
//! # Model
//!
//! A [`Walker`] goes through the flow stream of a thread. The stream holds what the model cannot
//! tell (branches taken, addresses, lengths, calls), the model the rest. Along the way values carry
//! *labels*: through registers, memory, calls, returns, phis, copies and functions of the system's
//! libraries that are known by name ([`library`]). What a label is, is for an [`Analysis`] to say:
//! for conditions it is a set of reads of persistent memory.
//!
//! What an instruction does depends on the branches that decide whether it runs. The walker keeps
//! track of them by post-dominance, across calls, as execution regions (Xin and Zhang, "Efficient
//! online detection of dynamic control dependence", ISSTA 2007): a region opens at a branch and
//! ends where all its ways meet again.
//!
//! # Deviations
//!
//! - Ordinary memory has one label for each aligned 4 bytes; smaller stores add to it.
//! - Threads are walked one after the other over one memory, so that what one thread left for
//!   another in ordinary memory is known only if it was walked before.
//! - What code without hooks does to ordinary memory is not seen. Its result is taken to depend on
//!   its arguments.
//! - Where the stream does not fit the model (a damaged recording), the walk drops what it knew and
//!   goes on at the next function that begins. [`Unfollowed`] counts this and everything else that
//!   could not be followed.
//!
//! **Architecture invariant:** pure; values in, labels out.
#![forbid(unsafe_code)]

mod accesses;
mod activation;
mod code;
pub mod library;
mod regions;
mod shadow;
mod walker;

#[cfg(test)]
mod naive;

pub use accesses::{Access, AccessKind, Accesses, Mappings, RecordedAccess};
pub use walker::{Followed, Models, Unfollowed, Walker, walk};

use crashpoint_ir::Inst;

/// What is known of values, and what to do where persistent memory is touched.
pub trait Analysis {
    /// What a value carries. The default is that it depends on nothing.
    type Label: Copy + Default + PartialEq + std::fmt::Debug;

    /// What decides that something runs. The default is nothing.
    type Control: Copy + Default + std::fmt::Debug;

    /// A value that depends on both.
    fn join(&mut self, one: Self::Label, other: Self::Label) -> Self::Label;

    /// The result of an instruction that computes in registers.
    fn compute(&mut self, _: &Inst, operands: &[Self::Label]) -> Self::Label {
        let mut result = Self::Label::default();
        for operand in operands {
            result = self.join(result, *operand);
        }
        result
    }

    /// A value that is what it is because of what was decided: one of several that meet, or one
    /// that was left in ordinary memory.
    fn chosen(&mut self, value: Self::Label, control: Self::Control) -> Self::Label;

    /// What runs in the region of a branch on `condition`, itself under `control`.
    fn decide(&mut self, control: Self::Control, condition: Self::Label) -> Self::Control;

    /// A read of persistent memory through `pointer`; returns what the value carries.
    fn read(
        &mut self,
        access: &Access,
        pointer: Self::Label,
        control: Self::Control,
    ) -> Self::Label;

    /// `value` is written to persistent memory through `pointer`.
    fn write(
        &mut self,
        access: &Access,
        pointer: Self::Label,
        value: Self::Label,
        control: Self::Control,
    );
}
