//! The writing end of [`super`].

use super::{
    EXPLICIT_LENGTH, FenceKind, FlushKind, MAX_HEAD_BYTES, Memory, ORDER_FOLLOWS, Payload, Record,
    StoreKind, ThreadSync, kind,
};

#[inline(always)]
fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ (((difference as i64) >> 63) as u64)
}

/// Class 0 to 3 for a number that takes 1, 2, 4 or 8 bytes.
#[inline(always)]
fn address_class(code: u64) -> u8 {
    u8::from(code >= 1 << 8) + u8::from(code >= 1 << 16) + u8::from(code >= 1 << 32)
}

/// Place of a record in the global order and in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordPosition {
    pub order: u64,
    /// 0: none.
    pub site: u32,
}

/// Writes records at a raw position. The runtime is its only user in earnest; tests and tools go
/// through [`encode`].
pub struct Encoder {
    next: *mut u8,
}

impl Encoder {
    /// # Safety
    /// `at` must be valid for writes of [`MAX_HEAD_BYTES`] plus the bytes of the store or of the
    /// arguments, for every record written through this encoder.
    pub unsafe fn new(at: *mut u8) -> Encoder {
        Encoder { next: at }
    }

    /// Where the next record goes.
    pub fn position(&self) -> *mut u8 {
        self.next
    }

    #[inline(always)]
    fn put(&mut self, value: u64, size: usize) {
        // SAFETY: `new` demands room for MAX_HEAD_BYTES; a head is at most 46 bytes (Map with an
        // order number), so that the full 8 bytes stay inside.
        unsafe {
            self.next.cast::<u64>().write_unaligned(value.to_le());
            self.next = self.next.add(size);
        }
    }

    #[inline(always)]
    fn head(&mut self, memory: &mut Memory, kind: u8, at: RecordPosition) {
        let RecordPosition { order, site } = at;
        let site_class =
            u8::from(site >= 1 << 8) + u8::from(site >= 1 << 16) + u8::from(site >= 1 << 24);
        let follows = order != memory.last_order.wrapping_add(1);
        memory.last_order = order;
        let head = u64::from(kind | site_class << 6);
        if follows {
            self.put(head | u64::from(ORDER_FOLLOWS), 1);
            self.put(order, 8);
            self.put(u64::from(site), usize::from(site_class) + 1);
        } else {
            self.put(head | u64::from(site) << 8, usize::from(site_class) + 2);
        }
    }

    #[inline(always)]
    fn address_code(memory: &mut Memory, address: u64) -> (u64, u8) {
        let code = zigzag(address.wrapping_sub(memory.last_address));
        memory.last_address = address;
        (code, address_class(code))
    }

    /// The byte that tells the class of an address, and the address; in one piece if that fits.
    #[inline(always)]
    fn shape_and_code(&mut self, shape: u8, code: u64, class: u8) {
        let shape = u64::from(shape | class << 3);
        if class == 3 {
            self.put(shape, 1);
            self.put(code, 8);
        } else {
            self.put(shape | code << 8, 1 + (1 << class));
        }
    }

    /// A store of 1, 2, 4 or 8 bytes.
    #[inline(always)]
    pub fn store(
        &mut self,
        memory: &mut Memory,
        at: RecordPosition,
        kind: StoreKind,
        address: u64,
        value: u64,
        size: u32,
    ) {
        self.head(memory, kind::STORE, at);
        let (code, class) = Self::address_code(memory, address);
        self.shape_and_code(size.trailing_zeros() as u8 | (kind as u8) << 5, code, class);
        self.put(value, size as usize);
    }

    /// As [`Encoder::store`] where the record has the common form: the next order number, and an
    /// address not far from the last. Otherwise writes nothing and returns false. It needs few
    /// registers, so that a writer's fast path saves none.
    #[inline(always)]
    pub fn store_short(
        &mut self,
        memory: &mut Memory,
        at: RecordPosition,
        kind: StoreKind,
        address: u64,
        value: u64,
        size: u32,
    ) -> bool {
        let code = zigzag(address.wrapping_sub(memory.last_address));
        if at.order != memory.last_order.wrapping_add(1) || code >= 1 << 32 {
            return false;
        }
        self.store(memory, at, kind, address, value, size);
        true
    }

