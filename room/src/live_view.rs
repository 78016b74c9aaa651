//! Live Views: one small declarative panel per Task, published by its primary agent (rooms 14).
//!
//! [`Draft::parse`] checks the shape in the contract's order and gives three families of faults;
//! `Views::admit` checks it against what the Task shows now. A draft that passed keeps only
//! compact JSON text: the room never looks inside it again.
//!
//! The size is measured on the completed snapshot (with Task and author). An author's id always
//! has 36 characters, so the measure needs no state and the edge refuses the same drafts.

use std::borrow::Cow;

use object::{ParticipantId, Reject};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

use crate::limits::{LIVE_VIEW_BYTES_MAX, LIVE_VIEWS_MAX, SAFE_INTEGER_MAX};
use crate::reject::Code;
use crate::state::LiveView;
use crate::text::{Text, utf16_len};
use crate::view::Uuid;

/// Most components of one view, containers included.
pub const COMPONENTS_MAX: usize = 64;
/// Deepest nesting; the root is at depth 1.
pub const DEPTH_MAX: usize = 8;
/// Most children of one container.
pub const CHILDREN_MAX: usize = 64;
/// Most keys of `data`.
pub const DATA_KEYS_MAX: usize = 32;
/// Longest data key, in characters (all ASCII).
pub const DATA_KEY_CHARS_MAX: usize = 32;
/// Longest id, in characters (all ASCII).
pub const ID_CHARS_MAX: usize = 64;
/// Longest safe string, in UTF-16 units.
pub const STRING_UTF16_MAX: usize = 400;
/// Longest label or placeholder, in UTF-16 units.
pub const LABEL_UTF16_MAX: usize = 80;
/// Largest step of an `increment` action, up or down.
pub const INCREMENT_MAX: u64 = 1_000;

const _: () = assert!(CHILDREN_MAX <= COMPONENTS_MAX);
const _: () = assert!(LABEL_UTF16_MAX < STRING_UTF16_MAX);

/// Why a draft is no Live View, in the contract's families.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ShapeError {
    #[error("not a Live View: {0}")]
    View(&'static str),
    #[error("the completed snapshot is larger than 32768 bytes")]
    TooLarge,
    #[error("bad data: {0}")]
    Data(&'static str),
    #[error("bad component: {0}")]
    Component(&'static str),
}

/// Why a well-formed draft is not published now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AdmitError {
    #[error("only the Task's primary agent publishes its Live View")]
    NotAuthorized,
    #[error("the Task's Live View has another surfaceId")]
    SurfaceMismatch,
    #[error("the first revision is 1, later ones are greater than the current one")]
    RevisionConflict,
    #[error("a room keeps at most 16 Live Views")]
    Capacity,
}

impl From<ShapeError> for Reject {
    fn from(error: ShapeError) -> Self {
        let reject = |code: Code, what: &str| code.because(what).field("surface");
        match error {
            ShapeError::View(what) => reject(Code::InvalidLiveView, what),
            ShapeError::TooLarge => {
                let limit = LIVE_VIEW_BYTES_MAX as u64;
                Code::LiveViewTooLarge.reject().field("surface").limit(limit)
            }
            ShapeError::Data(what) => reject(Code::InvalidLiveViewData, what),
            ShapeError::Component(what) => reject(Code::InvalidLiveViewComponent, what),
        }
    }
}

/// A checked draft. Its text parts are compact JSON.
#[derive(Clone, PartialEq, Eq)]
pub struct Draft {
    surface_id: String,
    revision: u64,
    root: Text,
    data: Text,
}

// What a view shows is people's text: it is never printed.
impl std::fmt::Debug for Draft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Draft").field("revision", &self.revision).finish_non_exhaustive()
    }
}

impl Draft {
    /// Checks a submitted `surface` for the Task `task` (rooms 14.4, first half).
    ///
    /// A full snapshot is accepted too: its `taskRequestId` must be `task`, its
    /// `authorityAgentId` is ignored.
    pub fn parse(surface: &Value, task: &str) -> Result<Self, ShapeError> {
        let Value::Object(surface) = surface else {
            return Err(ShapeError::View("the surface must be an object"));
        };
        let size = completed_bytes(surface, task);
        if size > LIVE_VIEW_BYTES_MAX {
            return Err(ShapeError::TooLarge);
        }
        let (surface_id, revision, data) = top_level(surface, task)?;
        check_data(data)?;
        let root = surface.get("root").ok_or(ShapeError::Component("root is missing"))?;
        let mut components = 0;
        check_component(root, data, 1, &mut components)?;
        Ok(Self {
            surface_id: surface_id.to_owned(),
            revision,
            root: root.to_string().into(),
            data: Value::Object(data.clone()).to_string().into(),
        })
    }

    /// The view's id, stable over revisions.
    #[must_use]
    pub fn surface_id(&self) -> &str {
        &self.surface_id
    }

    /// The draft's revision, at least 1.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// The view this draft becomes; `task` is the sequence of the Task's request.
    #[must_use]
    pub fn complete(&self, task: u64, authority: ParticipantId) -> LiveView {
        LiveView {
            task,
            surface_id: self.surface_id.as_str().into(),
            revision: self.revision,
            authority,
            root: self.root.clone(),
            data: self.data.clone(),
        }
    }
}

