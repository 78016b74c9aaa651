//! How a tool is shown in `tools/list`. The tests hold what a shown tool must obey.

use room::catalog::Tool;
use serde_json::{Value, json};

/// A tool as both eras list it.
#[must_use]
pub fn listed(tool: &Tool) -> Value {
    json!({
        "name": tool.meta.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
        "annotations": {
            "title": tool.title,
            "readOnlyHint": tool.annotations.read_only,
            "destructiveHint": tool.annotations.destructive,
            "idempotentHint": tool.annotations.idempotent,
            "openWorldHint": tool.annotations.open_world,
        },
    })
}

#[cfg(test)]
mod tests;