    /// # Safety
    /// `from` must be valid for reads of `length` bytes.
    #[inline(always)]
    pub unsafe fn store_bytes(
        &mut self,
        memory: &mut Memory,
        at: RecordPosition,
        kind: StoreKind,
        address: u64,
        from: *const u8,
        length: u32,
    ) {
        self.head(memory, kind::STORE, at);
        let (code, class) = Self::address_code(memory, address);
        let plain = length.is_power_of_two() && length <= 64;
        let size_class = if plain {
            length.trailing_zeros() as u8
        } else {
            EXPLICIT_LENGTH
        };
        let shape = size_class | (kind as u8) << 5;
        if plain {
            self.shape_and_code(shape, code, class);
        } else {
            self.put(u64::from(shape | class << 3), 1);
            self.put(u64::from(length), 4);
            self.put(code, 1 << class);
        }
        // SAFETY: the caller vouches for `from`; `new` for room behind `at`. The stream is private
        // to the writer, so the two do not overlap.
        unsafe {
            core::ptr::copy_nonoverlapping(from, self.next, length as usize);
            self.next = self.next.add(length as usize);
        }
    }

    pub fn fill(
        &mut self,
        memory: &mut Memory,
        at: RecordPosition,
        kind: StoreKind,
        address: u64,
        length: u64,
        byte: u8,
    ) {
        self.head(memory, kind::FILL, at);
        let (code, class) = Self::address_code(memory, address);
        self.put(u64::from(class << 3 | (kind as u8) << 5), 1);
        self.put(code, 1 << class);
        self.put(length, 8);
        self.put(u64::from(byte), 1);
    }

    pub fn load(&mut self, memory: &mut Memory, at: RecordPosition, address: u64, size: u32) {
        self.head(memory, kind::LOAD, at);
        let (code, class) = Self::address_code(memory, address);
        self.put(u64::from(class << 3), 1);
        self.put(code, 1 << class);
        self.put(u64::from(size), 4);
    }

    #[inline(always)]
    pub fn flush(
        &mut self,
        memory: &mut Memory,
        at: RecordPosition,
        kind: FlushKind,
        address: u64,
    ) {
        self.head(memory, kind::FLUSH, at);
        let (code, class) = Self::address_code(memory, address);
        self.shape_and_code((kind as u8) << 5, code, class);
    }

    #[inline(always)]
    pub fn fence(&mut self, memory: &mut Memory, at: RecordPosition, kind: FenceKind) {
        self.head(memory, kind::FENCE, at);
        self.put(kind as u64, 1);
    }

    pub fn opaque(&mut self, memory: &mut Memory, at: RecordPosition) {
        self.head(memory, kind::OPAQUE, at);
    }

    /// # Safety
    /// `arguments` must be valid for reads of `count` words.
    pub unsafe fn call(
        &mut self,
        memory: &mut Memory,
        at: RecordPosition,
        arguments: *const u64,
        count: u32,
    ) {
        self.head(memory, kind::CALL, at);
        let count = count.min(crate::hooks::MAX_CALL_ARGUMENTS as u32);
        self.put(u64::from(count), 1);
        for index in 0..count as usize {
            // SAFETY: index < count, for which the caller vouches.
            let argument = unsafe { arguments.add(index).read_unaligned() };
            self.put(argument, 8);
        }
    }

    pub fn call_returned(&mut self, memory: &mut Memory, at: RecordPosition, value: u64) {
        self.head(memory, kind::RETURN, at);
        self.put(value, 8);
    }

    pub fn sync(&mut self, memory: &mut Memory, at: RecordPosition, kind: ThreadSync, object: u64) {
        self.head(memory, kind::SYNC, at);
        self.put(kind as u64, 1);
        self.put(object, 8);
    }

