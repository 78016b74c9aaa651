//! What the functions are told and what they answer, as values of ours.

use bytes::Bytes;
use object::{Millis, ParticipantId};
use redis_link::Failure;
use redis_link::redis::Value;

use super::super::{Error, Fence, Frame, Incarnation, Result, Snapshot};

/// Epochs, lsns and times are numbers of Lua in the functions: exact up to here.
const EXACT_MAX: u64 = 1 << 53;

pub(super) fn number(value: u64) -> Bytes {
    Bytes::from(value.min(EXACT_MAX).to_string())
}

pub(super) fn nonce(value: u64) -> Bytes {
    Bytes::from(format!("{value:016x}"))
}

/// A time later than the functions can tell apart is stored as early as that, never later.
pub(super) fn due(due: Option<Millis>) -> Bytes {
    due.map_or_else(Bytes::new, |at| number(at.0))
}

/// An owner as it is stored: the node, a slash, 16 hex digits of the boot.
pub(super) fn owner(who: &Incarnation) -> Bytes {
    Bytes::from(format!("{}/{:016x}", who.node, who.boot))
}

fn parse_owner(bytes: &[u8]) -> Option<Incarnation> {
    let (node, boot) = std::str::from_utf8(bytes).ok()?.rsplit_once('/')?;
    Some(Incarnation { node: node.into(), boot: u64::from_str_radix(boot, 16).ok()? })
}

/// The elements of an answer after its code.
pub(super) type Answer = std::vec::IntoIter<Value>;

/// Splits what a function answered: its elements if the code is `OK` or `DUP`, else the refusal.
pub(super) fn answer(value: Value, blobs: &[object::BlobId]) -> Result<(Code, Answer)> {
    let Value::Array(elements) = value else { return Err(strange()) };
    let mut elements = elements.into_iter();
    let code = bytes(elements.next())?;
    match &*code {
        b"OK" => Ok((Code::Done, elements)),
        b"DUP" => Ok((Code::Duplicate, elements)),
        b"FENCED" => Err(Error::Fenced),
        b"ABSENT" => Err(Error::Absent),
        b"SEQ" => Err(Error::Lsn { actual: integer(elements.next())? }),
        b"NEWER" => {
            let found = integer(elements.next())?;
            Err(Error::Newer { found: u32::try_from(found).unwrap_or(u32::MAX) })
        }
        b"OWNED" => {
            let epoch = integer(elements.next())?;
            let nonce = parse_nonce(&bytes(elements.next())?).ok_or_else(strange)?;
            let owner = parse_owner(&bytes(elements.next())?).ok_or_else(strange)?;
            Err(Error::Owned { fence: fence(epoch, nonce), owner })
        }
        b"BLOB" => {
            let missing = bytes(elements.next())?;
            let blob = blobs.iter().find(|blob| super::keys::blob_member(**blob) == missing);
            Err(blob.map_or_else(strange, |blob| Error::BlobMissing { blob: *blob }))
        }
        b"CHUNK" => {
            let context = "a chunk of the snapshot ended before it was stored".to_owned();
            Err(Error::Unavailable { context })
        }
        b"DAMAGED" => Err(Error::Damaged { what: part(&bytes(elements.next())?) }),
        _ => Err(strange()),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Code {
    Done,
    Duplicate,
}

fn part(name: &[u8]) -> &'static str {
    match name {
        b"log" => "the log does not hold the frames its record counts",
        b"snapshot" => "a snapshot is missing, or is there without its record",
        b"due" => "the due index of the bucket is no index",
        _ => "the record of an object",
    }
}

/// An answer that no function of ours gives: stored bytes are not what they should be.
pub(super) fn strange() -> Error {
    Error::Damaged { what: "an answer of redis that no function of this version gives" }
}

pub(super) fn bytes(value: Option<Value>) -> Result<Bytes> {
    match value {
        Some(Value::BulkString(bytes)) => Ok(Bytes::from(bytes)),
        Some(Value::SimpleString(text)) => Ok(Bytes::from(text)),
        _ => Err(strange()),
    }
}

pub(super) fn array(value: Option<Value>) -> Result<Vec<Value>> {
    match value {
        Some(Value::Array(values)) => Ok(values),
        _ => Err(strange()),
    }
}

/// A number as text, or as one.
pub(super) fn integer(value: Option<Value>) -> Result<u64> {
    match value {
        Some(Value::Int(number)) => u64::try_from(number).map_err(|_| strange()),
        value => parse(&bytes(value)?).ok_or_else(strange),
    }
}

pub(super) fn parse(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A score of the due index as a time; a fraction is rounded down, so that nothing is late.
pub(super) fn parse_score(text: &[u8]) -> Option<Millis> {
    std::str::from_utf8(text).ok()?.parse().ok().map(whole)
}

/// See [`parse_score`].
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, and a time before 1970 is due at once"
)]
pub(super) const fn whole(score: f64) -> Millis {
    Millis(score as u64)
}

/// A nonce as it is stored; none if the field is empty.
pub(super) fn parse_nonce(text: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()
}

/// The stored ends of agent leases, in order of the participants.
pub(super) fn leases(values: Vec<Value>) -> Result<Vec<(ParticipantId, Millis)>> {
    let mut leases = Vec::with_capacity(values.len() / 2);
    let mut values = values.into_iter();
    while let Some(who) = values.next() {
        let who = bytes(Some(who))?;
        let who: [u8; 16] = who.as_ref().try_into().map_err(|_| strange())?;
        leases.push((ParticipantId(u128::from_be_bytes(who)), Millis(integer(values.next())?)));
    }
    leases.sort_unstable();
    Ok(leases)
}

