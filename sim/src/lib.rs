//! What is proved about the cluster away from its code: a model of the protocol that is searched
//! whole within bounds.
#![forbid(unsafe_code)]

pub mod model;
