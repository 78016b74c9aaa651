//! The stored forms of events and snapshots: apart from the live types, so that either can change.

mod v1;

use object::{CodecError, ObjectId};
use prost::Message as _;

use crate::event::Event;
use crate::state::State;

/// The newest schema this code reads and the one it writes.
const NEWEST: u32 = 1;

pub(crate) fn encode_event(event: &Event, out: &mut Vec<u8>) {
    let stored = v1::event::store(event);
    out.reserve(stored.encoded_len());
    stored.encode_raw(out);
}

pub(crate) fn decode_event(schema: u32, bytes: &[u8]) -> Result<Event, CodecError> {
    known(schema)?;
    let stored =
        v1::event::Event::decode(bytes).map_err(|_| CodecError::Damaged { what: "event" })?;
    v1::event::load(stored)
}

pub(crate) fn encode_snapshot(state: &State) -> Vec<u8> {
    v1::snapshot::store(state).encode_to_vec()
}

pub(crate) fn decode_snapshot(
    id: &ObjectId,
    schema: u32,
    bytes: &[u8],
) -> Result<State, CodecError> {
    known(schema)?;
    let stored = v1::snapshot::Snapshot::decode(bytes)
        .map_err(|_| CodecError::Damaged { what: "snapshot" })?;
    v1::snapshot::load(id, stored)
}

const fn known(schema: u32) -> Result<(), CodecError> {
    if schema == 0 || schema > NEWEST {
        return Err(CodecError::Newer { found: schema, supported: NEWEST });
    }
    Ok(())
}