/// Reads a log: every frame whole, each after the other, from the snapshot to the head.
pub(super) fn tail(snapshot_lsn: u64, head: u64, values: Vec<Value>) -> Result<Vec<Frame>> {
    let mut at = snapshot_lsn;
    let mut tail = Vec::with_capacity(values.len());
    for value in values {
        let frame = Frame::decode(bytes(Some(value))?);
        let frame = frame.map_err(|_| Error::Damaged { what: "a frame" })?;
        if frame.first_lsn != at + 1 {
            return Err(Error::Damaged { what: "a log with a hole" });
        }
        at = frame.last_lsn();
        tail.push(frame);
    }
    if at != head {
        return Err(Error::Damaged { what: "a log that ends too early" });
    }
    Ok(tail)
}

/// Schemas above what the caller reads are refused before anything is interpreted.
pub(super) fn readable(schema_max: u32, snapshot: Option<&Snapshot>, tail: &[Frame]) -> Result<()> {
    let schemas = tail.iter().map(|frame| frame.schema);
    match schemas.chain(snapshot.map(|snapshot| snapshot.schema)).max() {
        Some(found) if found > schema_max => Err(Error::Newer { found }),
        _ => Ok(()),
    }
}

/// A failed call as an error of the store. Only codes that say "before any effect" are taken for
/// that; after any other error of a write the caller must take a new fence.
pub(super) fn failed(failure: Failure, writes: bool) -> Error {
    let unavailable = |context: String| Error::Unavailable { context };
    match failure {
        Failure::NotSent { reason } => unavailable(reason.to_string()),
        Failure::Unknown { reason } if writes => Error::Unknown { context: reason.to_string() },
        Failure::Unknown { reason } => unavailable(reason.to_string()),
        Failure::Refused { code, detail } => match code.as_str() {
            "OOM" => Error::Full { what: "redis has reached maxmemory: raise it, or free some" },
            "MISCONF" => Error::Full { what: "redis cannot write its file: free its disk" },
            "WRONGTYPE" => Error::Damaged { what: "a key of the object has another type" },
            "NOREPLICAS" | "READONLY" | "LOADING" | "BUSY" | "MASTERDOWN" | "CLUSTERDOWN"
            | "TRYAGAIN" | "MOVED" | "ASK" | "CROSSSLOT" | "NOAUTH" | "NOPERM" | "NOSCRIPT" => {
                unavailable(format!("redis refused: {code}"))
            }
            _ if writes => Error::Unknown { context: format!("redis failed: {code} {detail}") },
            _ => unavailable(format!("redis failed: {code} {detail}")),
        },
    }
}

/// The fence of a claim that was answered.
pub(super) const fn fence(epoch: u64, nonce: u64) -> Fence {
    Fence { epoch, nonce }
}

#[cfg(test)]
mod tests {
    use redis_link::{Doubt, Unsent};

    use super::*;

    fn refused(code: &str) -> Failure {
        Failure::Refused { code: code.to_owned(), detail: "a detail".to_owned() }
    }

    #[test]
    fn numbers_are_written_as_far_as_the_functions_count_exactly() {
        assert_eq!(number(EXACT_MAX - 1), "9007199254740991");
        for beyond in [EXACT_MAX, EXACT_MAX + 1, u64::MAX] {
            assert_eq!(number(beyond), "9007199254740992");
            assert_eq!(due(Some(Millis(beyond))), "9007199254740992");
        }
    }

    #[test]
    fn every_failure_says_whether_it_ran() {
        let unsent = || Failure::NotSent { reason: Unsent::QueueFull };
        let doubt = || Failure::Unknown { reason: Doubt::ShortWait };
        let label = |error: Error| format!("{error:?}").split([' ', '{']).next().map(str::to_owned);
        let rows = [
            (unsent(), "Unavailable", "Unavailable"),
            (doubt(), "Unknown", "Unavailable"),
            (refused("OOM"), "Full", "Full"),
            (refused("MISCONF"), "Full", "Full"),
            (refused("NOREPLICAS"), "Unavailable", "Unavailable"),
            (refused("READONLY"), "Unavailable", "Unavailable"),
            (refused("WRONGTYPE"), "Damaged", "Damaged"),
            (refused("ERR"), "Unknown", "Unavailable"),
        ];
        for (failure, write, read) in rows {
            assert_eq!(label(failed(failure.clone(), true)).as_deref(), Some(write), "{failure:?}");
            assert_eq!(label(failed(failure.clone(), false)).as_deref(), Some(read), "{failure:?}");
        }
    }

    #[test]
    fn owners_are_read_back() {
        for node in ["a", "a/b", "", "/0000000000000000"] {
            let who = Incarnation { node: node.into(), boot: 0xfeed };
            assert_eq!(parse_owner(&owner(&who)), Some(who));
        }
        assert_eq!(parse_owner(b"nobody"), None);
    }

    #[test]
    fn a_strange_answer_is_no_success() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let rows = [
            Value::Nil,
            text("OK"),
            Value::Array(vec![]),
            Value::Array(vec![text("FINE")]),
            Value::Array(vec![text("SEQ")]),
            Value::Array(vec![text("BLOB"), text("00")]),
        ];
        for row in rows {
            assert_eq!(answer(row, &[]).map(|(code, _)| code), Err(strange()));
        }
    }
}
