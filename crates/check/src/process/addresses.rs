//! Gives whatever is started the same addresses each time.
//!
//! A program that goes astray after a crash may follow an address that lay about in its pool. Where
//! that leads depends on where things are in memory, and so would the verdict on who tries the
//! state. The recorded run has addresses of its own, chosen by chance, so that a volatile pointer
//! that was stored in the pool leads nowhere here too.

use nix::sys::personality::{self, Persona};

/// What the calling thread starts while this lives is laid out by no chance.
#[derive(Debug)]
pub struct Fixed {
    before: Option<Persona>,
}

impl Fixed {
    pub fn here() -> Fixed {
        let before = personality::get().ok().filter(|before| {
            // Where it is not allowed, everything works as before.
            personality::set(*before | Persona::ADDR_NO_RANDOMIZE).is_ok()
        });
        Fixed { before }
    }
}

impl Drop for Fixed {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            let _ = personality::set(before);
        }
    }
}
