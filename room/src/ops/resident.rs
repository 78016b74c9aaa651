//! What resident runtimes do beside the tools.
