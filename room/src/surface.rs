//! Surfaces: the one workspace snapshot an agent shows (rooms 6.14-6.16).
//!
//! The bytes are a blob beside the room; the snapshot's id is the blob's id, so every
//! replacement has a new one and a stale id is told from a current one by comparison alone.

use object::{BlobId, Millis};

use crate::limits::{SURFACE_PERIOD_MS, SURFACES_MAX};
use crate::state::Surface;

/// The accepted image types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mime {
    Jpeg,
    Png,
    Webp,
}

impl Mime {
    /// All accepted types.
    pub const ALL: [Self; 3] = [Self::Jpeg, Self::Png, Self::Webp];

    /// The type's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Jpeg => "image/jpeg",
            Self::Png => "image/png",
            Self::Webp => "image/webp",
        }
    }

    /// The type of a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mime| mime.name() == name)
    }
}

/// Why a snapshot is not shown now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AdmitError {
    #[error("at most one snapshot every 2 seconds")]
    RateLimited { retry_after_ms: u64 },
    #[error("three other agents show a surface")]
    CapacityExceeded,
}

/// Checks a new snapshot against the agent's own current one and the number of other agents that
/// show one. Replacing one's own is always possible as far as the room is concerned.
pub const fn admit(own: Option<&Surface>, others: usize, now: Millis) -> Result<(), AdmitError> {
    match own {
        Some(own) => {
            let waited = now.since(own.updated_at);
            if waited < SURFACE_PERIOD_MS {
                let retry_after_ms = SURFACE_PERIOD_MS - waited;
                return Err(AdmitError::RateLimited { retry_after_ms });
            }
            Ok(())
        }
        None if others >= SURFACES_MAX => Err(AdmitError::CapacityExceeded),
        None => Ok(()),
    }
}

/// Why a surface cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReadError {
    #[error("no such participant, or it shows nothing")]
    NotFound,
    #[error("the participant shows another snapshot now")]
    Changed,
}

/// Finds the snapshot a reader named, among what its source shows now.
pub fn find<'a>(shown: Option<&'a Surface>, snapshot: &str) -> Result<&'a Surface, ReadError> {
    let shown = shown.ok_or(ReadError::NotFound)?;
    if BlobId::parse(snapshot) == Some(shown.snapshot) {
        Ok(shown)
    } else {
        Err(ReadError::Changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(at: u64) -> Surface {
        let mime = Mime::Png.name().into();
        Surface { snapshot: BlobId(9), mime, size: 3, updated_at: Millis(at) }
    }

    #[test]
    fn a_replacement_waits_two_seconds_and_a_fourth_agent_is_refused() {
        let limited = |ms| Err(AdmitError::RateLimited { retry_after_ms: ms });
        let rows = [
            (None, 0, 0, Ok(())),
            (None, 2, 0, Ok(())),
            (None, 3, 0, Err(AdmitError::CapacityExceeded)),
            (Some(shown(1_000)), 2, 1_000, limited(2_000)),
            (Some(shown(1_000)), 2, 2_999, limited(1)),
            (Some(shown(1_000)), 2, 3_000, Ok(())),
            // One's own replacement is not a question of capacity.
            (Some(shown(1_000)), 3, 3_000, Ok(())),
            // A clock that went back asks for the whole interval, no more.
            (Some(shown(5_000)), 0, 1_000, limited(2_000)),
        ];
        for (own, others, now, expected) in rows {
            assert_eq!(
                admit(own.as_ref(), others, Millis(now)),
                expected,
                "{own:?} {others} {now}"
            );
        }
    }

    #[test]
    fn reading_names_the_exact_snapshot() {
        let surface = shown(1);
        let id = BlobId(9).to_string();
        assert_eq!(find(None, &id), Err(ReadError::NotFound));
        assert_eq!(find(Some(&surface), &id), Ok(&surface));
        assert_eq!(find(Some(&surface), &BlobId(8).to_string()), Err(ReadError::Changed));
        assert_eq!(find(Some(&surface), "no uuid"), Err(ReadError::Changed));
    }

    #[test]
    fn types_are_named_exactly() {
        for mime in Mime::ALL {
            assert_eq!(Mime::parse(mime.name()), Some(mime));
        }
        for bad in ["image/gif", "IMAGE/PNG", "image/png ", ""] {
            assert_eq!(Mime::parse(bad), None, "{bad}");
        }
    }
}
