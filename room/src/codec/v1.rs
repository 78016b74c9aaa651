//! Schema 1. Tags are never reused; fields may be added.

pub(super) mod event;
pub(super) mod snapshot;

mod artifact;
mod grant;
mod roster;
mod task;
mod timeline;

use object::{BlobId, CodecError, ParticipantId};

use crate::state::Kind;
use crate::text::Text;

type Result<T> = std::result::Result<T, CodecError>;

/// A pair of strings.
#[derive(Clone, PartialEq, prost::Message)]
struct Pair {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

fn damaged<T>(what: &'static str) -> Result<T> {
    Err(CodecError::Damaged { what })
}

fn some<T>(part: Option<T>, what: &'static str) -> Result<T> {
    part.ok_or(CodecError::Damaged { what })
}

fn id_bytes(id: u128) -> Vec<u8> {
    id.to_be_bytes().to_vec()
}

fn id(bytes: &[u8]) -> Result<u128> {
    match <[u8; 16]>::try_from(bytes) {
        Ok(bytes) => Ok(u128::from_be_bytes(bytes)),
        Err(_) => damaged("id"),
    }
}

fn participant(bytes: &[u8]) -> Result<ParticipantId> {
    id(bytes).map(ParticipantId)
}

fn blob(bytes: &[u8]) -> Result<BlobId> {
    id(bytes).map(BlobId)
}

const fn kind_number(kind: Kind) -> u32 {
    match kind {
        Kind::Human => 1,
        Kind::Agent => 2,
    }
}

fn kind(number: u32) -> Result<Kind> {
    match number {
        1 => Ok(Kind::Human),
        2 => Ok(Kind::Agent),
        _ => damaged("kind"),
    }
}

fn text(text: &Text) -> String {
    text.as_str().to_owned()
}

fn pairs(pairs: &[(Text, Text)]) -> Vec<Pair> {
    pairs.iter().map(|(k, v)| Pair { key: text(k), value: text(v) }).collect()
}

fn load_pairs(pairs: Vec<Pair>) -> Vec<(Text, Text)> {
    pairs.into_iter().map(|pair| (pair.key.into(), pair.value.into())).collect()
}
