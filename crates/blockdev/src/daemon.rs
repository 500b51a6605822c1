//! A disk in memory, shown as a file by FUSE, that writes down what reaches it.
//!
//! The file is the root of its file system, so a mount point is the file. Requests are answered by
//! one thread, in order; a write that is slow on purpose is answered later by another, and counts
//! as written only then. Neither thread touches any file: the kernel may be waiting for them.
//!
//! Both threads have a table of descriptors of their own. Were the process killed while another of
//! its threads waits for the disk, a shared table would stay open, the kernel would wait for an
//! answer that nobody gives, and the process could not end.

use std::collections::HashSet;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyOpen, ReplyWrite,
    Request, Session, SessionACL, WriteFlags,
};
use rustix::mount::MountFlags;

use crate::disk::Disk;
use crate::errors::{LabError, Says as _};
use crate::kernel::{self, Ready};
use crate::recording::{DiskRecord, Recording, Unit};

/// Writes that take their time: those with a block of the given hash.
#[derive(Clone, Debug, Default)]
pub struct Slow {
    pub delay: Duration,
    pub blocks: HashSet<u64>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub disk: Disk,
    pub recording: Option<Recording>,
    pub slow: Option<Slow>,
}

impl State {
    fn write(&mut self, units: Vec<Unit>) {
        for unit in &units {
            unit.apply(&mut self.disk);
        }
        self.record(DiskRecord::Write(units));
    }

    pub fn record(&mut self, record: DiskRecord) {
        if let Some(recording) = &mut self.recording {
            recording.records.push(record);
        }
    }
}

/// Shared between the threads that answer and those that ask.
#[derive(Clone, Debug)]
pub(crate) struct Shared(Arc<Mutex<State>>);

impl Shared {
    pub fn new(disk: Disk) -> Shared {
        Shared(Arc::new(Mutex::new(State {
            disk,
            recording: None,
            slow: None,
        })))
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        // Whoever panicked while holding it has changed a whole block or none.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shows the disk at `file`, which must exist, until it is unmounted there. Returns when it can be
/// opened.
pub(crate) fn serve(shared: Shared, file: &Path) -> Result<(), LabError> {
    let (ready, is_ready) = mpsc::channel();
    let spawned = kernel::spawn_apart(shared, file.to_owned(), ready, answer);
    spawned.or_says(|| "start the thread of a disk".to_owned())?;
    is_ready.recv().unwrap_or_else(|_| {
        let gone = io::Error::other("its thread ended");
        Err(gone).or_says(|| "serve a disk".to_owned())
    })
}

/// What the thread of a disk does.
fn answer(apart: io::Result<()>, shared: Shared, file: PathBuf, ready: Ready) {
    let apart = apart.or_says(|| "separate the descriptors of a disk".to_owned());
    match apart.and_then(|()| start(shared, &file)) {
        Ok(session) => {
            let _ = ready.send(Ok(()));
            // An error means that the kernel has closed its end; whoever uses the disk hears of it.
            let _ = session.run();
        }
        Err(error) => {
            let _ = ready.send(Err(error));
        }
    }
}

fn start(shared: Shared, file: &Path) -> Result<Session<Served>, LabError> {
    let fuse = File::options().read(true).write(true).open("/dev/fuse");
    let fuse = fuse.or_says(|| "open /dev/fuse".to_owned())?;
    let options = format!(
        "fd={},rootmode=100000,user_id=0,group_id=0",
        fuse.as_raw_fd()
    );
    let options = CString::new(options).expect("there is no zero in it");
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    let mounted = rustix::mount::mount("crashpoint", file, "fuse", flags, Some(&*options));
    mounted.or_says(|| format!("mount a disk at {}", file.display()))?;
    let size = shared.lock().disk.size();
    let (late, is_late) = mpsc::channel();
    let delayed = shared.clone();
    let spawned = thread::Builder::new()
        .name("slow disk".to_owned())
        .spawn(move || finish_late(&delayed, &is_late));
    spawned.or_says(|| "start the thread of slow writes".to_owned())?;
    let served = Served { shared, size, late };
    let session = Session::from_fd(
        served,
        OwnedFd::from(fuse),
        SessionACL::Owner,
        fuser::Config::default(),
    );
    session.or_says(|| "agree with the kernel on FUSE".to_owned())
}

/// A write that is finished when it is due.
struct Late {
    due: Instant,
    units: Vec<Unit>,
    length: u32,
    reply: ReplyWrite,
}

fn finish_late(shared: &Shared, late: &Receiver<Late>) {
    while let Ok(write) = late.recv() {
        thread::sleep(write.due.saturating_duration_since(Instant::now()));
        shared.lock().write(write.units);
        write.reply.written(write.length);
    }
}

#[derive(Debug)]
struct Served {
    shared: Shared,
    size: u64,
    late: Sender<Late>,
}

impl Served {
    fn fits(&self, offset: u64, length: u64) -> bool {
        offset
            .checked_add(length)
            .is_some_and(|end| end <= self.size)
    }
}

/// As long as the kernel likes: nothing of the file changes but its content.
const FOREVER: Duration = Duration::from_secs(3600 * 24);

impl Filesystem for Served {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Without it, a slow write would hold up all that come after.
        let asynchronous = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        asynchronous.map_err(|_| io::Error::other("the kernel writes one request at a time"))
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let attributes = FileAttr {
            ino: inode,
            size: self.size,
            blocks: self.size / 512,
            atime: SystemTime::UNIX_EPOCH,
            mtime: SystemTime::UNIX_EPOCH,
            ctime: SystemTime::UNIX_EPOCH,
            crtime: SystemTime::UNIX_EPOCH,
            kind: FileType::RegularFile,
            perm: 0o600,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        };
        reply.attr(&FOREVER, &attributes);
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let end = self.size.min(offset.saturating_add(u64::from(size)));
        let mut bytes = vec![0; end.saturating_sub(offset) as usize];
        self.shared.lock().disk.read(offset, &mut bytes);
        reply.data(&bytes);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if !self.fits(offset, data.len() as u64) {
            reply.error(Errno::ENOSPC);
            return;
        }
        let length = data.len() as u32;
        let units = Unit::cut(offset, data);
        let mut state = self.shared.lock();
        match &state.slow {
            Some(slow) if slow.holds_up(&units) => {
                let due = Instant::now() + slow.delay;
                let late = Late {
                    due,
                    units,
                    length,
                    reply,
                };
                // The other thread ends only when this one has; an unanswered request is an error
                // for whoever asked.
                let _ = self.late.send(late);
            }
            Some(_) | None => {
                state.write(units);
                drop(state);
                reply.written(length);
            }
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.shared.lock().record(DiskRecord::Flush);
        reply.ok();
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // The closing of a descriptor, which has nothing to do with durability.
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let zeroes = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE;
        if mode & zeroes == 0 || !self.fits(offset, length) {
            reply.error(Errno::EOPNOTSUPP);
            return;
        }
        // Discarding and writing zeros look the same from here; both leave zeros.
        let units = Unit::cut(offset, &vec![0; length as usize]);
        self.shared.lock().write(units);
        reply.ok();
    }
}

impl Slow {
    fn holds_up(&self, units: &[Unit]) -> bool {
        let wanted = |unit: &Unit| {
            let block = unit.whole();
            block.is_some_and(|block| self.blocks.contains(&block.hash))
        };
        units.iter().any(wanted)
    }
}