/// A published Live View, completed with Task and author.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotView<'a> {
    pub surface_id: &'a str,
    pub revision: u64,
    pub root: RawJson<'a>,
    pub data: RawJson<'a>,
    pub task_request_id: &'a str,
    pub authority_agent_id: Uuid,
}

crate::view::opaque_debug!(SnapshotView);

impl<'a> SnapshotView<'a> {
    /// The view as clients see it; `task` is the Task's public id.
    #[must_use]
    pub fn of(view: &'a LiveView, task: &'a str) -> Self {
        Self {
            surface_id: &view.surface_id,
            revision: view.revision,
            root: RawJson(&view.root),
            data: RawJson(&view.data),
            task_request_id: task,
            authority_agent_id: view.authority.into(),
        }
    }
}

/// Checked JSON text of an object, written into an answer as it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RawJson<'a>(pub &'a str);

// What a view shows is people's text: it is never printed.
impl std::fmt::Debug for RawJson<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RawJson(..)")
    }
}

impl Serialize for RawJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl JsonSchema for RawJson<'_> {
    fn schema_name() -> Cow<'static, str> {
        "object".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "object"})
    }
}

/// Checks a draft against the room's views, in the contract's order: authority, surface,
/// revision, capacity. `task` is the sequence of the Task's request, `primary` its primary agent;
/// the author of the current view keeps the authority if there is a view.
pub fn admit(
    views: &[LiveView],
    task: u64,
    draft: &Draft,
    author: ParticipantId,
    primary: Option<ParticipantId>,
) -> Result<(), AdmitError> {
    let current = views.iter().find(|view| view.task == task);
    if current.map(|view| view.authority).or(primary) != Some(author) {
        return Err(AdmitError::NotAuthorized);
    }
    let Some(current) = current else {
        return match draft.revision {
            1 if views.len() >= LIVE_VIEWS_MAX => Err(AdmitError::Capacity),
            1 => Ok(()),
            _ => Err(AdmitError::RevisionConflict),
        };
    };
    if *current.surface_id != draft.surface_id {
        return Err(AdmitError::SurfaceMismatch);
    }
    if draft.revision <= current.revision {
        return Err(AdmitError::RevisionConflict);
    }
    Ok(())
}

/// True for an id of rooms 14.2: a letter or digit, then up to 63 of letters, digits, `._:-`.
#[must_use]
pub fn is_id(text: &str) -> bool {
    let mut bytes = text.bytes();
    text.len() <= ID_CHARS_MAX
        && bytes.next().is_some_and(|b| b.is_ascii_alphanumeric())
        && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b':' | b'-'))
}

/// Bytes of the snapshot once completed. The four draft keys are counted as submitted, Task and
/// author as they will be written.
fn completed_bytes(surface: &Map<String, Value>, task: &str) -> usize {
    let mut completed = surface.clone();
    completed.insert("taskRequestId".to_owned(), Value::from(task));
    completed.insert("authorityAgentId".to_owned(), Value::from(ParticipantId(0).to_string()));
    // A byte count, so the text itself is not kept.
    Value::Object(completed).to_string().len()
}

type TopLevel<'a> = (&'a str, u64, &'a Map<String, Value>);

fn top_level<'a>(surface: &'a Map<String, Value>, task: &str) -> Result<TopLevel<'a>, ShapeError> {
    for key in surface.keys() {
        match key.as_str() {
            "surfaceId" | "revision" | "root" | "data" | "authorityAgentId" => {}
            "taskRequestId" if surface.get(key).and_then(Value::as_str) == Some(task) => {}
            "taskRequestId" => {
                return Err(ShapeError::View("taskRequestId is not the Task of the call"));
            }
            _ => {
                return Err(ShapeError::View(
                    "an unknown key beside surfaceId, revision, root, data",
                ));
            }
        }
    }
    if !is_id(task) {
        return Err(ShapeError::View("taskRequestId is no id of 1 to 64 characters"));
    }
    let surface_id = surface
        .get("surfaceId")
        .and_then(Value::as_str)
        .filter(|id| is_id(id))
        .ok_or(ShapeError::View("surfaceId must be an id of 1 to 64 characters"))?;
    let revision = surface
        .get("revision")
        .and_then(positive_integer)
        .ok_or(ShapeError::View("revision must be an integer of at least 1"))?;
    let Some(Value::Object(data)) = surface.get("data") else {
        return Err(ShapeError::View("data must be an object"));
    };
    if data.len() > DATA_KEYS_MAX {
        return Err(ShapeError::View("data has more than 32 keys"));
    }
    Ok((surface_id, revision, data))
}

fn check_data(data: &Map<String, Value>) -> Result<(), ShapeError> {
    for (key, value) in data {
        if !is_data_key(key) {
            return Err(ShapeError::Data("a key must be a letter, then up to 31 of [A-Za-z0-9_]"));
        }
        if !is_scalar(value) {
            return Err(ShapeError::Data("a value must be a boolean, a number or a safe string"));
        }
    }
    Ok(())
}

