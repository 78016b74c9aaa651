//! Stored forms of the embedded store: its keys and sealed values.
//!
//! These are separate from the live types and hand-numbered, so that the live types may change.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use object::{BlobId, Millis, ObjectId, ParticipantId};
use prost::Message;

use super::super::sealed::{seal, unseal};
use super::super::{Error, Frame, Incarnation, Result};
use super::meta::Meta;

/// Kind, length of the name, name: no key of one object is a prefix of another's.
pub(super) fn object_key(object: &ObjectId) -> Vec<u8> {
    let name = object.name().as_bytes();
    let mut key = Vec::with_capacity(name.len() + 18);
    key.push(object.kind().0);
    // At most 64 UTF-16 units are at most 192 bytes.
    key.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
    key.extend_from_slice(name);
    key
}

/// A frame stands under the lsn of its last event, so that "ends a batch here" is a point read.
pub(super) fn frame_key(object: &ObjectId, last_lsn: u64) -> Vec<u8> {
    let mut key = object_key(object);
    key.extend_from_slice(&last_lsn.to_be_bytes());
    key
}

pub(super) fn blob_key(object: &ObjectId, blob: BlobId) -> Vec<u8> {
    let mut key = object_key(object);
    key.extend_from_slice(&blob.0.to_be_bytes());
    key
}

/// Time first, then the object in its own order: the order of the due index.
pub(super) fn time_key(at: Millis, object: &ObjectId) -> Vec<u8> {
    let name = object.name().as_bytes();
    let mut key = Vec::with_capacity(name.len() + 9);
    key.extend_from_slice(&at.0.to_be_bytes());
    key.push(object.kind().0);
    key.extend_from_slice(name);
    key
}

pub(super) fn parse_time_key(mut key: &[u8]) -> Option<(Millis, ObjectId)> {
    if key.len() < 9 {
        return None;
    }
    let at = Millis(key.get_u64());
    let kind = object::KindTag(key.get_u8());
    let name = std::str::from_utf8(key).ok()?;
    Some((at, ObjectId::new(kind, name).ok()?))
}

#[derive(Clone, PartialEq, Message)]
struct StoredLease {
    #[prost(bytes = "bytes", tag = "1")]
    who: Bytes,
    #[prost(uint64, tag = "2")]
    end: u64,
}

#[derive(Clone, PartialEq, Message)]
struct StoredMeta {
    #[prost(uint64, tag = "1")]
    epoch: u64,
    #[prost(fixed64, optional, tag = "2")]
    nonce: Option<u64>,
    #[prost(string, tag = "3")]
    owner_node: String,
    #[prost(fixed64, tag = "4")]
    owner_boot: u64,
    #[prost(fixed64, optional, tag = "5")]
    ended: Option<u64>,
    #[prost(fixed64, tag = "6")]
    created: u64,
    #[prost(uint64, tag = "7")]
    lsn: u64,
    #[prost(uint64, tag = "8")]
    snapshot_lsn: u64,
    #[prost(message, repeated, tag = "9")]
    leases: Vec<StoredLease>,
    #[prost(uint64, optional, tag = "10")]
    due: Option<u64>,
    #[prost(uint64, tag = "11")]
    written: u64,
    #[prost(bytes = "bytes", repeated, tag = "12")]
    batches: Vec<Bytes>,
    #[prost(uint64, optional, tag = "13")]
    dead_until: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct StoredDelta {
    #[prost(uint64, tag = "1")]
    now: u64,
    #[prost(uint64, optional, tag = "2")]
    due: Option<u64>,
    #[prost(message, repeated, tag = "3")]
    raised: Vec<StoredLease>,
    #[prost(bytes = "bytes", repeated, tag = "4")]
    dropped: Vec<Bytes>,
}

/// A log entry: the frame, and what else the append changed. With it an append writes one key,
/// and the meta record is rewritten only by claims, leases and snapshots.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) frame: Frame,
    pub(super) now: Millis,
    pub(super) due: Option<Millis>,
    pub(super) raised: Vec<(ParticipantId, Millis)>,
    pub(super) dropped: Vec<ParticipantId>,
}

