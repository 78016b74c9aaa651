//! Identifiers and time, as types that cannot hold a wrong value.

use std::fmt;
use std::sync::Arc;

/// Unix time in milliseconds, always handed in by the host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(pub u64);

impl Millis {
    /// Later than any time a room can reach: the contract's "never" (2100-01-01).
    pub const FAR_FUTURE: Self = Self(4_102_444_800_000);

    /// This time plus a number of milliseconds; saturates instead of wrapping.
    #[must_use]
    pub const fn plus(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to this time; 0 if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Debug for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}

/// One letter per kind of object; part of every stored key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KindTag(pub u8);

/// Why a string is no object id.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("an object id has 1 to 64 UTF-16 units")]
pub struct ObjectIdError;

/// The name of one object within its kind: 1 to 64 UTF-16 units, any characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    kind: KindTag,
    name: Arc<str>,
}

impl ObjectId {
    /// Longest name, in UTF-16 units.
    pub const NAME_UTF16_MAX: usize = 64;

    /// Checks and takes a name. Does not trim: the caller's contract says whether to.
    pub fn new(kind: KindTag, name: &str) -> Result<Self, ObjectIdError> {
        let units = name.encode_utf16().take(Self::NAME_UTF16_MAX + 1).count();
        if units == 0 || units > Self::NAME_UTF16_MAX {
            return Err(ObjectIdError);
        }
        Ok(Self { kind, name: name.into() })
    }

    /// The kind this object belongs to.
    #[must_use]
    pub const fn kind(&self) -> KindTag {
        self.kind
    }

    /// The name within the kind.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

// Room ids are semi-public but let anyone join, so logs get them only on purpose.
impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ObjectId(..)")
    }
}

macro_rules! random_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u128);

        impl $name {
            /// Reads the canonical lower-case UUID form; anything else is `None`.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                parse_uuid(text).map(Self)
            }

            /// Takes 128 random bits and sets the version and variant bits of a UUID v4.
            #[must_use]
            pub const fn from_random(bits: u128) -> Self {
                Self(uuid_v4(bits))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_uuid(self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}(", stringify!($name))?;
                write_uuid(self.0, f)?;
                f.write_str(")")
            }
        }
    };
}

random_id!(
    /// One participant of one room, public to the others in it.
    ParticipantId
);
random_id!(
    /// Bytes kept beside an object: an attachment, a surface, an app bundle.
    BlobId
);
random_id!(
    /// One client call, the same on every retry of it.
    RequestId
);

const fn uuid_v4(bits: u128) -> u128 {
    let version = (bits & !(0xf << 76)) | (0x4 << 76);
    (version & !(0x3 << 62)) | (0x2 << 62)
}

fn write_uuid(bits: u128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(
        f,
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        bits >> 96,
        (bits >> 80) & 0xffff,
        (bits >> 64) & 0xffff,
        (bits >> 48) & 0xffff,
        bits & 0xffff_ffff_ffff
    )
}

fn parse_uuid(text: &str) -> Option<u128> {
    if text.len() != 36 {
        return None;
    }
    let mut bits: u128 = 0;
    for (at, byte) in text.bytes().enumerate() {
        let digit = match (at, byte) {
            (8 | 13 | 18 | 23, b'-') => continue,
            (8 | 13 | 18 | 23, _) => return None,
            (_, b'0'..=b'9') => byte - b'0',
            (_, b'a'..=b'f') => byte - b'a' + 10,
            _ => return None,
        };
        bits = (bits << 4) | u128::from(digit);
    }
    Some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuid_text_round_trips_and_bad_forms_are_refused() {
        let id = ParticipantId::from_random(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        let text = id.to_string();
        assert_eq!(text, "01234567-89ab-4def-8123-456789abcdef");
        assert_eq!(ParticipantId::parse(&text), Some(id));
        for bad in [
            "",
            "01234567-89ab-4def-8123-456789abcde",
            "01234567-89AB-4def-8123-456789abcdef",
            "0123456789ab-4def-8123-456789abcdef-",
            "g1234567-89ab-4def-8123-456789abcdef",
        ] {
            assert_eq!(ParticipantId::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn object_ids_count_utf16_units() {
        let kind = KindTag(b'r');
        assert!(ObjectId::new(kind, "").is_err());
        assert!(ObjectId::new(kind, &"x".repeat(64)).is_ok());
        assert!(ObjectId::new(kind, &"x".repeat(65)).is_err());
        assert!(ObjectId::new(kind, &"😀".repeat(32)).is_ok());
        assert!(ObjectId::new(kind, &"😀".repeat(33)).is_err());
    }
}
