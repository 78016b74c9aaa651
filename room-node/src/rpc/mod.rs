//! The node's side of the seam to the gateway: one generated service over the host.

mod convert;
mod link;
mod outbox;
mod service;

pub use self::service::{Service, service};
