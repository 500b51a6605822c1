//! Descriptors come and go.

use super::{Arguments, EntryAction, EntryResult, PendingCall};
use crate::WatchError;
use crate::descriptors::Description;
use crate::watcher::{CallContext, Watcher};
use std::rc::Rc;

const CLOSE_RANGE_UNSHARE: i32 = 2;
const CLOSE_RANGE_CLOEXEC: i32 = 4;

impl Watcher<'_> {
    /// A number is free once the call has begun, whatever it returns: so it is given up before, and
    /// with it our own descriptor, so that locks go when the program means them to.
    pub fn enter_close(&mut self, by: CallContext<'_>, arguments: &Arguments) -> EntryResult {
        let Some(task) = self.tasks.all.get_mut(&by.tid) else {
            return Ok(EntryAction::Pass);
        };
        let mut gone = Vec::new();
        if arguments.call() == libc::SYS_close {
            gone.extend(
                task.process
                    .files
                    .borrow_mut()
                    .remove(arguments.descriptor(0)),
            );
        } else {
            let flags = arguments.flags(2);
            if flags & CLOSE_RANGE_UNSHARE != 0 {
                let copy = task.process.files.borrow().clone();
                task.process.files = Rc::new(copy.into());
            }
            if flags & CLOSE_RANGE_CLOEXEC == 0 {
                let range = arguments.values[0] as u32..=arguments.values[1] as u32;
                let mut files = task.process.files.borrow_mut();
                for number in files.numbers() {
                    if range.contains(&(number as u32)) {
                        gone.extend(files.remove(number));
                    }
                }
            }
        }
        let closed = self.release(gone);
        self.emit_closed(by, closed)?;
        Ok(EntryAction::Pass)
    }

    /// A copy shares what it is a copy of, and frees the number it gets.
    pub fn enter_duplicate(&mut self, by: CallContext<'_>, arguments: &Arguments) -> EntryResult {
        let sets_flags = arguments.call() == libc::SYS_fcntl && arguments.flags(1) == libc::F_SETFL;
        Ok(match self.description(by.tid, arguments.descriptor(0)) {
            Some(description) if sets_flags => match description.own {
                Some(_) => EntryAction::wait_for(PendingCall::SetFlags(description)),
                None => EntryAction::Pass,
            },
            Some(description) => EntryAction::wait_for(PendingCall::Duplicate(description)),
            None => EntryAction::Pass,
        })
    }

    pub fn exit_duplicate(
        &mut self,
        by: CallContext<'_>,
        arguments: &Arguments,
        description: Rc<Description>,
        returned: i32,
    ) -> Result<(), WatchError> {
        let Some(task) = self.tasks.get(by.tid) else {
            return Ok(());
        };
        if arguments.descriptor(0) == returned {
            return Ok(());
        }
        let files = Rc::clone(&task.process.files);
        let replaced = files.borrow_mut().insert(returned, description);
        let closed = self.release(replaced);
        self.emit_closed(by, closed)
    }
}
