//! One tool call from its arguments to its outcome: the narrow waist of the gateway.

use bytes::Bytes;
use room::catalog::Tool;
use serde_json::value::RawValue;

use crate::client_addr::ClientAddr;
use crate::clock::Instant;
use crate::error::Refusal;

/// One call of a tool, as the protocol layer hands it over.
#[derive(Clone, Copy)]
pub struct ToolCall<'a> {
    pub tool: &'a Tool,
    /// The arguments exactly as received: the text of one JSON object.
    pub arguments: &'a RawValue,
    pub client: ClientAddr,
    /// When the caller stops waiting; it only shrinks on the way.
    pub deadline: Instant,
}

/// What became of a call.
#[derive(Clone, PartialEq, Eq)]
pub enum Outcome {
    Success(Success),
    Refused(Refusal),
}

/// A success.
#[derive(Clone, PartialEq, Eq)]
pub struct Success {
    /// Compact JSON of one object, complete: `participantHandle`, `invite`, `retryAfterMs` and
    /// `duplicate` are in it where they apply.
    pub body: Bytes,
    pub blob: Option<Attached>,
}

/// Bytes that belong to a success and are rendered by the protocol layer.
#[derive(Clone, PartialEq, Eq)]
pub struct Attached {
    /// The bytes themselves, not base64.
    pub bytes: Bytes,
    /// MIME type of an image; `None` for text.
    pub image_mime: Option<String>,
}

/// The way of every tool call: check, handle, cadence, guard, routing, upstream.
#[derive(Debug)]
pub struct Pipeline {
    _private: (),
}

impl Pipeline {
    /// Carries one call through and says what became of it. Dropping the future cancels the call.
    pub async fn call(&self, call: ToolCall<'_>) -> Outcome {
        let _ = call;
        Outcome::Refused(Refusal::room_unavailable())
    }
}

impl std::fmt::Debug for ToolCall<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolCall").field("tool", &self.tool.meta.name).finish_non_exhaustive()
    }
}

// Bodies hold messages and handles: nothing of them may reach a log by way of Debug.
impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Success(success) => success.fmt(f),
            Self::Refused(refusal) => write!(f, "Refused({})", refusal.code),
        }
    }
}

impl std::fmt::Debug for Success {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Success")
            .field("body_bytes", &self.body.len())
            .field("blob", &self.blob)
            .finish()
    }
}

impl std::fmt::Debug for Attached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attached").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}
