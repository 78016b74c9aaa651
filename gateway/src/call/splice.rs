//! What the edge adds to an answer: the sealed handle and the invite of a fresh room.

use bytes::{BufMut as _, Bytes, BytesMut};
use object::ObjectId;

use crate::handle::Handle;

/// The invite of a fresh room.
pub(super) struct Invite<'a> {
    /// Without a trailing slash.
    pub(super) app_url: &'a str,
    pub(super) room: &'a ObjectId,
}

/// The body with `participantHandle` and `invite` as its last members; `None` if the body is no
/// JSON object.
pub(super) fn complete(body: &[u8], handle: &Handle, invite: Option<Invite<'_>>) -> Option<Bytes> {
    let body = body.trim_ascii();
    let open = body.strip_prefix(b"{")?.strip_suffix(b"}")?;
    let mut out = BytesMut::with_capacity(body.len() + 1_024);
    out.put_u8(b'{');
    out.put_slice(open);
    if !open.trim_ascii().is_empty() {
        out.put_u8(b',');
    }
    out.put_slice(b"\"participantHandle\":\"");
    // Base64 needs no escapes.
    out.put_slice(handle.expose().as_bytes());
    out.put_u8(b'"');
    if let Some(invite) = invite {
        let name = invite.room.name();
        out.put_slice(b",\"invite\":{\"kind\":\"free4chat.room-invite\",\"version\":1,\"roomId\":");
        out.put_slice(&serde_json::to_vec(name).ok()?);
        out.put_slice(b",\"roomUrl\":");
        let url = format!("{}/room?id={}", invite.app_url, percent_encoded(name));
        out.put_slice(&serde_json::to_vec(&url).ok()?);
        out.put_u8(b'}');
    }
    out.put_u8(b'}');
    Some(out.freeze())
}

/// Encodes as the reference's `encodeURIComponent`.
fn percent_encoded(text: &str) -> String {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let digit = |n: u8| HEX.get(usize::from(n)).map_or('0', |&hex| char::from(hex));
            out.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::handle::{KeyRing, Sealer};

    fn handle(room: &ObjectId) -> Handle {
        let sealer = Sealer::new("local", KeyRing::ephemeral().unwrap()).unwrap();
        sealer.seal(room, object::ParticipantId(1), [0; 24])
    }

    #[test]
    fn handle_and_invite_are_added_to_any_object() {
        for (name, url) in [
            ("blue-otter", "https://x.test/room?id=blue-otter"),
            ("a b\"/é", "https://x.test/room?id=a%20b%22%2F%C3%A9"),
        ] {
            let room = ObjectId::new(room::KIND, name).unwrap();
            let handle = handle(&room);
            for body in ["{}", "{ }", r#"{"cursor":0}"#, " {\"a\":{}} "] {
                let invite = Invite { app_url: "https://x.test", room: &room };
                let out = complete(body.as_bytes(), &handle, Some(invite)).unwrap();
                let mut want: Value = serde_json::from_str(body).unwrap();
                want["participantHandle"] = json!(handle.expose());
                want["invite"] = json!({
                    "kind": "free4chat.room-invite", "version": 1, "roomId": name, "roomUrl": url
                });
                assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), want, "{body}");
            }
            let out = complete(b"{}", &handle, None).unwrap();
            let value: Value = serde_json::from_slice(&out).unwrap();
            assert!(value.get("invite").is_none());
        }
    }

    #[test]
    fn what_is_no_object_is_not_completed() {
        let room = ObjectId::new(room::KIND, "r").unwrap();
        for body in ["", "{", "}", "[]", "null"] {
            assert_eq!(complete(body.as_bytes(), &handle(&room), None), None, "{body}");
        }
    }
}