impl Entry {
    /// The delta sealed and length-prefixed, then the frame, which has a checksum of its own.
    pub(super) fn encode(&self) -> Bytes {
        let delta = StoredDelta {
            now: self.now.0,
            due: self.due.map(|due| due.0),
            raised: leases_out(&self.raised),
            dropped: self.dropped.iter().map(|who| id_out(who.0)).collect(),
        };
        let delta = seal(&delta.encode_to_vec());
        let frame = self.frame.encode();
        let mut out = BytesMut::with_capacity(4 + delta.len() + frame.len());
        out.put_u32(u32::try_from(delta.len()).unwrap_or(u32::MAX));
        out.put_slice(&delta);
        out.put_slice(&frame);
        out.freeze()
    }

    pub(super) fn decode(mut bytes: Bytes) -> Result<Self> {
        let damaged = Error::Damaged { what: "a log entry" };
        let len = bytes.try_get_u32().map_err(|_| damaged.clone())? as usize;
        if bytes.len() < len {
            return Err(damaged);
        }
        let delta = unseal(bytes.split_to(len), "a log entry")?;
        let delta = StoredDelta::decode(delta).map_err(|_| damaged.clone())?;
        let frame = Frame::decode(bytes).map_err(|_| Error::Damaged { what: "a frame" })?;
        let dropped: Option<Vec<_>> =
            delta.dropped.iter().map(|who| id_in(who).map(ParticipantId)).collect();
        Ok(Self {
            frame,
            now: Millis(delta.now),
            due: delta.due.map(Millis),
            raised: leases_in(&delta.raised).ok_or_else(|| damaged.clone())?,
            dropped: dropped.ok_or(damaged)?,
        })
    }
}

pub(super) fn encode_meta(meta: &Meta) -> Bytes {
    let (nonce, owner_node, owner_boot) = match &meta.owner {
        Some((nonce, owner)) => (Some(*nonce), owner.node.to_string(), owner.boot),
        None => (None, String::new(), 0),
    };
    let stored = StoredMeta {
        epoch: meta.epoch,
        nonce,
        owner_node,
        owner_boot,
        ended: meta.ended,
        created: meta.created,
        lsn: meta.lsn,
        snapshot_lsn: meta.snapshot_lsn,
        leases: leases_out(&meta.leases),
        due: meta.due.map(|due| due.0),
        written: meta.written.0,
        batches: meta.batches.iter().map(|batch| id_out(*batch)).collect(),
        dead_until: meta.dead_until.map(|until| until.0),
    };
    seal(&stored.encode_to_vec())
}

pub(super) fn decode_meta(bytes: Bytes) -> Result<Meta> {
    let damaged = Error::Damaged { what: "the record of an object" };
    let body = unseal(bytes, "the record of an object")?;
    let stored = StoredMeta::decode(body).map_err(|_| damaged.clone())?;
    let owner = stored.nonce.map(|nonce| {
        let owner =
            Incarnation { node: stored.owner_node.as_str().into(), boot: stored.owner_boot };
        (nonce, owner)
    });
    let batches: Option<Vec<u128>> = stored.batches.iter().map(id_in).collect();
    Ok(Meta {
        epoch: stored.epoch,
        owner,
        ended: stored.ended,
        created: stored.created,
        lsn: stored.lsn,
        snapshot_lsn: stored.snapshot_lsn,
        leases: leases_in(&stored.leases).ok_or_else(|| damaged.clone())?,
        due: stored.due.map(Millis),
        written: Millis(stored.written),
        batches: batches.ok_or(damaged)?,
        dead_until: stored.dead_until.map(Millis),
    })
}

fn leases_out(leases: &[(ParticipantId, Millis)]) -> Vec<StoredLease> {
    leases.iter().map(|(who, end)| StoredLease { who: id_out(who.0), end: end.0 }).collect()
}

fn leases_in(leases: &[StoredLease]) -> Option<Vec<(ParticipantId, Millis)>> {
    leases
        .iter()
        .map(|lease| Some((ParticipantId(id_in(&lease.who)?), Millis(lease.end))))
        .collect()
}

fn id_out(id: u128) -> Bytes {
    Bytes::copy_from_slice(&id.to_be_bytes())
}

fn id_in(bytes: &Bytes) -> Option<u128> {
    Some(u128::from_be_bytes(bytes.as_ref().try_into().ok()?))
}
