//! Prints the modern era's `tools/list` result: what `cargo xtask golden` keeps in docs/tools.json.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "the output is the purpose")]

use gateway::mcp::prepared::tools_list_result;

fn main() {
    println!("{:#}", tools_list_result(&room::catalog::tools()));
}
