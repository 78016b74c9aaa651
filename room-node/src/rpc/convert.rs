//! Wire messages to and from the host's own types.

use object::{Caller, KindTag, Object, ObjectId, ParticipantId, Reject, RequestId};
use proto::{class, v1};

use crate::clock::Mono;
use crate::error;
use crate::host::{Notice, Request, Response};

/// Longest life of a call, whatever its sender says.
pub(super) const DEADLINE_MS_MAX: u64 = 60_000;

/// A call of the wire as the host takes it. The deadline only shrinks.
pub(super) fn request<O: Object>(call: v1::Call, now: Mono) -> Result<Request, Reject> {
    let op = O::op(&call.op).ok_or_else(error::unknown_op)?;
    Ok(Request {
        op,
        object: object_id::<O>(call.kind, &call.object)?,
        caller: match (optional_id(&call.participant)?, call.joining) {
            (None, _) => Caller::Anonymous,
            (Some(id), false) => Caller::Participant(ParticipantId(id)),
            (Some(id), true) => Caller::Joining(ParticipantId(id)),
        },
        args: call.args,
        blob: call.blob,
        request: RequestId(optional_id(&call.request)?.unwrap_or_default()),
        attempt: call.attempt.max(1),
        age_ms: call.age_ms,
        deadline: now.plus(call.deadline_ms.min(DEADLINE_MS_MAX)),
        connection: call.connection,
        view: call.view,
        hops: call.hops,
    })
}

/// The object named by an envelope.
pub(super) fn object_id<O: Object>(kind: u32, name: &str) -> Result<ObjectId, Reject> {
    if u32::from(O::KIND.0) != kind {
        return Err(error::malformed("This node holds no objects of that kind."));
    }
    ObjectId::new(KindTag(O::KIND.0), name)
        .map_err(|_length| error::malformed("The object id has not 1 to 64 UTF-16 units."))
}

/// A participant id of an envelope.
pub(super) fn participant(bytes: &[u8]) -> Result<ParticipantId, Reject> {
    let id = optional_id(bytes)?;
    id.map(ParticipantId).ok_or_else(|| error::malformed("A participant id is missing."))
}

fn optional_id(bytes: &[u8]) -> Result<Option<u128>, Reject> {
    if bytes.is_empty() {
        return Ok(None);
    }
    <[u8; 16]>::try_from(bytes)
        .map(|id| Some(u128::from_be_bytes(id)))
        .map_err(|_length| error::malformed("An id has not 16 bytes."))
}

/// An answer for the wire.
pub(super) fn answer(id: u64, response: Response) -> v1::Down {
    let what = match response.result {
        Ok(success) => v1::answer::What::Success(v1::Success {
            body: success.body.into(),
            blob: success.blob,
            image_mime: success.image_mime,
        }),
        Err(reject) => {
            let mut refusal = class::refusal(reject);
            if let Some(elsewhere) = response.elsewhere {
                (refusal.owner_hint, refusal.view) = (elsewhere.hint, elsewhere.view);
            }
            v1::answer::What::Refusal(refusal)
        }
    };
    let answer = v1::Answer { id, what: Some(what), next_wait_ms: response.next_wait_ms };
    v1::Down { what: Some(v1::down::What::Answer(answer)) }
}

/// A notice for the wire.
pub(super) fn notice(connection: u64, notice: Notice) -> v1::Down {
    let what = match notice {
        Notice::Frame(frame) => v1::notice::What::Frame(frame.into()),
        Notice::Close(code) => v1::notice::What::CloseCode(u32::from(code)),
    };
    let notice = v1::Notice { connection, what: Some(what) };
    v1::Down { what: Some(v1::down::What::Notice(notice)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_sixteen_bytes_or_none() {
        assert_eq!(optional_id(&[]), Ok(None));
        assert_eq!(optional_id(&7u128.to_be_bytes()), Ok(Some(7)));
        for bad in [1, 15, 17] {
            assert!(optional_id(&vec![0; bad]).is_err(), "{bad}");
        }
        assert!(participant(&[]).is_err());
    }
}
