//! The room node: hosts durable objects, keeps them in a store, answers over gRPC.
#![forbid(unsafe_code)]

pub mod store;
