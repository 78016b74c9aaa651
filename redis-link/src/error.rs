//! Why a link cannot be opened.

use crate::EndpointError;

/// Why a link cannot be opened. Each line says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    #[error("redis at {address} cannot be reached: {why}; check the address and that it runs")]
    Unreachable { address: String, why: String },
    #[error("redis at {address} refused the name or password; check the credentials of the URL")]
    Credentials { address: String },
    #[error("redis at {address} is a replica; name the primary, or use redis+sentinel://")]
    NotPrimary { address: String },
    #[error("no sentinel names a primary for {name}: {why}")]
    NoPrimary { name: String, why: String },
    #[error("the cluster is not usable: {why}")]
    Cluster { why: String },
    #[error(
        "redis at {address} has {setting} = {found}, and {level} needs {wanted}; set it there, or \
         choose another --durability"
    )]
    Setting {
        address: String,
        setting: &'static str,
        found: String,
        wanted: String,
        level: &'static str,
    },
    #[error(
        "redis at {address} is not the store it was: {why}; restore its data, or if they are \
         given up for good, empty every primary and start anew"
    )]
    Generation { address: String, why: String },
    #[error("library {name} cannot be loaded on {address}: {why}")]
    Library { name: &'static str, address: String, why: String },
    #[error("library {name} is malformed: {why}")]
    BadLibrary { name: &'static str, why: String },
    #[error("the metrics cannot be registered: {0}")]
    Metrics(#[from] prometheus::Error),
}
