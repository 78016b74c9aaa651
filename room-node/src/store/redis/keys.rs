//! Names in Redis. All keys of one bucket share its hash tag, so that one script may touch a
//! room's log, record and snapshot and the bucket's due index at once.
//!
//! `{b0371}` then: `m:` record, `l:` log, `s:` snapshot, `c:` chunks of a large snapshot, `k:` ids
//! of kept blobs, `b:` blobs, `q:` records of lost events, each followed by the object's id; and
//! `due`, the index of due times. The id is the letter of the kind, a colon and the name. A name
//! may hold any characters: no key is parsed, and the tag stands first.

use bytes::Bytes;
use membership::{Bucket, bucket};
use object::{BlobId, KindTag, ObjectId, ParticipantId};

/// The keys of one object.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    pub(super) bucket: Bucket,
    tag: String,
    id: String,
}

impl Keys {
    pub(super) fn new(object: &ObjectId) -> Self {
        let bucket = bucket(object.name().as_bytes());
        Self { bucket, tag: tag(bucket), id: member(object) }
    }

    pub(super) fn meta(&self) -> Bytes {
        self.of("m:")
    }

    pub(super) fn log(&self) -> Bytes {
        self.of("l:")
    }

    pub(super) fn snapshot(&self) -> Bytes {
        self.of("s:")
    }

    pub(super) fn kept(&self) -> Bytes {
        self.of("k:")
    }

    pub(super) fn lost(&self) -> Bytes {
        self.of("q:")
    }

    pub(super) fn due(&self) -> Bytes {
        due(self.bucket)
    }

    pub(super) fn blob(&self, blob: BlobId) -> Bytes {
        Bytes::from(format!("{}b:{}:{:032x}", self.tag, self.id, blob.0))
    }

    /// What the key of a blob is without the blob's own id.
    pub(super) fn blobs(&self) -> Bytes {
        Bytes::from(format!("{}b:{}:", self.tag, self.id))
    }

    pub(super) fn chunk(&self, set: u64, at: usize) -> Bytes {
        Bytes::from(format!("{}c:{}:{set:016x}:{at}", self.tag, self.id))
    }

    /// What the key of a chunk is without set and number.
    pub(super) fn chunks(&self) -> Bytes {
        Bytes::from(format!("{}c:{}:", self.tag, self.id))
    }

    /// The object's name in the due index.
    pub(super) fn member(&self) -> Bytes {
        Bytes::from(self.id.clone())
    }

    fn of(&self, kind: &str) -> Bytes {
        Bytes::from(format!("{}{kind}{}", self.tag, self.id))
    }
}

/// The due index of a bucket.
pub(super) fn due(bucket: Bucket) -> Bytes {
    Bytes::from(format!("{}due", tag(bucket)))
}

fn tag(bucket: Bucket) -> String {
    format!("{{b{:04}}}", bucket.0)
}

fn member(object: &ObjectId) -> String {
    format!("{}:{}", char::from(object.kind().0), object.name())
}

/// Reads a member of the due index; none if no node of ours wrote it.
pub(super) fn parse_member(member: &[u8]) -> Option<ObjectId> {
    let (kind, name) = std::str::from_utf8(member).ok()?.split_once(':')?;
    let [kind] = kind.as_bytes() else { return None };
    ObjectId::new(KindTag(*kind), name).ok()
}

/// The field of the record that holds the end of a participant's agent lease.
pub(super) fn lease_field(who: ParticipantId) -> Bytes {
    let mut field = Vec::with_capacity(17);
    field.push(b'a');
    field.extend_from_slice(&who.0.to_be_bytes());
    Bytes::from(field)
}

pub(super) fn blob_member(blob: BlobId) -> Bytes {
    Bytes::from(format!("{:032x}", blob.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str) -> ObjectId {
        ObjectId::new(KindTag(b'r'), name).unwrap()
    }

    #[test]
    fn golden_keys_never_change() {
        let keys = Keys::new(&object("room-1"));
        assert_eq!(keys.meta(), "{b3270}m:r:room-1");
        assert_eq!(keys.due(), "{b3270}due");
        assert_eq!(keys.blob(BlobId(255)), format!("{{b3270}}b:r:room-1:{:032x}", 255));
        assert_eq!(keys.chunk(10, 3), "{b3270}c:r:room-1:000000000000000a:3");
        assert_eq!(
            Keys::new(&object("eu.amber-otter-2f9c")).log(),
            "{b0254}l:r:eu.amber-otter-2f9c"
        );
    }

    #[test]
    fn a_member_is_read_back_whatever_the_name_holds() {
        for name in ["a", ":", "a:b", "}{", "ß\u{0}\n", "r:r"] {
            let object = object(name);
            assert_eq!(parse_member(&Keys::new(&object).member()), Some(object));
        }
        for wrong in [&b""[..], b"r", b"r:", b":a", b"rr:a", b"r:\xff"] {
            assert_eq!(parse_member(wrong), None);
        }
    }
}
