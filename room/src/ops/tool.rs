//! What an op shown through MCP says about itself.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::Op;
use crate::catalog::{Annotations, Tool};
use crate::spec::{Field, input_schema};

/// The public face of a tool.
#[derive(Debug)]
pub struct ToolText {
    pub title: &'static str,
    /// Five labelled sentences: `Purpose:`, `Use:`, `Side effects:`, `Limits:`, `Errors:`.
    pub description: &'static str,
    pub annotations: Annotations,
    pub input: &'static [Field],
    pub output: fn() -> Value,
}

pub(super) fn build(op: &'static Op, text: &'static ToolText) -> Tool {
    Tool {
        meta: op.meta,
        title: text.title,
        description: text.description,
        annotations: text.annotations,
        input_schema: input_schema(text.title, text.input),
        output_schema: titled((text.output)(), text.title),
        check: op.check,
    }
}

/// The root's own description speaks to readers of the code, not to clients: it is left out.
fn titled(mut schema: Value, title: &str) -> Value {
    if let Some(map) = schema.as_object_mut() {
        map.remove("description");
        map.insert("title".into(), Value::from(format!("{title}: result")));
    }
    schema
}

/// The schema of an output type: every part inlined, root an object.
#[must_use]
pub fn output_schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true);
    settings.for_serialize().into_generator().into_root_schema_for::<T>().to_value()
}
