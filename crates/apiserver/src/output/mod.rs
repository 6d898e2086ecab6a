//! Answers in the form the client asked for.

pub mod events;
mod partial;
mod render;
mod table;

pub use render::{reply, status};
