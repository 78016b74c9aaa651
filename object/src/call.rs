//! What reaches an object: an op's declaration, one call of it, and the context of the moment.

use crate::{BlobId, Millis, ParticipantId, RequestId};

/// How the object of a call is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Address {
    /// The named argument holds the object id (trimmed by the edge).
    Argument(&'static str),
    /// The sealed handle in `participantHandle` names object and participant.
    Handle,
    /// The edge makes a fresh object id.
    Fresh,
}

/// What the host may do to find the object awake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activation {
    /// Reads an existing object; an absent one is answered by [`crate::Object::absent`].
    Peek,
    /// As `Peek`, for ops that change something.
    MustExist,
    /// An absent object is created.
    MayCreate,
    /// An existing object is a refusal; the object must be new.
    MustCreate,
}

/// Who may call an op. Only `Agent` ops are shown through MCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Audience {
    Agent,
    Human,
    Resident,
}

/// What the edge adds to a success.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Minted {
    Nothing,
    /// A sealed `participantHandle` for the participant id the edge minted.
    Handle,
    /// The handle, and the `invite` of a fresh room.
    HandleAndInvite,
}

/// Which admission bucket the edge charges, and how much.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guard {
    /// Joins and creations, per address.
    Join,
    /// Unauthenticated reads, per address.
    Info,
    /// Calls with a handle, per handle, with this weight.
    Call(u32),
}

/// How an argument that is a blob is written in JSON.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlobEncoding {
    /// A base64 string; the blob is the decoded bytes.
    Base64,
    /// Any JSON value; the blob is its text exactly as received.
    Json,
}

/// An argument that travels as bytes beside the call and is stored as a blob.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlobField {
    pub name: &'static str,
    pub encoding: BlobEncoding,
    /// Largest accepted blob, in bytes after decoding.
    pub bytes_max: usize,
}

/// The declaration of one op: gateway and host act on this and have no `if` per op.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpMeta {
    pub name: &'static str,
    pub address: Address,
    pub activation: Activation,
    pub audience: Audience,
    /// Changes nothing that is stored (a renewed agent lease apart).
    pub read_only: bool,
    pub minted: Minted,
    pub guard: Guard,
    /// Subject to the cadence; may park.
    pub wait: bool,
    /// Longest time the object may park a call of this op that is no wait, in milliseconds; the
    /// edge gives it that much longer to answer. 0 for an op that never parks.
    pub park_ms: u64,
    /// Accepts `clientRequestId`.
    pub client_request_id: bool,
    pub blob: Option<BlobField>,
}

/// Who calls. The edge has opened the handle; the object decides whether the id is a participant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Caller {
    /// Nobody in particular (reads by object id).
    Anonymous,
    /// The participant named by a well-sealed handle or an attached connection.
    Participant(ParticipantId),
    /// A participant id the edge has just minted for a join.
    Joining(ParticipantId),
}

impl Caller {
    /// The participant id, if there is one.
    #[must_use]
    pub const fn participant(self) -> Option<ParticipantId> {
        match self {
            Self::Anonymous => None,
            Self::Participant(id) | Self::Joining(id) => Some(id),
        }
    }
}

/// A blob that the host has already put into the store; the append that names it keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlobArg<'a> {
    pub id: BlobId,
    /// The bytes, for checks and hashes only; they never enter state or events.
    pub bytes: &'a [u8],
}

/// Set when the host decides a parked call again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parked {
    /// Something in the object changed.
    Changed,
    /// The time named by [`crate::Outcome::Park`] has come.
    TimedOut,
    /// The caller is gone; the answer will be dropped.
    Cancelled,
}

/// One call of an op.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    pub op: &'static OpMeta,
    /// The arguments: one JSON object, as received but for the blob's member, which is taken out.
    /// A sealed handle may still be in it and means nothing here.
    pub args: &'a [u8],
    pub blob: Option<BlobArg<'a>>,
    pub caller: Caller,
    /// The same on every retry of one client call.
    pub request: RequestId,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// How long before this moment the first attempt was sent, in milliseconds.
    pub age_ms: u64,
    /// The connection this call came by, for ops that attach one; 0 for none.
    pub connection: u64,
    /// When the call was first decided, for a parked call decided again.
    pub since: Millis,
    pub parked: Option<Parked>,
}

/// The moment of a decision: everything impure, made by the host.
#[derive(Clone, Copy, Debug)]
pub struct Cx<'a, S> {
    pub now: Millis,
    /// 128 fresh random bits for this decision; at most one new id is made of them.
    pub random: u128,
    pub settings: &'a S,
}
