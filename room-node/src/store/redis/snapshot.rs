//! Snapshots in Redis: one value, or above a size chunks beside it and a manifest in its place.
//!
//! Chunks are uploaded like blobs, over the pool, and end by themselves unless the script that
//! stores the manifest keeps them; that script drops the ones of the snapshot before.

use bytes::{Bytes, BytesMut};
use prost::Message;

use super::super::sealed;
use super::super::{Error, Result, SNAPSHOT_BYTES_MAX, Snapshot};

/// The largest snapshot stored as one value, and the size of a chunk, in bytes: a larger value
/// would hold up everybody's answers on its lane.
pub(super) const CHUNK_BYTES_MAX: usize = 512 * 1024;

/// Chunks of one snapshot; the sealed form adds a few bytes to the largest one.
const CHUNKS_MAX: usize = SNAPSHOT_BYTES_MAX / CHUNK_BYTES_MAX + 1;

/// What stands in place of a large snapshot.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Manifest {
    #[prost(uint64, tag = "1")]
    bytes: u64,
    #[prost(uint32, tag = "2")]
    pub(super) chunks: u32,
    #[prost(fixed64, tag = "3")]
    pub(super) set: u64,
}

/// A snapshot as it goes into Redis.
#[derive(Debug)]
pub(super) struct Packed {
    /// The value of the snapshot's key.
    pub(super) value: Bytes,
    /// Stored before; none for a small snapshot.
    pub(super) chunks: Vec<Bytes>,
    /// Name and number of the chunks for the record; empty for a small snapshot.
    pub(super) set: Bytes,
}

/// Packs a snapshot; `set` is a fresh random name for its chunks.
pub(super) fn pack(snapshot: &Snapshot, set: u64) -> Packed {
    let value = sealed::encode_snapshot(snapshot);
    if value.len() <= CHUNK_BYTES_MAX {
        return Packed { value, chunks: Vec::new(), set: Bytes::new() };
    }
    let mut rest = value.clone();
    let mut chunks = Vec::with_capacity(CHUNKS_MAX);
    while !rest.is_empty() {
        chunks.push(rest.split_to(rest.len().min(CHUNK_BYTES_MAX)));
    }
    let manifest = Manifest {
        bytes: value.len() as u64,
        chunks: u32::try_from(chunks.len()).unwrap_or(u32::MAX),
        set,
    };
    Packed {
        value: sealed::seal(&manifest.encode_to_vec()),
        set: Bytes::from(format!("{set:016x}:{}", chunks.len())),
        chunks,
    }
}

/// Reads a manifest.
pub(super) fn manifest(value: Bytes) -> Result<Manifest> {
    let what = "the manifest of a snapshot";
    let body = sealed::unseal(value, what)?;
    let manifest = Manifest::decode(body).map_err(|_| Error::Damaged { what })?;
    if manifest.chunks as usize > CHUNKS_MAX {
        return Err(Error::Damaged { what });
    }
    Ok(manifest)
}

/// Puts the chunks of a manifest together and reads them.
pub(super) fn join(manifest: &Manifest, chunks: &[Bytes]) -> Result<Snapshot> {
    let mut whole = BytesMut::new();
    for chunk in chunks {
        whole.extend_from_slice(chunk);
    }
    if whole.len() as u64 != manifest.bytes {
        return Err(Error::Damaged { what: "the chunks of a snapshot" });
    }
    sealed::decode_snapshot(whole.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(len: usize) -> Snapshot {
        let bytes = (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect::<Vec<_>>();
        Snapshot { schema: 3, lsn: 9, bytes: bytes.into() }
    }

    #[test]
    fn large_snapshots_are_read_back_from_their_chunks() {
        for len in [CHUNK_BYTES_MAX, CHUNK_BYTES_MAX * 2, SNAPSHOT_BYTES_MAX] {
            let packed = pack(&state(len), 0xfeed);
            assert!(packed.chunks.iter().all(|chunk| chunk.len() <= CHUNK_BYTES_MAX));
            let read = manifest(packed.value.clone()).unwrap();
            assert_eq!(read.set, 0xfeed);
            assert_eq!(packed.set, format!("000000000000feed:{}", read.chunks));
            assert_eq!(join(&read, &packed.chunks), Ok(state(len)));
            let damaged = Err(Error::Damaged { what: "the chunks of a snapshot" });
            assert_eq!(join(&read, &packed.chunks[1..]), damaged);
            let mut swapped = packed.chunks.clone();
            swapped.swap(0, 1);
            assert!(join(&read, &swapped).is_err());
        }
    }

    #[test]
    fn a_manifest_of_more_chunks_than_a_snapshot_has_is_damage() {
        let of = |chunks: usize| {
            let chunks = u32::try_from(chunks).unwrap();
            manifest(sealed::seal(&Manifest { bytes: 1, chunks, set: 7 }.encode_to_vec()))
        };
        assert_eq!(of(CHUNKS_MAX).unwrap().chunks as usize, CHUNKS_MAX);
        let damaged = Err(Error::Damaged { what: "the manifest of a snapshot" });
        assert_eq!(of(CHUNKS_MAX + 1), damaged);
        // The largest snapshot has that many.
        assert_eq!(pack(&state(SNAPSHOT_BYTES_MAX), 1).chunks.len(), CHUNKS_MAX);
    }

    #[test]
    fn small_snapshots_are_one_value() {
        let packed = pack(&state(1_000), 1);
        assert!(packed.chunks.is_empty() && packed.set.is_empty());
        assert_eq!(sealed::decode_snapshot(packed.value.clone()), Ok(state(1_000)));
        assert!(manifest(packed.value.slice(1..)).is_err());
    }
}
