//! Exactly once: what makes two calls the same call (ours 11).

use object::Address;
use serde_json::Value;
use xxhash_rust::xxh3::Xxh3;

use crate::limits;
use crate::ops::{Ask, Op};
use crate::spec::{self, Field, Pattern};

/// What a change is remembered under.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    pub id_hash: u64,
    pub args_hash: u64,
}

/// The argument that all changing tools with a handle share.
pub(crate) const CLIENT_REQUEST_ID: Field = Field::optional(
    "clientRequestId",
    spec::matching(
        1,
        limits::CLIENT_REQUEST_ID_UTF16_MAX,
        Pattern {
            regex: "^[A-Za-z0-9._:-]{1,64}$",
            test: |text| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._:-".contains(&b)),
            says: "Use letters, digits and '._:-' only.",
        },
    ),
    "Makes a repeat safe: the same id with the same arguments returns the first result with \
     duplicate:true. The last 64 ids of a participant are remembered, each at most 10 minutes.",
);

/// The handle, as every op that takes one declares it.
pub(crate) const HANDLE: Field = Field::required(
    "participantHandle",
    spec::Kind::Handle,
    "The private handle from join_room or create_room. Keep it secret.",
);

/// The key of a call, if it can change something. An id of the client's own comes first, else
/// the one the edge gave this call; both share the window.
pub(crate) fn key(op: &Op, ask: &Ask<'_>) -> Option<Key> {
    let meta = op.meta;
    if meta.read_only || meta.wait || !matches!(meta.address, Address::Handle) {
        return None;
    }
    let own = ask.args.get(CLIENT_REQUEST_ID.name).and_then(Value::as_str);
    let id_hash = match own {
        Some(id) if meta.client_request_id => {
            let mut hash = Xxh3::new();
            hash.update(b"c");
            hash.update(id.as_bytes());
            hash.digest()
        }
        _ => {
            let mut hash = Xxh3::new();
            hash.update(b"r");
            hash.update(&ask.call.request.0.to_be_bytes());
            hash.digest()
        }
    };
    let mut hash = Xxh3::new();
    hash.update(meta.name.as_bytes());
    // What the op drops or trims makes no other call.
    match op.tool {
        Some(tool) => mix(&mut hash, &Value::Object(spec::clean(tool.input, ask.args)), true),
        None => mix(&mut hash, ask.args, true),
    }
    if let Some(blob) = &ask.call.blob {
        hash.update(blob.bytes);
    }
    Some(Key { id_hash, args_hash: hash.digest() })
}

/// Hashes a value so that the order of keys does not matter; at the root without what differs
/// between attempts.
fn mix(hash: &mut Xxh3, value: &Value, root: bool) {
    match value {
        Value::Null => hash.update(b"n"),
        Value::Bool(b) => hash.update(if *b { b"t" } else { b"f" }),
        Value::Number(n) => {
            hash.update(b"#");
            hash.update(n.to_string().as_bytes());
        }
        Value::String(text) => {
            hash.update(b"\"");
            hash.update(&text.len().to_be_bytes());
            hash.update(text.as_bytes());
        }
        Value::Array(list) => {
            hash.update(b"[");
            hash.update(&list.len().to_be_bytes());
            for entry in list {
                mix(hash, entry, false);
            }
        }
        Value::Object(map) => {
            hash.update(b"{");
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_unstable();
            for key in keys {
                if root && (key == CLIENT_REQUEST_ID.name || key == HANDLE.name) {
                    continue;
                }
                hash.update(key.as_bytes());
                hash.update(b":");
                if let Some(entry) = map.get(key) {
                    mix(hash, entry, false);
                }
            }
            hash.update(b"}");
        }
    }
}