    pub fn map(&mut self, memory: &mut Memory, at: RecordPosition, map: &MappingFields) {
        self.head(memory, kind::MAP, at);
        self.put(map.address, 8);
        self.put(map.length, 8);
        self.put(u64::from(map.file), 4);
        self.put(map.file_offset, 8);
        self.put(u64::from(map.shared), 1);
    }

    pub fn unmap(&mut self, memory: &mut Memory, at: RecordPosition, address: u64, length: u64) {
        self.head(memory, kind::UNMAP, at);
        self.put(address, 8);
        self.put(length, 8);
    }

    pub fn msync(&mut self, memory: &mut Memory, at: RecordPosition, address: u64, length: u64) {
        self.head(memory, kind::MSYNC, at);
        self.put(address, 8);
        self.put(length, 8);
    }

    #[inline(always)]
    fn unordered_head(&mut self, kind: u8, number: u32) {
        let class =
            u8::from(number >= 1 << 8) + u8::from(number >= 1 << 16) + u8::from(number >= 1 << 24);
        self.put(u64::from(kind | class << 6), 1);
        self.put(u64::from(number), usize::from(class) + 1);
    }

    #[inline(always)]
    pub fn context(&mut self, context: u32) {
        self.unordered_head(kind::CONTEXT, context);
    }

    pub fn define_context(&mut self, parent: u32, site: u32) {
        self.unordered_head(kind::DEFINE_CONTEXT, site);
        self.put(u64::from(parent), 4);
    }
}

/// Fields of [`Payload::Map`], for the encoder.
#[derive(Clone, Copy, Debug)]
pub struct MappingFields {
    pub address: u64,
    pub length: u64,
    pub file: u32,
    pub file_offset: u64,
    pub shared: bool,
}

/// Encodes one record into `out`, which must have room for [`MAX_HEAD_BYTES`] and the record's
/// bytes; returns how many bytes it takes. Panics if the room is too small.
pub fn encode(out: &mut [u8], memory: &mut Memory, record: &Record<'_>) -> usize {
    let extra = match record.payload {
        Payload::Store { bytes, .. } => bytes.len(),
        Payload::Call { arguments } => arguments.len(),
        _ => 0,
    };
    assert!(out.len() >= MAX_HEAD_BYTES + extra, "no room for a record");
    let start = out.as_mut_ptr();
    // SAFETY: the assertion above is what `new` demands.
    let mut to = unsafe { Encoder::new(start) };
    let Record {
        order,
        site,
        payload,
    } = *record;
    let at = RecordPosition { order, site };
    match payload {
        Payload::Store {
            kind,
            address,
            bytes,
        } => {
            let length = u32::try_from(bytes.len()).expect("a store is shorter than 4 GiB");
            // SAFETY: `bytes` is a slice of that length.
            unsafe {
                to.store_bytes(memory, at, kind, address, bytes.as_ptr(), length);
            }
        }
        Payload::Fill {
            kind,
            address,
            length,
            byte,
        } => {
            to.fill(memory, at, kind, address, length, byte);
        }
        Payload::Load { address, size } => to.load(memory, at, address, size),
        Payload::Flush { kind, address } => to.flush(memory, at, kind, address),
        Payload::Fence { kind } => to.fence(memory, at, kind),
        Payload::Opaque => to.opaque(memory, at),
        Payload::Call { arguments } => {
            let count = (arguments.len() / 8) as u32;
            // SAFETY: reads are unaligned and within the slice.
            unsafe { to.call(memory, at, arguments.as_ptr().cast(), count) }
        }
        Payload::Return { value } => to.call_returned(memory, at, value),
        Payload::Sync { kind, object } => to.sync(memory, at, kind, object),
        Payload::Map {
            address,
            length,
            file,
            file_offset,
            shared,
        } => {
            let map = MappingFields {
                address,
                length,
                file,
                file_offset,
                shared,
            };
            to.map(memory, at, &map);
        }
        Payload::Unmap { address, length } => to.unmap(memory, at, address, length),
        Payload::Msync { address, length } => to.msync(memory, at, address, length),
        Payload::Context(context) => to.context(context),
        Payload::DefineContext { parent } => to.define_context(parent, site),
    }
    to.position() as usize - start as usize
}
