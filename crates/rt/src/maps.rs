//! The list of mappings that the kernel keeps.

use crate::config;
use crate::files;
use crate::mapping;
use crate::proc;
use crate::process::Process;
use crate::sys::{File, Path};
use crate::text::Text;

/// A line of /proc/self/maps that has a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    pub base: u64,
    pub end: u64,
    pub is_executable: bool,
    pub is_shared: bool,
    pub offset: u64,
    pub inode: u64,
    pub path: &'a [u8],
}

fn hexadecimal(text: &[u8]) -> Option<u64> {
    u64::from_str_radix(core::str::from_utf8(text).ok()?, 16).ok()
}

fn parse(line: &[u8]) -> Option<Line<'_>> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let mut range = fields.next()?.split(|byte| *byte == b'-');
    let (base, end) = (hexadecimal(range.next()?)?, hexadecimal(range.next()?)?);
    let permissions = fields.next()?;
    let offset = hexadecimal(fields.next()?)?;
    let _device = fields.next()?;
    let inode = core::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let path = fields.next()?.trim_ascii_start();
    Some(Line {
        base,
        end,
        is_executable: permissions.get(2) == Some(&b'x'),
        is_shared: permissions.get(3) == Some(&b's'),
        offset,
        inode,
        path: path.starts_with(b"/").then_some(path)?,
    })
}

/// Calls `then` with each mapping of a file.
pub fn each(mut then: impl FnMut(Line<'_>)) {
    proc::with_file(b"/proc/self/maps\0", |content| {
        content
            .split(|byte| *byte == b'\n')
            .filter_map(parse)
            .for_each(&mut then);
    });
}

/// Persistent files that were mapped before this process began to record, by code that came
/// before ours or past it.
pub fn adopt(process: &mut Process) {
    let Some(config) = config::get() else { return };
    if config.pm.is_empty() {
        return;
    }
    each(|line| {
        if !line.is_shared || !files::path_is_persistent(config, line.path) {
            return;
        }
        let opened = Text::new().ok().and_then(|mut text| {
            text.push(line.path);
            let bytes = text.path()?;
            open_same(bytes, line.inode)
        });
        if let Some(file) = opened {
            mapping::adopt(process, line.base, line.end, line.offset, file.number());
        }
    });
}

/// Opens a path if the file that is mapped is still behind it.
fn open_same(path: Path<'_>, inode: u64) -> Option<File> {
    let file = File::open(path, libc::O_RDONLY).ok()?;
    (file.status().ok()?.st_ino == inode).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_a_path_are_understood() {
        let line = b"10000000-10001000 rw-s 00002000 fe:00 77    /dev/shm/a pool";
        let expected = Line {
            base: 0x1000_0000,
            end: 0x1000_1000,
            is_executable: false,
            is_shared: true,
            offset: 0x2000,
            inode: 77,
            path: b"/dev/shm/a pool",
        };
        assert_eq!(parse(line), Some(expected));
        assert_eq!(
            parse(b"7ff000-7ff001 rw-p 00000000 00:00 0    [stack]"),
            None
        );
        assert_eq!(parse(b"7ff000-7ff001 rw-p 00000000 00:00 0 "), None);
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn this_program_is_among_its_own_mappings() {
        let mut found = false;
        let here = this_program_is_among_its_own_mappings as *const () as u64;
        each(|line| found |= line.is_executable && (line.base..line.end).contains(&here));
        assert!(found);
    }
}
