//! Sealing and opening: XChaCha20-Poly1305 over room id and participant id, with version, key id
//! and region tag in clear but authenticated; URL-safe base64 without padding.
//!
//! Layout before base64: `version(1) kid_len(1) kid region_len(1) region nonce(24)
//! ciphertext(participant 16 + room id) tag(16)`; everything before the nonce is associated data.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::{AeadInPlace, Tag, XNonce};
use object::{ObjectId, ParticipantId};

use super::keyring::{KID_BYTES_MAX, KeyRing};
use crate::config::REGION_BYTES_MAX;

/// Longest handle, in characters (ours 5).
pub(super) const HANDLE_CHARS_MAX: usize = 400;

const VERSION: u8 = 1;
const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;
const PARTICIPANT_BYTES: usize = 16;
/// UTF-16 to UTF-8 grows by at most three bytes a unit.
const ROOM_BYTES_MAX: usize = 3 * ObjectId::NAME_UTF16_MAX;
const HEADER_BYTES_MAX: usize = 1 + 1 + KID_BYTES_MAX + 1 + REGION_BYTES_MAX;
const RAW_BYTES_MAX: usize =
    HEADER_BYTES_MAX + NONCE_BYTES + PARTICIPANT_BYTES + ROOM_BYTES_MAX + TAG_BYTES;

// The longest room id, key id and region still fit the promise.
const _: () = assert!((RAW_BYTES_MAX * 4).div_ceil(3) <= HANDLE_CHARS_MAX);
// Both lengths are written in one byte.
const _: () = assert!(KID_BYTES_MAX < 256 && REGION_BYTES_MAX < 256);

/// A sealed handle: a bearer secret. Its `Debug` is a fixed word.
#[derive(Clone, PartialEq, Eq)]
pub struct Handle(String);

impl Handle {
    /// The text, for the one place that writes it into an answer.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handle(sealed)")
    }
}

/// What a handle names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opened {
    pub room: ObjectId,
    pub participant: ParticipantId,
}

/// Why a handle does not open. Clients are told one thing for all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the handle is no sealed handle of a known version")]
    Malformed,
    #[error("the handle was minted in another region")]
    Foreign,
    #[error("the handle's key is not in the ring")]
    UnknownKey,
    #[error("the handle's seal is broken")]
    Forged,
}

/// Why a region name cannot be a handle's tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a region name has 1 to {REGION_BYTES_MAX} of a-z, 0-9 and -")]
pub struct RegionError;

/// Seals and opens the handles of one region.
#[derive(Clone, Debug)]
pub struct Sealer {
    region: Arc<str>,
    keys: KeyRing,
}

impl Sealer {
    /// Checks the region name and keeps the ring, which may change under it.
    pub fn new(region: &str, keys: KeyRing) -> Result<Self, RegionError> {
        let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if region.is_empty() || region.len() > REGION_BYTES_MAX || !region.bytes().all(legal) {
            return Err(RegionError);
        }
        Ok(Self { region: region.into(), keys })
    }

    /// Mints a handle with the ring's first key. The nonce must be random and fresh.
    #[must_use]
    pub fn seal(
        &self,
        room: &ObjectId,
        participant: ParticipantId,
        nonce: [u8; NONCE_BYTES],
    ) -> Handle {
        let key = self.keys.first();
        let mut raw = Vec::with_capacity(RAW_BYTES_MAX);
        raw.push(VERSION);
        push_short(&mut raw, key.id().as_bytes());
        push_short(&mut raw, self.region.as_bytes());
        let header = raw.len();
        raw.extend_from_slice(&nonce);
        let sealed = raw.len();
        raw.extend_from_slice(&participant.0.to_be_bytes());
        raw.extend_from_slice(room.name().as_bytes());
        let (clear, secret) = raw.split_at_mut(sealed);
        let (aad, nonce) = clear.split_at(header);
        let tag = key.cipher().encrypt_in_place_detached(XNonce::from_slice(nonce), aad, secret);
        match tag {
            Ok(tag) => raw.extend_from_slice(&tag),
            // Only for texts of many gigabytes; what is left open must not leave this function.
            Err(_too_long) => raw.clear(),
        }
        Handle(URL_SAFE_NO_PAD.encode(&raw))
    }

