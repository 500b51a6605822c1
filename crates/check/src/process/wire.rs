//! Messages of the fork server as bytes; their layout is that of [`crashpoint_abi::serve`].

use crashpoint_abi::serve::{Hello, Reply, Request};

const HELLO_BYTES: usize = size_of::<Hello>();
const REPLY_BYTES: usize = size_of::<Reply>();
const REQUEST_BYTES: usize = size_of::<Request>();

/// Room for any message of a server.
pub const LARGEST: usize = 64;

const _: () = assert!(HELLO_BYTES <= LARGEST && REPLY_BYTES <= LARGEST);

pub fn request(request: &Request) -> [u8; REQUEST_BYTES] {
    let mut bytes = [0; REQUEST_BYTES];
    let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
    put(0, &request.kind.to_ne_bytes());
    put(4, &request.flags.to_ne_bytes());
    put(8, &request.memory_bytes.to_ne_bytes());
    put(16, &request.file_bytes.to_ne_bytes());
    put(24, &request.cpu_seconds.to_ne_bytes());
    put(28, &request.processes.to_ne_bytes());
    bytes
}

/// `None`: not such a message.
pub fn hello(bytes: &[u8]) -> Option<Hello> {
    (bytes.len() == HELLO_BYTES).then(|| Hello {
        version: word(bytes, 0),
        process: word(bytes, 4),
        modules: word(bytes, 8),
        reserved: word(bytes, 12),
    })
}

/// `None`: not such a message.
pub fn reply(bytes: &[u8]) -> Option<Reply> {
    (bytes.len() == REPLY_BYTES).then(|| Reply {
        status: word(bytes, 0) as i32,
        ended: word(bytes, 4),
        notes: word(bytes, 8),
        reserved: word(bytes, 12),
        wall_ns: double_word(bytes, 16),
        user_us: double_word(bytes, 24),
        system_us: double_word(bytes, 32),
    })
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn double_word(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn offsets_are_those_of_the_protocol() {
        assert_eq!(offset_of!(Request, memory_bytes), 8);
        assert_eq!(offset_of!(Request, processes), 28);
        assert_eq!(REQUEST_BYTES, 32);
        assert_eq!(offset_of!(Hello, modules), 8);
        assert_eq!(offset_of!(Reply, notes), 8);
        assert_eq!(offset_of!(Reply, system_us), 32);
        assert_eq!(REPLY_BYTES, 40);
    }

    #[test]
    fn other_lengths_are_refused() {
        assert_eq!(hello(&[0; HELLO_BYTES - 1]), None);
        assert_eq!(reply(&[0; REPLY_BYTES + 1]), None);
    }
}
