//! What is proved about the cluster away from its code, of which nothing is shared: a model of the
//! protocol that is searched whole within bounds, and a checker of what clients saw.
#![forbid(unsafe_code)]

pub mod history;
pub mod model;
