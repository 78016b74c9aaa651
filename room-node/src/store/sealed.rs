//! Stored values with magic, version and crc32c around them; and a snapshot in that form.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;

use super::{Error, Result, Snapshot};

const MAGIC: [u8; 2] = *b"RS";
const VERSION: u8 = 1;
/// magic 2, version 1, crc 4.
const PRELUDE_BYTES: usize = 7;

/// Wraps a body with magic, version and checksum.
pub(super) fn seal(body: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(PRELUDE_BYTES + body.len());
    out.put_slice(&MAGIC);
    out.put_u8(VERSION);
    out.put_u32(crc32c::crc32c(body));
    out.put_slice(body);
    out.freeze()
}

/// Checks and removes the wrapping.
pub(super) fn unseal(mut bytes: Bytes, what: &'static str) -> Result<Bytes> {
    if bytes.len() < PRELUDE_BYTES {
        return Err(Error::Damaged { what });
    }
    let magic = [bytes.get_u8(), bytes.get_u8()];
    let version = bytes.get_u8();
    let sum = bytes.get_u32();
    if magic != MAGIC || crc32c::crc32c(&bytes) != sum {
        return Err(Error::Damaged { what });
    }
    if version > VERSION {
        return Err(Error::Newer { found: u32::from(version) });
    }
    Ok(bytes)
}

#[derive(Clone, PartialEq, Message)]
struct StoredSnapshot {
    #[prost(uint32, tag = "1")]
    schema: u32,
    #[prost(uint64, tag = "2")]
    lsn: u64,
    #[prost(bytes = "bytes", tag = "3")]
    bytes: Bytes,
}

pub(super) fn encode_snapshot(snapshot: &Snapshot) -> Bytes {
    let stored = StoredSnapshot {
        schema: snapshot.schema,
        lsn: snapshot.lsn,
        bytes: snapshot.bytes.clone(),
    };
    seal(&stored.encode_to_vec())
}

pub(super) fn decode_snapshot(bytes: Bytes) -> Result<Snapshot> {
    let body = unseal(bytes, "a snapshot")?;
    let stored = StoredSnapshot::decode(body).map_err(|_| Error::Damaged { what: "a snapshot" })?;
    Ok(Snapshot { schema: stored.schema, lsn: stored.lsn, bytes: stored.bytes })
}