fn check_component(
    component: &Value,
    data: &Map<String, Value>,
    depth: usize,
    components: &mut usize,
) -> Result<(), ShapeError> {
    let bad = |what| Err(ShapeError::Component(what));
    if depth > DEPTH_MAX {
        return bad("nested deeper than 8");
    }
    *components += 1;
    if *components > COMPONENTS_MAX {
        return bad("more than 64 components");
    }
    let Value::Object(component) = component else {
        return bad("a component must be an object");
    };
    let field = |name: &str| component.get(name);
    match field("type").and_then(Value::as_str) {
        Some("Text") => {
            only_keys(component, &["type", "text"])?;
            require(field("text").is_some_and(|text| is_safe(text, STRING_UTF16_MAX)), "Text.text")
        }
        Some("Value") => {
            only_keys(component, &["type", "path"])?;
            require(path_of(component).is_some(), "Value.path")
        }
        Some("Button") => {
            only_keys(component, &["type", "label", "action"])?;
            let label = field("label").is_some_and(|label| is_safe(label, LABEL_UTF16_MAX));
            require(label, "Button.label")?;
            check_action(field("action"))
        }
        Some("Input") => {
            only_keys(component, &["type", "path", "placeholder"])?;
            let bound = path_of(component).and_then(|path| data.get(path));
            require(bound.is_some_and(Value::is_string), "Input.path must name a string of data")?;
            let placeholder =
                field("placeholder").is_none_or(|text| is_safe(text, LABEL_UTF16_MAX));
            require(placeholder, "Input.placeholder")
        }
        Some("Row" | "Column" | "Card") => {
            only_keys(component, &["type", "children"])?;
            let Some(Value::Array(children)) = field("children") else {
                return bad("children must be an array");
            };
            require((1..=CHILDREN_MAX).contains(&children.len()), "1 to 64 children")?;
            for child in children {
                check_component(child, data, depth + 1, components)?;
            }
            Ok(())
        }
        _ => bad("type must be one of Text, Value, Button, Input, Row, Column, Card"),
    }
}

fn check_action(action: Option<&Value>) -> Result<(), ShapeError> {
    let Some(Value::Object(action)) = action else {
        return Err(ShapeError::Component("Button.action must be an object"));
    };
    match action.get("type").and_then(Value::as_str) {
        Some("increment") => {
            only_keys(action, &["type", "path", "amount"])?;
            require(path_of(action).is_some(), "action.path")?;
            let amount = action.get("amount").and_then(integer);
            let fits = amount.is_some_and(|n| n != 0 && n.unsigned_abs() <= INCREMENT_MAX);
            require(fits, "action.amount must be a non-zero integer within 1000")
        }
        Some("set") => {
            only_keys(action, &["type", "path", "value"])?;
            require(path_of(action).is_some(), "action.path")?;
            require(action.get("value").is_some_and(is_scalar), "action.value")
        }
        _ => Err(ShapeError::Component("action.type must be increment or set")),
    }
}

fn only_keys(object: &Map<String, Value>, allowed: &[&str]) -> Result<(), ShapeError> {
    require(object.keys().all(|key| allowed.contains(&key.as_str())), "an unknown key")
}

const fn require(holds: bool, what: &'static str) -> Result<(), ShapeError> {
    if holds { Ok(()) } else { Err(ShapeError::Component(what)) }
}

fn path_of(object: &Map<String, Value>) -> Option<&str> {
    object.get("path").and_then(Value::as_str).filter(|path| is_data_key(path))
}

fn is_data_key(key: &str) -> bool {
    let mut bytes = key.bytes();
    key.len() <= DATA_KEY_CHARS_MAX
        && bytes.next().is_some_and(|b| b.is_ascii_alphabetic())
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn is_scalar(value: &Value) -> bool {
    match value {
        Value::Bool(_) => true,
        Value::Number(number) => number.as_f64().is_some_and(f64::is_finite),
        Value::String(_) => is_safe(value, STRING_UTF16_MAX),
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

/// A string that no renderer can take for markup or a link.
fn is_safe(value: &Value, utf16_max: usize) -> bool {
    let Some(text) = value.as_str() else { return false };
    let units = utf16_len(text);
    if units == 0 || units > utf16_max || text.contains(['<', '>']) {
        return false;
    }
    let lower = text.to_ascii_lowercase();
    !["javascript:", "http://", "https://", "data:"].iter().any(|word| lower.contains(word))
}

/// A whole number; `3.0` is one, as in the reference's language.
fn integer(value: &Value) -> Option<i64> {
    let number = value.as_number()?;
    number.as_i64().or_else(|| whole(number))
}

fn whole(number: &Number) -> Option<i64> {
    let float = number.as_f64()?;
    let safe = float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_991.0;
    #[expect(clippy::cast_possible_truncation, reason = "whole and within 2^53, checked above")]
    safe.then_some(float as i64)
}

fn positive_integer(value: &Value) -> Option<u64> {
    let number = integer(value)?;
    u64::try_from(number).ok().filter(|n| (1..=SAFE_INTEGER_MAX).contains(n))
}

#[cfg(test)]
mod tests;
