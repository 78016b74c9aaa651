//! `roomring`: rooms in one process, with an embedded store.
//!
//! Composition only: a gateway and a room node joined in the same process by the generated
//! client running directly on the generated server. What belongs to a protocol is in `gateway`,
//! what belongs to rooms in `room`, what belongs to durability in `room-node`.
#![forbid(unsafe_code)]

pub mod compose;
pub mod flags;
pub mod settings;
