//! What the edge makes for a call: request id, participant id, nonce, room id. All of it from the
//! system's random numbers.

use object::{ObjectId, ParticipantId, RequestId};

use crate::error::Refusal;

/// Fresh randomness for one call; what a call does not need is thrown away.
pub(super) struct Fresh {
    pub(super) request: RequestId,
    pub(super) participant: ParticipantId,
    pub(super) nonce: [u8; 24],
    room: u128,
}

impl Fresh {
    /// Draws everything at once: one question to the system.
    pub(super) fn draw() -> Result<Self, Refusal> {
        let mut bytes = [0_u8; 16 * 3 + 24];
        getrandom::fill(&mut bytes).map_err(|_no_random| Refusal::no_random())?;
        let (ids, nonce) = bytes.split_at(48);
        let word = |index: usize| {
            let chunk = ids.get(index * 16..).and_then(|rest| rest.first_chunk::<16>());
            chunk.map(|chunk| u128::from_be_bytes(*chunk)).ok_or_else(Refusal::no_random)
        };
        Ok(Self {
            request: RequestId::from_random(word(0)?),
            participant: ParticipantId::from_random(word(1)?),
            room: word(2)?,
            nonce: nonce.try_into().map_err(|_length| Refusal::no_random())?,
        })
    }

    /// A fresh room's id (rooms 6.4, ours 21), with the region's name before it where there are
    /// several.
    pub(super) fn room(&self, region: Option<&str>) -> Result<ObjectId, Refusal> {
        let id = room::names::fresh_room_id(self.room);
        let id = region.map_or_else(|| id.clone(), |region| format!("{region}.{id}"));
        ObjectId::new(room::KIND, &id).map_err(|_bad_id| Refusal::no_random())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_differ_and_are_uuids() {
        let (one, two) = (Fresh::draw().unwrap(), Fresh::draw().unwrap());
        assert_ne!(one.request, two.request);
        assert_ne!(one.participant, two.participant);
        assert_ne!(one.nonce, two.nonce);
        assert_ne!(one.room(None).unwrap(), two.room(None).unwrap());
        let (plain, home) = (one.room(None).unwrap(), one.room(Some("eu")).unwrap());
        assert_eq!(home.name(), format!("eu.{}", plain.name()));
        assert_eq!(one.participant.to_string().as_bytes()[14], b'4');
    }
}
