//! The binary form of a model: what stands in the section [`crashpoint_abi::MODEL_SECTION`].
//!
//! A linker concatenates the sections of the objects it links, so a section is a sequence of
//! *blobs*, one for each object, possibly with zero bytes between them:
//!
//! ```text
//! "CPMODEL1"  8 bytes
//! id          16 bytes: XXH3-128 of the raw bytes
//! compressed  u32 le: length of the rest
//! raw         u32 le: length of what it inflates to
//! …           deflate of: format version u32 le, then the module in postcard's encoding
//! ```
//!
//! Input is not trusted: lengths are checked before anything is allocated for them, nesting is
//! bounded, and [`decode`] validates the module. A model inflates to at most [`MAX_RAW_BYTES`].

use crate::{Invalid, ModelId, Module};
use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec_with_limit;

pub const MAGIC: [u8; 8] = *b"CPMODEL1";
/// Version of the encoding of [`Module`]; bump it when a type of the model changes.
pub const FORMAT_VERSION: u32 = 1;
/// Bytes of a blob before the deflated part.
pub const HEADER_BYTES: usize = 32;
/// The largest translation units known to us take a few tens of megabytes.
pub const MAX_RAW_BYTES: usize = 256 << 20;
/// Deflate cannot do better than 1032 to 1, so a larger claim is a lie.
const MAX_RATIO: usize = 1032;
/// Fast: the compiler waits for it. Higher levels save a quarter at three times the time.
const COMPRESSION_LEVEL: u8 = 3;

/// Why a model cannot be read. Offsets are in bytes from the start of the section.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {offset}: {kind}")]
pub struct ModelError {
    pub offset: usize,
    pub kind: ModelErrorKind,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelErrorKind {
    #[error("not a program model (no `CPMODEL1` here)")]
    Foreign,
    #[error("the model is cut off: {needed} bytes needed, {available} left")]
    Truncated { needed: usize, available: usize },
    #[error("the model claims {raw} bytes, more than {limit} are not read")]
    TooLarge { raw: usize, limit: usize },
    #[error("the model does not inflate: {0}; build the program again")]
    Inflate(String),
    #[error("the model inflates to {found} bytes instead of {expected}; build the program again")]
    Length { expected: usize, found: usize },
    #[error("the content hashes to {found} instead of {expected}; build the program again")]
    Hash { expected: ModelId, found: ModelId },
    #[error(
        "model format {found}, this version reads {FORMAT_VERSION}: build the program with the \
         crashpoint-cc of this version"
    )]
    Version { found: u32 },
    #[error("the model does not decode: {0}; build the program again")]
    Decode(postcard::Error),
    #[error("{0} bytes follow the model inside its blob")]
    Trailing(usize),
    #[error("the model contradicts itself: {0}")]
    Invalid(Invalid),
}

/// Encodes a module as one blob. The identity depends on nothing but the content.
pub fn encode(module: &Module) -> (ModelId, Vec<u8>) {
    let raw = postcard::to_extend(module, FORMAT_VERSION.to_le_bytes().to_vec())
        .expect("a vector takes any module");
    (identify(&raw), wrap(&raw))
}

/// A blob with this raw content, whatever it is; for [`encode`] and for tests of [`decode`].
pub fn wrap(raw: &[u8]) -> Vec<u8> {
    let deflated = compress_to_vec(raw, COMPRESSION_LEVEL);
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).expect("a model is below 4 GiB");
    let mut blob = Vec::with_capacity(HEADER_BYTES + deflated.len());
    blob.extend(MAGIC);
    blob.extend(identify(raw).0);
    blob.extend(length(&deflated).to_le_bytes());
    blob.extend(length(raw).to_le_bytes());
    blob.extend(deflated);
    blob
}

/// The raw content of a blob, checked against its length only; the inverse of [`wrap`].
pub fn unwrap(blob: &[u8]) -> Result<Vec<u8>, ModelError> {
    let error = |kind| ModelError { offset: 0, kind };
    let bytes = self::blob(blob).map_err(error)?;
    let id = bytes[8..24].try_into().expect("sixteen bytes");
    let offset = 0;
    let whole = Blob {
        id: ModelId(id),
        offset,
        bytes,
    };
    whole.inflate().map_err(error)
}

fn identify(raw: &[u8]) -> ModelId {
    ModelId(xxhash_rust::xxh3::xxh3_128(raw).to_be_bytes())
}

