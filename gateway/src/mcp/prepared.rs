//! Answers that are the same for every request but for its id, written once at start.

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use room::catalog::Tool;
use serde_json::{Value, json};

use super::era::{self, Era};
use super::{LIST_TTL_MS, SERVER_NAME, SERVER_VERSION, schema};

/// What stands before the id in every answer.
pub(crate) const HEAD: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":";

/// What a model is told about the whole server.
const INSTRUCTIONS: &str = "Roomring keeps rooms in which agents and people talk, hand each other \
tasks and exchange files. Start with create_room, or join_room with a room id from an invite; keep \
the participantHandle secret and pass it to every later call. Poll wait_for_events and honour \
retryAfterMs. Leave with leave_room.";

/// The prepared answers, each without `HEAD` and the id: `,"result":...}`.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub(crate) discover: Bytes,
    pub(crate) list_modern: Bytes,
    pub(crate) list_legacy: Bytes,
    pub(crate) pong: Bytes,
    /// In the order of [`era::LEGACY`].
    initialize: [Bytes; era::LEGACY.len()],
    /// `"resultType":...,"_meta":...` of a modern tool result, with a leading comma.
    pub(crate) modern_extras: Bytes,
    /// `Access-Control-Allow-Headers`, with the `Mcp-Param-*` names of the catalog.
    pub(crate) allow_headers: HeaderValue,
}

impl Prepared {
    /// Writes all answers for these tools.
    #[must_use]
    pub fn new(tools: &[Tool]) -> Self {
        let listed = listed(tools);
        Self {
            discover: rest(&discover()),
            list_modern: rest(&with_cache_fields(json!({ "tools": listed }))),
            list_legacy: rest(&json!({ "tools": listed })),
            pong: rest(&json!({})),
            initialize: era::LEGACY.map(|version| rest(&initialize(version))),
            modern_extras: modern_extras(),
            allow_headers: allow_headers(&listed),
        }
    }

    /// The answer to a handshake that asked for `version`.
    pub(crate) fn initialize(&self, version: &str) -> &Bytes {
        let agreed = era::negotiate(version);
        let [newest, ..] = &self.initialize;
        era::LEGACY
            .iter()
            .zip(&self.initialize)
            .find_map(|(version, answer)| (*version == agreed).then_some(answer))
            .unwrap_or(newest)
    }

    /// The answer to `tools/list`.
    pub(crate) const fn list(&self, era: Era) -> &Bytes {
        match era {
            Era::Modern => &self.list_modern,
            Era::Legacy => &self.list_legacy,
        }
    }
}

/// The modern `tools/list` result: what `docs/tools.json` holds.
#[must_use]
pub fn tools_list_result(tools: &[Tool]) -> Value {
    with_cache_fields(json!({ "tools": tools.iter().map(schema::listed).collect::<Vec<_>>() }))
}

#[cfg(not(feature = "test-hooks"))]
fn listed(tools: &[Tool]) -> Vec<Value> {
    tools.iter().map(schema::listed).collect()
}

#[cfg(feature = "test-hooks")]
fn listed(tools: &[Tool]) -> Vec<Value> {
    tools.iter().map(schema::listed).chain(super::hooks::listed()).collect()
}

fn rest(result: &Value) -> Bytes {
    Bytes::from(format!(",\"result\":{result}}}"))
}

fn discover() -> Value {
    with_cache_fields(json!({
        "supportedVersions": era::SUPPORTED,
        "capabilities": { "tools": {} },
        "instructions": INSTRUCTIONS,
    }))
}

fn initialize(version: &str) -> Value {
    json!({
        "protocolVersion": version,
        "capabilities": { "tools": {} },
        "serverInfo": { "name": SERVER_NAME, "version": SERVER_VERSION },
        "instructions": INSTRUCTIONS,
    })
}

fn with_cache_fields(mut result: Value) -> Value {
    if let Some(fields) = result.as_object_mut() {
        fields.insert("resultType".into(), "complete".into());
        fields.insert("ttlMs".into(), LIST_TTL_MS.into());
        fields.insert("cacheScope".into(), "public".into());
        fields.insert("_meta".into(), server_info());
    }
    result
}

fn server_info() -> Value {
    json!({
        "io.modelcontextprotocol/serverInfo": { "name": SERVER_NAME, "version": SERVER_VERSION }
    })
}

fn modern_extras() -> Bytes {
    Bytes::from(format!(",\"resultType\":\"complete\",\"_meta\":{}", server_info()))
}

/// mcp.md pitfall 12, plus one header for each annotated parameter.
fn allow_headers(listed: &[Value]) -> HeaderValue {
    let mut names = String::from(
        "content-type, accept, authorization, mcp-protocol-version, mcp-method, mcp-name, \
         mcp-session-id, last-event-id",
    );
    let parameters = listed
        .iter()
        .filter_map(|tool| tool.pointer("/inputSchema/properties")?.as_object())
        .flat_map(|properties| properties.values())
        .filter_map(|property| property.get("x-mcp-header")?.as_str());
    for parameter in parameters {
        let name = format!("{}{}", super::headers::PARAM_PREFIX, parameter.to_ascii_lowercase());
        if HeaderName::try_from(name.as_str()).is_ok()
            && !names.split(", ").any(|known| known == name)
        {
            names.push_str(", ");
            names.push_str(&name);
        }
    }
    HeaderValue::try_from(names).unwrap_or(HeaderValue::from_static("content-type"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(rest: &Bytes) -> Value {
        let text = [HEAD, b"1", rest].concat();
        let answer: Value = serde_json::from_slice(&text).expect("well formed");
        answer.get("result").cloned().expect("a result")
    }

    #[test]
    fn modern_answers_carry_cache_fields_and_legacy_ones_do_not() {
        let prepared = Prepared::new(&[]);
        for (answer, modern) in [
            (&prepared.discover, true),
            (&prepared.list_modern, true),
            (&prepared.list_legacy, false),
            (prepared.initialize("2025-06-18"), false),
        ] {
            let result = result(answer);
            for field in ["resultType", "ttlMs", "cacheScope", "_meta"] {
                assert_eq!(result.get(field).is_some(), modern, "{field}");
            }
        }
        let discover = result(&prepared.discover);
        assert_eq!(discover.pointer("/supportedVersions"), Some(&json!(era::SUPPORTED)));
        assert_eq!(discover.pointer("/capabilities"), Some(&json!({ "tools": {} })));
        assert_eq!(discover.pointer("/ttlMs"), Some(&json!(3_600_000)));
        assert_eq!(discover.pointer("/cacheScope"), Some(&json!("public")));
    }

    #[test]
    fn both_eras_list_the_same_tools() {
        let prepared = Prepared::new(&room::catalog::tools());
        let modern = result(&prepared.list_modern);
        assert_eq!(modern.get("tools"), result(&prepared.list_legacy).get("tools"));
    }

    #[test]
    fn a_handshake_answers_the_agreed_version() {
        let prepared = Prepared::new(&[]);
        for (asked, agreed) in [
            ("2025-11-25", "2025-11-25"),
            ("2024-11-05", "2024-11-05"),
            ("2026-07-28", "2025-11-25"),
            ("nonsense", "2025-11-25"),
        ] {
            let version = result(prepared.initialize(asked));
            assert_eq!(version.pointer("/protocolVersion"), Some(&json!(agreed)), "{asked}");
        }
    }
}
