//! Runtime host projections and features (rooms 5.5).

use serde::Deserialize;

use crate::limits;
use crate::spec::{self, Field, Kind, Pattern};
use crate::state::RuntimeHost;
use crate::text::Text;

const SPEECH: &[Field] = &[
    Field::required("stt", Kind::Bool, "Ready to transcribe speech."),
    Field::required("tts", Kind::Bool, "Ready to speak."),
];

const HOST_FIELDS: &[Field] = &[
    Field::required(
        "runtimeHostId",
        spec::matching(
            limits::RUNTIME_HOST_ID_UTF16_MIN,
            limits::RUNTIME_HOST_ID_UTF16_MAX,
            Pattern {
                regex: "^[A-Za-z0-9._:-]{8,64}$",
                test: |id| id.bytes().all(|b| b.is_ascii_alphanumeric() || b"._:-".contains(&b)),
                says: "Use letters, digits and '._:-' only.",
            },
        ),
        "Opaque id of the host, stable in this room; never a host or user name.",
    ),
    Field::required("speech", Kind::Object(SPEECH), "Coarse speech readiness."),
];

/// The argument `runtimeHost`.
pub(crate) const HOST: Kind = Kind::Object(HOST_FIELDS);

/// The argument `runtimeFeatures`.
pub(crate) const FEATURES: Kind = Kind::Object(&[
    Field::optional(
        "taskSessionContinuation",
        Kind::Bool,
        "The runtime can continue an existing local session for a Task.",
    ),
    Field::optional(
        "taskExecutionReconciliation",
        Kind::Bool,
        "The runtime can restate what it is executing.",
    ),
]);

/// What a client sends.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HostInput {
    runtime_host_id: Text,
    speech: SpeechInput,
}

crate::view::opaque_debug!(plain HostInput);

#[derive(Deserialize, Debug)]
struct SpeechInput {
    stt: bool,
    tts: bool,
}

impl From<HostInput> for RuntimeHost {
    fn from(input: HostInput) -> Self {
        Self { id: input.runtime_host_id, stt: input.speech.stt, tts: input.speech.tts }
    }
}