/// Decodes one blob, which must fill `blob` to its end (zeros may follow).
pub fn decode(blob: &[u8]) -> Result<(ModelId, Module), ModelError> {
    let mut blobs = split(blob);
    let whole = blobs.next().unwrap_or(Err(ModelError {
        offset: 0,
        kind: ModelErrorKind::Truncated {
            needed: HEADER_BYTES,
            available: blob.len(),
        },
    }))?;
    match blobs.next() {
        None => whole.decode(),
        Some(Ok(next)) => Err(ModelError {
            offset: next.offset,
            kind: ModelErrorKind::Trailing(blob.len() - next.offset),
        }),
        Some(Err(error)) => Err(error),
    }
}

/// The blobs of a section, without inflating them.
pub fn split(section: &[u8]) -> Blobs<'_> {
    Blobs { section, offset: 0 }
}

/// One encoded model within a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blob<'a> {
    pub id: ModelId,
    /// Where it starts in the section.
    pub offset: usize,
    /// All of it, with its header.
    pub bytes: &'a [u8],
}

impl Blob<'_> {
    /// Inflates, checks and decodes the model.
    pub fn decode(&self) -> Result<(ModelId, Module), ModelError> {
        let error = |kind| ModelError {
            offset: self.offset,
            kind,
        };
        let raw = self.inflate().map_err(error)?;
        let found = identify(&raw);
        if found != self.id {
            return Err(error(ModelErrorKind::Hash {
                expected: self.id,
                found,
            }));
        }
        let (version, content) = raw.split_first_chunk().ok_or_else(|| {
            error(ModelErrorKind::Length {
                expected: size_of_val(&FORMAT_VERSION),
                found: 0,
            })
        })?;
        let version = u32::from_le_bytes(*version);
        if version != FORMAT_VERSION {
            return Err(error(ModelErrorKind::Version { found: version }));
        }
        let (module, rest) = postcard::take_from_bytes::<Module>(content)
            .map_err(|cause| error(ModelErrorKind::Decode(cause)))?;
        if !rest.is_empty() {
            return Err(error(ModelErrorKind::Trailing(rest.len())));
        }
        module
            .validate()
            .map_err(|cause| error(ModelErrorKind::Invalid(cause)))?;
        Ok((self.id, module))
    }

    fn inflate(&self) -> Result<Vec<u8>, ModelErrorKind> {
        let deflated = &self.bytes[HEADER_BYTES..];
        let raw = word(self.bytes, 28);
        let limit = MAX_RAW_BYTES.min(deflated.len().saturating_mul(MAX_RATIO));
        if raw > limit {
            return Err(ModelErrorKind::TooLarge { raw, limit });
        }
        let bytes = decompress_to_vec_with_limit(deflated, raw)
            .map_err(|cause| ModelErrorKind::Inflate(cause.to_string()))?;
        if bytes.len() != raw {
            return Err(ModelErrorKind::Length {
                expected: raw,
                found: bytes.len(),
            });
        }
        Ok(bytes)
    }
}

/// A u32 of a header that is known to be there.
fn word(header: &[u8], at: usize) -> usize {
    let bytes = header[at..at + 4].try_into().expect("four bytes");
    u32::from_le_bytes(bytes) as usize
}

/// Iterator over the blobs of a section; ends after the first error.
#[derive(Clone, Debug)]
pub struct Blobs<'a> {
    section: &'a [u8],
    offset: usize,
}

impl<'a> Iterator for Blobs<'a> {
    type Item = Result<Blob<'a>, ModelError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = &self.section[self.offset..];
        // Linkers may align what they concatenate.
        let padding = rest.iter().position(|byte| *byte != 0)?;
        let offset = self.offset + padding;
        let result = blob(&rest[padding..])
            .map(|bytes| {
                let id = bytes[8..24].try_into().expect("sixteen bytes");
                Blob {
                    id: ModelId(id),
                    offset,
                    bytes,
                }
            })
            .map_err(|kind| ModelError { offset, kind });
        self.offset = match &result {
            Ok(blob) => offset + blob.bytes.len(),
            Err(_) => self.section.len(),
        };
        Some(result)
    }
}

fn blob(rest: &[u8]) -> Result<&[u8], ModelErrorKind> {
    let magic = &rest[..rest.len().min(MAGIC.len())];
    if !MAGIC.starts_with(magic) {
        return Err(ModelErrorKind::Foreign);
    }
    let truncated = |needed| ModelErrorKind::Truncated {
        needed,
        available: rest.len(),
    };
    if rest.len() < HEADER_BYTES {
        return Err(truncated(HEADER_BYTES));
    }
    let size = HEADER_BYTES + word(rest, 24);
    rest.get(..size).ok_or_else(|| truncated(size))
}
