//! The model searched, and each of its mutants caught.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "the searches are timed for the report")
)]

#[cfg(test)]
mod model;
