//! The gateway's suites again, on the whole product: the same files, run against `roomring` with its
//! embedded store, over real sockets.
//!
//! A suite asks its server through `rig` alone: here the process that people start, in
//! `gateway/tests/edge/rig.rs` the edge with a script behind it. Left to the script
//! (`gateway/tests/edge/scripted.rs`) are only those that need what no room does or no flag sets:
//! - calls that end when the test says so: changes whose caller went away, drains, requests in
//!   flight up to their bound (drains of this process: `process`);
//! - tools that fail in ways of their own: a panic, a body that is no object, a name beyond ASCII;
//! - arguments echoed as they were written, and the blocks of images and texts by fixed bytes
//!   (attachments of this process: `scenario`);
//! - a clock that jumps over the idle time of a connection;
//! - memory budgets of bodies and answers, which have no flag;
//! - `Debug` of the edge's own types.

mod rig;

#[path = "../../../../gateway/tests/edge/bounds.rs"]
mod bounds;
#[path = "../../../../gateway/tests/edge/cancel.rs"]
mod cancel;
#[cfg(feature = "test-hooks")]
#[path = "../../../../gateway/tests/edge/hooks.rs"]
mod hooks;
#[path = "../../../../gateway/tests/edge/hostile.rs"]
mod hostile;
#[path = "../../../../gateway/tests/edge/legacy.rs"]
mod legacy;
#[path = "../../../../gateway/tests/edge/modern.rs"]
mod modern;
#[path = "../../../../gateway/tests/edge/pages.rs"]
mod pages;
#[path = "../../../../gateway/tests/edge/results.rs"]
mod results;
#[path = "../../../../gateway/tests/edge/who.rs"]
mod who;
#[path = "../../../../gateway/tests/edge/wire.rs"]
mod wire;
