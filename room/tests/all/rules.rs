//! The rules of the contract, one scenario each.

mod collab;
mod dedup;
mod files;
mod life;
mod order;
mod rebirth;
mod texts;
mod waits;
