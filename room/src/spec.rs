//! Inputs as declared tables: the JSON Schema that clients read and the check that runs at the
//! edge and at the node come from the same lines.
//!
//! Unknown keys are allowed and ignored, also inside nested objects.

mod schema;
mod validate;

use object::{Fault, Reject};
use serde_json::{Map, Value};

use crate::reject::Code;

pub use schema::input_schema;

/// One argument.
#[derive(Debug)]
pub struct Field {
    pub name: &'static str,
    pub doc: &'static str,
    pub required: bool,
    pub kind: Kind,
}

/// What an argument may hold.
#[derive(Debug)]
pub enum Kind {
    Text(Text),
    /// A whole number.
    Int {
        min: u64,
        max: u64,
        default: Option<u64>,
    },
    Bool,
    /// One of these words.
    Word(&'static [&'static str]),
    List {
        item: &'static Self,
        items_max: usize,
    },
    /// An object of strings.
    Map {
        entries_max: usize,
        key: Text,
        value: Text,
    },
    Object(&'static [Field]),
    /// Any JSON object, passed on as it is. The schema is given as JSON text.
    Json {
        schema: &'static str,
    },
    /// A lower-case UUID.
    Uuid,
    /// A base64 string; its bytes travel beside the arguments, so only their presence is checked.
    Base64,
    /// Any JSON value whose text travels beside the arguments. The schema is given as JSON text.
    JsonBlob {
        schema: &'static str,
    },
    /// The sealed handle: opened by the edge, ignored here.
    Handle,
}

/// Bounds of a string, in UTF-16 units.
#[derive(Debug)]
pub struct Text {
    /// White space around it is removed before anything is checked.
    pub trim: bool,
    pub min: usize,
    pub max: usize,
    pub pattern: Option<Pattern>,
}

/// A rule for a string: as the schema says it, and as the code checks it.
#[derive(Debug)]
pub struct Pattern {
    pub regex: &'static str,
    pub test: fn(&str) -> bool,
    /// What the rule says, for people.
    pub says: &'static str,
}

impl Field {
    /// An argument that must be there.
    #[must_use]
    pub const fn required(name: &'static str, kind: Kind, doc: &'static str) -> Self {
        Self { name, doc, required: true, kind }
    }

    /// An argument that may be left out.
    #[must_use]
    pub const fn optional(name: &'static str, kind: Kind, doc: &'static str) -> Self {
        Self { name, doc, required: false, kind }
    }
}

/// A string with bounds and nothing else.
#[must_use]
pub const fn text(min: usize, max: usize) -> Kind {
    Kind::Text(Text { trim: false, min, max, pattern: None })
}

/// A string that is trimmed first.
#[must_use]
pub const fn trimmed(min: usize, max: usize) -> Kind {
    Kind::Text(Text { trim: true, min, max, pattern: None })
}

/// A string with a rule.
#[must_use]
pub const fn matching(min: usize, max: usize, pattern: Pattern) -> Kind {
    Kind::Text(Text { trim: false, min, max, pattern: Some(pattern) })
}

/// A whole number with a default.
#[must_use]
pub const fn int(min: u64, max: u64, default: u64) -> Kind {
    Kind::Int { min, max, default: Some(default) }
}

/// Finds every fault at once. `blob` is what came beside the arguments.
pub fn check(fields: &[Field], args: &Value, blob: Option<&[u8]>) -> Result<(), Reject> {
    let faults = validate::faults(fields, args, blob.is_some());
    if faults.is_empty() { Ok(()) } else { Err(invalid(faults)) }
}

/// The declared arguments of a call that [`check`] has passed: trimmed, defaults filled in.
#[must_use]
pub fn clean(fields: &[Field], args: &Value) -> Map<String, Value> {
    validate::clean(fields, args)
}

/// Checks, then gives the declared arguments only: trimmed, defaults filled in.
pub fn parse(fields: &[Field], args: &Value, has_blob: bool) -> Result<Map<String, Value>, Reject> {
    let faults = validate::faults(fields, args, has_blob);
    if faults.is_empty() { Ok(validate::clean(fields, args)) } else { Err(invalid(faults)) }
}

/// The refusal that lists these faults.
#[must_use]
pub fn invalid(faults: Vec<Fault>) -> Reject {
    let mut reject = Code::InvalidArguments.reject();
    reject.faults = faults;
    reject
}

#[cfg(test)]
mod tests;
