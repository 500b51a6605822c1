//! The reading end of [`super`].

use super::{
    DecodeError, EXPLICIT_LENGTH, FenceKind, FlushKind, Memory, ORDER_FOLLOWS, Payload, Record,
    StoreKind, ThreadSync, kind,
};

fn unzigzag(code: u64) -> u64 {
    (code >> 1) ^ (code & 1).wrapping_neg()
}

/// Reads fields off the front of a slice.
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    #[inline(always)]
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (head, tail) = self
            .rest
            .split_at_checked(count)
            .ok_or(DecodeError::Truncated)?;
        self.rest = tail;
        Ok(head)
    }

    #[inline(always)]
    fn number(&mut self, size: usize) -> Result<u64, DecodeError> {
        // Most records are followed by others: one wide read instead of a loop over bytes.
        if let Some(wide) = self.rest.first_chunk::<8>() {
            let value = u64::from_le_bytes(*wide);
            self.rest = &self.rest[size..];
            return Ok(if size == 8 {
                value
            } else {
                value & ((1 << (size * 8)) - 1)
            });
        }
        let mut value = [0; 8];
        value[..size].copy_from_slice(self.bytes(size)?);
        Ok(u64::from_le_bytes(value))
    }

    #[inline(always)]
    fn address(&mut self, memory: &mut Memory, shape: u8) -> Result<u64, DecodeError> {
        let code = self.number(1 << (shape >> 3 & 3))?;
        let address = memory.last_address.wrapping_add(unzigzag(code));
        memory.last_address = address;
        Ok(address)
    }
}

/// Decodes the record at the start of `input` and says how many bytes it takes. On an error
/// `memory` is unspecified.
#[inline]
pub fn decode<'a>(
    input: &'a [u8],
    memory: &mut Memory,
) -> Result<(Record<'a>, usize), DecodeError> {
    use DecodeError::BadField;
    let mut from = Fields { rest: input };
    let head = from.number(1)? as u8;
    let kind = head & 0x1f;
    let ordered = !matches!(kind, kind::CONTEXT | kind::DEFINE_CONTEXT);
    let order = match (ordered, head & ORDER_FOLLOWS != 0) {
        (true, true) => from.number(8)?,
        (true, false) => memory.last_order.wrapping_add(1),
        (false, false) => 0,
        (false, true) => return Err(BadField("order of a context")),
    };
    if ordered {
        memory.last_order = order;
    }
    let site = from.number(usize::from(head >> 6) + 1)? as u32;
    let payload = match kind {
        kind::STORE => {
            let shape = from.number(1)? as u8;
            let length = match shape & 7 {
                EXPLICIT_LENGTH => from.number(4)? as usize,
                class => 1 << class,
            };
            let address = from.address(memory, shape)?;
            let kind = StoreKind::from_bits(shape >> 5).ok_or(BadField("store kind"))?;
            Payload::Store {
                kind,
                address,
                bytes: from.bytes(length)?,
            }
        }
        kind::FILL => {
            let shape = from.number(1)? as u8;
            let address = from.address(memory, shape)?;
            let kind = StoreKind::from_bits(shape >> 5).ok_or(BadField("store kind"))?;
            Payload::Fill {
                kind,
                address,
                length: from.number(8)?,
                byte: from.number(1)? as u8,
            }
        }
        kind::LOAD => {
            let shape = from.number(1)? as u8;
            let address = from.address(memory, shape)?;
            Payload::Load {
                address,
                size: from.number(4)? as u32,
            }
        }
        kind::FLUSH => {
            let shape = from.number(1)? as u8;
            let address = from.address(memory, shape)?;
            let kind = FlushKind::from_bits(shape >> 5).ok_or(BadField("flush kind"))?;
            Payload::Flush { kind, address }
        }
        kind::FENCE => {
            let bits = from.number(1)? as u8;
            Payload::Fence {
                kind: FenceKind::from_bits(bits).ok_or(BadField("fence kind"))?,
            }
        }
        kind::OPAQUE => Payload::Opaque,
        kind::CALL => {
            let count = from.number(1)? as usize;
            if count > crate::hooks::MAX_CALL_ARGUMENTS {
                return Err(BadField("argument count"));
            }
            Payload::Call {
                arguments: from.bytes(count * 8)?,
            }
        }
        kind::RETURN => Payload::Return {
            value: from.number(8)?,
        },
        kind::SYNC => {
            let bits = from.number(1)? as u8;
            let kind = ThreadSync::from_bits(bits).ok_or(BadField("synchronisation kind"))?;
            Payload::Sync {
                kind,
                object: from.number(8)?,
            }
        }
        kind::MAP => Payload::Map {
            address: from.number(8)?,
            length: from.number(8)?,
            file: from.number(4)? as u32,
            file_offset: from.number(8)?,
            shared: from.number(1)? != 0,
        },
        kind::UNMAP => Payload::Unmap {
            address: from.number(8)?,
            length: from.number(8)?,
        },
        kind::MSYNC => Payload::Msync {
            address: from.number(8)?,
            length: from.number(8)?,
        },
        kind::CONTEXT => {
            return Ok((
                Record {
                    order: 0,
                    site: 0,
                    payload: Payload::Context(site),
                },
                input.len() - from.rest.len(),
            ));
        }
        kind::DEFINE_CONTEXT => Payload::DefineContext {
            parent: from.number(4)? as u32,
        },
        other => return Err(DecodeError::UnknownKind(other)),
    };
    Ok((
        Record {
            order,
            site,
            payload,
        },
        input.len() - from.rest.len(),
    ))
}
