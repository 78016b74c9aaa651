//! The check that a table declares, and the cleaned arguments after it.

use object::{Fault, ParticipantId};
use serde_json::{Map, Value};

use super::{Field, Kind, Text};
use crate::text::{trim, utf16_len};

/// Faults reported for one call; more add nothing a caller could use.
const FAULTS_MAX: usize = 32;

pub(super) fn faults(fields: &[Field], args: &Value, has_blob: bool) -> Vec<Fault> {
    let mut finder = Finder { faults: Vec::new(), has_blob };
    if let Value::Object(map) = args {
        finder.object(fields, map, "");
    } else {
        finder.add("", "type", "Expected a JSON object.".into());
    }
    finder.faults
}

struct Finder {
    /// At most `FAULTS_MAX`.
    faults: Vec<Fault>,
    has_blob: bool,
}

impl Finder {
    fn add(&mut self, path: &str, rule: &'static str, message: String) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(Fault { path: path.to_owned(), rule, message });
        }
    }

    fn object(&mut self, fields: &[Field], map: &Map<String, Value>, path: &str) {
        for field in fields {
            // The handle was opened and the blob taken out by the edge.
            match field.kind {
                Kind::Handle => continue,
                Kind::Base64 | Kind::JsonBlob { .. } => {
                    if field.required && !self.has_blob {
                        self.add(field.name, "required", "This argument is required.".into());
                    }
                    continue;
                }
                Kind::Text(_)
                | Kind::Int { .. }
                | Kind::Bool
                | Kind::Word(_)
                | Kind::List { .. }
                | Kind::Map { .. }
                | Kind::Object(_)
                | Kind::Json { .. }
                | Kind::Uuid => {}
            }
            let at = || join(path, field.name);
            match map.get(field.name) {
                None if field.required => {
                    self.add(&at(), "required", "This argument is required.".into());
                }
                None => {}
                Some(value) => self.value(&field.kind, value, &at),
            }
        }
    }

    fn value(&mut self, kind: &Kind, value: &Value, at: &dyn Fn() -> String) {
        match kind {
            Kind::Text(rule) => match value.as_str() {
                Some(text) => self.text(rule, text, at),
                None => self.mistyped(at, "a string"),
            },
            Kind::Int { min, max, .. } => self.int(*min, *max, value, at),
            Kind::Bool if value.is_boolean() => {}
            Kind::Bool => self.mistyped(at, "true or false"),
            Kind::Word(words) => match value.as_str() {
                Some(word) if words.contains(&word) => {}
                _ => {
                    let message = format!("Use one of: {}.", words.join(", "));
                    self.add(&at(), "enum", message);
                }
            },
            Kind::List { item, items_max } => match value.as_array() {
                Some(list) => {
                    if list.len() > *items_max {
                        self.add(&at(), "maxItems", format!("At most {items_max} entries."));
                    }
                    for (n, entry) in list.iter().take(*items_max).enumerate() {
                        self.value(item, entry, &|| format!("{}[{n}]", at()));
                    }
                }
                None => self.mistyped(at, "a list"),
            },
            Kind::Map { entries_max, key, value: rule } => match value.as_object() {
                Some(map) => self.map(*entries_max, key, rule, map, at),
                None => self.mistyped(at, "an object of strings"),
            },
            Kind::Object(fields) => match value.as_object() {
                Some(map) => self.object(fields, map, &at()),
                None => self.mistyped(at, "an object"),
            },
            Kind::Json { .. } if value.is_object() => {}
            Kind::Json { .. } => self.mistyped(at, "an object"),
            Kind::Uuid => {
                if value.as_str().and_then(ParticipantId::parse).is_none() {
                    self.add(&at(), "format", "Expected a UUID in lower case.".into());
                }
            }
            Kind::Base64 | Kind::JsonBlob { .. } | Kind::Handle => {}
        }
    }

    fn mistyped(&mut self, at: &dyn Fn() -> String, what: &str) {
        self.add(&at(), "type", format!("Expected {what}."));
    }

    fn text(&mut self, rule: &Text, text: &str, at: &dyn Fn() -> String) {
        let text = if rule.trim { trim(text) } else { text };
        let units = utf16_len(text);
        if units < rule.min {
            let message = format!("At least {} UTF-16 units.", rule.min);
            self.add(&at(), "minLength", message);
        } else if units > rule.max {
            let message = format!("At most {} UTF-16 units, this has {units}.", rule.max);
            self.add(&at(), "maxLength", message);
        } else if let Some(pattern) = &rule.pattern
            && !(pattern.test)(text)
        {
            self.add(&at(), "pattern", pattern.says.to_owned());
        }
    }

    fn int(&mut self, min: u64, max: u64, value: &Value, at: &dyn Fn() -> String) {
        match whole(value) {
            Whole::Number(n) if n < min => {
                self.add(&at(), "minimum", format!("At least {min}."));
            }
            Whole::Number(n) if n > max => {
                self.add(&at(), "maximum", format!("At most {max}."));
            }
            Whole::Number(_) => {}
            Whole::Negative => self.add(&at(), "minimum", format!("At least {min}.")),
            Whole::Other => self.mistyped(at, "a whole number"),
        }
    }

    fn map(
        &mut self,
        entries_max: usize,
        key_rule: &Text,
        rule: &Text,
        map: &Map<String, Value>,
        at: &dyn Fn() -> String,
    ) {
        if map.len() > entries_max {
            self.add(&at(), "maxProperties", format!("At most {entries_max} entries."));
        }
        for (key, entry) in map.iter().take(entries_max) {
            // A key may be long or secret: the path names it only if it is short.
            let here = || {
                let shown: String = key.chars().take(64).collect();
                format!("{}.{shown}", at())
            };
            self.text(key_rule, key, &here);
            match entry.as_str() {
                Some(text) => self.text(rule, text, &here),
                None => self.mistyped(&here, "a string"),
            }
        }
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

enum Whole {
    Number(u64),
    Negative,
    Other,
}

/// JSON knows one kind of number: `3.0` is the whole number 3.
fn whole(value: &Value) -> Whole {
    if let Some(n) = value.as_u64() {
        return Whole::Number(n);
    }
    if value.as_i64().is_some() {
        return Whole::Negative;
    }
    match value.as_f64() {
        Some(f) if f.fract() == 0.0 && f < 0.0 => Whole::Negative,
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole, not negative, and below 2^64 by the guard"
        )]
        Some(f) if f.fract() == 0.0 && f < 18_446_744_073_709_551_615.0 => Whole::Number(f as u64),
        Some(f) if f.fract() == 0.0 => Whole::Number(u64::MAX),
        _ => Whole::Other,
    }
}

