//! MCP: both protocol eras over one body of code.