    /// The region that a handle says it was minted in, whoever wrote it: only good for asking
    /// that region. `None` if it is no handle at all.
    #[must_use]
    pub fn tag(text: &str) -> Option<String> {
        if text.len() > HANDLE_CHARS_MAX {
            return None;
        }
        let raw = URL_SAFE_NO_PAD.decode(text).ok()?;
        let parts = Parts::split(&raw)?;
        std::str::from_utf8(parts.region).ok().map(str::to_owned)
    }

    /// Opens a handle: exact alphabet, exact length, known version, own region, key in the ring,
    /// whole seal. Touches nothing outside this process.
    pub fn open(&self, text: &str) -> Result<Opened, OpenError> {
        if text.len() > HANDLE_CHARS_MAX {
            return Err(OpenError::Malformed);
        }
        // The decoder asks for room in whole groups of three bytes.
        let mut buffer = [0_u8; HANDLE_CHARS_MAX.div_ceil(4) * 3];
        let length = URL_SAFE_NO_PAD
            .decode_slice(text, &mut buffer)
            .map_err(|_not_base64| OpenError::Malformed)?;
        let raw = buffer.get_mut(..length).ok_or(OpenError::Malformed)?;
        let parts = Parts::split(raw).ok_or(OpenError::Malformed)?;
        if parts.region != self.region.as_bytes() {
            return Err(OpenError::Foreign);
        }
        let key = self.keys.find(parts.kid).ok_or(OpenError::UnknownKey)?;
        let (header, rest) = raw.split_at_mut(parts.header_len);
        let (nonce, sealed) = rest.split_at_mut(NONCE_BYTES);
        let tag_at = sealed.len().checked_sub(TAG_BYTES).ok_or(OpenError::Malformed)?;
        let (secret, tag) = sealed.split_at_mut(tag_at);
        key.cipher()
            .decrypt_in_place_detached(
                XNonce::from_slice(nonce),
                header,
                secret,
                Tag::from_slice(tag),
            )
            .map_err(|_broken| OpenError::Forged)?;
        let (participant, room) =
            secret.split_first_chunk::<PARTICIPANT_BYTES>().ok_or(OpenError::Malformed)?;
        let room = std::str::from_utf8(room).map_err(|_not_utf8| OpenError::Malformed)?;
        Ok(Opened {
            room: ObjectId::new(room::KIND, room).map_err(|_bad_id| OpenError::Malformed)?,
            participant: ParticipantId(u128::from_be_bytes(*participant)),
        })
    }
}

/// The clear part of a handle, by reference, and where it ends.
struct Parts<'a> {
    kid: &'a [u8],
    region: &'a [u8],
    header_len: usize,
}

impl<'a> Parts<'a> {
    fn split(raw: &'a [u8]) -> Option<Self> {
        let (&version, rest) = raw.split_first()?;
        if version != VERSION {
            return None;
        }
        let (kid, rest) = take_short(rest)?;
        let (region, rest) = take_short(rest)?;
        let least = NONCE_BYTES + PARTICIPANT_BYTES + 1 + TAG_BYTES;
        if kid.is_empty() || region.is_empty() || rest.len() < least {
            return None;
        }
        Some(Self { kid, region, header_len: raw.len() - rest.len() })
    }
}

fn push_short(raw: &mut Vec<u8>, part: &[u8]) {
    // Both kinds of part are checked against their bounds where they are made.
    raw.push(u8::try_from(part.len()).unwrap_or(0));
    raw.extend_from_slice(part);
}

fn take_short(raw: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = raw.split_first()?;
    rest.split_at_checked(usize::from(length))
}

#[cfg(test)]
mod tests;