/// The declared arguments of an object that has no fault.
pub(super) fn clean(fields: &[Field], args: &Value) -> Map<String, Value> {
    let mut out = Map::new();
    let Some(map) = args.as_object() else { return out };
    for field in fields {
        match (map.get(field.name), &field.kind) {
            (_, Kind::Handle | Kind::Base64 | Kind::JsonBlob { .. }) => {}
            (None, Kind::Int { default: Some(default), .. }) => {
                out.insert(field.name.to_owned(), Value::from(*default));
            }
            (None, _) => {}
            (Some(value), kind) => {
                out.insert(field.name.to_owned(), cleaned(kind, value));
            }
        }
    }
    out
}

fn cleaned(kind: &Kind, value: &Value) -> Value {
    match (kind, value) {
        (Kind::Text(rule), Value::String(text)) if rule.trim => Value::from(trim(text)),
        (Kind::Int { .. }, _) => match whole(value) {
            Whole::Number(n) => Value::from(n),
            Whole::Negative | Whole::Other => value.clone(),
        },
        (Kind::List { item, .. }, Value::Array(list)) => {
            list.iter().map(|entry| cleaned(item, entry)).collect()
        }
        (Kind::Object(fields), Value::Object(_)) => Value::Object(clean(fields, value)),
        _ => value.clone(),
    }
}
