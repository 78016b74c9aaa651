//! The rules of the contract, one scenario each.

mod collab;
mod dedup;
mod files;
mod life;
mod texts;
mod waits;
