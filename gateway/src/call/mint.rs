//! What the edge makes for a call: request id, participant id, nonce, room id. All of it from the
//! system's random numbers.

use object::{Class, ObjectId, ParticipantId, RequestId};

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
        getrandom::fill(&mut bytes).map_err(|_no_random| no_random())?;
        let (ids, nonce) = bytes.split_at(48);
        let word = |index: usize| {
            let chunk = ids.get(index * 16..).and_then(|rest| rest.first_chunk::<16>());
            chunk.map(|chunk| u128::from_be_bytes(*chunk)).ok_or_else(no_random)
        };
        Ok(Self {
            request: RequestId::from_random(word(0)?),
            participant: ParticipantId::from_random(word(1)?),
            room: word(2)?,
            nonce: nonce.try_into().map_err(|_length| no_random())?,
        })
    }

    /// A fresh room's id, in the reference's form `word-word-12` (rooms 6.4, ours 21).
    pub(super) fn room(&self) -> Result<ObjectId, Refusal> {
        ObjectId::new(room::KIND, &room_name(self.room)).map_err(|_bad_id| no_random())
    }
}

const ROOTS: [&str; 16] = [
    "amber", "aurora", "comet", "corona", "cosmic", "eclipse", "ember", "halo", "lunar", "meteor",
    "nova", "orbit", "quasar", "solar", "stellar", "zenith",
];
const PLACES: [&str; 16] = [
    "arc", "belt", "cloud", "cluster", "drift", "field", "gate", "harbor", "haven", "nebula",
    "reach", "ridge", "ring", "rise", "shore", "void",
];
const SUFFIX: &[u8; 31] = b"23456789abcdefghjkmnpqrstuvwxyz";
const SUFFIX_CHARS: usize = 12;

fn room_name(random: u128) -> String {
    let mut bits = random;
    let mut draw = |count: usize| {
        let count = count.max(1) as u128;
        let index = usize::try_from(bits % count).unwrap_or(0);
        bits /= count;
        index
    };
    let root = ROOTS.get(draw(ROOTS.len())).copied().unwrap_or("room");
    let place = PLACES.get(draw(PLACES.len())).copied().unwrap_or("here");
    let suffix: String = (0..SUFFIX_CHARS)
        .filter_map(|_| SUFFIX.get(draw(SUFFIX.len())))
        .map(|&byte| char::from(byte))
        .collect();
    format!("{root}-{place}-{suffix}")
}

const fn no_random() -> Refusal {
    Refusal::new(
        Class::Internal,
        "internal_error",
        "The service has no random numbers at the moment. Repeat the call.",
        true,
    )
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
        assert_ne!(one.room().unwrap(), two.room().unwrap());
        assert_eq!(one.participant.to_string().as_bytes()[14], b'4');
    }

    #[test]
    fn room_names_have_the_references_form() {
        for random in [0, 1, u128::MAX, 0x1234_5678_9abc_def0_1122_3344_5566_7788] {
            let name = room_name(random);
            let parts: Vec<&str> = name.split('-').collect();
            let [root, place, suffix] = parts[..] else { panic!("{name}") };
            assert!(root.bytes().chain(place.bytes()).all(|byte| byte.is_ascii_lowercase()));
            assert_eq!(suffix.len(), SUFFIX_CHARS, "{name}");
            assert!(suffix.bytes().all(|byte| SUFFIX.contains(&byte)), "{name}");
        }
    }
}
