//! The contract between a pure durable object and the host that runs it.
//!
//! An object is a state machine: [`Object::decide`] turns a call into facts, [`Object::evolve`]
//! folds facts into state, and everything else (storage, timers, connections, clocks, random
//! numbers) belongs to the host. Nothing here awaits, reads a clock or draws a random number;
//! the manifest of this crate is the proof.
#![forbid(unsafe_code)]

mod call;
mod decision;
mod id;
mod kind;
mod reject;

pub use call::{
    Activation, Address, Audience, BlobArg, BlobEncoding, BlobField, Call, Caller, Cx, Guard,
    Minted, OpMeta, Parked,
};
pub use decision::{Attached, Decision, Effect, Outcome, Poll, Renewal, Reply};
pub use id::{BlobId, KindTag, Millis, ObjectId, ObjectIdError, ParticipantId, RequestId};
pub use kind::{CodecError, IdlePoll, IdleView, Object};
pub use reject::{Class, Fault, Reject};
