//! Response bodies: a few ready pieces of memory, written without copying.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::mcp::jsonrpc::Id;
use crate::mcp::prepared::HEAD;

/// Most pieces of one body.
const PIECES_MAX: usize = 5;
const SSE_HEAD: &[u8] = b"event: message\ndata: ";
const SSE_TAIL: &[u8] = b"\n\n";

/// What an answer says.
#[derive(Clone)]
pub enum Payload {
    Empty,
    One(Bytes),
    /// A prepared answer around the request's id.
    Spliced {
        id: Bytes,
        rest: Bytes,
    },
}

impl Payload {
    /// A prepared answer for this id.
    #[must_use]
    pub fn spliced(id: Id<'_>, rest: Bytes) -> Self {
        Self::Spliced { id: Bytes::copy_from_slice(id.text().as_bytes()), rest }
    }

    /// All bytes in one, for a batch.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        match self {
            Self::Empty => {}
            Self::One(bytes) => out.extend_from_slice(bytes),
            Self::Spliced { id, rest } => {
                out.extend_from_slice(HEAD);
                out.extend_from_slice(id);
                out.extend_from_slice(rest);
            }
        }
    }

    /// The body as it is written, framed as one server-sent event if `event_stream`.
    #[must_use]
    pub fn into_body(self, event_stream: bool) -> ReplyBody {
        let mut body = ReplyBody::default();
        if event_stream {
            body.push(Bytes::from_static(SSE_HEAD));
        }
        match self {
            Self::Empty => return ReplyBody::default(),
            Self::One(bytes) => body.push(bytes),
            Self::Spliced { id, rest } => {
                body.push(Bytes::from_static(HEAD));
                body.push(id);
                body.push(rest);
            }
        }
        if event_stream {
            body.push(Bytes::from_static(SSE_TAIL));
        }
        body
    }
}

// Bodies hold handles and messages.
impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("Empty"),
            Self::One(bytes) => write!(f, "One({} bytes)", bytes.len()),
            Self::Spliced { rest, .. } => write!(f, "Spliced({} bytes)", rest.len()),
        }
    }
}

/// A body of known length in up to `PIECES_MAX` pieces.
#[derive(Default)]
pub struct ReplyBody {
    pieces: [Bytes; PIECES_MAX],
    count: usize,
    next: usize,
    bytes_left: u64,
}

impl ReplyBody {
    /// A body of one piece.
    #[must_use]
    pub fn of(bytes: Bytes) -> Self {
        let mut body = Self::default();
        body.push(bytes);
        body
    }

    fn push(&mut self, bytes: Bytes) {
        let length = bytes.len();
        if let Some(slot) = self.pieces.get_mut(self.count)
            && length > 0
        {
            *slot = bytes;
            self.count += 1;
            self.bytes_left += u64::try_from(length).unwrap_or(u64::MAX);
        }
    }
}

impl fmt::Debug for ReplyBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReplyBody({} bytes left)", self.bytes_left)
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        let Some(piece) = this.pieces.get_mut(this.next).filter(|piece| !piece.is_empty()) else {
            return Poll::Ready(None);
        };
        let piece = std::mem::take(piece);
        this.next += 1;
        this.bytes_left -= u64::try_from(piece.len()).unwrap_or(u64::MAX);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes_left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes_left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    async fn text(payload: Payload, event_stream: bool) -> String {
        let body = payload.into_body(event_stream);
        let hint = body.size_hint().exact();
        let bytes = body.collect().await.expect("infallible").to_bytes();
        assert_eq!(hint, u64::try_from(bytes.len()).ok());
        String::from_utf8(bytes.to_vec()).expect("text")
    }

    #[tokio::test]
    async fn bodies_say_their_length_and_all_pieces() {
        let id = Id::new("\"a\"").expect("an id");
        let spliced = || Payload::spliced(id, Bytes::from_static(b",\"result\":{}}"));
        let json = r#"{"jsonrpc":"2.0","id":"a","result":{}}"#;
        assert_eq!(text(spliced(), false).await, json);
        assert_eq!(text(spliced(), true).await, format!("event: message\ndata: {json}\n\n"));
        assert_eq!(text(Payload::Empty, true).await, "");
        assert_eq!(
            text(Payload::One(Bytes::from_static(b"{}")), true).await,
            "event: message\ndata: {}\n\n"
        );
        assert_eq!(spliced().into_body(true).count, PIECES_MAX, "no form has more");
        let mut out = Vec::new();
        spliced().append_to(&mut out);
        assert_eq!(out, json.as_bytes());
    }
}
