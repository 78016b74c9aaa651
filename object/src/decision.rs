//! What an object answers with: facts to store, an outcome for the caller, effects to perform.

use std::fmt;

use crate::{BlobId, Millis, ParticipantId, Reject};

/// How a stored blob is put into a reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Attached {
    /// An image: an MCP image block with this MIME type.
    Image { blob: BlobId, mime: String },
    /// Text: `text` (lossy UTF-8) in the structured result and `data` (base64) in the text block.
    Text { blob: BlobId },
}

/// What a wait's answer means for the cadence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Poll {
    /// The answer holds something new.
    News,
    /// Nothing new.
    Quiet,
    /// `left` or `expired`: there is no next wait.
    Terminal,
}

/// A success: one JSON object.
#[derive(Clone, PartialEq, Eq)]
pub struct Reply {
    /// Compact JSON of an object; shape: the op's output schema, less what the edge adds
    /// (`participantHandle`, `invite`) and what the front adds (`retryAfterMs`).
    pub body: Vec<u8>,
    pub attached: Option<Attached>,
    /// Only on answers of a wait op.
    pub poll: Option<Poll>,
}

// Bodies and frames hold what people wrote: their sizes are printed, never the bytes.
impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("body_bytes", &self.body.len())
            .field("attached", &self.attached)
            .field("poll", &self.poll)
            .finish()
    }
}

impl Reply {
    /// A plain success.
    #[must_use]
    pub const fn new(body: Vec<u8>) -> Self {
        Self { body, attached: None, poll: None }
    }
}

/// What becomes of the caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    Reply(Reply),
    Refuse(Reject),
    /// Ask again on any change of the object, at `until`, or when the caller is gone.
    Park {
        until: Millis,
    },
}

/// A participant's lease raised to `end`; never lowers. Stored beside the log, not in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Renewal {
    pub participant: ParticipantId,
    pub end: Millis,
}

/// What the host does after the commit.
#[derive(Clone, PartialEq, Eq)]
pub enum Effect {
    /// Sends a frame to one attached connection of the object (dropped if it is gone).
    Notify { connection: u64, frame: Vec<u8> },
    /// Sends a frame to every attached connection of one participant.
    NotifyParticipant { participant: ParticipantId, frame: Vec<u8> },
    /// Closes every attached connection of one participant, with a reason code of the contract.
    Disconnect { participant: ParticipantId, close_code: u16 },
}

impl fmt::Debug for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Notify { connection, frame } => f
                .debug_struct("Notify")
                .field("connection", connection)
                .field("frame_bytes", &frame.len())
                .finish(),
            Self::NotifyParticipant { participant, frame } => f
                .debug_struct("NotifyParticipant")
                .field("participant", participant)
                .field("frame_bytes", &frame.len())
                .finish(),
            Self::Disconnect { participant, close_code } => f
                .debug_struct("Disconnect")
                .field("participant", participant)
                .field("close_code", close_code)
                .finish(),
        }
    }
}

/// The result of one `decide`. Facts are stored before the outcome or any effect leaves.
#[derive(Clone, Debug)]
pub struct Decision<E, V> {
    /// Facts, appended to the log in this order.
    pub events: Vec<E>,
    /// Changes of the volatile part: applied after the events, never stored, lost with the
    /// activation.
    pub signals: Vec<V>,
    pub outcome: Outcome,
    pub effects: Vec<Effect>,
    /// The caller's agent lease, where the call renews it.
    pub renewal: Option<Renewal>,
    /// Blobs that this decision's events name: made permanent by the same append.
    pub keep_blobs: Vec<BlobId>,
    /// Blobs that no longer belong to the object: removed by the same append.
    pub drop_blobs: Vec<BlobId>,
    /// Participants that are gone: their stored lease is removed by the same append.
    pub drop_leases: Vec<ParticipantId>,
    /// The object ends: nothing of it remains in the store. Events are ignored.
    pub destroy: bool,
}

impl<E, V> Decision<E, V> {
    /// An outcome that changes nothing.
    #[must_use]
    pub const fn only(outcome: Outcome) -> Self {
        Self {
            events: Vec::new(),
            signals: Vec::new(),
            outcome,
            effects: Vec::new(),
            renewal: None,
            keep_blobs: Vec::new(),
            drop_blobs: Vec::new(),
            drop_leases: Vec::new(),
            destroy: false,
        }
    }

    /// A success that changes nothing.
    #[must_use]
    pub const fn reply(reply: Reply) -> Self {
        Self::only(Outcome::Reply(reply))
    }

    /// A refusal that changes nothing.
    #[must_use]
    pub const fn refuse(reject: Reject) -> Self {
        Self::only(Outcome::Refuse(reject))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_hides_bodies_and_frames() {
        let frame = b"canary".to_vec();
        let who = ParticipantId(1);
        let shown = format!(
            "{:?} {:?} {:?}",
            Reply::new(frame.clone()),
            Effect::Notify { connection: 1, frame: frame.clone() },
            Effect::NotifyParticipant { participant: who, frame: frame.clone() },
        );
        assert!(!shown.contains("canary") && !shown.contains(&format!("{frame:?}")), "{shown}");
    }
}
