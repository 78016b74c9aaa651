//! What is answered before an object is touched: the cadence of waits, and polls of sleepers.

pub(crate) mod book;
pub mod cadence;
mod poll;
pub(crate) mod projections;
mod slab;
pub(crate) mod stub;
