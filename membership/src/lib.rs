//! Who is in the cluster, and which node owns which bucket.
//!
//! The pure half: [`bucket()`] says in which of [`BUCKETS`] buckets an object lies, a [`View`] is a
//! numbered list of the live members, and a [`Placement`] turns a view into a [`Table`] that names
//! the owner of every bucket and whom to ask next. All of it is a hint: who may write an object is
//! decided by its fence in the store, never here.
//!
//! The half that asks Redis: a node's [`Membership`] holds its node lease in the node table and
//! knows who has ended; a gateway's [`Watcher`] follows the view. The lease itself is pure too
//! ([`lease`]). All time in the table is Redis's; a process uses its own monotonic clock for its own
//! lease, and nobody's wall clock.
//!
//! Absent on purpose: objects, rooms, calls. Both the gateway and the node build on this crate and
//! must come to the same table from the same view; [`PLACEMENT_VERSION`] names the arithmetic.

#![forbid(unsafe_code)]

mod book;
pub mod bucket;
mod clock;
pub mod lease;
mod member;
mod metrics;
mod nodes;
mod redis_clock;
mod renewals;
pub mod ring;
pub mod settings;
pub mod table;
pub mod view;
mod watcher;

pub use bucket::{BUCKETS, Bucket, BucketSet, bucket};
pub use clock::Mono;
pub use lease::{Lost, Standing, Terms, TermsError};
pub use member::{JoinError, Membership, SayError};
pub use nodes::{AskError, ENDED_MAX, NODES, Refusal};
pub use redis_clock::RedisClock;
pub use ring::Ring;
pub use settings::{Settings, SettingsError, Watching};
pub use table::{Now, Placement, Table};
pub use view::{Incarnation, Member, ParseError, State, View};
pub use watcher::{SUSPECT_MS, WatchError, Watcher};

/// Version of everything that decides where an object lies: the bucket function, their number, and
/// the ring. It is stored in the node table, and a node with another one cannot join. Raise it with
/// any change that moves a golden value in the tests of this crate.
pub const PLACEMENT_VERSION: u32 = 1;
