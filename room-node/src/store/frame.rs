//! A frame: one batch of events as it stands in the log.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::Fence;

/// One event in a frame: its encoded bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    pub bytes: Bytes,
}

/// One batch: the unit of append, of fencing evidence and of duplicate detection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// lsn of the first event; lsns start at 1.
    pub first_lsn: u64,
    /// The fence under which the batch was written.
    pub fence: Fence,
    /// Random per batch, the same when the append is repeated.
    pub batch: u128,
    /// Schema version of the events.
    pub schema: u32,
    pub records: Vec<Record>,
}

/// Bytes that are no frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FrameError {
    #[error("a frame is cut short")]
    Short,
    #[error("a frame does not begin with its magic")]
    Magic,
    #[error("a frame has version {0}, newer than this code")]
    Version(u8),
    #[error("a frame's checksum does not match")]
    Checksum,
}

const MAGIC: [u8; 2] = *b"RF";
const VERSION: u8 = 1;
/// magic 2, version 1, crc 4.
const PRELUDE_BYTES: usize = 7;

impl Frame {
    /// lsn of the last event.
    #[must_use]
    pub fn last_lsn(&self) -> u64 {
        self.first_lsn + self.records.len() as u64 - 1
    }

    /// The stored form: magic, version, crc32c of the rest, then the fields big-endian.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let body: usize = self.records.iter().map(|record| record.bytes.len() + 4).sum();
        let mut out = BytesMut::with_capacity(PRELUDE_BYTES + 48 + body);
        out.put_slice(&MAGIC);
        out.put_u8(VERSION);
        out.put_u32(0);
        out.put_u64(self.first_lsn);
        out.put_u64(self.fence.epoch);
        out.put_u64(self.fence.nonce);
        out.put_u128(self.batch);
        out.put_u32(self.schema);
        out.put_u32(u32::try_from(self.records.len()).unwrap_or(u32::MAX));
        for record in &self.records {
            out.put_u32(u32::try_from(record.bytes.len()).unwrap_or(u32::MAX));
            out.put_slice(&record.bytes);
        }
        let (prelude, rest) = out.split_at_mut(PRELUDE_BYTES);
        let sum = crc32c::crc32c(rest);
        for (slot, byte) in prelude.iter_mut().skip(3).zip(sum.to_be_bytes()) {
            *slot = byte;
        }
        out.freeze()
    }

    /// Reads the stored form; every damage is an error, never a shorter frame.
    pub fn decode(mut bytes: Bytes) -> Result<Self, FrameError> {
        if bytes.len() < PRELUDE_BYTES {
            return Err(FrameError::Short);
        }
        let magic = [bytes.get_u8(), bytes.get_u8()];
        if magic != MAGIC {
            return Err(FrameError::Magic);
        }
        let version = bytes.get_u8();
        if version != VERSION {
            return Err(FrameError::Version(version));
        }
        let sum = bytes.get_u32();
        if crc32c::crc32c(&bytes) != sum {
            return Err(FrameError::Checksum);
        }
        if bytes.len() < 48 {
            return Err(FrameError::Short);
        }
        let first_lsn = bytes.get_u64();
        let fence = Fence { epoch: bytes.get_u64(), nonce: bytes.get_u64() };
        let batch = bytes.get_u128();
        let schema = bytes.get_u32();
        let count = bytes.get_u32();
        let mut records = Vec::new();
        for _ in 0..count {
            if bytes.len() < 4 {
                return Err(FrameError::Short);
            }
            let len = bytes.get_u32() as usize;
            if bytes.len() < len {
                return Err(FrameError::Short);
            }
            records.push(Record { bytes: bytes.split_to(len) });
        }
        if !bytes.is_empty() || records.is_empty() {
            return Err(FrameError::Short);
        }
        Ok(Self { first_lsn, fence, batch, schema, records })
    }
}
